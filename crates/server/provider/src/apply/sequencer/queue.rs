//! Delivery, and what appliers take.
//!
//! Delivery puts actions in, appliers take them out. A full queue makes delivery wait; stop and
//! abort end both. Delivered actions that no applier has started are sorted by whether they may
//! start: an action waits for its `depends_on`, a view for everything before it. The first one that
//! can start is found without a search.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bytes::Bytes;
use synod_node::{Origin, View};
use synod_planted::planted;

use super::Sequencer;
use super::state::{Course, State};
use crate::waiting::Gate;

/// Unordered work for an applier's thread.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    ShowLost,
    Synced,
    /// This server is the writer, and has everything of the one before.
    OpenWriteGate,
    /// Give a joiner a copy.
    Donate(synod_node::DonorRequest),
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    Apply(Queued),
    /// Do, then call [`Sequencer::task_done`].
    Do(Task),
    /// There will be no more; the applier is not counted any longer. The last one to hear it shows
    /// the server the final view.
    End {
        last: bool,
    },
}

/// An applier cannot be found for an action: all of them wait for something after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoApplier;

impl Sequencer {
    /// Whether the next [`Sequencer::push`] takes its item without a wait. For the thread that
    /// delivers. Some room is left to what clients leave behind meanwhile ([`Sequencer::adopt`]).
    pub(crate) fn has_room(&self) -> bool {
        let state = self.lock();
        state.is_open() && state.queue.bytes() <= self.low_mark()
    }

    /// Takes what the node delivers. Waits for room; false once stopped.
    pub(crate) fn push(&self, item: Queued) -> bool {
        let mut state = self.lock();
        if state.queue.bytes() > self.queue_bytes_max() {
            // Until there is room for more than one, so as not to wake up for each.
            while state.is_open() && state.queue.bytes() > self.low_mark() {
                state = self.wait_for_room(state);
            }
        }
        if !state.is_open() {
            return false;
        }
        state.delivered = state.delivered.max(item.seqno());
        if item.seqno() > state.released {
            let released = state.released;
            state.queue.insert(item, released);
            state.wake_worker();
        }
        true
    }

    /// The action at `seqno` is its own client's to finish. False once stopped.
    pub(crate) fn push_local(&self, seqno: i64) -> bool {
        let mut state = self.lock();
        if !state.is_open() {
            return false;
        }
        state.delivered = state.delivered.max(seqno);
        if seqno > state.released && !state.released_ahead.contains(&seqno) {
            state.locals.insert(seqno);
        }
        true
    }

    /// A client is about to apply its action at `seqno` again, after everything before it. Waits
    /// out a pause. False if the order ends before it.
    pub(crate) fn begin_local(&self, seqno: i64) -> bool {
        let mut state = self.lock();
        while !state.never_enters(seqno) && state.is_paused_before(seqno) {
            state = self.wait_for_pause(state);
        }
        if state.never_enters(seqno) {
            return false;
        }
        state.replayed = seqno;
        state.locals.insert(seqno);
        true
    }

    /// The client of a local action is gone without finishing it: an applier has to. Errors: no
    /// applier is left that could apply it, so the order cannot advance.
    pub(crate) fn adopt(&self, item: Queued) -> Result<(), NoApplier> {
        let mut state = self.lock();
        let seqno = item.seqno();
        state.locals.remove(&seqno);
        if state.never_enters(seqno) {
            return Ok(());
        }
        if state.running_ahead(seqno) >= state.appliers {
            return Err(NoApplier);
        }
        let released = state.released;
        state.queue.insert(item, released);
        state.wake_worker();
        Ok(())
    }

    /// Adds a task: done once all delivered so far, and all up to `after`, is released.
    pub(crate) fn add_task(&self, after: i64, task: Task) {
        let mut state = self.lock();
        if state.is_open() {
            let position = state.delivered.max(after);
            state.tasks.push_back((position, task));
            state.wake_worker();
        }
    }

    pub(crate) fn task_done(&self) {
        let mut state = self.lock();
        state.task_running = false;
        state.wake_worker();
    }

    pub(crate) fn applier_enters(&self) {
        self.lock().appliers += 1;
    }

    /// Whether an applier may go for good: not the last one, and not if that strands those that run
    /// ahead. If so it is not counted any longer.
    pub(crate) fn applier_may_go(&self) -> bool {
        let mut state = self.lock();
        let first = state.queue.first();
        let strands = first.is_some_and(|first| state.running_ahead(first) + 1 >= state.appliers);
        if strands || state.appliers == 1 {
            return false;
        }
        state.appliers -= 1;
        true
    }

    /// An applier is gone because of an error, whatever becomes of the others.
    pub(crate) fn applier_lost(&self) {
        let mut state = self.lock();
        state.appliers = state.appliers.saturating_sub(1);
        state.wake_worker();
    }

    pub(crate) fn appliers(&self) -> usize {
        self.lock().appliers
    }

    /// The next thing to do; waits for it.
    pub(crate) fn next(&self) -> Work {
        let gate = Gate::default();
        let mut state = self.lock();
        loop {
            if let Some(work) = state.pick() {
                state.wake_worker();
                let has_room = state.queue.bytes() <= self.low_mark();
                if planted!(RoomUnwoken, has_room, else false) {
                    self.wake_room(&mut state);
                }
                return work;
            }
            let deadline = match state.course {
                Course::Draining { deadline, .. } => Some(deadline),
                Course::Open | Course::Aborted => None,
            };
            state.idle.push(gate.clone());
            drop(state);
            gate.wait_until(deadline);
            state = self.lock();
            if deadline.is_some_and(|at| Instant::now() >= at) {
                state.idle.retain(|idle| !idle.is(&gate));
                self.abort_locked(&mut state);
            }
        }
    }

    /// No more deliveries. What was begun, and what local clients wait for, is finished until
    /// `deadline`; the rest of the queue is forgotten: it is in the log. A pause stays in force.
    pub(crate) fn stop(&self, deadline: Instant) {
        let mut state = self.lock();
        if !state.is_open() {
            return;
        }
        let locals = state.locals.last().copied().unwrap_or(state.released);
        let mut to = state.begun().max(locals);
        if let Some(pause) = state.pause_at {
            to = to.min(pause);
        }
        state.course = Course::Draining { to, deadline };
        state.queue.truncate(to);
        state.tasks.clear();
        planted!(StopUnwoken, state.wake_all(), else ());
        self.wake_room(&mut state);
        self.wake_pauses(&state);
    }

    /// Stops at once: nothing enters any more, and every wait ends.
    pub(crate) fn abort(&self) {
        self.abort_locked(&mut self.lock());
    }

    fn abort_locked(&self, state: &mut State) {
        state.course = Course::Aborted;
        state.queue.truncate(i64::MIN);
        state.tasks.clear();
        state.wake_all();
        self.wake_room(state);
        self.wake_pauses(state);
    }

    /// Whether the order ends before this seqno.
    pub(crate) fn is_aborted_before(&self, seqno: i64) -> bool {
        self.lock().never_enters(seqno)
    }

    /// After [`Sequencer::stop`]: waits until what was begun is finished, and aborts the rest on
    /// the deadline.
    pub(crate) fn finish(&self) {
        let (to, deadline) = match self.lock().course {
            Course::Draining { to, deadline } => (to, deadline),
            Course::Open | Course::Aborted => return,
        };
        if !self.wait_released(to, Some(deadline)) {
            self.abort();
        }
    }

    /// Whether nothing has begun that is not finished, so that the database is exactly at
    /// [`Sequencer::released`].
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.lock();
        state.begun() == state.released && state.released_ahead.is_empty()
    }
}

const ACTION_BYTES: usize = 256;

#[derive(Clone, Debug)]
pub(crate) enum Queued {
    /// An action of another member, or one of this server's whose client is gone.
    Action {
        seqno: i64,
        /// Seqno that must be released before this action starts.
        depends_on: i64,
        origin: Origin,
        data: Bytes,
    },
    /// Members came or went: a barrier in both directions.
    View(View),
}

impl Queued {
    pub(super) fn seqno(&self) -> i64 {
        match self {
            Queued::Action { seqno, .. } => *seqno,
            Queued::View(view) => view.seqno.0,
        }
    }

    fn depends_on(&self) -> i64 {
        match self {
            Queued::Action { depends_on, .. } => *depends_on,
            Queued::View(view) => view.seqno.0 - 1,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Queued::Action { data, .. } => data.len() + ACTION_BYTES,
            Queued::View(_) => ACTION_BYTES,
        }
    }
}

struct Item {
    /// Seqno that must be released first.
    after: i64,
    queued: Queued,
}

/// The actions that wait for an applier. Everything is O(log n).
#[derive(Default)]
pub(super) struct Waiting {
    items: BTreeMap<i64, Item>,
    /// Seqnos of items that may start.
    ready: BTreeSet<i64>,
    /// (what must be released first, seqno) of the others.
    blocked: BTreeSet<(i64, i64)>,
    bytes: usize,
    /// The latest view put in: nothing later starts before it is released.
    barrier: Option<i64>,
}

impl Waiting {
    pub(super) fn insert(&mut self, queued: Queued, released: i64) {
        let seqno = queued.seqno();
        let mut after = queued.depends_on().min(seqno - 1);
        if let Some(barrier) = self.barrier.filter(|barrier| *barrier < seqno) {
            after = after.max(barrier);
        }
        if matches!(queued, Queued::View(_)) {
            self.barrier = self.barrier.max(Some(seqno));
        }
        if after <= released {
            self.ready.insert(seqno);
        } else {
            self.blocked.insert((after, seqno));
        }
        self.bytes += queued.bytes();
        let replaced = self.items.insert(seqno, Item { after, queued });
        debug_assert!(replaced.is_none(), "{seqno} is queued twice");
    }

    pub(super) fn released(&mut self, up_to: i64) {
        while let Some(&(after, seqno)) = self.blocked.first() {
            if after > up_to {
                return;
            }
            self.blocked.pop_first();
            self.ready.insert(seqno);
        }
    }

    pub(super) fn first(&self) -> Option<i64> {
        self.items.first_key_value().map(|(seqno, _)| *seqno)
    }

    pub(super) fn first_ready(&self) -> Option<i64> {
        self.ready.first().copied()
    }

    pub(super) fn take(&mut self, seqno: i64) -> Option<Queued> {
        self.ready.remove(&seqno);
        let item = self.items.remove(&seqno)?;
        self.bytes -= item.queued.bytes();
        Some(item.queued)
    }

    pub(super) fn truncate(&mut self, last: i64) {
        for (seqno, item) in self.items.split_off(&last.saturating_add(1)) {
            self.ready.remove(&seqno);
            self.blocked.remove(&(item.after, seqno));
            self.bytes -= item.queued.bytes();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
