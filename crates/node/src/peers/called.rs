//! Who answered when this server called the addresses of its own list.
//!
//! Each direction is a connection of its own, where users of an allowlist know one for both: a server
//! that may be called by nobody, and calls the group itself, has to hear the answers. So a member that
//! answered may call back from where it answered, and is called there, until its session ends.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use synod_consensus::{MemberId, SessionId};
use synod_member::lock;

/// Answers remembered.
const ANSWERED_MAX: usize = 256;

/// Who answered, and from where.
pub(super) type Answer = (MemberId, SessionId, IpAddr);

#[derive(Default)]
pub(super) struct Called {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// A call is under way.
    calling: bool,
    answered: BTreeSet<Answer>,
}

impl Called {
    /// A call begins; [`Called::ended`] is owed.
    pub(super) fn begins(&self) {
        lock(&self.state).calling = true;
    }

    /// The call is over.
    pub(super) fn ended(&self, answer: Option<Answer>) {
        let mut state = lock(&self.state);
        state.calling = false;
        if state.answered.len() < ANSWERED_MAX {
            state.answered.extend(answer);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether this is somebody who answered. Whoever calls back may be faster than the thread that
    /// hears the answer: a call that is under way is waited for, but no longer than `limit`.
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
    fn only_who_answered_may_call_back_and_only_from_there() {
        let called = Called::default();
        assert!(!called.has_answered(M, LONG), "nobody was called");
        called.begins();
        assert!(!called.has_answered(M, NOT_AT_ALL));
        called.ended(Some(M));
        assert!(called.has_answered(M, LONG));
        assert!(!called.has_answered(answer(7, 1, 2), LONG));
        assert!(!called.has_answered(answer(7, 2, 1), LONG), "restarted");
        assert!(!called.has_answered(answer(8, 1, 1), LONG));
        called.begins();
        assert!(called.has_answered(M, LONG), "the next call");
        called.ended(None);
        assert!(called.has_answered(M, LONG));
    }

    #[test]
    fn answer_that_is_being_heard_is_waited_for() {
        let called = Called::default();
        called.begins();
        std::thread::scope(|scope| {
            let back = scope.spawn(|| called.has_answered(M, LONG));
            called.ended(Some(M));
            assert!(back.join().unwrap());
        });
    }
}
