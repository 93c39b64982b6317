//! The ping thread: has the transport measure the links to the other members, and says whose clock
//! differs.
//!
//! The group does not depend on clocks: it measures all its times by clocks that are never set. But
//! clients see times that servers write, and an operator compares logs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use synod_consensus::MemberId;
use synod_member::{Host, Level, Shared, Topic};

use crate::transport::{ClockOffset, LinkStatus, Transport};

/// Time between two rounds of pings.
const PERIOD: Duration = Duration::from_secs(1);
/// Clocks that differ by more than this, for certain, are said to differ. Microseconds.
const APART_US: u64 = 1_000_000;
/// They are said to agree again below this. Microseconds.
const TOGETHER_US: u64 = 500_000;

pub(crate) struct PingThread {
    pub(crate) transport: Arc<Transport>,
    pub(crate) host: Arc<dyn Host>,
    /// Has the members' names.
    pub(crate) shared: Arc<Shared>,
}

impl PingThread {
    /// Runs until the transport stops.
    pub(crate) fn run(self) {
        let mut watch = ClockWatch::default();
        while self.transport.wait_to_ping(PERIOD) {
            for (member, change) in watch.look(&self.transport.link_status()) {
                let (level, text) = change.told(&self.name_of(member));
                self.host.note(Topic::Clock, level, &text);
            }
            self.transport.ping_all();
        }
    }

    fn name_of(&self, member: MemberId) -> String {
        let members = self.shared.status().members;
        let known = members.into_iter().find(|known| known.member == member);
        known.map_or_else(|| format!("member {member}"), |known| known.name)
    }
}

/// Members whose clocks were logged as differing from this one's.
#[derive(Debug, Default)]
struct ClockWatch {
    apart: BTreeSet<MemberId>,
}

/// Change of a clock that is to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockChange {
    Apart(ClockOffset),
    Together(ClockOffset),
}

impl ClockWatch {
    /// Changes since the last look. A member without a measurement stays as it was; one that is
    /// gone is forgotten.
    fn look(&mut self, links: &[LinkStatus]) -> Vec<(MemberId, ClockChange)> {
        let is_linked = |member: &MemberId| links.iter().any(|link| link.member == *member);
        self.apart.retain(is_linked);
        let measured = links
            .iter()
            .filter_map(|link| Some((link.member, link.clock?)));
        let changes = measured.filter_map(|(member, clock)| {
            let away_us = clock.ahead_us.unsigned_abs();
            let is_apart = away_us.saturating_sub(clock.error_us) > APART_US;
            if is_apart && self.apart.insert(member) {
                Some((member, ClockChange::Apart(clock)))
            } else if away_us < TOGETHER_US && self.apart.remove(&member) {
                Some((member, ClockChange::Together(clock)))
            } else {
                None
            }
        });
        changes.collect()
    }
}

impl ClockChange {
    fn told(self, name: &str) -> (Level, String) {
        match self {
            ClockChange::Apart(clock) => {
                let side = if clock.ahead_us < 0 {
                    "behind"
                } else {
                    "ahead of"
                };
                let text = format!(
                    "the clock of {name} is {:.1} s {side} this server's. Replication does not \
                     depend on it, but NOW() and the times in logs differ. See that a time service \
                     runs on both machines: chronyc tracking",
                    seconds(clock)
                );
                (Level::Warning, text)
            }
            ClockChange::Together(clock) => {
                let text = format!(
                    "the clock of {name} agrees with this server's again, within {:.1} s",
                    seconds(clock)
                );
                (Level::Info, text)
            }
        }
    }
}

/// How far apart the clocks are.
fn seconds(clock: ClockOffset) -> f64 {
    clock.ahead_us.unsigned_abs() as f64 / 1e6 // exact below 285 years
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: MemberId = MemberId(2);

    fn link(ahead_ms: i64, error_ms: u64) -> LinkStatus {
        LinkStatus {
            member: OTHER,
            round_trip: None,
            clock: Some(ClockOffset {
                ahead_us: ahead_ms * 1000,
                error_us: error_ms * 1000,
            }),
        }
    }

    fn told(watch: &mut ClockWatch, link: LinkStatus) -> Option<String> {
        let mut changes = watch.look(&[link]);
        assert!(changes.len() <= 1);
        changes.pop().map(|(member, change)| {
            assert_eq!(member, OTHER);
            change.told("db2").1
        })
    }

    #[test]
    fn clocks_apart_are_told_once_until_they_agree_again() {
        let mut watch = ClockWatch::default();
        assert_eq!(told(&mut watch, link(900, 1)), None);
        let apart = told(&mut watch, link(-3_200, 1)).unwrap();
        assert!(
            apart.contains("db2 is 3.2 s behind this server's"),
            "{apart}"
        );
        assert!(apart.contains("chronyc tracking"), "{apart}");
        for ahead in [-3_300, -900, 1_100, -700] {
            assert_eq!(told(&mut watch, link(ahead, 1)), None, "{ahead}");
        }
        let together = told(&mut watch, link(-40, 1)).unwrap();
        assert!(together.contains("agrees"), "{together}");
        assert_eq!(told(&mut watch, link(40, 1)), None);
        let again = told(&mut watch, link(1_100, 1)).unwrap();
        assert!(again.contains("1.1 s ahead of"), "{again}");
    }

    #[test]
    fn difference_that_the_way_may_have_made_is_not_told() {
        let mut watch = ClockWatch::default();
        assert_eq!(told(&mut watch, link(1_900, 1_000)), None);
        assert!(told(&mut watch, link(1_900, 800)).is_some());
    }

    #[test]
    fn member_that_is_not_measured_stays_as_it_was_until_it_is_gone() {
        let mut watch = ClockWatch::default();
        assert!(told(&mut watch, link(9_000, 1)).is_some());
        let silent = LinkStatus {
            clock: None,
            ..link(0, 0)
        };
        assert_eq!(told(&mut watch, silent), None);
        assert_eq!(told(&mut watch, link(9_000, 1)), None);
        assert_eq!(watch.look(&[]), []);
        assert!(told(&mut watch, link(9_000, 1)).is_some());
    }
}
