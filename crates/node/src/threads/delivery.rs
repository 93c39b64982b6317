//! The delivery thread: reads committed entries from the log and hands them to the host, in order.
//!
//! The host may take its time in [`Host::deliver`]; only this thread waits for it. A member without
//! a database delivers nothing: there this thread only counts what is committed as applied.

use std::sync::Arc;

use synod_log::LogError;
use synod_member::{DeliverError, Delivered, Deliverer, Event, Host, Shared};

use super::core::Events;
use crate::wait::EventCount;

/// Delivers until stopped.
pub(crate) fn deliver(
    mut deliverer: Deliverer,
    log_moved: &EventCount,
    host: &Arc<dyn Host>,
    events: &Events,
) {
    while let Some(seen) = log_moved.count() {
        match deliverer.step(u64::MAX) {
            Ok(Delivered::Some) => {}
            Ok(Delivered::Nothing) => log_moved.wait_beyond(seen),
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
pub(crate) fn skip_deliveries(shared: &Shared, log_moved: &EventCount, events: &Events) {
    while let Some(seen) = log_moved.count() {
        if shared.skip_to_commit() {
            events.send(Event::Applied.into());
        }
        log_moved.wait_beyond(seen);
    }
}
