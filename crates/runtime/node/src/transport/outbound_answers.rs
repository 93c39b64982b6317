//! Members that answered when this member called the seeds, its own list of addresses.
//!
//! Each direction is a connection of its own here, while users of an allowlist expect one for both:
//! a member whose allowlist is empty, but that calls the group itself, must hear the group. So a
//! member that answered may call back from the address where it answered, and is called there,
//! until its session ends.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use synod_consensus::{MemberId, SessionId};
use synod_member::lock;

const ANSWERED_MAX: usize = 256;

/// A process of a member that answered, and its address.
pub(super) type Answer = (MemberId, SessionId, IpAddr);

/// Answers to calls of this member.
#[derive(Default)]
pub(super) struct OutboundAnswers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// A call has begun and not ended.
    calling: bool,
    answered: BTreeSet<Answer>,
}

impl OutboundAnswers {
    /// A call begins. The caller must also call [`OutboundAnswers::call_ends`].
    pub(super) fn call_begins(&self) {
        lock(&self.state).calling = true;
    }

    /// The call has ended, with an answer or without.
    pub(super) fn call_ends(&self, answer: Option<Answer>) {
        let mut state = lock(&self.state);
        state.calling = false;
        if state.answered.len() < ANSWERED_MAX {
            state.answered.extend(answer);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether this process answered. It may call back before the thread that called it has read
    /// the answer, so this waits for a call that has not ended, up to `limit`.
    pub(super) fn has_answered(&self, caller: Answer, limit: Duration) -> bool {
        let unclear = |state: &mut State| state.calling && !state.answered.contains(&caller);
        let (state, _) = self
            .changed
            .wait_timeout_while(lock(&self.state), limit, unclear)
            .unwrap_or_else(PoisonError::into_inner);
        state.answered.contains(&caller)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const M: Answer = answer(7, 1, 1);
    const NOT_AT_ALL: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3600);

    const fn answer(member: u64, session: u64, host: u8) -> Answer {
        let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
        (MemberId(member), SessionId(session), ip)
    }

    #[test]
    fn only_a_process_that_answered_may_call_back_and_only_from_its_address() {
        let answers = OutboundAnswers::default();
        assert!(!answers.has_answered(M, LONG), "no call yet");
        answers.call_begins();
        assert!(!answers.has_answered(M, NOT_AT_ALL));
        answers.call_ends(Some(M));
        assert!(answers.has_answered(M, LONG));
        assert!(!answers.has_answered(answer(7, 1, 2), LONG));
        assert!(!answers.has_answered(answer(7, 2, 1), LONG), "restarted");
        assert!(!answers.has_answered(answer(8, 1, 1), LONG));
        answers.call_begins();
        assert!(answers.has_answered(M, LONG), "the next call");
        answers.call_ends(None);
        assert!(answers.has_answered(M, LONG));
    }

    #[test]
    fn answer_that_is_being_read_is_waited_for() {
        let answers = OutboundAnswers::default();
        answers.call_begins();
        std::thread::scope(|scope| {
            let back = scope.spawn(|| answers.has_answered(M, LONG));
            answers.call_ends(Some(M));
            assert!(back.join().unwrap());
        });
    }
}
