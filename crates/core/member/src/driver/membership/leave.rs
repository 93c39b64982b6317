//! This member's orderly shutdown: it transfers leadership, leaves the voters, then goes. [`Leave`]
//! answers what the next step is; the driver takes it at each slow tick until this member has gone.
//! Whether it keeps its vote is for the leader to decide ([`super::voter_policy`]). A leaver with a
//! deadline goes without the group's consent when that has passed: it may be the whole group that
//! is shutting down. It goes earlier if the group knows that it leaves, and needs it: then there
//! will be no consent, and waiting does not help.

use std::time::Duration;

use synod_consensus::Time;

use crate::driver::LeaveDone;

/// A leaver with a deadline waits for the group for this long.
pub(in crate::driver) const LEAVE_LIMIT: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaveStep {
    Wait,
    GoWithoutConsent,
    /// The group knows that this member leaves, and is no majority without it: go.
    GoThoughNeeded,
    Go,
    TransferLeadership,
    AskLeader,
}

#[derive(Clone, Copy)]
pub(super) struct LeaveFacts {
    pub(super) leads: bool,
    /// Leader only: another member is leaving.
    pub(super) others_leave: bool,
    /// Another member is a voter; for a leader, one that answers.
    pub(super) others_vote: bool,
    /// This member is a voter, and the committed view does not have it any more.
    pub(super) is_out_of_view: bool,
}

pub(in crate::driver) struct Leave {
    /// A leader stays for so long for the sake of other leavers.
    stay: Duration,
    /// A leaver that has left the view has an answer of the leader after this time, if it gets one.
    answer_patience: Duration,
    request: Option<Request>,
}

struct Request {
    done: LeaveDone,
    /// When this member goes without the group's consent; none: never.
    deadline: Option<Time>,
    /// Leader only: it stays until then, since other members may be about to ask for leave, or on
    /// their way out with an answer that is not sent yet.
    stay_until: Time,
    /// Since when the committed view lacks this member.
    out_of_view_since: Option<Time>,
}

impl Leave {
    pub(super) fn new(slow_tick: Duration) -> Leave {
        Leave {
            stay: slow_tick * 2,
            answer_patience: slow_tick * 8,
            request: None,
        }
    }

    pub(in crate::driver) fn is_under_way(&self) -> bool {
        self.request.is_some()
    }

    /// The host wants this member to leave, within `limit` if there is one; false if the request is
    /// ignored. A request without a limit never replaces a pending one. Otherwise the new request
    /// replaces the old one, whose caller is released at once.
    pub(super) fn begin(&mut self, now: Time, done: LeaveDone, limit: Option<Duration>) -> bool {
        if limit.is_none() && self.request.is_some() {
            return false;
        }
        self.request = Some(Request {
            done,
            deadline: limit.map(|limit| now.plus(limit)),
            stay_until: now,
            out_of_view_since: None,
        });
        true
    }

    /// Postpones a leader's own leave for a moment. A member that has just come to lead has
    /// probably got leadership from another leaver, which would get it back at once. A leader that
    /// has just let a member go has an answer to send.
    pub(in crate::driver) fn stay_for_others(&mut self, now: Time) {
        if let Some(request) = &mut self.request {
            request.stay_until = now.plus(self.stay);
        }
    }

    pub(super) fn step(&mut self, now: Time, facts: LeaveFacts) -> LeaveStep {
        let Some(request) = &mut self.request else {
            return LeaveStep::Wait;
        };
        let out_since = &mut request.out_of_view_since;
        let is_unanswered = if facts.is_out_of_view && !facts.leads {
            now.since(*out_since.get_or_insert(now)) >= self.answer_patience
        } else {
            *out_since = None;
            false
        };
        if request.deadline.is_some_and(|at| now >= at) {
            return LeaveStep::GoWithoutConsent;
        }
        if is_unanswered && request.deadline.is_some() {
            return LeaveStep::GoThoughNeeded;
        }
        let stays = now < request.stay_until || facts.others_leave;
        if facts.leads && stays {
            LeaveStep::Wait
        } else if !facts.others_vote {
            LeaveStep::Go
        } else if facts.leads {
            LeaveStep::TransferLeadership
        } else {
            LeaveStep::AskLeader
        }
    }

    pub(super) fn finish(&mut self) -> Option<LeaveDone> {
        self.request.take().map(|request| request.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    const NOW: Time = Time(1_000);
    const TICK: Duration = Duration::from_millis(250);
    const FOLLOWER: LeaveFacts = LeaveFacts {
        leads: false,
        others_leave: false,
        others_vote: true,
        is_out_of_view: false,
    };
    const LEADER: LeaveFacts = LeaveFacts {
        leads: true,
        ..FOLLOWER
    };

    fn nothing() -> LeaveDone {
        LeaveDone(Box::new(|| {}))
    }

    #[test]
    fn follower_asks_and_leader_transfers_until_the_deadline() {
        let mut leave = Leave::new(TICK);
        assert_eq!(
            leave.step(NOW, FOLLOWER),
            LeaveStep::Wait,
            "it does not leave"
        );
        assert!(leave.begin(NOW, nothing(), Some(LEAVE_LIMIT)));
        assert_eq!(leave.step(NOW, FOLLOWER), LeaveStep::AskLeader);
        assert_eq!(leave.step(NOW, LEADER), LeaveStep::TransferLeadership);
        let alone = LeaveFacts {
            others_vote: false,
            ..LEADER
        };
        assert_eq!(leave.step(NOW, alone), LeaveStep::Go);
        let late = NOW.plus(LEAVE_LIMIT);
        assert_eq!(leave.step(late, FOLLOWER), LeaveStep::GoWithoutConsent);
        assert!(leave.finish().is_some());
        assert!(!leave.is_under_way());
    }

    #[test]
    fn needed_leaver_goes_when_the_group_knows_and_has_not_answered() {
        let out = LeaveFacts {
            is_out_of_view: true,
            ..FOLLOWER
        };
        for (limit, expected) in [
            (Some(LEAVE_LIMIT), LeaveStep::GoThoughNeeded),
            (None, LeaveStep::AskLeader),
        ] {
            let mut leave = Leave::new(TICK);
            leave.begin(NOW, nothing(), limit);
            assert_eq!(leave.step(NOW, out), LeaveStep::AskLeader);
            let later = NOW.plus(TICK * 2);
            assert_eq!(leave.step(later, FOLLOWER), LeaveStep::AskLeader);
            assert_eq!(
                leave.step(later, out),
                LeaveStep::AskLeader,
                "from the start"
            );
            assert_eq!(leave.step(later.plus(TICK * 8), out), expected);
        }
    }

    #[test]
    fn leader_stays_for_other_leavers() {
        let mut leave = Leave::new(TICK);
        leave.begin(NOW, nothing(), None);
        let others_leave = LeaveFacts {
            others_leave: true,
            ..LEADER
        };
        assert_eq!(leave.step(NOW, others_leave), LeaveStep::Wait);
        leave.stay_for_others(NOW);
        assert_eq!(leave.step(NOW.plus(TICK), LEADER), LeaveStep::Wait);
        let later = leave.step(NOW.plus(TICK * 2), LEADER);
        assert_eq!(later, LeaveStep::TransferLeadership);
    }

    #[test]
    fn request_without_a_limit_replaces_none_and_the_replaced_caller_is_released() {
        let dropped = Arc::new(AtomicU32::new(0));
        struct Guard(Arc<AtomicU32>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let guard = Guard(dropped.clone());
        let mut leave = Leave::new(TICK);
        assert!(leave.begin(NOW, LeaveDone(Box::new(move || drop(guard))), None));
        assert!(!leave.begin(NOW, nothing(), None));
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        assert!(leave.begin(NOW, nothing(), Some(TICK)));
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }
}
