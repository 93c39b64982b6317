//! Writing the log, step by step: what gathered while the last sync ran, and then one sync.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use synod_consensus::{ConfigAt, GroupId, HardState, LogBase, LogIndex, Seqno, WriteTicket};
use synod_log::{Entry, LogError, LogReader, LogWriter};

use crate::host::{Host, Level};
use crate::shared::Shared;

/// One sync covers at most about this many bytes, so that a sync is never long in coming.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// After so long without writes, [`Storage::idle`] is due.
pub const IDLE: Duration = Duration::from_secs(1);

/// Work for the log. `era` counts how often what was written before became void: a write of an
/// earlier era says nothing about what can be read now.
pub enum Job {
    /// Write entries.
    Append {
        /// Names the write in the report.
        ticket: WriteTicket,
        /// See above.
        era: u64,
        /// These.
        entries: Vec<Entry>,
    },
    /// Cut the log.
    Truncate {
        /// Names the write in the report.
        ticket: WriteTicket,
        /// See above.
        era: u64,
        /// The first entry to go.
        from: LogIndex,
    },
    /// Write a term and vote.
    Vote {
        /// Names the write in the report.
        ticket: WriteTicket,
        /// These.
        vote: HardState,
    },
    /// Begin the log anew.
    Reset {
        /// Names the write in the report.
        ticket: WriteTicket,
        /// See above.
        era: u64,
        /// After this entry.
        base: LogBase,
    },
    /// The log belongs to this group from now on.
    SetGroup(GroupId),
    /// Drop what retention allows to drop.
    Retain(Retain),
}

/// What has to stay of the log.
pub struct Retain {
    /// Nothing at or after this index goes, unless space demands it.
    pub(crate) keep_from: LogIndex,
    /// Nor anything after this action, which is as far as some other member has come.
    pub(crate) keep_after: Option<Seqno>,
    /// Nothing after this index goes, whatever space demands: it comes back even if all machines lose their
    /// power now, and a minority its disks. Committed.
    pub(crate) purge_limit: LogIndex,
    /// The configurations in force at all entries up to that, ascending.
    pub(crate) configs: Vec<ConfigAt>,
}

/// Writes the log: what gathered while the last sync ran, and then one sync. Nobody else writes it.
pub struct Storage {
    writer: LogWriter,
    reader: LogReader,
    host: Arc<dyn Host>,
    shared: Arc<Shared>,
    /// What was written since the last sync.
    batch_bytes: usize,
    last_ticket: Option<WriteTicket>,
    floor_due: bool,
}

impl Storage {
    /// Writes by this writer.
    pub fn new(
        writer: LogWriter,
        reader: LogReader,
        host: Arc<dyn Host>,
        shared: Arc<Shared>,
    ) -> Storage {
        let storage = Storage {
            writer,
            reader,
            host,
            shared,
            batch_bytes: 0,
            last_ticket: None,
            floor_due: false,
        };
        storage.note_size();
        storage
    }

    /// Whether more may be written before the next sync, so that a sync is never long in coming.
    pub fn has_room(&self) -> bool {
        self.batch_bytes < BATCH_BYTES_MAX
    }

    /// Whether anything was written that [`Storage::sync`] would report.
    pub fn needs_sync(&self) -> bool {
        self.last_ticket.is_some()
    }

    /// Does one job; `wall` is the wall clock, for the age of what is dropped. Answers where the log
    /// starts if that has changed: [`crate::Event::Purged`]. Nothing is durable before
    /// [`Storage::sync`].
    ///
    /// # Errors
    /// Those of [`LogWriter`]; the log is then not to be written any more.
    pub fn write(&mut self, job: Job, wall: SystemTime) -> Result<Option<LogBase>, LogError> {
        self.batch_bytes += job_bytes(&job);
        if let Job::Retain(retain) = job {
            return self.retain(&retain, wall);
        }
        if let Some(ticket) = self.write_record(job)? {
            self.last_ticket = Some(ticket);
        }
        Ok(None)
    }

    /// Makes what was written durable. Answers what to report, if anything:
    /// [`crate::Event::Persisted`].
    ///
    /// # Errors
    /// As [`Storage::write`].
    pub fn sync(&mut self) -> Result<Option<WriteTicket>, LogError> {
        self.batch_bytes = 0;
        let Some(ticket) = self.last_ticket.take() else {
            return Ok(None);
        };
        self.writer.sync()?;
        self.floor_due = true;
        self.note_size();
        Ok(Some(ticket))
    }

    /// After [`IDLE`] without jobs: covers the last batch by a durable floor, if it is not yet.
    /// Answers whether it did.
    ///
    /// # Errors
    /// As [`Storage::write`].
    pub fn idle(&mut self) -> Result<bool, LogError> {
        if !std::mem::take(&mut self.floor_due) {
            return Ok(false);
        }
        self.writer.write_floor()?;
        Ok(true)
    }

    /// No more jobs will come.
    ///
    /// # Errors
    /// As [`Storage::write`].
    pub fn finish(&mut self) -> Result<(), LogError> {
        self.writer.sync()
    }

    fn note_size(&self) {
        let bytes = self.writer.size_bytes();
        self.shared.log_bytes.store(bytes, Ordering::Release);
        let full = self.writer.is_full();
        self.shared.log_full.store(full, Ordering::Release);
    }

    fn write_record(&mut self, job: Job) -> Result<Option<WriteTicket>, LogError> {
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
                if !synod_planted::is(synod_planted::Bug::LoseTruncate) {
                    self.writer.truncate(from)?;
                }
                self.shared.log_written(era, from.prev());
                Ok(Some(ticket))
            }
            Job::Vote { ticket, vote } => {
                if !synod_planted::is(synod_planted::Bug::SkipVote) {
                    self.writer.save_vote(vote)?;
                }
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
            Job::Retain(_) => Ok(None),
        }
    }

    fn retain(&mut self, retain: &Retain, wall: SystemTime) -> Result<Option<LogBase>, LogError> {
        if self
            .writer
            .retention_point(retain.keep_from, wall)
            .is_none()
        {
            return Ok(None);
        }
        let keep_from = self.keep_from(retain);
        let Some(point) = self.writer.retention_point(keep_from, wall) else {
            return Ok(None);
        };
        let up_to = point.up_to.min(retain.purge_limit);
        let configs = &retain.configs;
        let config_at = |index: LogIndex| configs.iter().rev().find(|c| c.index <= index).cloned();
        let base = self.writer.purge(up_to, &config_at)?;
        let Some(base) = base else { return Ok(None) };
        self.note_size();
        let dropped = base.last.index;
        if point.forced && dropped >= keep_from {
            self.host.log(
                Level::Warning,
                &format!(
                    "the log has reached its disk bound (synod.log_retain_size): dropped entries up to \
                     {dropped} although a member may still need those from {keep_from} on; it will take a \
                     full copy then",
                ),
            );
        }
        Ok(Some(base))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::tests::Sink;
    use bytes::Bytes;
    use std::path::Path;
    use synod_consensus::{EntryHeader, EntryKind, Origin, Term};
    use synod_log::{Log, LogOptions, MemoryFiles};

    #[test]
    fn full_log_keeps_what_too_few_databases_have() {
        let files = MemoryFiles::new(1);
        let options = LogOptions {
            segment_bytes: 64 << 10,
            retain_bytes: 64 << 10,
            ..LogOptions::default()
        };
        let opened = Log::open(Arc::new(files), Path::new("log"), options).unwrap();
        let mut writer = opened.writer;
        writer.set_group(GroupId([1; 16])).unwrap();
        let payload = Bytes::from(vec![7; 1000]);
        let entry = |index: u64| Entry {
            header: EntryHeader {
                term: Term(1),
                index: LogIndex(index),
                seqno: Seqno(index as i64),
                kind: EntryKind::Action,
                origin: Origin::default(),
                depends_on: Seqno::UNDEFINED,
                payload_len: payload.len() as u32,
                payload_crc: crc32c::crc32c(&payload),
            },
            payload: payload.clone(),
        };
        for index in 1..=500 {
            writer.append(&[entry(index)]).unwrap();
            writer.sync().unwrap();
        }
        let shared = Arc::new(Shared::new(LogIndex(0), Seqno(0), || ()));
        let host = Arc::new(Sink::default());
        let mut storage = Storage::new(writer, opened.reader, host, shared.clone());
        let mut retain = |purge_limit| {
            let retain = Retain {
                keep_from: LogIndex(0),
                keep_after: None,
                purge_limit: LogIndex(purge_limit),
                configs: vec![ConfigAt::default()],
            };
            let base = storage.write(Job::Retain(retain), SystemTime::now());
            base.unwrap().map_or(0, |base| base.last.index.0)
        };
        let dropped = retain(130);
        assert!((1..=130).contains(&dropped), "{dropped}");
        let dropped = retain(250);
        assert!((131..=250).contains(&dropped), "{dropped}");
    }

    #[test]
    fn size_of_the_log_is_known_before_anything_is_written() {
        let files = MemoryFiles::new(1);
        let mut options = LogOptions {
            segment_bytes: 256 << 10,
            retain_bytes: 64 << 10,
            ..LogOptions::default()
        };
        let open = |options| Log::open(Arc::new(files.clone()), Path::new("log"), options).unwrap();
        let storage = |opened: synod_log::Opened| {
            let shared = Arc::new(Shared::new(LogIndex(0), Seqno(0), || ()));
            let host = Arc::new(Sink::default());
            let storage = Storage::new(opened.writer, opened.reader, host, shared.clone());
            (storage, shared)
        };
        let mut writer = open(options.clone()).writer;
        while writer.size_bytes() < 5 * options.segment_bytes {
            let vote = HardState {
                term: Term(1),
                voted_for: None,
            };
            (0..500).for_each(|_| writer.save_vote(vote).unwrap());
            writer.sync().unwrap();
        }
        drop(writer);
        let (_, shared) = storage(open(options.clone()));
        assert_eq!(shared.status().log_bytes, 5 * options.segment_bytes);
        assert!(shared.is_log_full());
        options.retain_bytes = 1 << 30;
        let (_, shared) = storage(open(options));
        assert!(!shared.is_log_full());
    }
}
