//! The other servers.

use std::time::Duration;

use crate::facts::PeerFacts;
use crate::finding::{Finding, Severity, Subject};

/// Above it, each commit of a client far from the leader is noticed by people.
const FAR: Duration = Duration::from_millis(100);

/// Below it a tunnel or a broken path discovery is likely.
const SMALL_MTU: u32 = 1280;

pub(super) fn judge(peers: &[PeerFacts]) -> Vec<Finding> {
    peers.iter().flat_map(judge_peer).collect()
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
                "members talk over this port; if the server there does not run yet, this is as \
                 expected",
                "open the ports 4567 and 4444 between all servers, and start the other server",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Reached;

    fn judged(seen: Result<(u64, u32), &str>) -> Vec<Severity> {
        let seen = seen.map_err(str::to_owned).map(|(ms, mtu)| Reached {
            round_trip: Duration::from_millis(ms),
            path_mtu: Some(mtu),
        });
        let peer = PeerFacts {
            address: "db2:4567".to_owned(),
            seen,
        };
        judge(&[peer])
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
}
