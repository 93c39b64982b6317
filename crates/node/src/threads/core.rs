//! The core thread, and the driver as threads drive it: all protocol state.
//!
//! One turn hands the driver the events that are queued, lets it perform what they led to, sends
//! the messages that came of it, and delivers what they have committed. Which thread does so: see
//! [`Driving`].

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use synod_consensus::Time;
use synod_member::{CatchUp, Disk, Driver, Event, Job};

use super::delivery::Delivery;
use super::driving::{Driving, Machine};
use crate::clock::{Clock, StandstillWatch};
use crate::transport::Transport;
use crate::wait::{BudgetShare, ByteBudget};

/// How long messages wait for the others of their turn, if the turn takes long.
const HOLD_BACK_MAX: Duration = Duration::from_millis(1);

/// Where everything that happens to this member goes.
pub(crate) type Events = Driving<Incoming>;

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

/// The driver and its clocks.
struct DriverMachine {
    driver: Driver,
    clock: Clock,
    standstill: StandstillWatch,
    transport: Arc<Transport>,
    delivery: Arc<Delivery>,
    /// When the present turn took its first event.
    turn_began: Option<Time>,
}

impl Machine<Incoming> for DriverMachine {
    fn begin(&mut self) {
        self.driver.begin(self.clock.now());
        self.transport.end_turn();
    }

    fn handle(&mut self, incoming: Incoming) {
        let Incoming { event, share } = incoming;
        let now = self.look_at_the_clocks();
        self.delivery.in_turn(|| self.driver.handle(now, event));
        drop(share);
        let began = *self.turn_began.get_or_insert(now);
        if self.clock.now().since(began) > HOLD_BACK_MAX {
            self.send_messages();
        }
    }

    fn turn(&mut self) {
        let now = self.look_at_the_clocks();
        self.delivery.in_turn(|| self.driver.turn(now));
        self.send_messages();
        self.delivery.end_turn();
    }

    fn due(&self) -> Time {
        self.driver.wake_at()
    }

    fn is_stopped(&self) -> bool {
        self.driver.is_stopped()
    }

    fn end(&mut self) {
        self.driver.end();
    }
}

impl DriverMachine {
    fn send_messages(&mut self) {
        self.turn_began = None;
        self.transport.end_turn();
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

/// What the core thread runs on.
pub(crate) struct CoreThread {
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    pub(crate) transport: Arc<Transport>,
    /// Everything that happens to this member.
    pub(crate) events: Arc<Events>,
    /// Stopped with this thread.
    pub(crate) delivery: Arc<Delivery>,
    /// Bytes of this member's actions that have no proposal result yet.
    pub(crate) pending_budget: Arc<ByteBudget>,
    /// The same for the chunks of large actions.
    pub(crate) chunk_budget: Arc<ByteBudget>,
    /// Bytes of received messages not handled yet.
    pub(crate) inbound_budget: Arc<ByteBudget>,
}

impl CoreThread {
    /// Runs until the driver stops. Panics if the driver did, on whichever thread.
    pub(crate) fn run(self) {
        let clock = self.clock;
        let machine = Box::new(DriverMachine {
            driver: self.driver,
            clock,
            standstill: StandstillWatch::new(),
            transport: self.transport,
            delivery: self.delivery.clone(),
            turn_began: None,
        });
        self.events.run_core(machine, |at| clock.until(at));
        self.delivery.stop();
        // No bytes are given back from now on.
        self.pending_budget.close();
        self.chunk_budget.close();
        self.inbound_budget.close();
    }
}

/// The queues to the log thread and to the catch-up thread, as the driver writes to them.
pub(crate) struct DiskQueues {
    pub(crate) jobs: Sender<Job>,
    pub(crate) catch_up: Sender<CatchUp>,
}

impl Disk for DiskQueues {
    fn write(&self, job: Job) {
        // A receiver that has ended has reported its failure, which ends the driver.
        let _ = self.jobs.send(job);
    }

    fn read(&self, request: CatchUp) {
        let _ = self.catch_up.send(request);
    }
}
