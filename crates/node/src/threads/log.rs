//! The log thread: the only one that writes the log.
//!
//! It writes the jobs that gathered while the last sync ran, syncs once, and reports to the core
//! thread what is durable. While it has no job, it writes a durable floor for the last batch.

use std::time::SystemTime;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use synod_log::LogError;
use synod_member::{Event, IDLE, Job, Storage};

use super::core::Incoming;

/// What the log thread runs on.
pub(crate) struct LogThread {
    pub(crate) storage: Storage,
    /// What the driver wants written, in order.
    pub(crate) jobs: Receiver<Job>,
    /// Takes the reports.
    pub(crate) events: Sender<Incoming>,
}

impl LogThread {
    /// Runs until no job can come any more, or the log fails.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.serve() {
            self.report(Event::log_failed(error));
        }
    }

    fn report(&self, event: Event) {
        // The core thread may have ended; then the node is stopping anyway.
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

    /// Writes `first` and the jobs that wait, then syncs once.
    fn batch(&mut self, first: Job) -> Result<(), LogError> {
        let mut next = Some(first);
        while let Some(job) = next {
            if let Some(base) = self.storage.write(job, SystemTime::now())? {
                self.report(Event::Purged(base));
            }
            next = if self.storage.has_room() {
                self.jobs.try_recv().ok()
            } else {
                None
            };
        }
        let synced = self.storage.sync();
        if let Some(base) = self.storage.take_purged() {
            self.report(Event::Purged(base));
        }
        if let Some(ticket) = synced? {
            self.report(Event::Persisted(ticket));
        }
        Ok(())
    }
}
