//! Watches whether this member is primary: while it hears a leader with a quorum, and for the
//! suspect timeout after that.
//!
//! The core announces each change of role. A leader that lost its quorum steps down by itself,
//! after an election timeout without answers: that silence counts.

use std::time::Duration;

use synod_consensus::{RoleChange, RoleName, Term, Time};

/// The component that notices a lost majority.
///
/// Invariant: while this member leads a term it is not leaderless.
pub(in crate::driver) struct PrimaryWatch {
    /// How long a leader was without its quorum when it steps down.
    step_down: Duration,
    /// Since when no leader is heard; none while one is.
    leaderless_since: Option<Time>,
    /// The term this member leads.
    led: Option<Term>,
}

impl PrimaryWatch {
    /// At the start, no leader is heard. `step_down` is the longest election timeout.
    pub(in crate::driver) fn new(now: Time, step_down: Duration) -> PrimaryWatch {
        PrimaryWatch {
            step_down,
            leaderless_since: Some(now),
            led: None,
        }
    }

    /// The core has another role or leader.
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

    /// For how long no leader has been heard; none while one is.
    pub(in crate::driver) fn leaderless_for(&self, now: Time) -> Option<Duration> {
        self.leaderless_since.map(|since| now.since(since))
    }

    /// Whether no leader was heard for the suspect timeout.
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

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::MemberId;

    const SUSPECT: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Time {
        Time(1_000_000).plus(Duration::from_secs(seconds))
    }

    pub(in crate::driver) fn change(term: u64, role: RoleName, leader: Option<u64>) -> RoleChange {
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
}
