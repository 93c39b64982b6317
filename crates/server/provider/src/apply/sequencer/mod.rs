//! In which order things happen on this server.
//!
//! [`Sequencer`] joins three things that must be decided together:
//!
//! * the **commit order**: every seqno enters and leaves once, in order;
//! * what is **released**: completely finished, with everything before it;
//! * the **queue** of delivered actions, and which of them an applier may start.
//!
//! An applier is only handed work that can run at once: an action whose `depends_on` is released.
//! It may be handed a later action while an earlier one waits for its dependency, but never the
//! last free applier: appliers that run ahead wait for the commit order at their end, and a thread
//! must be left to start the action they wait for.
//!
//! ```text
//!            stop                    drained, or the deadline
//!   Open ───────────► Draining ─────────────────────────────► appliers go, the last one
//!     └── abort ──────────┴──────────► Aborted ─────────────────►  shows the final view
//! ```
//!
//! One mutex guards it all, held for O(log n) steps and never while waiting. Threads are woken one
//! by one, each by what it waits for.

mod queue;
mod state;

#[cfg(test)]
mod storm_tests;
#[cfg(test)]
mod tests;

pub(crate) use queue::{NoApplier, Queued, Task, Work};

use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use synod_planted::planted;

use crate::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};
use state::{Course, Milestone, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The caller owns the order.
    Yes,
    /// Interrupted by an action of higher priority.
    Interrupted,
    /// The order has ended: this server leaves the group.
    Stopped,
}

/// The commit order, the queue, and what is released, under one lock.
pub(crate) struct Sequencer {
    state: Mutex<State>,
    /// Room in the queue. Only delivery waits for it.
    room: Condvar,
    /// Pauses begin and end.
    paused: Condvar,
    /// A copy of the state's, to be read without its lock.
    released: AtomicI64,
    /// Seqno up to which everything has left commit order; never behind `released`.
    left: AtomicI64,
    /// See [`Sequencer::alone`].
    alone: AtomicI64,
    queue_bytes_max: AtomicUsize,
}

impl Sequencer {
    /// An order that begins after `position`, with room for `queue_bytes_max` bytes of actions.
    pub(crate) fn new(position: i64, queue_bytes_max: usize) -> Sequencer {
        Sequencer {
            state: Mutex::new(State::new(position)),
            room: Condvar::new(),
            paused: Condvar::new(),
            released: AtomicI64::new(position),
            left: AtomicI64::new(position),
            alone: AtomicI64::new(position),
            queue_bytes_max: AtomicUsize::new(queue_bytes_max),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn wait_for_room<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.room_wanted = true;
        self.room
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_pause<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.pause_waiters += 1;
        let waited = self.paused.wait(state);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.pause_waiters -= 1;
        state
    }

    fn wake_room(&self, state: &mut State) {
        if std::mem::take(&mut state.room_wanted) {
            self.room.notify_all();
        }
    }

    fn wake_pauses(&self, state: &State) {
        // Without this test each call would enter the kernel.
        if state.pause_waiters > 0 {
            self.paused.notify_all();
        }
    }

    /// Changes the room of the queue, from now on.
    pub(crate) fn set_queue_bytes_max(&self, bytes: usize) {
        self.queue_bytes_max.store(bytes, Ordering::Relaxed);
        self.wake_room(&mut self.lock());
    }

    fn queue_bytes_max(&self) -> usize {
        self.queue_bytes_max.load(Ordering::Relaxed)
    }

    /// A full queue takes more once it is down to this.
    fn low_mark(&self) -> usize {
        let max = self.queue_bytes_max();
        max - max / 4
    }

    /// Begins again after `position`. Only while nothing is under way.
    pub(crate) fn reset(&self, position: i64) {
        let mut state = self.lock();
        assert!(
            state.is_idle(),
            "the order is moved while something is under way"
        );
        state.set_position(position);
        self.left.store(position, Ordering::Release);
        self.released.store(position, Ordering::Release);
    }

    /// Everything up to here is finished.
    pub(crate) fn released(&self) -> i64 {
        self.released.load(Ordering::Acquire)
    }

    /// Everything up to here has left the order, so its rows have been changed here under their
    /// locks: a local transaction that holds one of these locks now got it after that, or is marked
    /// to be aborted.
    pub(crate) fn left(&self) -> i64 {
        self.left.load(Ordering::Acquire)
    }

    /// Waits for the turn of `seqno`. `interrupt`: a flag that [`Sequencer::interrupt`] sets.
    pub(crate) fn enter(&self, seqno: i64, interrupt: Option<&AtomicBool>) -> Entered {
        let mut state = self.lock();
        assert!(
            seqno > state.left,
            "{seqno} enters again; at {}",
            state.left
        );
        let result = loop {
            if interrupt.is_some_and(|flag| flag.load(Ordering::Acquire)) {
                break Entered::Interrupted;
            }
            if state.never_enters(seqno) {
                break Entered::Stopped;
            }
            if state.may_enter(seqno) {
                state.entered = seqno;
                break Entered::Yes;
            }
            planted!(NoteTurnLate, (), else {
                drop(state);
                state = self.lock();
            });
            let waiter = state.enter_waiters.entry(seqno).or_default().clone();
            drop(state);
            waiter.wait_until(None);
            state = self.lock();
        };
        state.enter_waiters.remove(&seqno);
        result
    }

    /// The statement at `seqno` begins, which executes alone.
    pub(crate) fn begin_alone(&self, seqno: i64) {
        self.alone.store(seqno, Ordering::Release);
    }

    /// The last statement that has begun to execute alone; it may not be released.
    pub(crate) fn alone(&self) -> i64 {
        self.alone.load(Ordering::Acquire)
    }

    /// Waits for the turn of `seqno` and until everything before it is released.
    pub(crate) fn enter_alone(&self, seqno: i64) -> Entered {
        match self.enter(seqno, None) {
            Entered::Yes => self.begin_alone(seqno),
            other => return other,
        }
        match self.wait_released(seqno - 1, None) {
            true => Entered::Yes,
            false => Entered::Stopped,
        }
    }

    /// Interrupts the wait of a local transaction for its turn; false if it has had its turn.
    pub(crate) fn interrupt(&self, seqno: i64, flag: &AtomicBool) -> bool {
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

    /// Lets the next seqno have its turn. False if the order ended before this one's, and the
    /// server
    /// did what it does inside nevertheless.
    pub(crate) fn leave(&self, seqno: i64) -> bool {
        let mut state = self.lock();
        if state.entered < seqno && state.never_enters(seqno) {
            return false;
        }
        let inside = (state.left + 1, state.entered);
        assert_eq!(
            inside,
            (seqno, seqno),
            "seqnos leave the order one by one, after entering"
        );
        state.left = seqno;
        self.move_on(&mut state);
        true
    }

    /// Passes the order with something that needs nothing done in it, everything before being
    /// released.
    pub(crate) fn pass(&self, seqno: i64) {
        let mut state = self.lock();
        assert_eq!(state.left + 1, seqno, "a view is a barrier");
        state.entered = seqno;
        state.left = seqno;
        self.move_on(&mut state);
    }

    /// There is nothing to do at `seqno` on this server: it passes the order by itself when its
    /// turn comes, and is released.
    pub(crate) fn skip(&self, seqno: i64) {
        let mut state = self.lock();
        assert!(seqno > state.entered, "{seqno} has had its turn");
        // A stop waits for it.
        state.locals.insert(seqno);
        state.void.insert(seqno);
        self.move_on(&mut state);
    }

    /// After something has left the order, or may enter it again.
    fn move_on(&self, state: &mut State) {
        state.wake_next();
        self.left.store(state.left, Ordering::Release);
        self.released.store(state.released, Ordering::Release);
        self.wake_pauses(state);
    }

    /// The action at `seqno` is completely finished.
    pub(crate) fn release(&self, seqno: i64) {
        let mut state = self.lock();
        state.release(seqno);
        self.released.store(state.released, Ordering::Release);
        self.wake_pauses(&state);
    }

    /// Waits until everything up to `seqno` is released; false on the deadline or the end.
    pub(crate) fn wait_released(&self, seqno: i64, deadline: Option<Instant>) -> bool {
        self.wait_released_unless(seqno, deadline, &AtomicBool::new(false))
    }

    /// [`Sequencer::wait_released`] that [`Sequencer::interrupt_waits`] can end.
    pub(crate) fn wait_released_unless(
        &self,
        seqno: i64,
        deadline: Option<Instant>,
        interrupt: &AtomicBool,
    ) -> bool {
        self.released() >= seqno || self.wait_for(Milestone::Released, seqno, deadline, interrupt)
    }

    /// Waits until everything up to `seqno` has left the order, or for
    /// [`Sequencer::interrupt_waits`].
    pub(crate) fn wait_left_unless(
        &self,
        seqno: i64,
        deadline: Option<Instant>,
        interrupt: &AtomicBool,
    ) -> bool {
        self.left() >= seqno || self.wait_for(Milestone::Left, seqno, deadline, interrupt)
    }

    fn wait_for(
        &self,
        milestone: Milestone,
        seqno: i64,
        deadline: Option<Instant>,
        interrupt: &AtomicBool,
    ) -> bool {
        let mut state = self.lock();
        let ticket = state.next_ticket();
        let reached = loop {
            if state.reached(milestone) >= seqno {
                break true;
            }
            let late = deadline.is_some_and(|at| Instant::now() >= at);
            if late || interrupt.load(Ordering::Acquire) || state.never_released(seqno) {
                break false;
            }
            let waiters = state.waiters(milestone);
            let waiter = waiters.entry((seqno, ticket)).or_default().clone();
            drop(state);
            waiter.wait_until(deadline);
            state = self.lock();
        };
        state.waiters(milestone).remove(&(seqno, ticket));
        reached
    }

    /// Stops everything after what has begun; waits until that is released, and answers its seqno.
    /// `None` if the end came first. Pauses wait for each other.
    pub(crate) fn pause(&self) -> Option<i64> {
        let mut state = self.lock();
        while state.pause_at.is_some() && state.is_open() {
            state = self.wait_for_pause(state);
        }
        if !state.is_open() {
            return None;
        }
        let at = state.begun();
        state.pause_at = Some(at);
        while planted!(PauseEarly, state.released, else state.left) < at
            && state.course != Course::Aborted
        {
            state = self.wait_for_pause(state);
        }
        (state.released >= at).then_some(at)
    }

    /// Waits out a pause, or until [`Sequencer::interrupt_waits`] sets the flag.
    pub(crate) fn wait_resumed(&self, interrupt: &AtomicBool) {
        let mut state = self.lock();
        while state.pause_at.is_some() && state.is_open() && !interrupt.load(Ordering::Acquire) {
            state = self.wait_for_pause(state);
        }
    }

    /// Ends the waits with this flag: for a release, for what has to leave, or for the end of a
    /// pause.
    pub(crate) fn interrupt_waits(&self, flag: &AtomicBool) {
        let state = self.lock();
        flag.store(true, Ordering::Release);
        for waiter in state.position_waiters() {
            waiter.wake();
        }
        self.wake_pauses(&state);
    }

    /// Number of threads that wait for an action to be released, or to leave the order.
    #[cfg(test)]
    pub(crate) fn position_waiters(&self) -> usize {
        self.lock().position_waiters().count()
    }

    pub(crate) fn resume(&self) {
        let mut state = self.lock();
        state.pause_at = None;
        planted!(ResumeUnwoken, self.move_on(&mut state), else ());
        state.wake_worker();
    }
}
