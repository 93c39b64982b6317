//! Whether this member is primary: while it hears a leader with a quorum, and for the suspect
//! timeout after that; and whether it continues without a majority, by order or by policy. The core
//! announces each change of role. A leader that lost its quorum steps down by itself, after an
//! election timeout without answers: that silence counts. A forced primary loses what the other
//! voters have committed and it has not seen. Where the majority lives, there are two histories
//! afterwards; [`has_action`] helps a member to find out whether it holds actions of the lost one.

use std::time::Duration;

use synod_consensus::{EntryKind, LogIndex, MemberId, RoleChange, RoleName, Seqno, Term, Time};
use synod_log::EntrySummary;

/// The component that notices a lost majority. Invariant: while this member leads a term it is not
/// leaderless.
pub(in crate::driver) struct PrimaryWatch {
    /// How long a leader was without its quorum when it steps down.
    step_down: Duration,
    /// Since when no leader is heard; none while one is.
    leaderless_since: Option<Time>,
    led: Option<Term>,
}

impl PrimaryWatch {
    pub(in crate::driver) fn new(now: Time, step_down: Duration) -> PrimaryWatch {
        PrimaryWatch {
            step_down,
            leaderless_since: Some(now),
            led: None,
        }
    }

    pub(in crate::driver) fn role_changed(&mut self, now: Time, change: &RoleChange) {
        let leads = change.role == RoleName::Leader;
        let lost_quorum = self.led == Some(change.term) && !leads;
        self.led = leads.then_some(change.term);
        if change.leader.is_some() {
            self.leaderless_since = None;
        } else if self.leaderless_since.is_none() {
            let silence = if lost_quorum {
                self.step_down
            } else {
                Duration::ZERO
            };
            let silence_us = u64::try_from(silence.as_micros()).unwrap_or(u64::MAX);
            self.leaderless_since = Some(Time(now.0.saturating_sub(silence_us)));
        }
    }

    pub(in crate::driver) fn leaderless_for(&self, now: Time) -> Option<Duration> {
        self.leaderless_since.map(|since| now.since(since))
    }

    pub(in crate::driver) fn has_lost_group(&self, now: Time, suspect: Duration) -> bool {
        self.leaderless_for(now).is_some_and(|time| time >= suspect)
    }

    /// Whether this member is primary. A member that was not is so only while it hears a leader.
    pub(in crate::driver) fn is_primary(
        &self,
        now: Time,
        was_primary: bool,
        suspect: Duration,
    ) -> bool {
        match self.leaderless_for(now) {
            None => true,
            Some(time) => was_primary && time < suspect,
        }
    }

    /// This member is about to lead by order: the time without a leader counts from now.
    pub(super) fn wait_again(&mut self, now: Time) {
        self.leaderless_since = Some(now);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuorumLossPolicy {
    /// The member waits until it hears a majority again. The only safe policy.
    #[default]
    Wait,
    /// The member continues if at least half of the voters are connected: one of two may serve.
    ContinueWithHalf,
    ContinueAlone,
}

#[derive(Default)]
pub(in crate::driver) struct ForcedPrimary {
    policy: QuorumLossPolicy,
    ordered: bool,
}

impl ForcedPrimary {
    pub(in crate::driver) fn set_policy(&mut self, policy: QuorumLossPolicy) {
        self.policy = policy;
    }

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
    use synod_consensus::EntryId;

    const SUSPECT: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Time {
        Time(1_000_000).plus(Duration::from_secs(seconds))
    }

    fn change(term: u64, role: RoleName, leader: Option<u64>) -> RoleChange {
        RoleChange {
            term: Term(term),
            role,
            leader: leader.map(MemberId),
        }
    }

    #[test]
    fn member_stays_primary_for_the_suspect_timeout() {
        let mut watch = PrimaryWatch::new(at(0), Duration::ZERO);
        assert!(!watch.is_primary(at(0), false, SUSPECT), "no leader yet");
        watch.role_changed(at(1), &change(1, RoleName::Follower, Some(2)));
        assert!(watch.is_primary(at(1), false, SUSPECT));
        watch.role_changed(at(2), &change(1, RoleName::Follower, None));
        watch.role_changed(at(4), &change(2, RoleName::Candidate, None));
        assert!(watch.is_primary(at(6), true, SUSPECT));
        assert!(!watch.is_primary(at(6), false, SUSPECT), "not again");
        assert!(!watch.is_primary(at(7), true, SUSPECT));
        assert!(watch.has_lost_group(at(7), SUSPECT));
        watch.wait_again(at(7));
        assert!(!watch.has_lost_group(at(8), SUSPECT));
    }

    #[test]
    fn leader_that_steps_down_has_been_without_its_quorum_before() {
        let mut watch = PrimaryWatch::new(at(0), Duration::from_secs(1));
        watch.role_changed(at(1), &change(1, RoleName::Leader, Some(1)));
        assert_eq!(watch.leaderless_for(at(3)), None);
        watch.role_changed(at(3), &change(1, RoleName::Follower, None));
        let silence = watch.leaderless_for(at(3));
        assert_eq!(silence, Some(Duration::from_secs(1)));
    }

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
                let id = EntryId::new(Term(1), index);
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
