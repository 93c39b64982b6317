//! The delivery thread: reads committed entries from the log and hands them to the host, in order.
//!
//! The host may take its time in [`Host::deliver`]; only this thread waits for it. A member without
//! a database delivers nothing: there this thread only counts what is committed as applied.

use std::sync::Arc;

use crossbeam_channel::Sender;
use synod_log::LogError;
use synod_member::{DeliverError, Delivered, Deliverer, Event, Host, Shared};

use super::core::Incoming;
use crate::wait::EventCount;

/// Delivers until stopped.
pub(crate) fn deliver(
    mut deliverer: Deliverer,
    log_moved: &EventCount,
    host: &Arc<dyn Host>,
    events: &Sender<Incoming>,
) {
    while let Some(seen) = log_moved.count() {
        match deliverer.step(u64::MAX) {
            Ok(Delivered::Some) => {}
            Ok(Delivered::Nothing) => log_moved.wait_beyond(seen),
            Ok(Delivered::Stopped) => return,
            Err(DeliverError::Log(error @ LogError::Damaged { .. })) => {
                // Ends the whole node. If the core thread has ended, the node has.
                let _ = events.send(Event::LogDamaged(error).into());
                return;
            }
            Err(error) => return host.failed(&error.to_string(), error.remedy()),
        }
    }
}

/// For a member without a database: counts everything committed as applied, until stopped.
pub(crate) fn skip_deliveries(shared: &Shared, log_moved: &EventCount, events: &Sender<Incoming>) {
    while let Some(seen) = log_moved.count() {
        if shared.skip_to_commit() {
            // The core thread may have ended; then the node is stopping anyway.
            let _ = events.send(Event::Applied.into());
        }
        log_moved.wait_beyond(seen);
    }
}
