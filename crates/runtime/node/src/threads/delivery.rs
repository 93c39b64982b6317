//! Delivery: committed entries go from the log to the host, in order.
//!
//! What the host takes at once is handed over at the end of the turn that has committed it, by the
//! thread that drives: no other one has to wake up. Everything else is the work of the delivery
//! thread, which waits for the host and for the disk. A member without a database delivers nothing:
//! there this thread only counts what is committed as applied.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use synod_log::LogError;
use synod_member::{DeliverError, Delivered, Deliverer, Event, Host, Shared, lock};

use super::core::Events;
use crate::wait::EventCount;

thread_local! {
    /// This thread is in a turn, at whose end it looks what can be delivered.
    static IN_TURN: Cell<bool> = const { Cell::new(false) };
}

/// Delivery of one node: its deliverer, and the event counts that threads wait on.
#[derive(Default)]
pub(crate) struct Delivery {
    /// None before the host asks for deliveries, and after they have ended. The delivery thread
    /// holds the lock while it delivers.
    deliverer: Mutex<Option<Deliverer>>,
    /// Notified when the commit index or the written log has moved.
    log_moved: EventCount,
    /// Notified when the delivery thread has something to do.
    due: EventCount,
    /// The commit index has moved in the present turn.
    moved_in_turn: AtomicBool,
}

impl Delivery {
    pub(crate) fn log_moved(&self) -> &EventCount {
        &self.log_moved
    }

    pub(crate) fn moved(&self) {
        self.log_moved.notify();
        if IN_TURN.get() {
            self.moved_in_turn.store(true, Ordering::Relaxed);
        } else {
            self.due.notify();
        }
    }

    /// Ends every wait, now and later.
    pub(crate) fn stop(&self) {
        self.log_moved.stop();
        self.due.stop();
    }

    /// Runs a part of a turn, in which the thread notes what is to be delivered at its end.
    pub(crate) fn in_turn<R>(&self, body: impl FnOnce() -> R) -> R {
        let _turn = Turn::begin();
        body()
    }

    /// Ends a turn: hands over what the host takes at once, and leaves the rest to the delivery
    /// thread.
    pub(crate) fn end_turn(&self) {
        if self.moved_in_turn.swap(false, Ordering::Relaxed) && !self.deliver_now() {
            self.due.notify();
        }
    }

    fn deliver_now(&self) -> bool {
        match self.deliverer.try_lock() {
            Ok(mut deliverer) => deliverer.as_mut().is_some_and(Deliverer::step_now),
            // The delivery thread is at work, and looks again when it is notified.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => false,
        }
    }

    /// The delivery thread: delivers until stopped what no other thread does.
    pub(crate) fn run(&self, deliverer: Deliverer, host: &Arc<dyn Host>, events: &Events) {
        *lock(&self.deliverer) = Some(deliverer);
        self.deliver(host, events);
        *lock(&self.deliverer) = None;
    }

    fn deliver(&self, host: &Arc<dyn Host>, events: &Events) {
        while let Some(seen) = self.due.count() {
            let delivered = match lock(&self.deliverer).as_mut() {
                Some(deliverer) => deliverer.step(u64::MAX),
                None => return,
            };
            match delivered {
                Ok(Delivered::Some) => {}
                Ok(Delivered::Nothing) => self.due.wait_beyond(seen),
                Ok(Delivered::Fetching) => {
                    events.send(Event::Fetch.into());
                    self.due.wait_beyond(seen);
                }
                Ok(Delivered::Stopped) => return,
                Err(DeliverError::Log(error @ LogError::Damaged { .. })) => {
                    // Ends the whole node.
                    events.send(Event::LogDamaged(error).into());
                    return;
                }
                Err(error) => return host.failed(&error.to_string(), error.remedy()),
            }
        }
    }

    /// For a member without a database: counts everything committed as applied, until stopped.
    pub(crate) fn skip(&self, shared: &Shared, events: &Events) {
        while let Some(seen) = self.log_moved.count() {
            if shared.skip_to_commit() {
                events.send(Event::Applied.into());
            }
            self.log_moved.wait_beyond(seen);
        }
    }
}

/// This thread is in a turn until this is dropped.
struct Turn;

impl Turn {
    fn begin() -> Turn {
        IN_TURN.set(true);
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        IN_TURN.set(false);
    }
}
