//! In which order things happen on this server.
//!
//! [`Sequencer`] joins three things that must be decided together:
//!
//! * the **commit order**: every seqno enters and leaves once, in order;
//! * what is **released**: completely finished, with everything before it;
//! * the **queue** of delivered actions, and which of them an applier may start.
//!
//! An applier is only handed work that can run at once: an action whose `depends_on` is released. It
//! may be handed a later action while an earlier one waits for its dependency, but never the last
//! free applier: appliers that run ahead wait for the commit order at their end, and somebody must
//! be left to start the action they wait for.

mod gate;
mod queue;
mod state;

#[cfg(test)]
mod tests;

pub use queue::{Queued, Task, Work};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use state::State;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// The caller owns the order.
    Yes,
    /// Interrupted by an action of higher priority.
    Interrupted,
    /// The order has ended: this server leaves the group.
    Stopped,
}

/// See the module.
pub struct Sequencer {
    state: Mutex<State>,
    /// Room in the queue, pauses, drains: rare waits.
    changed: Condvar,
    queue_bytes_max: usize,
}

impl Sequencer {
    /// An order that begins after `position`, with room for `queue_bytes_max` bytes of actions.
    pub fn new(position: i64, queue_bytes_max: usize) -> Sequencer {
        Sequencer {
            state: Mutex::new(State::new(position)),
            changed: Condvar::new(),
            queue_bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts anew after `position`. Only while nothing is under way.
    pub fn reset(&self, position: i64) {
        let mut state = self.lock();
        assert!(state.is_idle(), "the order is moved while something is under way");
        state.set_position(position);
    }

    /// Everything up to here is finished.
    pub fn released(&self) -> i64 {
        self.lock().released
    }

    /// Waits for the turn of `seqno`. `interrupt`: a flag that [`Sequencer::interrupt`] sets.
    pub fn enter(&self, seqno: i64, interrupt: Option<&AtomicBool>) -> Entered {
        let mut state = self.lock();
        loop {
            if interrupt.is_some_and(|flag| flag.load(Ordering::Acquire)) {
                state.enter_waiters.remove(&seqno);
                return Entered::Interrupted;
            }
            if state.may_enter(seqno) {
                state.enter_waiters.remove(&seqno);
                state.entered = seqno;
                return Entered::Yes;
            }
            if state.is_cut_off(seqno) {
                state.enter_waiters.remove(&seqno);
                return Entered::Stopped;
            }
            let waiter = state.enter_waiters.entry(seqno).or_default().clone();
            drop(state);
            waiter.wait();
            state = self.lock();
        }
    }

    /// Waits for the turn of `seqno` and until everything before it is released.
    pub fn enter_alone(&self, seqno: i64) -> Entered {
        match self.enter(seqno, None) {
            Entered::Yes => {}
            other => return other,
        }
        match self.wait_released(seqno - 1, None) {
            true => Entered::Yes,
            false => Entered::Stopped,
        }
    }

    /// Interrupts the wait of a local transaction for its turn; false if it has had its turn.
    pub fn interrupt(&self, seqno: i64, flag: &AtomicBool) -> bool {
        let state = self.lock();
        if state.entered >= seqno {
            return false;
        }
        flag.store(true, Ordering::Release);
        if let Some(waiter) = state.enter_waiters.get(&seqno) {
            waiter.wake();
        }
        true
    }

    /// Lets the next seqno have its turn.
    pub fn leave(&self, seqno: i64) {
        let mut state = self.lock();
        assert_eq!(state.left + 1, seqno, "seqnos leave the order one by one");
        state.left = seqno;
        state.wake_next();
    }

    /// Passes the order with something that needs nothing done in it, everything before being released.
    pub fn pass(&self, seqno: i64) {
        let mut state = self.lock();
        assert_eq!(state.left + 1, seqno, "a view is a barrier");
        state.entered = seqno;
        state.left = seqno;
        state.wake_next();
    }

    /// Waits until what was begun before the end is finished; false on the deadline.
    pub fn wait_drained(&self, deadline: Instant) -> bool {
        let drain_to = self.lock().drain_to;
        self.wait_released(drain_to, Some(deadline))
    }

    /// The action at `seqno` is completely finished.
    pub fn release(&self, seqno: i64) {
        let mut state = self.lock();
        state.release(seqno);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until everything up to `seqno` is released; false on the deadline or the end.
    pub fn wait_released(&self, seqno: i64, deadline: Option<Instant>) -> bool {
        let mut state = self.lock();
        let ticket = state.next_ticket();
        loop {
            if state.released >= seqno {
                state.release_waiters.remove(&(seqno, ticket));
                return true;
            }
            let late = deadline.is_some_and(|at| Instant::now() >= at);
            if late || state.is_cut_off(seqno) {
                state.release_waiters.remove(&(seqno, ticket));
                return false;
            }
            let waiter = state.release_waiters.entry((seqno, ticket)).or_default().clone();
            drop(state);
            waiter.wait_until(deadline);
            state = self.lock();
        }
    }

    /// Stops everything after what has begun; waits until that is released, and answers its seqno.
    /// `None` if the end came first.
    pub fn pause(&self) -> Option<i64> {
        let mut state = self.lock();
        while state.pause_at.is_some() && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let at = state.begun();
        state.pause_at = Some(at);
        while state.released < at && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.released < at { None } else { Some(at) }
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let mut state = self.lock();
        state.pause_at = None;
        state.wake_next();
        state.wake_appliers();
        drop(state);
        self.changed.notify_all();
    }

    /// Delivered and not applied.
    pub fn queue_len(&self) -> usize {
        self.lock().queue.len()
    }
}
