//! The core thread: feeds the driver what comes in, and wakes it when something is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use synod_consensus::{GroupId, MemberId, Time};
use synod_member::{CatchUp, Disk, Driver, Event, Job, Network};
use synod_wire::PeerMessage;

use crate::bell::Bell;
use crate::budget::ByteBudget;
use crate::peers::Peers;

/// Events taken in one turn before effects are performed.
const EVENTS_PER_TURN: usize = 512;

/// An event, and the bytes it took from the inbound budget.
pub(crate) struct Incoming {
    event: Event,
    bytes: usize,
}

impl Incoming {
    pub(crate) fn weighing(event: Event, bytes: usize) -> Incoming {
        Incoming { event, bytes }
    }
}

impl From<Event> for Incoming {
    fn from(event: Event) -> Incoming {
        Incoming { event, bytes: 0 }
    }
}

/// This node's clock: it starts when the node does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn instant(&self, at: Time) -> Instant {
        self.0 + Duration::from_micros(at.0)
    }
}

/// See the module.
pub(crate) struct CoreThread {
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    pub(crate) events: Receiver<Incoming>,
    pub(crate) bell: Arc<Bell>,
    /// Bytes of this member's actions on their way.
    pub(crate) pending_budget: Arc<ByteBudget>,
    /// Bytes of received messages not handled yet.
    pub(crate) inbound_budget: Arc<ByteBudget>,
}

impl CoreThread {
    /// Runs until the driver stops or nobody has anything to tell it.
    pub(crate) fn run(mut self) {
        self.driver.begin(self.clock.now());
        while !self.driver.is_stopped() && self.take_events() {
            self.driver.turn(self.clock.now());
        }
        self.driver.end();
        self.bell.stop();
        // Nobody gives anything back from now on; what is still queued ends when it is dropped.
        self.pending_budget.close();
        self.inbound_budget.close();
    }

    /// Waits for events, at most until a turn is due; false if there will be none.
    fn take_events(&mut self) -> bool {
        let deadline = self.clock.instant(self.driver.wake_at());
        match self.events.recv_deadline(deadline) {
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
        let Incoming { event, bytes } = incoming;
        self.driver.handle(self.clock.now(), event);
        self.inbound_budget.give_back(bytes);
    }
}

/// The queues of the log thread and of the thread that reads for others.
pub(crate) struct DiskQueues {
    pub(crate) jobs: Sender<Job>,
    pub(crate) catchup: Sender<CatchUp>,
}

impl Disk for DiskQueues {
    fn write(&self, job: Job) {
        // A gone receiver has reported its failure, which ends this thread.
        let _ = self.jobs.send(job);
    }

    fn read(&self, request: CatchUp) {
        let _ = self.catchup.send(request);
    }
}

/// The peers, as the driver reaches them.
pub(crate) struct PeerNetwork(pub(crate) Arc<Peers>);

impl Network for PeerNetwork {
    fn send(&self, to: MemberId, message: PeerMessage) {
        self.0.send(to, message);
    }

    fn send_over(&self, to: MemberId, connection: u64, message: PeerMessage) {
        self.0.send_over(to, connection, message);
    }

    fn knows(&self, member: MemberId) -> bool {
        self.0.knows(member)
    }

    fn connect(&self, member: MemberId, address: &str) {
        self.0.connect(member, address);
    }

    fn keep_only(&self, wanted: &dyn Fn(MemberId) -> bool) {
        self.0.keep_only(wanted);
    }

    fn set_group(&self, group: GroupId) {
        self.0.set_group(group);
    }

    fn stop_seeking(&self) {
        self.0.stop_seeking();
    }
}
