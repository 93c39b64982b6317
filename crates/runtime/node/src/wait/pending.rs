//! A proposed action, as its client's thread waits for it.
//!
//! [`crate::Node::submit`] returns a [`Pending`]; the driver decides it, from its own thread, with
//! a [`ProposalResult`]. The first result is final. A wait ends with the result, or by an
//! interruption that the host may order at any time, even before the wait begins.
//!
//! Until its last piece is handed over, the action can be withdrawn: it is then never ordered.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use synod_member::{Client, ProposalResult, ResultSlot, WaitPolicy, lock};

use super::ByteBudget;

/// How a [`Pending::wait`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// The action has this result.
    ProposalResult(ProposalResult),
    /// [`Pending::interrupt`] was called before there was a result.
    Interrupted,
}

#[derive(Debug, Default)]
struct State {
    slot: ResultSlot,
    interrupted: bool,
    /// The last piece is handed over: only the group knows what becomes of the action.
    is_with_group: bool,
    /// When the result came; none for one that is not the driver's.
    decided_at: Option<Instant>,
}

/// A proposed action that may have no result yet.
#[derive(Debug, Default)]
pub struct Pending {
    state: Mutex<State>,
    changed: Condvar,
    policy: WaitPolicy,
    /// Budget that the submission of a piece may be waiting for.
    room: Option<Arc<ByteBudget>>,
}

impl Pending {
    pub(crate) fn new(epoch: Arc<AtomicU64>, policy: WaitPolicy, room: Arc<ByteBudget>) -> Pending {
        let state = State {
            slot: ResultSlot::new(epoch),
            ..State::default()
        };
        Pending {
            state: Mutex::new(state),
            changed: Condvar::new(),
            policy,
            room: Some(room),
        }
    }

    /// The last piece is about to be handed over; false if the action has a result already.
    pub fn begin_last_piece(&self) -> bool {
        let mut state = lock(&self.state);
        state.is_with_group = true;
        state.slot.result().is_none()
    }

    /// Ends the submission of an action of which the last piece is not handed over yet, with
    /// [`ProposalResult::Withdrawn`]. False if it is too late: the action is with the group, or has
    /// another result. Never blocks.
    pub fn withdraw(&self) -> bool {
        let mut state = lock(&self.state);
        if state.is_with_group || !state.slot.decide(ProposalResult::Withdrawn) {
            return false;
        }
        drop(state);
        self.changed.notify_all();
        if let Some(room) = &self.room {
            room.look_again();
        }
        true
    }

    /// Whether it was withdrawn, so that it will never be ordered.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.result() == Some(ProposalResult::Withdrawn)
    }

    /// Waits for the result or an interruption. A result that is known wins.
    pub fn wait(&self) -> WaitResult {
        let state = self.wait_while(|state| state.slot.result().is_none() && !state.interrupted);
        match state.slot.result() {
            Some(result) => WaitResult::ProposalResult(result),
            None => WaitResult::Interrupted,
        }
    }

    /// Waits for the result, whether interrupted or not.
    pub fn wait_for_result(&self) -> ProposalResult {
        let state = self.wait_while(|state| state.slot.result().is_none());
        state.slot.result().expect("waited until there is one")
    }

    fn wait_while(&self, condition: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self
            .changed
            .wait_while(lock(&self.state), |state| condition(state));
        waited.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Makes a present or future [`Pending::wait`] return.
    pub fn interrupt(&self) {
        lock(&self.state).interrupted = true;
        self.changed.notify_all();
    }

    /// The result; `None` while there is none.
    pub fn result(&self) -> Option<ProposalResult> {
        lock(&self.state).slot.result()
    }

    /// When the group's result came; `None` while there is none.
    pub fn decided_at(&self) -> Option<Instant> {
        lock(&self.state).decided_at
    }

    /// Ends the wait: without a result yet, the action gets [`ProposalResult::Unknown`]. Returns
    /// the result.
    pub fn give_up(&self) -> Option<ProposalResult> {
        let result = lock(&self.state).slot.give_up();
        self.changed.notify_all();
        Some(result)
    }
}

impl Client for Pending {
    fn patience(&self) -> WaitPolicy {
        self.policy
    }

    fn is_decided(&self) -> bool {
        self.result().is_some()
    }

    fn decide(&self, result: ProposalResult) -> bool {
        let mut state = lock(&self.state);
        let is_first = state.slot.decide(result);
        if is_first {
            state.decided_at = Some(Instant::now());
        }
        drop(state);
        self.changed.notify_all();
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_ends_the_wait() {
        let pending = Pending::default();
        assert!(pending.decide(ProposalResult::TooOld));
        assert_eq!(
            pending.wait(),
            WaitResult::ProposalResult(ProposalResult::TooOld)
        );
        assert_eq!(pending.wait_for_result(), ProposalResult::TooOld);
        assert_eq!(pending.give_up(), Some(ProposalResult::TooOld));
    }

    #[test]
    fn action_can_be_withdrawn_until_its_last_piece_is_handed_over() {
        let pending = Pending::default();
        assert!(pending.withdraw());
        assert_eq!(pending.wait_for_result(), ProposalResult::Withdrawn);
        assert!(!pending.begin_last_piece(), "it is not sent");
        assert!(!pending.withdraw());

        let pending = Pending::default();
        assert!(pending.begin_last_piece());
        assert!(!pending.withdraw());
        assert_eq!(pending.result(), None);
    }

    #[test]
    fn interruption_wakes_a_wait_and_is_no_decision() {
        let pending = Pending::default();
        pending.interrupt();
        assert_eq!(pending.wait(), WaitResult::Interrupted);
        assert_eq!(pending.result(), None);
    }
}
