//! The thread that writes the log: it gathers what came in while the last sync ran, writes it, syncs
//! once, and reports. No other thread writes to the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use synod_consensus::{ConfigAt, GroupId, HardState, LogBase, LogIndex, WriteTicket};
use synod_log::{Entry, LogError, LogWriter};

use crate::driver::Event;
use crate::host::{Host, Level};
use crate::shared::Shared;

/// One sync covers at most about this many bytes, so that a sync is never long in coming.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// After so long without writes, the last batch is covered by a durable floor.
const IDLE: Duration = Duration::from_secs(1);

/// Work for the log thread.
pub(crate) enum Job {
    Append { ticket: WriteTicket, entries: Vec<Entry> },
    Truncate { ticket: WriteTicket, from: LogIndex },
    Vote { ticket: WriteTicket, vote: HardState },
    Reset { ticket: WriteTicket, base: LogBase },
    /// The log belongs to this group from now on.
    SetGroup(GroupId),
    /// Drop what retention allows to drop. Nothing at or after `keep_from` unless space demands it.
    Retain { keep_from: LogIndex, configs: Vec<ConfigAt> },
}

pub(crate) struct Storage {
    pub(crate) writer: LogWriter,
    pub(crate) jobs: Receiver<Job>,
    pub(crate) events: Sender<Event>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) shared: Arc<Shared>,
}

impl Storage {
    /// Runs until the sender of jobs is gone or the log fails.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.serve() {
            // The receiver may be gone too; then the node is stopping anyway.
            let _ = self.events.send(Event::StorageFailed(error.to_string()));
        }
    }

    fn serve(&mut self) -> Result<(), LogError> {
        let mut floor_due = false;
        loop {
            let job = match self.jobs.recv_timeout(IDLE) {
                Ok(job) => job,
                Err(RecvTimeoutError::Disconnected) => {
                    return self.writer.sync();
                }
                Err(RecvTimeoutError::Timeout) => {
                    if floor_due {
                        self.writer.write_floor()?;
                        floor_due = false;
                    }
                    // Nothing to write a floor for: wait without waking up.
                    match self.jobs.recv() {
                        Ok(job) => job,
                        Err(_) => return Ok(()),
                    }
                }
            };
            floor_due |= self.batch(job)?;
        }
    }

    /// Does `first` and what else is waiting; returns whether anything was synced.
    fn batch(&mut self, first: Job) -> Result<bool, LogError> {
        let mut bytes = 0;
        let mut last_ticket = None;
        let mut next = Some(first);
        while let Some(job) = next {
            bytes += job_bytes(&job);
            if let Some(ticket) = self.write(job)? {
                last_ticket = Some(ticket);
            }
            next = if bytes < BATCH_BYTES_MAX { self.jobs.try_recv().ok() } else { None };
        }
        let Some(ticket) = last_ticket else { return Ok(false) };
        self.writer.sync()?;
        self.shared.log_bytes.store(self.writer.size_bytes(), Ordering::Release);
        let _ = self.events.send(Event::Persisted(ticket));
        Ok(true)
    }

    fn write(&mut self, job: Job) -> Result<Option<WriteTicket>, LogError> {
        match job {
            Job::Append { ticket, entries } => {
                self.writer.append(&entries)?;
                Ok(Some(ticket))
            }
            Job::Truncate { ticket, from } => {
                self.writer.truncate(from)?;
                Ok(Some(ticket))
            }
            Job::Vote { ticket, vote } => {
                self.writer.save_vote(vote)?;
                Ok(Some(ticket))
            }
            Job::Reset { ticket, base } => {
                self.writer.reset(base)?;
                Ok(Some(ticket))
            }
            Job::SetGroup(group) => {
                self.writer.set_group(group)?;
                Ok(None)
            }
            Job::Retain { keep_from, configs } => {
                self.retain(keep_from, &configs)?;
                Ok(None)
            }
        }
    }

    fn retain(&mut self, keep_from: LogIndex, configs: &[ConfigAt]) -> Result<(), LogError> {
        let Some(point) = self.writer.retention_point(keep_from, SystemTime::now()) else {
            return Ok(());
        };
        if point.forced && point.up_to >= keep_from {
            self.host.log(
                Level::Warning,
                &format!(
                    "the log has reached its disk bound (synod.log_retain_size): dropping entries up to \
                     {} although a member still needs them from {keep_from}; that member will need a \
                     full copy",
                    point.up_to
                ),
            );
        }
        let config_at = |index: LogIndex| configs.iter().rev().find(|c| c.index <= index).cloned();
        if let Some(base) = self.writer.purge(point.up_to, &config_at)? {
            let _ = self.events.send(Event::Purged(base));
        }
        Ok(())
    }
}

fn job_bytes(job: &Job) -> usize {
    match job {
        Job::Append { entries, .. } => entries.iter().map(|e| e.payload.len() + 128).sum(),
        Job::Truncate { .. }
        | Job::Vote { .. }
        | Job::Reset { .. }
        | Job::SetGroup(_)
        | Job::Retain { .. } => 128,
    }
}
