//! The threads that use the disk: one writes the log, one reads old entries from it.

use std::sync::Arc;
use std::time::SystemTime;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use synod_log::{LogError, LogReader};
use synod_member::{Disk, Event, Host, IDLE, Job, ReadForPeer, Storage};

use super::core::{Events, Incoming};
use crate::clock::Clock;
use crate::transport::Transport;

/// Turns that this thread drives at a time: one for its report, and one for what came meanwhile.
/// Writes wait for it.
const TURNS_MAX: usize = 2;

/// The log thread: the only one that writes the log. It writes the jobs that gathered while the
/// last sync ran, syncs once, and drives what follows from that itself, so that an acknowledgement
/// leaves at once. While it has no job, it writes a durable floor for the last batch.
pub(crate) struct LogThread {
    pub(crate) clock: Clock,
    pub(crate) storage: Storage,
    pub(crate) jobs: Receiver<Job>,
    pub(crate) events: Arc<Events>,
}

impl LogThread {
    /// Runs until no job can come any more, or the log fails.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.serve() {
            self.report(Event::log_failed(error));
        }
    }

    fn report(&self, event: Event) {
        self.events.drive(Incoming::of_the_log(event), TURNS_MAX);
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
        let sync_began = self.clock.now();
        let synced = self.storage.sync();
        if let Some(base) = self.storage.take_purged() {
            self.report(Event::Purged(base));
        }
        if let Some(ticket) = synced? {
            self.report(Event::Persisted { ticket, sync_began });
        }
        Ok(())
    }
}

/// The catch-up thread: reads old entries from the log for members that lag, or that fetch what
/// their own logs lack. The driver answers from the entry cache; only requests that need the disk
/// come here, so that a lagging member never slows the others down.
pub(crate) struct CatchUpThread {
    pub(crate) requests: Receiver<ReadForPeer>,
    pub(crate) reader: LogReader,
    pub(crate) transport: Arc<Transport>,
    pub(crate) host: Arc<dyn Host>,
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

/// The queues to the log thread and to the catch-up thread, as the driver writes to them.
pub(crate) struct DiskQueues {
    pub(crate) jobs: Sender<Job>,
    pub(crate) catch_up: Sender<ReadForPeer>,
}

impl Disk for DiskQueues {
    fn write(&self, job: Job) {
        // A receiver that has ended has reported its failure, which ends the driver.
        let _ = self.jobs.send(job);
    }

    fn read(&self, request: ReadForPeer) {
        let _ = self.catch_up.send(request);
    }
}
