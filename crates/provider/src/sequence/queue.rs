//! Delivered actions, and who may start which.

use std::sync::PoisonError;

use bytes::Bytes;
use synod_node::{Origin, View};

use super::Sequencer;
use super::gate::Gate;
use super::state::State;

/// How far behind the first waiting action an applier looks for one that is ready.
const LOOK_AHEAD: usize = 256;
/// What an action weighs beside its data.
const ACTION_BYTES: usize = 256;

/// Delivered work.
#[derive(Clone, Debug)]
pub enum Queued {
    /// Somebody else's action, or one of this server's whose client is gone.
    Action {
        /// Its position.
        seqno: i64,
        /// What must be released before it starts.
        depends_on: i64,
        /// Who proposed it.
        origin: Origin,
        /// The host's data.
        data: Bytes,
    },
    /// Members came or went; everything before is released first.
    View(View),
}

impl Queued {
    fn seqno(&self) -> i64 {
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

/// Unordered work for an applier's thread.
#[derive(Clone, Debug)]
pub enum Task {
    /// Show the server whether the group has a quorum.
    ShowPrimary,
    /// The server has caught up.
    Synced,
    /// Give a joiner a copy.
    Donate(synod_node::DonorRequest),
}

/// What an applier is to do.
#[derive(Clone, Debug)]
pub enum Work {
    /// Apply, then release.
    Apply(Queued),
    /// Do, then call [`Sequencer::task_done`].
    Do(Task),
    /// There will be no more. The last applier to hear it shows the server the final view.
    End {
        /// Whether this is the last applier.
        last: bool,
    },
}

impl Sequencer {
    /// Takes what the node delivers. Waits for room; false once stopped.
    pub fn push(&self, item: Queued) -> bool {
        let mut state = self.lock();
        while !state.stopped && state.queue_bytes > self.queue_bytes_max {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            return false;
        }
        state.delivered = state.delivered.max(item.seqno());
        state.queue_bytes += item.bytes();
        let at = state.queue.partition_point(|queued| queued.seqno() < item.seqno());
        state.queue.insert(at, item);
        wake_one(&mut state);
        true
    }

    /// The action at `seqno` is its own client's to finish. False once stopped.
    pub fn push_local(&self, seqno: i64) -> bool {
        let mut state = self.lock();
        if state.stopped {
            return false;
        }
        state.delivered = state.delivered.max(seqno);
        if seqno > state.released && !state.released_ahead.contains(&seqno) {
            state.locals.insert(seqno);
        }
        true
    }

    /// The client of a local action is gone without finishing it: an applier has to.
    pub fn adopt(&self, item: Queued) {
        let mut state = self.lock();
        state.locals.remove(&item.seqno());
        state.queue_bytes += item.bytes();
        let at = state.queue.partition_point(|queued| queued.seqno() < item.seqno());
        state.queue.insert(at, item);
        state.wake_appliers();
    }

    /// Adds a task: done once everything delivered so far, and everything up to `after`, is released.
    pub fn add_task(&self, after: i64, task: Task) {
        let mut state = self.lock();
        let position = state.delivered.max(after);
        state.tasks.push_back((position, task));
        state.wake_appliers();
    }

    /// A task is done.
    pub fn task_done(&self) {
        let mut state = self.lock();
        state.task_running = false;
        state.wake_appliers();
    }

    /// An applier thread arrives.
    pub fn applier_enters(&self) {
        self.lock().appliers += 1;
    }

    /// Whether an applier may go for good without stranding those that run ahead; if so it is gone.
    pub fn applier_may_go(&self) -> bool {
        let mut state = self.lock();
        let stranded = state.queue.front().is_some_and(|first| {
            running_ahead(&state, first.seqno()) + 1 >= state.appliers
        });
        if stranded || state.appliers == 1 && !state.stopped && !state.is_idle() {
            return false;
        }
        state.appliers -= 1;
        true
    }

    /// An applier goes because of an error, whatever becomes of the others.
    pub fn applier_fails(&self) {
        self.lock().appliers -= 1;
    }

    /// The next thing to do; waits for it.
    pub fn next(&self) -> Work {
        let gate = Gate::default();
        let mut state = self.lock();
        loop {
            if let Some(work) = pick(&mut state) {
                if matches!(work, Work::Apply(_)) {
                    // There may be more that is ready, and room in the queue.
                    wake_one(&mut state);
                    drop(state);
                    self.changed.notify_all();
                }
                return work;
            }
            state.idle.push(gate.clone());
            drop(state);
            gate.wait();
            state = self.lock();
        }
    }

    /// No more deliveries. What was begun, and what local clients wait for, is finished; the rest of
    /// the queue is dropped: it is in the log.
    pub fn stop(&self) {
        let mut state = self.lock();
        if state.stopped {
            return;
        }
        state.stopped = true;
        state.pause_at = None;
        let locals = state.locals.last().copied().unwrap_or(state.released);
        state.drain_to = state.begun().max(locals);
        let drain_to = state.drain_to;
        state.queue.retain(|queued| queued.seqno() <= drain_to);
        state.tasks.clear();
        for gate in state.enter_waiters.values().chain(state.release_waiters.values()) {
            gate.wake();
        }
        state.wake_appliers();
        drop(state);
        self.changed.notify_all();
    }

    /// Stops at once: an action failed to apply, so nothing after it can be finished.
    pub fn stop_broken(&self) {
        self.stop();
        let mut state = self.lock();
        state.drain_to = state.entered;
        state.queue.clear();
        for gate in state.enter_waiters.values().chain(state.release_waiters.values()) {
            gate.wake();
        }
        state.wake_appliers();
    }
}

fn wake_one(state: &mut State) {
    if let Some(gate) = state.idle.pop() {
        gate.wake();
    }
}

/// Appliers busy with something after `seqno`.
fn running_ahead(state: &State, seqno: i64) -> usize {
    state.running.range(seqno + 1..).count()
}

fn pick(state: &mut State) -> Option<Work> {
    if state.stopped && state.queue.is_empty() {
        state.appliers -= 1;
        return Some(Work::End { last: state.appliers == 0 });
    }
    if let Some(task) = pick_task(state) {
        return Some(Work::Do(task));
    }
    let at = pick_queued(state)?;
    let item = state.queue.remove(at)?;
    state.queue_bytes -= item.bytes();
    state.running.insert(item.seqno());
    Some(Work::Apply(item))
}

fn pick_task(state: &mut State) -> Option<Task> {
    let (position, _) = state.tasks.front()?;
    if state.task_running || *position > state.released || !state.running.is_empty() {
        return None;
    }
    state.task_running = true;
    state.tasks.pop_front().map(|(_, task)| task)
}

/// Place in the queue of the first action that may start.
fn pick_queued(state: &State) -> Option<usize> {
    if state.task_running {
        return None;
    }
    let first = state.queue.front()?.seqno();
    let ahead = running_ahead(state, first);
    // Whoever waits for a task waits for these only.
    let task_barrier = state.tasks.front().map_or(i64::MAX, |(position, _)| *position);
    for (at, item) in state.queue.iter().enumerate().take(LOOK_AHEAD) {
        let paused = state.pause_at.is_some_and(|pause| item.seqno() > pause);
        if paused || item.seqno() > task_barrier {
            return None;
        }
        let strands = at > 0 && ahead + 1 >= state.appliers;
        if strands {
            return None;
        }
        if item.depends_on() <= state.released {
            return Some(at);
        }
        if matches!(item, Queued::View(_)) {
            return None;
        }
    }
    None
}
