//! The threads at the log: one writes, one delivers, one reads for members far behind.

use std::sync::Arc;
use std::time::SystemTime;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use synod_log::{LogError, LogReader};
use synod_member::{
    CatchUp, DeliverError, Delivered, Deliverer, Event, Host, IDLE, Job, Shared, Storage,
};

use crate::bell::Bell;
use crate::core_thread::Incoming;
use crate::peers::Peers;

/// Writes what gathered while the last sync ran, syncs once, and reports.
pub(crate) struct LogThread {
    pub(crate) storage: Storage,
    pub(crate) jobs: Receiver<Job>,
    pub(crate) events: Sender<Incoming>,
}

impl LogThread {
    /// Runs until the sender of jobs is gone or the log fails.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.serve() {
            self.tell(Event::log_failed(error));
        }
    }

    fn tell(&self, event: Event) {
        // The receiver may be gone; then the node is stopping anyway.
        let _ = self.events.send(event.into());
    }

    fn serve(&mut self) -> Result<(), LogError> {
        loop {
            let job = match self.jobs.recv_timeout(IDLE) {
                Ok(job) => job,
                Err(RecvTimeoutError::Disconnected) => return self.storage.finish(),
                Err(RecvTimeoutError::Timeout) => {
                    self.storage.idle()?;
                    // Nothing to write a floor for: wait without waking up.
                    match self.jobs.recv() {
                        Ok(job) => job,
                        Err(_) => return Ok(()),
                    }
                }
            };
            self.batch(job)?;
        }
    }

    /// Does `first` and what else is waiting.
    fn batch(&mut self, first: Job) -> Result<(), LogError> {
        let mut next = Some(first);
        while let Some(job) = next {
            if let Some(base) = self.storage.write(job, SystemTime::now())? {
                self.tell(Event::Purged(base));
            }
            next = match self.storage.has_room() {
                true => self.jobs.try_recv().ok(),
                false => None,
            };
        }
        if let Some(ticket) = self.storage.sync()? {
            self.tell(Event::Persisted(ticket));
        }
        Ok(())
    }
}

/// Delivers until stopped.
pub(crate) fn deliver(
    mut deliverer: Deliverer,
    bell: &Bell,
    host: &Arc<dyn Host>,
    events: &Sender<Incoming>,
) {
    while let Some(seen) = bell.rung() {
        match deliverer.step(u64::MAX) {
            Ok(Delivered::Some) => {}
            Ok(Delivered::Nothing) => bell.wait_after(seen),
            Ok(Delivered::Stopped) => return,
            Err(DeliverError::Log(error @ LogError::Damaged { .. })) => {
                // Ends the whole node; if its core thread is gone, that has happened.
                let _ = events.send(Event::LogDamaged(error).into());
                return;
            }
            Err(error) if error.needs_full_copy() => return host.needs_copy(&error.to_string()),
            Err(error) => return host.failed(&error.to_string()),
        }
    }
}

/// For a member without a database: counts everything committed as applied, until stopped.
pub(crate) fn skip_deliveries(shared: &Shared, bell: &Bell, events: &Sender<Incoming>) {
    while let Some(seen) = bell.rung() {
        if shared.skip_to_commit() {
            // The receiver may be gone; then the node is stopping anyway.
            let _ = events.send(Event::Applied.into());
        }
        bell.wait_after(seen);
    }
}

/// Reads for others until the sender is gone.
pub(crate) fn serve_catch_up(
    requests: &Receiver<CatchUp>,
    reader: &LogReader,
    peers: &Peers,
    host: &Arc<dyn Host>,
    events: &Sender<Incoming>,
) {
    for request in requests {
        match request.answer(reader, host) {
            Ok(Some(message)) => peers.send(request.to(), message),
            Ok(None) => {}
            Err(damage) => {
                // The receiver may be gone; then the node is stopping anyway.
                let _ = events.send(Event::LogDamaged(damage).into());
            }
        }
    }
}
