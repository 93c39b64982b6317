//! The thread that writes the log: it gathers what came in while the last sync ran, writes it, syncs
//! once, and reports. No other thread writes to the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use synod_consensus::{ConfigAt, GroupId, HardState, LogBase, LogIndex, Seqno, WriteTicket};
use synod_log::{Entry, LogError, LogReader, LogWriter};

use crate::driver::Event;
use crate::host::{Host, Level};
use crate::shared::Shared;

/// One sync covers at most about this many bytes, so that a sync is never long in coming.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// After so long without writes, the last batch is covered by a durable floor.
const IDLE: Duration = Duration::from_secs(1);

/// Work for the log thread.
pub(crate) enum Job {
    Append {
        ticket: WriteTicket,
        /// See `Shared::log_cut`.
        era: u64,
        entries: Vec<Entry>,
    },
    Truncate {
        ticket: WriteTicket,
        era: u64,
        from: LogIndex,
    },
    Vote {
        ticket: WriteTicket,
        vote: HardState,
    },
    Reset {
        ticket: WriteTicket,
        era: u64,
        base: LogBase,
    },
    /// The log belongs to this group from now on.
    SetGroup(GroupId),
    /// Drop what retention allows to drop.
    Retain(Retain),
}

/// What has to stay of the log.
pub(crate) struct Retain {
    /// Nothing at or after this index goes, unless space demands it.
    pub(crate) keep_from: LogIndex,
    /// Nor anything after this action, which is as far as some other member has come.
    pub(crate) keep_after: Option<Seqno>,
    /// Nothing after this index goes, whatever space demands.
    pub(crate) committed: LogIndex,
    /// The configurations in force at all entries up to `committed`, ascending.
    pub(crate) configs: Vec<ConfigAt>,
}

pub(crate) struct Storage {
    pub(crate) writer: LogWriter,
    pub(crate) reader: LogReader,
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
            next = if bytes < BATCH_BYTES_MAX {
                self.jobs.try_recv().ok()
            } else {
                None
            };
        }
        let Some(ticket) = last_ticket else {
            return Ok(false);
        };
        self.writer.sync()?;
        self.shared
            .log_bytes
            .store(self.writer.size_bytes(), Ordering::Release);
        let _ = self.events.send(Event::Persisted(ticket));
        Ok(true)
    }

    fn write(&mut self, job: Job) -> Result<Option<WriteTicket>, LogError> {
        match job {
            Job::Append {
                ticket,
                era,
                entries,
            } => {
                self.writer.append(&entries)?;
                if let Some(last) = entries.last() {
                    self.shared.log_written(era, last.header.index);
                }
                Ok(Some(ticket))
            }
            Job::Truncate { ticket, era, from } => {
                self.writer.truncate(from)?;
                self.shared.log_written(era, from.prev());
                Ok(Some(ticket))
            }
            Job::Vote { ticket, vote } => {
                self.writer.save_vote(vote)?;
                Ok(Some(ticket))
            }
            Job::Reset { ticket, era, base } => {
                let index = base.last.index;
                self.writer.reset(base)?;
                self.shared.log_written(era, index);
                Ok(Some(ticket))
            }
            Job::SetGroup(group) => {
                self.writer.set_group(group)?;
                Ok(None)
            }
            Job::Retain(retain) => {
                self.retain(&retain)?;
                Ok(None)
            }
        }
    }

    fn retain(&mut self, retain: &Retain) -> Result<(), LogError> {
        let now = SystemTime::now();
        if self.writer.retention_point(retain.keep_from, now).is_none() {
            return Ok(());
        }
        let keep_from = self.keep_from(retain);
        let Some(point) = self.writer.retention_point(keep_from, now) else {
            return Ok(());
        };
        let up_to = point.up_to.min(retain.committed);
        if point.forced && up_to >= keep_from {
            self.host.log(
                Level::Warning,
                &format!(
                    "the log has reached its disk bound (synod.log_retain_size): dropping entries up to \
                     {up_to} although a member still needs them from {keep_from}; that member will need \
                     a full copy",
                ),
            );
        }
        let configs = &retain.configs;
        let config_at = |index: LogIndex| configs.iter().rev().find(|c| c.index <= index).cloned();
        if let Some(base) = self.writer.purge(up_to, &config_at)? {
            self.shared
                .log_bytes
                .store(self.writer.size_bytes(), Ordering::Release);
            let _ = self.events.send(Event::Purged(base));
        }
        Ok(())
    }

    /// Takes the slowest other member into account, if the log still has what it lacks.
    fn keep_from(&self, retain: &Retain) -> LogIndex {
        let slowest = retain
            .keep_after
            .filter(|seqno| *seqno > Seqno(0))
            .and_then(|seqno| self.reader.seek_seqno(seqno).ok());
        slowest.map_or(retain.keep_from, |index| index.min(retain.keep_from))
    }
}

fn job_bytes(job: &Job) -> usize {
    match job {
        Job::Append { entries, .. } => entries.iter().map(|e| e.payload.len() + 128).sum(),
        Job::Truncate { .. }
        | Job::Vote { .. }
        | Job::Reset { .. }
        | Job::SetGroup(_)
        | Job::Retain(_) => 128,
    }
}
