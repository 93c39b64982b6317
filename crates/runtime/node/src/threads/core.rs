//! The core thread, and the driver as threads drive it: all protocol state.
//!
//! One turn hands the driver the events that are queued, lets it perform what they led to, sends
//! the messages that came of it, and delivers what they have committed. Which thread does so: see
//! [`Driving`].

use std::sync::Arc;
use std::time::Duration;

use synod_consensus::Time;
use synod_member::{Driver, Event};
use synod_wire::Lane;

use super::delivery::Delivery;
use super::driving::{Driving, Machine, Queued};
use crate::clock::Clock;
use crate::transport::Transport;
use crate::wait::{BudgetShare, ByteBudget, InboundBudgets};

/// How long messages wait for the others of their turn, if the turn takes long.
const HOLD_BACK_MAX: Duration = Duration::from_millis(1);
/// How long a turn continues although an event waits that goes first.
const TURN_MAX: Duration = Duration::from_millis(1);

pub(crate) type Events = Driving<Incoming>;

/// An event, and the bytes it took from a budget of received messages.
pub(crate) struct Incoming {
    pub(crate) event: Event,
    /// Given back once the event is handled.
    share: Option<BudgetShare>,
    /// Whether it waits for no event that does not go first.
    goes_first: bool,
}

impl Incoming {
    pub(crate) fn with_share(event: Event, lane: Lane, share: BudgetShare) -> Incoming {
        Incoming {
            share: Some(share),
            ..Incoming::on_lane(event, lane)
        }
    }

    /// An event that keeps its place among the messages of a lane.
    pub(crate) fn on_lane(event: Event, lane: Lane) -> Incoming {
        Incoming {
            event,
            share: None,
            goes_first: lane == Lane::Control,
        }
    }

    /// A report of the log thread: votes and acknowledgements wait for it.
    pub(crate) fn of_the_log(event: Event) -> Incoming {
        Incoming {
            event,
            share: None,
            goes_first: true,
        }
    }
}

impl From<Event> for Incoming {
    fn from(event: Event) -> Incoming {
        Incoming {
            event,
            share: None,
            goes_first: false,
        }
    }
}

impl Queued for Incoming {
    fn goes_first(&self) -> bool {
        self.goes_first
    }
}

struct DriverMachine {
    driver: Driver,
    clock: Clock,
    transport: Arc<Transport>,
    delivery: Arc<Delivery>,
    /// When the first event was taken whose messages may wait for others of the turn.
    held_since: Option<Time>,
    /// When the present turn took its first event.
    turn_began: Option<Time>,
}

impl Machine<Incoming> for DriverMachine {
    fn begin(&mut self) {
        self.driver.begin(self.clock.now());
        self.transport.end_turn();
    }

    fn handle(&mut self, incoming: Incoming) {
        let Incoming { event, share, .. } = incoming;
        let now = self.clock.now();
        self.delivery.in_turn(|| self.driver.handle(now, event));
        drop(share);
        self.turn_began.get_or_insert(now);
        let began = *self.held_since.get_or_insert(now);
        if self.clock.now().since(began) > HOLD_BACK_MAX {
            self.send_messages();
        }
    }

    fn is_long(&self) -> bool {
        let now = self.clock.now();
        self.turn_began
            .is_some_and(|began| now.since(began) > TURN_MAX)
    }

    fn turn(&mut self) {
        self.turn_began = None;
        let now = self.clock.now();
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
        self.held_since = None;
        self.transport.end_turn();
    }
}

pub(crate) struct CoreThread {
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    pub(crate) transport: Arc<Transport>,
    pub(crate) events: Arc<Events>,
    pub(crate) delivery: Arc<Delivery>,
    /// Bytes of this member's actions that have no proposal result yet.
    pub(crate) pending_budget: Arc<ByteBudget>,
    pub(crate) chunk_budget: Arc<ByteBudget>,
    /// Bytes of received messages not handled yet.
    pub(crate) inbound_budgets: InboundBudgets,
}

impl CoreThread {
    /// Runs until the driver stops. Panics if the driver did, on whichever thread.
    pub(crate) fn run(self) {
        let clock = self.clock;
        let machine = Box::new(DriverMachine {
            driver: self.driver,
            clock,
            transport: self.transport,
            delivery: self.delivery.clone(),
            held_since: None,
            turn_began: None,
        });
        self.events.run_core(machine, |at| clock.until(at));
        self.delivery.stop();
        // No bytes are given back from now on.
        self.pending_budget.close();
        self.chunk_budget.close();
        self.inbound_budgets.close();
    }
}
