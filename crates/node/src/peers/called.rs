//! Who answered when this server called the addresses of its own list.
//!
//! Each direction is a connection of its own, where users of an allowlist know one for both: a server
//! that may be called by nobody, and calls the group itself, has to hear the answers. So a member that
//! answered may call back from where it answered.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use synod_consensus::MemberId;
use synod_member::lock;

/// Members remembered.
const ANSWERED_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Called {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// A call is under way.
    calling: bool,
    answered: BTreeSet<(MemberId, IpAddr)>,
}

impl Called {
    /// A call begins; [`Called::ended`] is owed.
    pub(super) fn begins(&self) {
        lock(&self.state).calling = true;
    }

    /// The call is over; who answered, and from where.
    pub(super) fn ended(&self, answer: Option<(MemberId, IpAddr)>) {
        let mut state = lock(&self.state);
        state.calling = false;
        if state.answered.len() < ANSWERED_MAX {
            state.answered.extend(answer);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether this member answered from this host. Whoever calls back may be faster than the thread that
    /// hears the answer: a call that is under way is waited for, but no longer than `limit`.
    pub(super) fn has_answered(&self, member: MemberId, ip: IpAddr, limit: Duration) -> bool {
        let unclear = |state: &mut State| state.calling && !state.answered.contains(&(member, ip));
        let (state, _) = self
            .changed
            .wait_timeout_while(lock(&self.state), limit, unclear)
            .unwrap_or_else(PoisonError::into_inner);
        state.answered.contains(&(member, ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: MemberId = MemberId(7);
    const NOT_AT_ALL: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn only_who_answered_may_call_back_and_only_from_there() {
        let called = Called::default();
        let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        assert!(!called.has_answered(M, here, LONG), "nobody was called");
        called.begins();
        assert!(!called.has_answered(M, here, NOT_AT_ALL));
        called.ended(Some((M, here)));
        assert!(called.has_answered(M, here, LONG));
        assert!(!called.has_answered(M, there, LONG));
        assert!(!called.has_answered(MemberId(8), here, LONG));
        called.begins();
        assert!(called.has_answered(M, here, LONG), "the next call");
        called.ended(None);
        assert!(called.has_answered(M, here, LONG));
    }

    #[test]
    fn answer_that_is_being_heard_is_waited_for() {
        let called = Called::default();
        let here = IpAddr::from([10, 0, 0, 1]);
        called.begins();
        std::thread::scope(|scope| {
            let back = scope.spawn(|| called.has_answered(M, here, LONG));
            called.ended(Some((M, here)));
            assert!(back.join().unwrap());
        });
    }
}
