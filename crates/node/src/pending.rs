//! An action on its way: what its client's thread waits on.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use synod_member::{Client, Fate, Outcome, Patience, lock};

/// What [`Pending::wait`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The end.
    Fate(Fate),
    /// [`Pending::interrupt`] was called first.
    Interrupted,
}

#[derive(Debug, Default)]
struct State {
    outcome: Outcome,
    interrupted: bool,
}

/// Handle to an action on its way.
#[derive(Debug, Default)]
pub struct Pending {
    state: Mutex<State>,
    changed: Condvar,
    patience: Patience,
}

impl Pending {
    pub(crate) fn new(epoch: Arc<AtomicU64>, patience: Patience) -> Pending {
        let state = State {
            outcome: Outcome::new(epoch),
            interrupted: false,
        };
        Pending {
            state: Mutex::new(state),
            changed: Condvar::new(),
            patience,
        }
    }

    /// Waits for the fate or an interruption, whichever comes first. A fate that is known wins.
    pub fn wait(&self) -> Waited {
        let state = self.wait_while(|state| state.outcome.fate().is_none() && !state.interrupted);
        match state.outcome.fate() {
            Some(fate) => Waited::Fate(fate),
            None => Waited::Interrupted,
        }
    }

    /// Waits for the fate only.
    pub fn wait_for_fate(&self) -> Fate {
        let state = self.wait_while(|state| state.outcome.fate().is_none());
        state.outcome.fate().expect("waited until there is one")
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
    pub fn fate(&self) -> Option<Fate> {
        lock(&self.state).outcome.fate()
    }

    /// Nobody waits any longer: whatever is not decided yet ends as [`Fate::Unknown`]. The fate.
    pub fn give_up(&self) -> Option<Fate> {
        let fate = lock(&self.state).outcome.give_up();
        self.changed.notify_all();
        Some(fate)
    }
}

impl Client for Pending {
    fn patience(&self) -> Patience {
        self.patience
    }

    fn is_decided(&self) -> bool {
        self.fate().is_some()
    }

    fn decide(&self, fate: Fate) -> bool {
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
        assert!(pending.decide(Fate::TooOld));
        assert_eq!(pending.wait(), Waited::Fate(Fate::TooOld));
        assert_eq!(pending.wait_for_fate(), Fate::TooOld);
        assert_eq!(pending.give_up(), Some(Fate::TooOld));
    }

    #[test]
    fn interruption_wakes_a_wait_and_is_no_decision() {
        let pending = Pending::default();
        pending.interrupt();
        assert_eq!(pending.wait(), Waited::Interrupted);
        assert_eq!(pending.fate(), None);
    }
}
