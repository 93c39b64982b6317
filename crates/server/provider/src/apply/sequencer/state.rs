//! State and decisions of the sequencer. Pure: no waiting here.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use synod_planted::planted;

use super::queue::{Task, Waiting, Work};
use crate::waiting::Gate;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    Open,
    /// Nothing is delivered any more; what has begun is finished.
    Draining {
        to: i64,
        deadline: Instant,
    },
    Aborted,
}

/// Stage that a thread waits for an action to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Milestone {
    /// This action and all before it have left the order.
    Left,
    /// This action and all before it are finished.
    Released,
}

/// Threads that wait for a milestone, by the seqno waited for and a number of their own.
type PositionWaiters = BTreeMap<(i64, u64), Gate>;

/// Everything that the sequencer's lock guards.
///
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
    pub(super) entered: i64,
    /// Threads waiting to enter; one per seqno.
    pub(super) enter_waiters: HashMap<i64, Gate>,
    leave_waiters: PositionWaiters,
    pub(super) release_waiters: PositionWaiters,
    tickets: u64,
    /// Highest seqno that its client has begun to apply again. One at a time does: everything
    /// before it is released.
    pub(super) replayed: i64,
    /// Nothing after this may begin.
    pub(super) pause_at: Option<i64>,
    /// Delivered, to be started by an applier.
    pub(super) queue: Waiting,
    /// Delivery waits for room.
    pub(super) room_wanted: bool,
    /// Handed to an applier and not released.
    pub(super) running: BTreeSet<i64>,
    /// Delivered, finished by their own clients, and not released.
    pub(super) locals: BTreeSet<i64>,
    /// Have nothing to do here: each passes when its turn comes.
    pub(super) void: BTreeSet<i64>,
    pub(super) delivered: i64,
    /// Not ordered; each once everything up to its position is released.
    pub(super) tasks: VecDeque<(i64, Task)>,
    /// A task is being done: it is a barrier.
    pub(super) task_running: bool,
    pub(super) appliers: usize,
    pub(super) idle: Vec<Gate>,
    pub(super) course: Course,
    /// Threads that wait for a pause to begin or to end.
    pub(super) pause_waiters: usize,
}

impl State {
    pub(super) fn new(position: i64) -> State {
        State {
            released: position,
            released_ahead: BTreeSet::new(),
            left: position,
            entered: position,
            enter_waiters: HashMap::new(),
            leave_waiters: BTreeMap::new(),
            release_waiters: BTreeMap::new(),
            tickets: 0,
            replayed: i64::MIN,
            pause_at: None,
            queue: Waiting::default(),
            room_wanted: false,
            running: BTreeSet::new(),
            locals: BTreeSet::new(),
            void: BTreeSet::new(),
            delivered: position,
            tasks: VecDeque::new(),
            task_running: false,
            appliers: 0,
            idle: Vec::new(),
            course: Course::Open,
            pause_waiters: 0,
        }
    }

    pub(super) fn set_position(&mut self, position: i64) {
        self.released = position;
        self.left = position;
        self.entered = position;
        self.delivered = position;
    }

    pub(super) fn is_open(&self) -> bool {
        self.course == Course::Open
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.running.is_empty()
            && self.locals.is_empty()
            && self.void.is_empty()
    }

    /// The highest seqno that has reached it, with everything before.
    pub(super) fn reached(&self, milestone: Milestone) -> i64 {
        match milestone {
            Milestone::Left => self.left,
            Milestone::Released => self.released,
        }
    }

    pub(super) fn waiters(&mut self, milestone: Milestone) -> &mut PositionWaiters {
        match milestone {
            Milestone::Left => &mut self.leave_waiters,
            Milestone::Released => &mut self.release_waiters,
        }
    }

    pub(super) fn position_waiters(&self) -> impl Iterator<Item = &Gate> {
        self.leave_waiters
            .values()
            .chain(self.release_waiters.values())
    }

    pub(super) fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn may_enter(&self, seqno: i64) -> bool {
        self.left + 1 == seqno && !self.is_paused_before(seqno)
    }

    /// Whether this seqno may begin only once the pause is over.
    pub(super) fn is_paused_before(&self, seqno: i64) -> bool {
        self.pause_at.is_some_and(|pause| seqno > pause)
    }

    pub(super) fn never_enters(&self, seqno: i64) -> bool {
        match self.course {
            Course::Open => false,
            Course::Draining { to, .. } => seqno > to,
            // What is inside may finish.
            Course::Aborted => seqno > self.entered,
        }
    }

    /// Whether this seqno, not released now, may stay so for ever.
    pub(super) fn never_released(&self, seqno: i64) -> bool {
        match self.course {
            Course::Open => false,
            Course::Draining { to, .. } => seqno > to,
            Course::Aborted => true,
        }
    }

    fn is_drained(&self) -> bool {
        match self.course {
            Course::Open => false,
            Course::Draining { to, .. } => self.released >= to,
            Course::Aborted => true,
        }
    }

    /// Highest seqno that has begun to change the database.
    pub(super) fn begun(&self) -> i64 {
        let running = self.running.last().copied().unwrap_or(self.released);
        let ahead = running.max(self.replayed);
        self.entered.max(ahead).max(self.released)
    }

    pub(super) fn running_ahead(&self, seqno: i64) -> usize {
        self.running.range(seqno.saturating_add(1)..).count()
    }

    /// The order has moved, or may again: lets pass what has nothing to do, and wakes who is next.
    pub(super) fn wake_next(&mut self) {
        while let Some(seqno) = self.void.first().copied() {
            if !self.may_enter(seqno) || self.never_enters(seqno) {
                break;
            }
            self.void.remove(&seqno);
            self.entered = seqno;
            self.left = seqno;
            self.release(seqno);
        }
        if let Some(gate) = self.enter_waiters.get(&(self.left + 1)) {
            gate.wake();
        }
        self.wake_waiters(Milestone::Left);
    }

    pub(super) fn release(&mut self, seqno: i64) {
        let is_new = seqno > self.released && !self.released_ahead.contains(&seqno);
        assert!(is_new, "{seqno} is released twice; at {}", self.released);
        self.running.remove(&seqno);
        self.locals.remove(&seqno);
        if seqno == self.released + 1 {
            self.released = seqno;
            self.close_gap();
            self.queue.released(self.released);
            self.wake_waiters(Milestone::Released);
        } else {
            self.released_ahead.insert(seqno);
        }
        self.wake_worker();
    }

    fn close_gap(&mut self) {
        while self.released_ahead.first() == Some(&(self.released + 1)) {
            self.released_ahead.pop_first();
            self.released += 1;
        }
    }

    fn wake_waiters(&mut self, milestone: Milestone) {
        let reached = self.reached(milestone);
        while let Some(first) = self.waiters(milestone).first_entry() {
            if first.key().0 > reached {
                break;
            }
            first.remove().wake();
        }
    }

    /// Wakes an idle applier if there is something for it. An applier that takes work calls this
    /// again, so that as many wake as there is work for, and no more.
    pub(super) fn wake_worker(&mut self) {
        if self.idle.is_empty() || !self.has_work() {
            return;
        }
        if let Some(gate) = self.idle.pop() {
            gate.wake();
        }
    }

    pub(super) fn wake_all(&mut self) {
        for gate in self.enter_waiters.values().chain(self.position_waiters()) {
            gate.wake();
        }
        for gate in self.idle.drain(..) {
            gate.wake();
        }
    }

    fn has_work(&self) -> bool {
        self.is_over() || self.task_is_due() || self.may_start().is_some()
    }

    /// Next task for the calling applier; `None`: nothing yet.
    pub(super) fn pick(&mut self) -> Option<Work> {
        if self.is_over() {
            self.appliers -= 1;
            return Some(Work::End {
                last: self.appliers == 0,
            });
        }
        if self.task_is_due() {
            self.task_running = true;
            return self.tasks.pop_front().map(|(_, task)| Work::Do(task));
        }
        let seqno = self.may_start()?;
        let item = self.queue.take(seqno)?;
        self.running.insert(seqno);
        Some(Work::Apply(item))
    }

    fn is_over(&self) -> bool {
        self.queue.is_empty() && self.is_drained()
    }

    fn task_is_due(&self) -> bool {
        let due = self
            .tasks
            .front()
            .is_some_and(|(position, _)| *position <= self.released);
        due && !self.task_running && self.running.is_empty()
    }

    /// The first queued action that may start.
    fn may_start(&self) -> Option<i64> {
        if self.task_running {
            return None;
        }
        let seqno = self.queue.first_ready()?;
        let first = self.queue.first()?;
        // A wait for a task is a wait for what is before it only.
        let after_task = self
            .tasks
            .front()
            .is_some_and(|(position, _)| seqno > *position);
        // The last free applier is for the first action: those that run ahead wait for it.
        let is_last_free = self.running_ahead(first) + 1 >= self.appliers;
        let strands = seqno != first && planted!(StrandFirst, is_last_free, else false);
        (!self.is_paused_before(seqno) && !after_task && !strands).then_some(seqno)
    }
}
