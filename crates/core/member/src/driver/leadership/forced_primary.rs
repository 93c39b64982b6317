//! Forced primary: this member continues without a majority, by an order of an operator or by a
//! policy.
//!
//! A forced primary loses what the other voters have committed and it has not seen. Where the
//! majority lives, there are two histories afterwards; [`has_action`] helps a member to find out
//! whether it holds actions of the lost one.

use synod_consensus::{EntryKind, LogIndex, MemberId, Seqno};
use synod_log::EntrySummary;

/// Policy of a member for the loss of the majority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuorumLossPolicy {
    /// The member waits until it hears a majority again. The only safe policy.
    #[default]
    Wait,
    /// The member continues if at least half of the voters are still connected: one of two may
    /// serve.
    ContinueWithHalf,
    /// The member continues, however many are gone.
    ContinueAlone,
}

/// The component that knows by what order or policy this member may lead without a majority.
#[derive(Default)]
pub(in crate::driver) struct ForcedPrimary {
    policy: QuorumLossPolicy,
    /// The next leadership of this member is by order.
    ordered: bool,
}

impl ForcedPrimary {
    pub(in crate::driver) fn set_policy(&mut self, policy: QuorumLossPolicy) {
        self.policy = policy;
    }

    /// This member was made the only voter.
    pub(super) fn ordered(&mut self) {
        self.ordered = true;
    }

    /// This member leads: whether that is by order. Asked once per leadership.
    pub(in crate::driver) fn take_order(&mut self) -> bool {
        std::mem::take(&mut self.ordered)
    }

    /// By the policy, whether member `me` continues now that the majority is gone. `is_connected`
    /// says which of the `voters` it sees. Of the voters that see each other, the first continues.
    pub(super) fn continues(
        &self,
        me: MemberId,
        voters: &[MemberId],
        is_connected: impl Fn(MemberId) -> bool,
    ) -> bool {
        let is_seen = |id: &&MemberId| **id == me || is_connected(**id);
        let seen = voters.iter().filter(is_seen).count();
        let is_enough = match self.policy {
            QuorumLossPolicy::Wait => false,
            QuorumLossPolicy::ContinueWithHalf => seen * 2 >= voters.len(),
            QuorumLossPolicy::ContinueAlone => true,
        };
        is_enough && voters.iter().find(is_seen) == Some(&me)
    }
}

/// Whether the log has an action of a client from an entry on, up to `last`. An entry that the log
/// does not hold counts as one.
pub(in crate::driver) fn has_action(
    from: LogIndex,
    last: Seqno,
    entry: impl Fn(LogIndex) -> Option<EntrySummary>,
) -> bool {
    let mut index = from;
    loop {
        let Some(entry) = entry(index) else {
            return true;
        };
        if entry.seqno > last {
            return false;
        }
        match entry.kind {
            EntryKind::Action => return true,
            EntryKind::View if entry.seqno == last => return false,
            _ => index = index.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{EntryId, Term};

    fn continues(policy: QuorumLossPolicy, me: u64, seen: &[u64]) -> bool {
        let mut forced = ForcedPrimary::default();
        forced.set_policy(policy);
        let voters: Vec<MemberId> = (1..=4).map(MemberId).collect();
        forced.continues(MemberId(me), &voters, |id| seen.contains(&id.0))
    }

    #[test]
    fn policy_says_how_many_voters_are_enough_and_the_first_of_them_continues() {
        use QuorumLossPolicy::{ContinueAlone, ContinueWithHalf, Wait};
        assert!(!continues(Wait, 1, &[2, 3]));
        assert!(continues(ContinueWithHalf, 3, &[4]));
        assert!(!continues(ContinueWithHalf, 4, &[3]), "not the first");
        assert!(!continues(ContinueWithHalf, 3, &[]), "one of four");
        assert!(continues(ContinueAlone, 3, &[]));
        assert!(!continues(ContinueAlone, 9, &[]), "not a voter");
    }

    #[test]
    fn order_counts_for_one_leadership() {
        let mut forced = ForcedPrimary::default();
        assert!(!forced.take_order());
        forced.ordered();
        assert!(forced.take_order());
        assert!(!forced.take_order());
    }

    #[test]
    fn log_of_a_member_that_was_alone_has_views_and_perhaps_an_action() {
        let log = |kinds: &'static [(i64, EntryKind)]| {
            move |index: LogIndex| {
                let (seqno, kind) = *kinds.get(index.0 as usize)?;
                let id = EntryId {
                    term: Term(1),
                    index,
                };
                let seqno = Seqno(seqno);
                Some(EntrySummary { id, seqno, kind })
            }
        };
        let views = log(&[
            (1, EntryKind::View),
            (1, EntryKind::NoOp),
            (2, EntryKind::View),
        ]);
        assert!(!has_action(LogIndex(0), Seqno(2), views));
        let action = log(&[(1, EntryKind::View), (2, EntryKind::Action)]);
        assert!(has_action(LogIndex(0), Seqno(2), action));
        assert!(
            !has_action(LogIndex(0), Seqno(1), action),
            "beyond the last"
        );
        assert!(has_action(LogIndex(1), Seqno(9), views), "the log ends");
    }
}
