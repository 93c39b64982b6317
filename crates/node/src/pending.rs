//! An action on its way: what its client waits for.

use std::sync::{Condvar, Mutex, PoisonError};
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
}

impl Pending {
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
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the fate only.
    pub fn wait_for_fate(&self) -> Fate {
        let mut state = self.lock();
        loop {
            if let Some(fate) = state.fate {
                return fate;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
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
        self.decide(Fate::Unknown);
        self.fate()
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
