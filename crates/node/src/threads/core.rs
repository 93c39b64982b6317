//! The core thread: the only one that touches the driver, and so all protocol state.
//!
//! One turn: wait for events until the driver wants to be woken, hand it up to [`EVENTS_PER_TURN`]
//! of them, then let it perform what they led to. Everything else in a node sends events to this
//! thread.

use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use synod_consensus::Time;
use synod_member::{CatchUp, Disk, Driver, Event, Job};

use crate::clock::{Clock, StandstillWatch};
use crate::wait::{BudgetShare, ByteBudget, EventCount};

/// Events taken in one turn before effects are performed.
const EVENTS_PER_TURN: usize = 512;

/// An event, and the bytes it took from a budget of received messages.
pub(crate) struct Incoming {
    pub(crate) event: Event,
    /// Given back once the event is handled.
    share: Option<BudgetShare>,
}

impl Incoming {
    /// An event of a received message.
    pub(crate) fn with_share(event: Event, share: BudgetShare) -> Incoming {
        let share = Some(share);
        Incoming { event, share }
    }
}

impl From<Event> for Incoming {
    fn from(event: Event) -> Incoming {
        Incoming { event, share: None }
    }
}

/// What the core thread runs on.
pub(crate) struct CoreThread {
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    pub(crate) standstill: StandstillWatch,
    /// Everything that happens to this member.
    pub(crate) events: Receiver<Incoming>,
    /// Stopped with this thread, which ends delivery.
    pub(crate) log_moved: Arc<EventCount>,
    /// Bytes of this member's actions that have no proposal result yet.
    pub(crate) pending_budget: Arc<ByteBudget>,
    /// The same for the chunks of large actions.
    pub(crate) chunk_budget: Arc<ByteBudget>,
    /// Bytes of received messages not handled yet.
    pub(crate) inbound_budget: Arc<ByteBudget>,
}

impl CoreThread {
    /// Runs until the driver stops, or no thread is left that could send an event.
    pub(crate) fn run(mut self) {
        self.driver.begin(self.clock.now());
        while !self.driver.is_stopped() && self.take_events() {
            let now = self.look_at_the_clocks();
            self.driver.turn(now);
        }
        self.driver.end();
        self.log_moved.stop();
        // No bytes are given back from now on; events that are still queued end when they are
        // dropped.
        self.pending_budget.close();
        self.chunk_budget.close();
        self.inbound_budget.close();
    }

    /// Waits for events, at most until a turn is due. False if there will be none.
    fn take_events(&mut self) -> bool {
        let timeout = self.clock.until(self.driver.wake_at());
        match self.events.recv_timeout(timeout) {
            Ok(first) => {
                self.handle(first);
                let events = self.events.clone();
                for incoming in events.try_iter().take(EVENTS_PER_TURN) {
                    self.handle(incoming);
                }
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    fn handle(&mut self, incoming: Incoming) {
        let Incoming { event, share } = incoming;
        let now = self.look_at_the_clocks();
        self.driver.handle(now, event);
        drop(share);
    }

    /// This node's time, which may have stood still: then no lease counts any more, before anything
    /// else is done.
    fn look_at_the_clocks(&mut self) -> Time {
        let now = self.clock.now();
        if self.standstill.notices(now) {
            self.driver.clock_stood_still(now);
        }
        now
    }
}

/// The queues to the log thread and to the catch-up thread, as the driver writes to them.
pub(crate) struct DiskQueues {
    pub(crate) jobs: Sender<Job>,
    pub(crate) catch_up: Sender<CatchUp>,
}

impl Disk for DiskQueues {
    fn write(&self, job: Job) {
        // A receiver that has ended has reported its failure, which ends this thread.
        let _ = self.jobs.send(job);
    }

    fn read(&self, request: CatchUp) {
        let _ = self.catch_up.send(request);
    }
}
