//! What the sequencer knows, and the decisions on it. Pure: no waiting here.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::gate::Gate;
use super::queue::{Queued, Task};

/// ```text
///  released <= left <= entered <= left + 1        (all: highest seqno so far)
/// ```
pub(super) struct State {
    /// Finished, with everything before it.
    pub(super) released: i64,
    /// Finished beyond a gap.
    pub(super) released_ahead: BTreeSet<i64>,
    /// Has left the commit order.
    pub(super) left: i64,
    /// Has entered it.
    pub(super) entered: i64,
    /// Who waits to enter; one thread per seqno.
    pub(super) enter_waiters: HashMap<i64, Gate>,
    /// Who waits for a release, by the seqno waited for.
    pub(super) release_waiters: BTreeMap<(i64, u64), Gate>,
    tickets: u64,
    /// Nothing after this may begin.
    pub(super) pause_at: Option<i64>,
    /// Delivered, to be started by an applier; ascending.
    pub(super) queue: VecDeque<Queued>,
    pub(super) queue_bytes: usize,
    /// Handed to an applier and not released.
    pub(super) running: BTreeSet<i64>,
    /// Delivered, finished by their own clients, and not released.
    pub(super) locals: BTreeSet<i64>,
    /// Highest seqno delivered.
    pub(super) delivered: i64,
    /// Not ordered; each once everything up to its position is released.
    pub(super) tasks: VecDeque<(i64, Task)>,
    /// A task is being done: it is a barrier.
    pub(super) task_running: bool,
    pub(super) appliers: usize,
    pub(super) idle: Vec<Gate>,
    /// No more deliveries.
    pub(super) stopped: bool,
    /// Once stopped: what must still be finished.
    pub(super) drain_to: i64,
}

impl State {
    pub(super) fn new(position: i64) -> State {
        State {
            released: position,
            released_ahead: BTreeSet::new(),
            left: position,
            entered: position,
            enter_waiters: HashMap::new(),
            release_waiters: BTreeMap::new(),
            tickets: 0,
            pause_at: None,
            queue: VecDeque::new(),
            queue_bytes: 0,
            running: BTreeSet::new(),
            locals: BTreeSet::new(),
            delivered: position,
            tasks: VecDeque::new(),
            task_running: false,
            appliers: 0,
            idle: Vec::new(),
            stopped: false,
            drain_to: position,
        }
    }

    pub(super) fn set_position(&mut self, position: i64) {
        self.released = position;
        self.left = position;
        self.entered = position;
        self.delivered = position;
        self.drain_to = position;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.running.is_empty() && self.locals.is_empty()
    }

    pub(super) fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn may_enter(&self, seqno: i64) -> bool {
        self.left + 1 == seqno && self.pause_at.is_none_or(|at| seqno <= at)
    }

    /// Whether the order ends before this seqno.
    pub(super) fn is_cut_off(&self, seqno: i64) -> bool {
        self.stopped && seqno > self.drain_to
    }

    /// Highest seqno that has begun to change the database.
    pub(super) fn begun(&self) -> i64 {
        let running = self.running.last().copied().unwrap_or(self.released);
        self.entered.max(running).max(self.released)
    }

    pub(super) fn wake_next(&self) {
        if let Some(gate) = self.enter_waiters.get(&(self.left + 1)) {
            gate.wake();
        }
    }

    pub(super) fn release(&mut self, seqno: i64) {
        assert!(seqno > self.released, "{seqno} is released twice; at {}", self.released);
        self.running.remove(&seqno);
        self.locals.remove(&seqno);
        self.released_ahead.insert(seqno);
        let before = self.released;
        while self.released_ahead.first() == Some(&(self.released + 1)) {
            self.released_ahead.pop_first();
            self.released += 1;
        }
        if self.released == before {
            return;
        }
        while let Some(first) = self.release_waiters.first_entry() {
            if first.key().0 > self.released {
                break;
            }
            first.remove().wake();
        }
        self.wake_appliers();
    }

    /// Wakes as many idle appliers as there may be work for.
    pub(super) fn wake_appliers(&mut self) {
        let work = self.queue.len() + self.tasks.len();
        let count = if self.stopped { usize::MAX } else { work };
        for _ in 0..count {
            match self.idle.pop() {
                Some(gate) => gate.wake(),
                None => return,
            }
        }
    }
}
