//! Members that want to know when their actions are finished on this member's database.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use synod_consensus::{MemberId, Origin, Seqno, SessionId, Time};

/// A question counts for so long. It is asked again much more often.
const ASKED_FOR: Duration = Duration::from_secs(3);
/// Most actions that are awaited one by one. Further ones are awaited together with the last.
const TARGETS_MAX: usize = 4096;

/// Members that have asked, and the actions that they wait for. Invariant: targets ascend.
#[derive(Default)]
pub(super) struct Askers {
    /// The session that has asked, and until when that counts.
    asked: BTreeMap<MemberId, (SessionId, Time)>,
    targets: VecDeque<(Seqno, MemberId)>,
}

impl Askers {
    pub(super) fn ask(&mut self, now: Time, member: MemberId, session: SessionId) {
        self.asked.insert(member, (session, now.plus(ASKED_FOR)));
    }

    pub(super) fn expire(&mut self, now: Time) {
        self.asked.retain(|_, (_, until)| now < *until);
    }

    pub(super) fn committed(&mut self, seqno: Seqno, origin: &Origin) {
        let asked = self.asked.get(&origin.member);
        if asked.is_none_or(|(session, _)| *session != origin.session) {
            return;
        }
        if self.targets.len() >= TARGETS_MAX
            && let Some((last, _)) = self.targets.back_mut()
        {
            // Those before are told a little later than they could be, each asker at its next
            // question at the latest.
            *last = seqno;
            return;
        }
        self.targets.push_back((seqno, origin.member));
    }

    pub(super) fn next_target(&self) -> Option<Seqno> {
        self.targets.front().map(|(seqno, _)| *seqno)
    }

    /// Everything up to `released` is finished here: the members that wait for some of it.
    pub(super) fn reached(&mut self, released: Seqno) -> BTreeSet<MemberId> {
        let reached = self
            .targets
            .partition_point(|(seqno, _)| *seqno <= released);
        let told = self.targets.drain(..reached).map(|(_, member)| member);
        told.filter(|member| self.asked.contains_key(member))
            .collect()
    }

    pub(super) fn members(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.asked.keys().copied()
    }

    pub(super) fn forget_targets(&mut self) {
        self.targets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(5_000_000);

    fn origin(member: u64, session: u64) -> Origin {
        Origin::new(MemberId(member), SessionId(session), 1)
    }

    fn reached(askers: &mut Askers, seqno: i64) -> Vec<u64> {
        askers.reached(Seqno(seqno)).iter().map(|m| m.0).collect()
    }

    #[test]
    fn members_that_asked_are_told_of_their_own_actions() {
        let mut askers = Askers::default();
        askers.committed(Seqno(1), &origin(1, 1));
        askers.ask(NOW, MemberId(1), SessionId(1));
        askers.ask(NOW, MemberId(3), SessionId(1));
        for (seqno, member, session) in [(2, 1, 1), (3, 2, 1), (4, 3, 1), (5, 1, 9), (6, 1, 1)] {
            askers.committed(Seqno(seqno), &origin(member, session));
        }
        assert_eq!(askers.next_target(), Some(Seqno(2)));
        assert_eq!(reached(&mut askers, 1), [0; 0]);
        assert_eq!(reached(&mut askers, 5), [1, 3]);
        assert_eq!(askers.next_target(), Some(Seqno(6)));
        assert_eq!(reached(&mut askers, 6), [1]);
        assert_eq!(askers.next_target(), None);
    }

    #[test]
    fn member_that_does_not_ask_again_is_forgotten() {
        let mut askers = Askers::default();
        askers.ask(NOW, MemberId(1), SessionId(1));
        askers.committed(Seqno(1), &origin(1, 1));
        askers.expire(NOW.plus(ASKED_FOR));
        assert_eq!(askers.members().count(), 0);
        assert_eq!(reached(&mut askers, 1), [0; 0]);
        askers.committed(Seqno(2), &origin(1, 1));
        assert_eq!(askers.next_target(), None);
    }

    #[test]
    fn targets_are_bounded_and_every_asker_is_told() {
        let mut askers = Askers::default();
        askers.ask(NOW, MemberId(1), SessionId(1));
        for seqno in 1..=20_000 {
            askers.committed(Seqno(seqno), &origin(1, 1));
        }
        assert_eq!(askers.targets.len(), TARGETS_MAX);
        assert_eq!(reached(&mut askers, 19_999), [1]);
        assert_eq!(reached(&mut askers, 20_000), [1]);
    }
}
