//! An action on its way: what its client's thread waits on.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use synod_member::{Client, ProposalResult, ResultSlot, WaitPolicy, lock};

/// What [`Pending::wait`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// The end.
    ProposalResult(ProposalResult),
    /// [`Pending::interrupt`] was called first.
    Interrupted,
}

#[derive(Debug, Default)]
struct State {
    outcome: ResultSlot,
    interrupted: bool,
}

/// Handle to an action on its way.
#[derive(Debug, Default)]
pub struct Pending {
    state: Mutex<State>,
    changed: Condvar,
    patience: WaitPolicy,
}

impl Pending {
    pub(crate) fn new(epoch: Arc<AtomicU64>, patience: WaitPolicy) -> Pending {
        let state = State {
            outcome: ResultSlot::new(epoch),
            interrupted: false,
        };
        Pending {
            state: Mutex::new(state),
            changed: Condvar::new(),
            patience,
        }
    }

    /// Waits for the fate or an interruption, whichever comes first. A fate that is known wins.
    pub fn wait(&self) -> WaitResult {
        let state = self.wait_while(|state| state.outcome.result().is_none() && !state.interrupted);
        match state.outcome.result() {
            Some(fate) => WaitResult::ProposalResult(fate),
            None => WaitResult::Interrupted,
        }
    }

    /// Waits for the fate only.
    pub fn wait_for_result(&self) -> ProposalResult {
        let state = self.wait_while(|state| state.outcome.result().is_none());
        state.outcome.result().expect("waited until there is one")
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

    /// The fate, if known.
    pub fn fate(&self) -> Option<ProposalResult> {
        lock(&self.state).outcome.result()
    }

    /// Nobody waits any longer: whatever is not decided yet ends as [`ProposalResult::Unknown`]. The fate.
    pub fn give_up(&self) -> Option<ProposalResult> {
        let fate = lock(&self.state).outcome.give_up();
        self.changed.notify_all();
        Some(fate)
    }
}

impl Client for Pending {
    fn patience(&self) -> WaitPolicy {
        self.patience
    }

    fn is_decided(&self) -> bool {
        self.fate().is_some()
    }

    fn decide(&self, fate: ProposalResult) -> bool {
        let is_first = lock(&self.state).outcome.decide(fate);
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
    fn interruption_wakes_a_wait_and_is_no_decision() {
        let pending = Pending::default();
        pending.interrupt();
        assert_eq!(pending.wait(), WaitResult::Interrupted);
        assert_eq!(pending.fate(), None);
    }
}
