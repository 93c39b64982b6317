//! Driving: the thread that brings an event runs the driver, one thread at a time.
//!
//! A thread with an event queues it here. If none drives at that moment, the thread takes the
//! driver, handles what is queued, and lets what follows happen at once: the next message is sent,
//! the next write is ordered, without a hop to another thread. If one drives, that one takes the
//! event before it lets go. (The field calls this flat combining.)
//!
//! A turn that takes long ends for what goes first ([`EventQueue`]). The core thread drives when
//! something is due, when a sender must not drive, and when a driving thread has done its share and
//! events are left.
//!
//! Invariants, all under the one lock of [`State`]:
//!
//! - While the queue holds an event, a thread drives, or the core thread is awake, or a thread owes
//!   a [`Driving::drive_queued`].
//! - No thread lets go while the queue holds an event, except to the core thread.
//! - The core thread sleeps no longer than until the next turn is due.
//!
//! A driver that panics is never used again, whichever thread drove: the panic continues in the
//! core thread, which the node cannot run without.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::time::Duration;

use synod_consensus::Time;
use synod_planted::planted;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

/// Events of each queue that are taken for one turn.
const TAKEN_MAX: usize = 512;
/// How many turns the core thread drives at a time: as many as there are events for.
const CORE_TURNS: usize = usize::MAX;

/// How long the core thread sleeps while another one drives, at most: until that one lets go.
const WHILE_DRIVEN: Duration = Duration::from_secs(3600);

/// A machine that threads drive: the member's driver, or that of a test.
pub(crate) trait Machine<E>: Send {
    /// Begins, before anything else. On the core thread.
    fn begin(&mut self);
    fn handle(&mut self, event: E);
    /// Whether the present turn has taken so long that an event that goes first waits no more for
    /// the rest of it.
    fn is_long(&self) -> bool;
    /// Does what is due, and what the events led to. Waits for nothing.
    fn turn(&mut self);
    /// When the next turn is due at the latest, by its own clock.
    fn due(&self) -> Time;
    fn is_stopped(&self) -> bool;
    /// Ends it, once it has stopped. On the core thread.
    fn end(&mut self);
}

pub(crate) struct Driving<E> {
    state: Mutex<State<E>>,
    /// An event that goes first is queued: a hint for the thread that drives.
    first_waits: AtomicBool,
    core: Condvar,
    /// Locked by the thread that drives; none before the core thread has begun and after it ended.
    machine: Mutex<Option<Box<dyn Machine<E>>>>,
}

struct State<E> {
    events: EventQueue<E>,
    /// A thread drives. At first none may: the core thread begins.
    is_driven: bool,
    /// The machine has stopped, or failed: events are dropped.
    is_over: bool,
    /// Why the machine failed, until the core thread has noticed.
    panic: Option<Box<dyn Any + Send>>,
    /// When the next turn is due, while none drives. By the machine's clock: the same time twice
    /// is no reason to wake the core thread.
    due: Time,
    /// The core thread sleeps, until this time at most.
    asleep_until: Option<Time>,
}

impl<E: Queued> Driving<E> {
    /// A queue without a machine yet.
    pub(crate) fn new() -> Driving<E> {
        Driving {
            state: Mutex::new(State {
                events: EventQueue::new(),
                is_driven: true,
                is_over: false,
                panic: None,
                due: Time(0),
                asleep_until: None,
            }),
            first_waits: AtomicBool::new(false),
            core: Condvar::new(),
            machine: Mutex::new(None),
        }
    }

    /// Queues an event; the core thread is woken for it if none drives. For threads that hold a
    /// lock, or have no time. The event is dropped if the machine has stopped.
    pub(crate) fn send(&self, event: E) {
        let state = self.queued(event);
        if let Some(mut state) = state.filter(|state| !state.is_driven) {
            self.wake_core(&mut state);
        }
    }

    /// Queues an event, for a [`Driving::drive_queued`] that the caller owes.
    pub(crate) fn queue(&self, event: E) {
        drop(self.queued(event));
    }

    /// Queues an event, and drives if none does. The caller must hold no lock that the host or
    /// the machine's surroundings take.
    pub(crate) fn drive(&self, event: E, turns_max: usize) {
        if let Some(state) = self.queued(event) {
            self.drive_from(state, turns_max);
        }
    }

    /// Drives if none does and events are queued.
    pub(crate) fn drive_queued(&self, turns_max: usize) {
        let state = lock(&self.state);
        if !state.events.is_empty() {
            self.drive_from(state, turns_max);
        }
    }

    /// Runs the core thread: has the machine driven until it has stopped, and ends it; panics if
    /// the machine has, on any thread. `until` says how long it is until a time by the machine's
    /// clock.
    pub(crate) fn run_core(
        &self,
        mut machine: Box<dyn Machine<E>>,
        until: impl Fn(Time) -> Duration,
    ) {
        let _closing = Closing(self);
        machine.begin();
        *lock(&self.machine) = Some(machine);
        self.turns(CORE_TURNS);
        let mut state = lock(&self.state);
        loop {
            if state.is_driven {
                // The thread that drives wakes this thread if there is reason.
                state = self.sleep(state, WHILE_DRIVEN, Time(u64::MAX));
            } else if let Some(panic) = state.panic.take() {
                drop(state);
                resume_unwind(panic);
            } else if state.is_over {
                drop(state);
                if let Some(mut machine) = lock(&self.machine).take() {
                    machine.end();
                }
                return;
            } else {
                let (due, left) = (state.due, until(state.due));
                if state.events.is_empty() && !left.is_zero() {
                    state = self.sleep(state, left, due);
                } else {
                    state.is_driven = true;
                    drop(state);
                    self.turns(CORE_TURNS);
                    state = lock(&self.state);
                }
            }
        }
    }

    /// Drops what is queued, and what comes from now on.
    fn close(&self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        let events = std::mem::replace(&mut state.events, EventQueue::new());
        drop(state);
        drop(events);
        let machine = lock(&self.machine).take();
        drop(machine);
    }

    /// The state with the event in the queue; none if the event was dropped.
    fn queued(&self, event: E) -> Option<MutexGuard<'_, State<E>>> {
        let mut state = lock(&self.state);
        if state.is_over {
            // What is dropped with the event may take locks of its own.
            drop(state);
            drop(event);
            return None;
        }
        if event.goes_first() {
            self.first_waits.store(true, Ordering::Relaxed);
        }
        state.events.push(event);
        Some(state)
    }

    fn drive_from(&self, mut state: MutexGuard<'_, State<E>>, turns_max: usize) {
        if !state.is_driven && !state.is_over {
            state.is_driven = true;
            drop(state);
            self.turns(turns_max);
        }
    }

    /// Drives, having taken the right to. Lets go when nothing is queued, or to the core thread
    /// after so many turns.
    fn turns(&self, turns_max: usize) {
        let mut guard = lock(&self.machine);
        let Some(machine) = guard.as_mut() else {
            return;
        };
        let mut left = turns_max;
        loop {
            let events = self.take_events();
            let turn = AssertUnwindSafe(|| {
                let mut events = events;
                while let Some(event) = events.pop_front() {
                    let gives_way = !event.goes_first();
                    machine.handle(event);
                    if gives_way && self.first_waits.load(Ordering::Relaxed) && machine.is_long() {
                        break;
                    }
                }
                machine.turn();
                (events, machine.due(), machine.is_stopped())
            });
            left -= 1;
            let ended = match catch_unwind(turn) {
                Ok((unhandled, due, is_stopped)) => {
                    let mut state = lock(&self.state);
                    state.events.put_back(unhandled);
                    state.due = due;
                    state.is_over |= is_stopped;
                    state
                }
                Err(panic) => {
                    let mut state = lock(&self.state);
                    state.panic = Some(panic);
                    state.is_over = true;
                    state
                }
            };
            if ended.events.is_empty() || ended.is_over || left == 0 {
                drop(guard);
                return self.let_go(ended);
            }
        }
    }

    fn take_events(&self) -> VecDeque<E> {
        let mut state = lock(&self.state);
        self.first_waits.store(false, Ordering::Relaxed);
        state.events.take()
    }

    fn let_go(&self, mut state: MutexGuard<'_, State<E>>) {
        state.is_driven = false;
        let is_early = state.asleep_until.is_some_and(|at| state.due < at);
        let has_events = planted!(KeepShare, !state.events.is_empty(), else false);
        if is_early || state.is_over || has_events {
            self.wake_core(&mut state);
        }
    }

    /// Wakes the core thread if it sleeps.
    fn wake_core(&self, state: &mut State<E>) {
        if state.asleep_until.take().is_some() {
            self.core.notify_one();
        }
    }

    /// The core thread sleeps until it is woken, or for this time, which ends at `until`.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<E>>,
        limit: Duration,
        until: Time,
    ) -> MutexGuard<'a, State<E>> {
        state.asleep_until = Some(until);
        planted!(SleepUnlocked, (), else {
            drop(state);
            state = lock(&self.state);
        });
        let waited = self.core.wait_timeout(state, limit);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.asleep_until = None;
        state
    }

    /// The next event that no thread has taken, for tests without a machine.
    #[cfg(test)]
    pub(crate) fn recv_timeout(&self, limit: Duration) -> Option<E> {
        let deadline = std::time::Instant::now() + limit;
        loop {
            let event = lock(&self.state).events.pop();
            if event.is_some() || std::time::Instant::now() >= deadline {
                return event;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Drops what is queued when the core thread ends, however it does.
struct Closing<'a, E: Queued>(&'a Driving<E>);

impl<E: Queued> Drop for Closing<'_, E> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// An event that knows its queue.
pub(crate) trait Queued {
    /// Whether it goes before what does not.
    fn goes_first(&self) -> bool;
}

/// Events that no turn has handled yet, in two queues: a vote or an acknowledgement that waited
/// behind megabytes of entries would be as late as if it had come by their connection. Events of
/// one queue keep their order; nothing relies on the order of events in different ones, as nothing
/// relies on the order of messages on different lanes.
#[derive(Debug)]
struct EventQueue<E> {
    first: VecDeque<E>,
    rest: VecDeque<E>,
}

impl<E: Queued> EventQueue<E> {
    fn new() -> EventQueue<E> {
        EventQueue {
            first: VecDeque::new(),
            rest: VecDeque::new(),
        }
    }

    fn push(&mut self, event: E) {
        if event.goes_first() {
            self.first.push_back(event);
        } else {
            self.rest.push_back(event);
        }
    }

    /// Events for a turn: of each queue some, so that neither ever waits for the other to end.
    fn take(&mut self) -> VecDeque<E> {
        let mut taken = take_some(&mut self.first);
        taken.append(&mut take_some(&mut self.rest));
        taken
    }

    /// Puts back the end of what was taken, none of which goes first.
    fn put_back(&mut self, mut left: VecDeque<E>) {
        left.append(&mut self.rest);
        self.rest = left;
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.rest.is_empty()
    }

    #[cfg(test)]
    fn pop(&mut self) -> Option<E> {
        self.first.pop_front().or_else(|| self.rest.pop_front())
    }
}

fn take_some<E>(queue: &mut VecDeque<E>) -> VecDeque<E> {
    if queue.len() <= TAKEN_MAX {
        std::mem::take(queue)
    } else {
        queue.drain(..TAKEN_MAX).collect()
    }
}

#[cfg(all(test, feature = "shuttle"))]
#[path = "driving_model.rs"]
mod model;
#[cfg(test)]
#[path = "driving_tests.rs"]
mod tests;
