//! The leader's choice: which member feeds which learner. In each region but the leader's own, one
//! member is sent the entries by the leader and feeds the learners there. It is a voter if one
//! takes the entries as they are appended, otherwise one of the learners.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{MemberId, Time};
use synod_wire::Region;

/// How long the leader sends a learner everything itself after a feeder's part has not arrived.
const DISTRUST: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub(super) struct Peer<'a> {
    pub(super) member: MemberId,
    pub(super) region: &'a Region,
    pub(super) is_voter: bool,
    /// The member answers, and takes entries as they are appended.
    pub(super) is_up_to_date: bool,
    /// The member answers, and takes entries one message after the other: it is up to date, or
    /// catches up.
    pub(super) takes_entries: bool,
}

#[derive(Debug, Default)]
pub(in crate::driver) struct Feeders {
    of_learner: BTreeMap<MemberId, MemberId>,
    /// Learners that the leader serves itself until then.
    distrusted_until: BTreeMap<MemberId, Time>,
}

/// A learner that has another feeder from now on; none: the leader itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) learner: MemberId,
    pub(super) feeder: Option<MemberId>,
}

impl Feeders {
    /// This member begins to lead: it has not heard yet who can feed.
    pub(in crate::driver) fn begin_leading(&mut self) {
        *self = Feeders::default();
    }

    /// There is no connection to this member: it feeds none.
    pub(in crate::driver) fn lost(&mut self, member: MemberId) {
        self.of_learner.retain(|_, feeder| *feeder != member);
    }

    pub(super) fn of(&self, learner: MemberId) -> Option<MemberId> {
        self.of_learner.get(&learner).copied()
    }

    pub(super) fn failed(&mut self, now: Time, learner: MemberId) {
        if self.of_learner.remove(&learner).is_some() {
            self.distrusted_until.insert(learner, now.plus(DISTRUST));
        }
    }

    /// Chooses among the members that have a region. `own` is the leader's. Answers what changes.
    pub(super) fn choose<'a>(
        &mut self,
        now: Time,
        own: &Region,
        peers: impl Iterator<Item = Peer<'a>>,
    ) -> Vec<Changed> {
        self.distrusted_until.retain(|_, until| now < *until);
        let mut regions: BTreeMap<&str, Vec<Peer>> = BTreeMap::new();
        for peer in peers.filter(|peer| peer.region != own) {
            regions.entry(peer.region.as_str()).or_default().push(peer);
        }
        let mut chosen = BTreeMap::new();
        for peers in regions.values() {
            let Some(feeder) = feeder_among(peers) else {
                continue;
            };
            let learners = peers
                .iter()
                .filter(|peer| !peer.is_voter && peer.takes_entries);
            let fed = learners.map(|peer| peer.member).filter(|learner| {
                *learner != feeder && !self.distrusted_until.contains_key(learner)
            });
            chosen.extend(fed.map(|learner| (learner, feeder)));
        }
        let changed = changes(&self.of_learner, &chosen);
        self.of_learner = chosen;
        changed
    }
}

fn feeder_among(peers: &[Peer]) -> Option<MemberId> {
    let able = peers.iter().filter(|peer| peer.is_up_to_date);
    let feeder = able.min_by_key(|peer| (!peer.is_voter, peer.member));
    feeder.map(|peer| peer.member)
}

fn changes(
    before: &BTreeMap<MemberId, MemberId>,
    after: &BTreeMap<MemberId, MemberId>,
) -> Vec<Changed> {
    let gone = before.keys().filter(|learner| !after.contains_key(learner));
    let gone = gone.map(|learner| Changed {
        learner: *learner,
        feeder: None,
    });
    let new = after
        .iter()
        .filter(|(learner, feeder)| before.get(learner) != Some(feeder));
    let new = new.map(|(learner, feeder)| Changed {
        learner: *learner,
        feeder: Some(*feeder),
    });
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Voters 1 to 3, learners 4 to 6; all take entries as they are appended.
    fn peer(id: u64, region: &Region) -> Peer<'_> {
        Peer {
            member: MemberId(id),
            region,
            is_voter: id <= 3,
            is_up_to_date: true,
            takes_entries: true,
        }
    }

    fn region(name: &str) -> Region {
        name.parse().expect("a name")
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000)
    }

    fn pairs(feeders: &Feeders) -> Vec<(u64, u64)> {
        let pairs = feeders.of_learner.iter();
        pairs
            .map(|(learner, feeder)| (learner.0, feeder.0))
            .collect()
    }

    #[test]
    fn voter_of_the_region_feeds_its_learners() {
        let (near, far) = (region("near"), region("far"));
        let mut feeders = Feeders::default();
        let peers = [
            peer(2, &near),
            peer(6, &near),
            peer(3, &far),
            peer(4, &far),
            peer(5, &far),
        ];
        let changed = feeders.choose(at(0), &near, peers.into_iter());
        assert_eq!(pairs(&feeders), [(4, 3), (5, 3)]);
        assert_eq!(changed.len(), 2);
        assert_eq!(
            feeders.choose(at(1), &near, peers.into_iter()),
            [],
            "as before"
        );
        feeders.lost(MemberId(3));
        assert_eq!(pairs(&feeders), []);
    }

    #[test]
    fn learner_feeds_others_where_no_voter_can() {
        let (near, far) = (region("near"), region("far"));
        let mut feeders = Feeders::default();
        let lagging = Peer {
            is_up_to_date: false,
            ..peer(3, &far)
        };
        let peers = [lagging, peer(4, &far), peer(5, &far)];
        feeders.choose(at(0), &near, peers.into_iter());
        assert_eq!(pairs(&feeders), [(5, 4)], "a voter is never fed");
    }

    #[test]
    fn learner_that_catches_up_is_fed_and_feeds_none() {
        let (near, far) = (region("near"), region("far"));
        let mut feeders = Feeders::default();
        let catching_up = Peer {
            is_up_to_date: false,
            ..peer(4, &far)
        };
        let searching = Peer {
            is_up_to_date: false,
            takes_entries: false,
            ..peer(6, &far)
        };
        let peers = [catching_up, peer(5, &far), searching];
        feeders.choose(at(0), &near, peers.into_iter());
        assert_eq!(pairs(&feeders), [(4, 5)]);
    }

    #[test]
    fn leader_serves_a_learner_itself_for_a_while_after_a_failure() {
        let (near, far) = (region("near"), region("far"));
        let mut feeders = Feeders::default();
        let peers = [peer(3, &far), peer(4, &far), peer(5, &far)];
        feeders.choose(at(0), &near, peers.into_iter());
        feeders.failed(at(1), MemberId(4));
        feeders.failed(at(1), MemberId(3));
        for (seconds, expected) in [(2, &[(5, 3)][..]), (10, &[(5, 3)]), (11, &[(4, 3), (5, 3)])] {
            feeders.choose(at(seconds), &near, peers.into_iter());
            assert_eq!(pairs(&feeders), expected, "{seconds} s");
        }
    }

    #[test]
    fn change_to_the_leader_itself_is_told() {
        let (near, far) = (region("near"), region("far"));
        let mut feeders = Feeders::default();
        feeders.choose(at(0), &near, [peer(3, &far), peer(4, &far)].into_iter());
        let changed = feeders.choose(at(1), &near, [peer(4, &far)].into_iter());
        let learner = MemberId(4);
        let feeder = None;
        assert_eq!(changed, [Changed { learner, feeder }]);
    }
}
