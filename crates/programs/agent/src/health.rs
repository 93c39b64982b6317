//! Health checks: whether clients should be sent to this server, and why.
//!
//! | check | healthy |
//! |---|---|
//! | live | the server answers |
//! | primary | it hears a leader with a majority |
//! | writer | it leads, and serves clients |
//! | reader | it serves clients, and its database lags no more than the check allows |
//! | relay | it hears a leader with a majority, and nothing keeps new transactions away |
//! | clustercheck | it serves clients; in the words of Galera's script `clustercheck` |
//!
//! What is not known is not healthy.

use synod_admin::relay::PullState;
use synod_admin::status::{Group, Status};

use crate::{Seen, SeenRelay};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    Live,
    Primary,
    Writer,
    Reader {
        /// Greatest age of reads, in milliseconds; none: any age.
        max_lag_ms: Option<u64>,
        /// Whether older reads are told apart from a server that does not serve: a proxy then sends
        /// no new clients, and ends no session.
        drains: bool,
    },
    Clustercheck,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether clients should be sent here.
    pub is_healthy: bool,
    /// Whether the server serves clients, and only lags more than the check allows.
    pub only_lags: bool,
    pub why: String,
}

impl Verdict {
    fn yes(why: String) -> Verdict {
        Verdict {
            is_healthy: true,
            only_lags: false,
            why,
        }
    }

    fn no(why: String) -> Verdict {
        Verdict {
            is_healthy: false,
            only_lags: false,
            why,
        }
    }
}

impl Check {
    pub fn verdict(self, seen: &Seen) -> Verdict {
        let verdict = match seen {
            Ok(status) => self.of_status(status),
            Err(why) => Verdict::no(unreachable(why)),
        };
        match self {
            Check::Clustercheck => in_galeras_words(verdict.is_healthy),
            _ => verdict,
        }
    }

    fn of_status(self, status: &Status) -> Verdict {
        match self {
            Check::Live => live(status),
            Check::Primary => primary(status),
            Check::Writer => writer(status),
            Check::Reader { max_lag_ms, .. } => reader(status, max_lag_ms),
            Check::Clustercheck => serves(status),
        }
    }
}

/// Whether readers should be sent to a relay: it gets what its group commits, and, if it pulls,
/// what its upstream commits.
pub(crate) fn relay(seen: &Seen, relay: &SeenRelay) -> Verdict {
    let (status, relay) = match (seen, relay) {
        (Ok(status), Ok(relay)) => (status, relay),
        (Err(why), _) | (_, Err(why)) => return Verdict::no(unreachable(why)),
    };
    if let Err(why) = group_with_majority(status) {
        return Verdict::no(why);
    }
    let (name, upstream) = (&status.server.name, &relay.upstream);
    if let Some(error) = &relay.error {
        return Verdict::no(format!("{name} gets nothing new from {upstream}: {error}."));
    }
    Verdict::yes(match (upstream.as_str(), relay.pull) {
        ("", _) => format!("{name} serves its group."),
        (_, _) if relay.is_paused => format!("{name} pulls nothing from {upstream}, as ordered."),
        (_, PullState::Elsewhere) => format!("{name} serves what {} pulls.", relay.puller),
        (_, _) => format!("{name} pulls from {upstream}."),
    })
}

/// The reason may end as a question does, or be several sentences.
fn unreachable(why: &str) -> String {
    let end = if why.ends_with(['.', '?']) { "" } else { "." };
    format!("The server cannot be asked: {why}{end}")
}

/// Text that `clustercheck` prints; its users compare it.
fn in_galeras_words(is_healthy: bool) -> Verdict {
    let not = if is_healthy { "" } else { "not " };
    Verdict {
        is_healthy,
        only_lags: false,
        why: format!("Galera cluster node is {not}synced."),
    }
}

fn live(status: &Status) -> Verdict {
    let server = &status.server;
    Verdict::yes(format!(
        "{} answers (process {}, {}).",
        server.name, server.pid, server.state
    ))
}

fn primary(status: &Status) -> Verdict {
    match group_with_majority(status) {
        Ok(group) => Verdict::yes(format!(
            "{} is in the primary: {}; {}.",
            status.server.name,
            leader_of(group),
            group.outlook
        )),
        Err(why) => Verdict::no(why),
    }
}

fn writer(status: &Status) -> Verdict {
    let serves = serves(status);
    if !serves.is_healthy {
        return serves;
    }
    let name = &status.server.name;
    if status.own().is_some_and(|own| own.role == "leader") {
        return Verdict::yes(format!("{name} leads."));
    }
    let group = status.group.as_ref();
    let leader = group.map_or_else(String::new, leader_of);
    Verdict::no(format!("{name} does not lead: {leader}."))
}

fn reader(status: &Status, max_lag_ms: Option<u64>) -> Verdict {
    let serves = serves(status);
    let (true, Some(max)) = (serves.is_healthy, max_lag_ms) else {
        return serves;
    };
    let name = &status.server.name;
    match status.own().and_then(|own| own.lag_ms) {
        Some(lag) if lag <= max => Verdict::yes(format!(
            "{name} lags {lag} ms, at most {max} ms are allowed."
        )),
        Some(lag) => lagging(format!(
            "{name} lags {lag} ms, more than the {max} ms that are allowed."
        )),
        None => lagging(format!("{name} does not know how far it lags.")),
    }
}

fn lagging(why: String) -> Verdict {
    Verdict {
        only_lags: true,
        ..Verdict::no(why)
    }
}

/// Whether the server serves clients: it hears a leader with a majority, and is synced.
fn serves(status: &Status) -> Verdict {
    if let Err(why) = group_with_majority(status) {
        return Verdict::no(why);
    }
    let server = &status.server;
    if server.is_ready {
        return Verdict::yes(format!("{} is synced and serves clients.", server.name));
    }
    if let Some(kind) = kind_without_database(status) {
        return Verdict::no(format!(
            "{} is a {kind}: it has no database that clients could use.",
            server.name
        ));
    }
    Verdict::no(format!(
        "{} is not synced: its state is {}.",
        server.name, server.state
    ))
}

fn group_with_majority(status: &Status) -> Result<&Group, String> {
    let name = &status.server.name;
    match &status.group {
        Some(group) if group.is_primary => Ok(group),
        Some(group) => {
            let refuses = match kind_without_database(status) {
                Some(_) => "",
                None if status.server.is_mysql => ", and takes no writes",
                None => ", and refuses statements (error 1047)",
            };
            Err(format!(
                "{name} hears no leader with a majority{refuses}; {}.",
                group.outlook
            ))
        }
        None => Err(format!(
            "{name} is not connected to a group: its error log says why."
        )),
    }
}

/// `logger` or `relay`; none: the member is a server, or its kind is not known.
fn kind_without_database(status: &Status) -> Option<&str> {
    let kind = &*status.own()?.kind;
    matches!(kind, "logger" | "relay").then_some(kind)
}

fn leader_of(group: &Group) -> String {
    match &group.leader {
        Some(leader) => format!("{leader} leads (term {})", group.term),
        None => "no leader is known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use synod_admin::relay::RelayStatus;
    use synod_admin::status::Member;

    use super::*;

    fn healthy(own_role: &str) -> Status {
        let mut status = Status::default();
        status.server.name = "db1".into();
        status.server.state = "Synced".into();
        status.server.is_ready = true;
        status.group = Some(Group {
            is_primary: true,
            leader: Some(if own_role == "leader" { "db1" } else { "db2" }.into()),
            term: 7,
            can_commit: true,
            outlook: "3 voters: 1 may fail at a time".into(),
            ..Group::default()
        });
        status.members = vec![Member {
            name: "db1".into(),
            is_own: true,
            role: own_role.into(),
            lag_ms: Some(40),
            ..Member::default()
        }];
        status
    }

    fn ask(check: Check, status: &Status) -> (bool, String) {
        let verdict = check.verdict(&Ok(Arc::new(status.clone())));
        (verdict.is_healthy, verdict.why)
    }

    const READER: Check = Check::Reader {
        max_lag_ms: None,
        drains: false,
    };
    const ALL: [Check; 5] = [
        Check::Live,
        Check::Primary,
        Check::Writer,
        READER,
        Check::Clustercheck,
    ];

    fn healthy_by_check(status: &Status) -> [bool; 5] {
        ALL.map(|check| ask(check, status).0)
    }

    #[test]
    fn leader_passes_all_checks_and_a_follower_all_but_the_writers() {
        assert_eq!(healthy_by_check(&healthy("leader")), [true; 5]);
        let follower = healthy("follower");
        assert_eq!(healthy_by_check(&follower), [true, true, false, true, true]);
        let (_, why) = ask(Check::Writer, &follower);
        assert_eq!(why, "db1 does not lead: db2 leads (term 7).");
    }

    #[test]
    fn relay_is_healthy_unless_something_keeps_transactions_away() {
        let seen: Seen = Ok(Arc::new(healthy("leader")));
        let ask = |status: RelayStatus| {
            let verdict = relay(&seen, &Ok(Arc::new(status)));
            (verdict.is_healthy, verdict.why)
        };
        let of_upstream = RelayStatus {
            upstream: "primary:3306".into(),
            puller: "relay2".into(),
            ..RelayStatus::default()
        };
        let says = |status, why: &str| assert_eq!(ask(status), (true, why.to_owned()));
        says(RelayStatus::default(), "db1 serves its group.");
        says(of_upstream.clone(), "db1 serves what relay2 pulls.");
        let mut stuck = of_upstream.clone();
        stuck.pull = PullState::Pulling;
        says(stuck.clone(), "db1 pulls from primary:3306.");
        stuck.is_paused = true;
        says(
            stuck.clone(),
            "db1 pulls nothing from primary:3306, as ordered.",
        );
        stuck.error = Some("the log is full".into());
        let (is_healthy, why) = ask(stuck);
        assert!(
            !is_healthy && why.contains("primary:3306: the log is full."),
            "{why}"
        );
        let no_relay = relay(&seen, &Err("this server is no relay".into()));
        assert!(!no_relay.is_healthy && no_relay.why.contains("no relay"));
        let alone: Seen = Ok(Arc::new(Status::default()));
        assert!(!relay(&alone, &Ok(Arc::new(of_upstream))).is_healthy);
    }

    #[test]
    fn check_of_the_majority_says_what_may_fail_or_who_is_missing() {
        let mut status = healthy("leader");
        let (_, why) = ask(Check::Primary, &status);
        let expected = "db1 is in the primary: db1 leads (term 7); 3 voters: 1 may fail at a time.";
        assert_eq!(why, expected);
        let group = status.group.as_mut().unwrap();
        group.is_primary = false;
        group.outlook = "3 voters, 1 answers (db2 absent, witness absent): nothing commits".into();
        for check in [Check::Primary, Check::Writer, READER] {
            let (is_healthy, why) = ask(check, &status);
            assert!(!is_healthy && why.contains("witness absent"), "{why}");
        }
    }

    #[test]
    fn server_without_a_majority_or_not_synced_only_lives() {
        let mut minority = healthy("leader");
        minority.group.as_mut().unwrap().is_primary = false;
        assert_eq!(
            healthy_by_check(&minority),
            [true, false, false, false, false]
        );
        let mut donor = healthy("leader");
        donor.server.is_ready = false;
        donor.server.state = "Donor/Desynced".into();
        assert_eq!(healthy_by_check(&donor), [true, true, false, false, false]);
        assert!(ask(Check::Writer, &donor).1.contains("Donor/Desynced"));
        let alone = Status::default();
        assert_eq!(healthy_by_check(&alone), [true, false, false, false, false]);
    }

    #[test]
    fn reader_may_lag_as_much_as_the_check_allows() {
        let status = healthy("follower");
        let within = |max| {
            ask(
                Check::Reader {
                    max_lag_ms: Some(max),
                    drains: false,
                },
                &status,
            )
        };
        assert!(within(40).0 && !within(39).0);
        assert!(within(39).1.contains("lags 40 ms"), "{:?}", within(39));
        let mut unknown = status.clone();
        unknown.members[0].lag_ms = None;
        let check = Check::Reader {
            max_lag_ms: Some(u64::MAX),
            drains: false,
        };
        assert!(!ask(check, &unknown).0);
        unknown.members.clear();
        assert!(!ask(check, &unknown).0);
    }

    #[test]
    fn server_that_cannot_be_asked_is_not_healthy_and_the_reason_is_told() {
        let seen = Err("tried /var/lib/mysql".into());
        for check in ALL {
            let verdict = check.verdict(&seen);
            assert!(!verdict.is_healthy, "{check:?}");
            let is_told = verdict.why.contains("tried /var/lib/mysql");
            assert_eq!(is_told, check != Check::Clustercheck, "{verdict:?}");
        }
    }

    #[test]
    fn reasons_end_once() {
        assert!(unreachable("gone").ends_with(": gone."));
        assert!(unreachable("is it there?").ends_with(" there?"));
    }

    #[test]
    fn logger_and_relay_refuse_no_statements_and_serve_no_clients() {
        for kind in ["logger", "relay"] {
            let mut status = healthy(kind);
            status.server.is_ready = false;
            status.server.state = kind.into();
            status.members[0].kind = kind.into();
            assert!(ask(Check::Primary, &status).0);
            for check in [Check::Writer, READER] {
                let expected =
                    format!("db1 is a {kind}: it has no database that clients could use.");
                assert_eq!(ask(check, &status), (false, expected));
            }
            status.group.as_mut().unwrap().is_primary = false;
            let (is_healthy, why) = ask(Check::Primary, &status);
            let expected = "db1 hears no leader with a majority; 3 voters: 1 may fail at a time.";
            assert_eq!((is_healthy, &*why), (false, expected));
        }
        let mut server = healthy("follower");
        server.members[0].kind = "database".into();
        server.group.as_mut().unwrap().is_primary = false;
        let (_, why) = ask(Check::Primary, &server);
        assert!(why.contains("refuses statements (error 1047)"), "{why}");
    }

    #[test]
    fn clustercheck_has_galeras_words() {
        let yes = ask(Check::Clustercheck, &healthy("follower")).1;
        assert_eq!(yes, "Galera cluster node is synced.");
        let no = ask(Check::Clustercheck, &Status::default()).1;
        assert_eq!(no, "Galera cluster node is not synced.");
    }
}
