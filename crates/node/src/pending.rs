//! An action on its way: what its client waits for.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use synod_consensus::Seqno;

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Committed in the log at this position.
    Ordered {
        /// Its position.
        seqno: Seqno,
        /// The last position that must be applied before it, on other members.
        depends_on: Seqno,
    },
    /// Refused by the leader: it conflicts with an action ordered before it.
    Conflict,
    /// Refused by the leader: its snapshot is older than the certification window. Try again.
    TooOld,
    /// Refused by the leader for another reason, which was logged.
    Rejected,
    /// The group was lost before the outcome was known. It may still turn out to be ordered; it is
    /// then delivered like another member's.
    Unknown,
}

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
    fate: Option<Fate>,
    interrupted: bool,
}

/// Handle to an action on its way.
#[derive(Debug, Default)]
pub struct Pending {
    state: Mutex<State>,
    changed: Condvar,
    /// See `Shared::epoch`.
    epoch: Option<Arc<AtomicU64>>,
}

impl Pending {
    pub(crate) fn new(epoch: Arc<AtomicU64>) -> Pending {
        Pending {
            epoch: Some(epoch),
            ..Pending::default()
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the fate or an interruption, whichever comes first. A fate that is known wins.
    pub fn wait(&self) -> Waited {
        let mut state = self.lock();
        loop {
            if let Some(fate) = state.fate {
                return Waited::Fate(fate);
            }
            if state.interrupted {
                return Waited::Interrupted;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the fate only.
    pub fn wait_for_fate(&self) -> Fate {
        let mut state = self.lock();
        loop {
            if let Some(fate) = state.fate {
                return fate;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes a present or future [`Pending::wait`] return.
    pub fn interrupt(&self) {
        self.lock().interrupted = true;
        self.changed.notify_all();
    }

    /// The fate, if known.
    pub fn fate(&self) -> Option<Fate> {
        self.lock().fate
    }

    /// Nobody waits any longer: whatever is not decided yet ends as [`Fate::Unknown`]. The fate.
    pub fn give_up(&self) -> Option<Fate> {
        let mut state = self.lock();
        if state.fate.is_none() {
            // Before the client lets go of its locks: whoever gets them next must not be taken for
            // somebody who has seen this action.
            if let Some(epoch) = &self.epoch {
                epoch.fetch_add(1, Ordering::AcqRel);
            }
            state.fate = Some(Fate::Unknown);
            self.changed.notify_all();
        }
        state.fate
    }

    /// Decides. The first decision stands; returns whether this was it.
    pub(crate) fn decide(&self, fate: Fate) -> bool {
        let mut state = self.lock();
        if state.fate.is_some() {
            return false;
        }
        state.fate = Some(fate);
        drop(state);
        self.changed.notify_all();
        true
    }
}

/// The core thread's hold on a [`Pending`]: nobody waits for ever, even if it is dropped on the way.
#[derive(Debug)]
pub(crate) struct Waiter(Option<Arc<Pending>>);

impl Waiter {
    pub(crate) fn new(pending: Arc<Pending>) -> Waiter {
        Waiter(Some(pending))
    }

    /// Lets go without a decision: another piece of the action will bring it.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Deref for Waiter {
    type Target = Arc<Pending>;

    fn deref(&self) -> &Arc<Pending> {
        self.0.as_ref().expect("only emptied when consumed")
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(pending) = self.0.take() {
            pending.decide(Fate::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_decision_stands() {
        let pending = Pending::default();
        assert!(pending.decide(Fate::Conflict));
        assert!(!pending.decide(Fate::Unknown));
        assert_eq!(pending.wait(), Waited::Fate(Fate::Conflict));
        assert_eq!(pending.give_up(), Some(Fate::Conflict));
    }

    #[test]
    fn interruption_wakes_a_wait_and_is_no_decision() {
        let pending = Pending::default();
        pending.interrupt();
        assert_eq!(pending.wait(), Waited::Interrupted);
        assert_eq!(pending.fate(), None);
    }

    #[test]
    fn giving_up_begins_a_new_epoch_unless_the_fate_is_known() {
        let epoch = Arc::new(AtomicU64::new(4));
        let pending = Pending::new(epoch.clone());
        assert_eq!(pending.give_up(), Some(Fate::Unknown));
        assert_eq!(epoch.load(Ordering::Acquire), 5);
        assert_eq!(pending.give_up(), Some(Fate::Unknown));
        assert_eq!(epoch.load(Ordering::Acquire), 5);
    }

    #[test]
    fn waiter_dropped_on_the_way_ends_the_wait() {
        let pending = Arc::new(Pending::default());
        drop(Waiter::new(pending.clone()));
        assert_eq!(pending.wait_for_fate(), Fate::Unknown);
        let other = Arc::new(Pending::default());
        Waiter::new(other.clone()).release();
        assert_eq!(other.fate(), None);
    }
}
