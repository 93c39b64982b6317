//! The other servers.

use std::time::Duration;

use crate::facts::{PeerFacts, ServerFacts, is_on};
use crate::finding::{Finding, Severity, Subject};

/// Above it, each commit of a client far from the leader is noticed by people.
const FAR: Duration = Duration::from_millis(100);

/// Remedy for a member that is not reached although its name is known.
const HOW_TO_REACH: &str = "\
    refused: nothing listens there. Was the server restarted with its configuration (on it: \
    systemctl restart mariadb; 'start' does nothing to a server that runs)? No answer: open the \
    ports 4567 and 4444 between all servers";

/// Below it a tunnel or a broken path discovery is likely.
const SMALL_MTU: u32 = 1280;

pub(super) fn judge(server: &ServerFacts, peers: &[PeerFacts]) -> Vec<Finding> {
    let half_way = server.is_in_group().then(|| half_way(peers)).flatten();
    let others = peers.iter().filter(|peer| !peer.is_own);
    let each = others.flat_map(judge_peer);
    let findings = half_way.into_iter().chain(no_address(server, peers));
    findings.chain(each).collect()
}

/// A server that is to join a group, and knows no other one of it.
fn no_address(server: &ServerFacts, peers: &[PeerFacts]) -> Option<Finding> {
    let is_wanted = server.in_files.get("wsrep_on").is_some_and(|on| is_on(on));
    let is_named = !server.planned("wsrep_cluster_address").is_empty();
    let is_alone = server.is_silent() && !peers.is_empty() && peers.iter().all(|peer| peer.is_own);
    let (severity, what, why) = match (is_wanted, is_named) {
        (true, false) => (
            Severity::Problem,
            "wsrep_on is set, and wsrep_cluster_address is not",
            "the server knows no member of its group, and does not start",
        ),
        (true, true) if is_alone => (
            Severity::Warning,
            "wsrep_cluster_address names this server only",
            "one that has not been in a group looks for it there, in vain, and ends",
        ),
        _ => return None,
    };
    Some(Finding::new(
        Subject::Network,
        severity,
        what,
        why,
        "wsrep_cluster_address = synod://db1,db2,db3, with the names of all servers. Only the \
         first server of a new group: galera_new_cluster",
    ))
}

/// A server that may take a full copy cannot see whether the others get through to it.
pub(super) fn to_be_open(server: &ServerFacts, peers: &[PeerFacts]) -> Option<Finding> {
    let is_member = server.replicates() && !server.is_silent();
    (!is_member && !peers.is_empty()).then(|| {
        Finding::new(
            Subject::Network,
            Severity::Note,
            "whether a firewall lets the other servers in cannot be seen from here",
            "they connect to port 4567 of this machine, and send a full copy (SST) to port 4444, \
             where nothing listens before",
            "run synod doctor on another server: it tries both ports of this one. Or here: socat \
             -u TCP-LISTEN:4444 - ; and there: nc -vz THIS-SERVER 4444",
        )
    })
}

/// This server runs Synod: none of its peers may run Galera.
fn half_way(peers: &[PeerFacts]) -> Option<Finding> {
    let galera = peers.iter().filter(|peer| peer.is_galera);
    let galera: Vec<&str> = galera.map(|peer| peer.address.as_str()).collect();
    (!galera.is_empty()).then(|| {
        Finding::new(
            Subject::Network,
            Severity::Problem,
            format!(
                "this server runs Synod, and Galera answers at {}",
                galera.join(", ")
            ),
            "no group has both. If both kinds take writes, they are two groups with one id whose \
             data differ",
            "stop the servers of one kind at once; migration.md#half-way says what follows",
        )
    })
}

fn judge_peer(peer: &PeerFacts) -> Vec<Finding> {
    let address = &peer.address;
    let reached = match &peer.seen {
        Ok(reached) => reached,
        Err(error) => {
            return vec![Finding::new(
                Subject::Network,
                Severity::Warning,
                format!("{address} is not reached: {error}"),
                "members talk over this port; if the server there is not configured yet, this is as \
                 expected",
                match peer.is_here {
                    None => "correct the name, or make it known here: DNS, or /etc/hosts",
                    Some(_) => HOW_TO_REACH,
                },
            )];
        }
    };
    let ms = reached.round_trip.as_secs_f64() * 1000.0;
    let what = format!("{address} is reached in {ms:.1} ms");
    let mut findings = vec![if reached.round_trip > FAR {
        Finding::new(
            Subject::Network,
            Severity::Note,
            what,
            "a commit takes at least the round trip to the nearest majority",
            "keep the leader near the clients that write: synod.leader=follow-writers, or weights",
        )
    } else {
        Finding::good(Subject::Network, what)
    }];
    findings.extend(copies_are_blocked(peer));
    if let Some(mtu) = reached.path_mtu.filter(|mtu| *mtu < SMALL_MTU) {
        findings.push(Finding::new(
            Subject::Network,
            Severity::Warning,
            format!("packets to {address} carry at most {mtu} bytes"),
            "a tunnel with a wrong size often loses large packets: connections then hang",
            "compare with 'ping -M do -s 1400'; correct the MTU of the interface or tunnel",
        ));
    }
    findings
}

fn copies_are_blocked(peer: &PeerFacts) -> Option<Finding> {
    let (port, error) = peer.blocked_copies.as_ref()?;
    let address = &peer.address;
    Some(Finding::new(
        Subject::Network,
        Severity::Warning,
        format!("port {port} of {address} is not reached: {error}"),
        "a full copy (SST) is sent to this port of the server that takes it, and only then does \
         something listen there",
        format!("open the port {port} between all servers"),
    ))
}

/// Another program has what a server that is to join a group will want.
/// `is_member`: it is the server itself that listens.
pub(super) fn busy_ports(is_member: bool, busy: &[u16]) -> Vec<Finding> {
    if is_member {
        return Vec::new();
    }
    let each = busy.iter().map(|port| {
        Finding::new(
            Subject::Network,
            Severity::Problem,
            format!("another program listens at port {port}"),
            "members listen there, and full copies arrive there: the server would not start, or \
             take no copy",
            format!(
                "ss -tlnp 'sport = :{port}' names the program: stop it, or choose another port"
            ),
        )
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Reached;

    fn peer(seen: Result<Reached, String>) -> PeerFacts {
        PeerFacts {
            address: "db2:4567".to_owned(),
            host: "db2".to_owned(),
            is_here: Some(false),
            is_own: false,
            answer: None,
            seen,
            blocked_copies: None,
            is_galera: false,
        }
    }

    fn judged(seen: Result<(u64, u32), &str>) -> Vec<Severity> {
        let seen = seen.map_err(str::to_owned).map(|(ms, mtu)| Reached {
            round_trip: Duration::from_millis(ms),
            path_mtu: Some(mtu),
        });
        judge(&ServerFacts::default(), &[peer(seen)])
            .iter()
            .map(|finding| finding.severity)
            .collect()
    }

    #[test]
    fn peers_are_judged_by_what_was_seen() {
        assert_eq!(judged(Ok((1, 1500))), [Severity::Good]);
        assert_eq!(judged(Ok((150, 1500))), [Severity::Note]);
        assert_eq!(judged(Ok((1, 900))), [Severity::Good, Severity::Warning]);
        assert_eq!(judged(Err("Connection refused")), [Severity::Warning]);
    }

    #[test]
    fn server_that_is_to_join_a_group_needs_the_address_of_another() {
        let findings = |in_files: &[(&str, &str)], is_own: bool| {
            let pairs = in_files.iter();
            let server = ServerFacts {
                in_files: pairs
                    .map(|(name, value)| (name.to_string(), value.to_string()))
                    .collect(),
                silence: Some("it does not run".to_owned()),
                ..ServerFacts::default()
            };
            let peer = PeerFacts {
                is_own,
                ..peer(Err("refused".to_owned()))
            };
            no_address(&server, &[peer]).map(|found| found.severity)
        };
        let address = ("wsrep_cluster_address", "synod://db1");
        let on = ("wsrep_on", "ON");
        assert_eq!(findings(&[on], false), Some(Severity::Problem));
        assert_eq!(findings(&[on, address], true), Some(Severity::Warning));
        assert_eq!(findings(&[on, address], false), None);
        assert_eq!(findings(&[("wsrep_on", "OFF")], true), None);
        assert_eq!(findings(&[], true), None);
    }

    #[test]
    fn name_that_is_not_known_is_no_matter_of_the_other_server() {
        let unknown = PeerFacts {
            is_here: None,
            ..peer(Err("its name is not known".to_owned()))
        };
        for (peer, remedy) in [
            (unknown, "correct the name"),
            (peer(Err("refused".to_owned())), "refused:"),
        ] {
            let found = judge(&ServerFacts::default(), &[peer]);
            assert!(found[0].remedy.starts_with(remedy), "{found:?}");
        }
    }

    #[test]
    fn blocked_port_of_full_copies_is_a_warning() {
        let reached = Reached {
            round_trip: Duration::from_millis(1),
            path_mtu: None,
        };
        let blocked = PeerFacts {
            blocked_copies: Some((4444, "connection timed out".to_owned())),
            ..peer(Ok(reached))
        };
        let found = judge(&ServerFacts::default(), &[blocked]);
        assert_eq!(found[1].severity, Severity::Warning);
        let what = "port 4444 of db2:4567 is not reached: connection timed out";
        assert_eq!(found[1].what, what);
    }

    #[test]
    fn ports_of_a_server_that_runs_in_a_group_are_its_own() {
        let found = busy_ports(false, &[4444]);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(found[0].what, "another program listens at port 4444");
        assert_eq!(busy_ports(true, &[4444]), []);
    }

    #[test]
    fn server_that_may_take_a_copy_is_told_which_ports_others_need() {
        let mut server = ServerFacts::default();
        let peers = [peer(Err("not asked".to_owned()))];
        assert!(to_be_open(&server, &peers).is_some());
        assert_eq!(to_be_open(&server, &[]), None, "no group is meant");
        for (name, value) in [("wsrep_on", "ON"), ("wsrep_provider", "libsynod.so")] {
            server.variables.insert(name.to_owned(), value.to_owned());
        }
        assert_eq!(to_be_open(&server, &peers), None, "a member");
    }

    #[test]
    fn group_of_which_a_part_runs_galera_is_a_problem() {
        let mut server = ServerFacts::default();
        let variables = [
            ("wsrep_on", "ON"),
            ("wsrep_provider", "/usr/lib/libsynod.so"),
        ];
        for (name, value) in variables {
            server.variables.insert(name.to_owned(), value.to_owned());
        }
        let galera = PeerFacts {
            is_galera: true,
            ..peer(Err("not asked".to_owned()))
        };
        let found = judge(&server, std::slice::from_ref(&galera));
        assert_eq!(found[0].severity, Severity::Problem);
        assert!(
            found[0].what.contains("Galera answers at db2:4567"),
            "{found:?}"
        );
        // Before the migration all of them run Galera.
        let before = judge(&ServerFacts::default(), &[galera]);
        assert_eq!(before.len(), 1, "{before:?}");
    }
}
