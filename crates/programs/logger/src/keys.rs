//! The keys of a logger's file: four of its own, and the options of servers that concern a log, the
//! connections to other members, or leading for a moment.

use synod_options::{SPECS, nearest};

/// Keys that are not options of servers: there, they are variables of the server itself.
pub(crate) const OWN: [&str; 4] = ["cluster_name", "name", "address", "peers"];

/// The options of servers that mean something to a logger.
const SHARED: [&str; 30] = [
    "synod.certification_span",
    "synod.commit_regions_timeout",
    "synod.compression",
    "synod.dead_voter_after",
    "synod.election_timeout",
    "synod.heartbeat_period",
    "synod.insecure",
    "synod.listen_addr",
    "synod.log_cache_size",
    "synod.log_dir",
    "synod.log_full",
    "synod.log_min_free",
    "synod.log_retain_age",
    "synod.log_retain_size",
    "synod.log_segment_size",
    "synod.max_apply_lag",
    "synod.region",
    "synod.secret_file",
    "synod.voter",
    "synod.voters_wanted",
    "evs.suspect_timeout",
    "gcs.vote_policy",
    "gmcast.listen_addr",
    "socket.dynamic",
    "socket.ssl",
    "socket.ssl_ca",
    "socket.ssl_cert",
    "socket.ssl_cipher",
    "socket.ssl_key",
    "socket.ssl_password_file",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Own,
    Shared,
    /// An option that means something to servers only.
    OfServers,
    /// None of these; the most similar key that a logger has.
    Unknown(&'static str),
}

pub(crate) fn kind_of(key: &str) -> KeyKind {
    if OWN.contains(&key) {
        KeyKind::Own
    } else if SHARED.contains(&key) {
        KeyKind::Shared
    } else if SPECS.iter().any(|spec| spec.name == key) {
        KeyKind::OfServers
    } else {
        let all = || OWN.into_iter().chain(SHARED);
        let begins = all().find(|known| known.starts_with(key));
        let likely = begins.or_else(|| nearest(key, all()));
        KeyKind::Unknown(likely.unwrap_or(OWN[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_keys_are_options() {
        for key in SHARED {
            assert!(SPECS.iter().any(|spec| spec.name == key), "{key}");
        }
    }

    #[test]
    fn keys_are_told_apart() {
        assert_eq!(kind_of("peers"), KeyKind::Own);
        assert_eq!(kind_of("synod.log_dir"), KeyKind::Shared);
        assert_eq!(kind_of("synod.leader_weight"), KeyKind::OfServers);
        assert_eq!(kind_of("gcache.size"), KeyKind::OfServers);
        assert_eq!(kind_of("peer"), KeyKind::Unknown("peers"));
        assert_eq!(
            kind_of("synod.secret"),
            KeyKind::Unknown("synod.secret_file")
        );
    }
}
