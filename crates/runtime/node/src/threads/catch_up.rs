//! The catch-up thread: reads old entries from the log for members that lag, or that
//! fetch what their own logs lack.
//!
//! The core thread answers from the entry cache; only requests that need the disk come here, so
//! that a lagging member never slows the others down.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use synod_log::LogReader;
use synod_member::{DiskRead, Event, Host};

use super::core::Events;
use crate::transport::Transport;

pub(crate) struct CatchUpThread {
    pub(crate) requests: Receiver<DiskRead>,
    pub(crate) reader: LogReader,
    pub(crate) transport: Arc<Transport>,
    pub(crate) host: Arc<dyn Host>,
    /// Takes the reports of damage.
    pub(crate) events: Arc<Events>,
}

impl CatchUpThread {
    /// Runs until no request can come any more.
    pub(crate) fn run(self) {
        for request in &self.requests {
            match request.answer(&self.reader, &self.host) {
                Ok(Some(message)) => self.transport.send(request.to(), message),
                Ok(None) => {}
                Err(damage) => {
                    self.events.send(Event::LogDamaged(damage).into());
                }
            }
        }
    }
}
