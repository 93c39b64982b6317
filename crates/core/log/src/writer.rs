//! Writing: one ordered stream, group commit.
//!
//! Calls between two syncs only gather records in memory (and make entries readable). A sync writes
//! them as one batch (several, if they are many or a segment ends) and waits for the disk once.
//!
//! Invariants: *durable* (a sync returned) <= *written* <= *appended*. The writer leaves a segment
//! only when all of it is durable, so only the newest segment can have a torn tail. Between the
//! last batch of one segment and the first of the next there is no other file operation, if the
//! next one is ready. After any failed write or sync the writer refuses everything: what is on disk
//! is unknown then.

mod segments;

use std::sync::Arc;

use synod_consensus::{Config, EntryKind, GroupId, HardState, LogBase, LogIndex};

use crate::files::{FileLock, Files, write_all_at};
use crate::format::control::{Control, StreamPosition, TERMS_NOTED};
use crate::format::names::{segment_path, set_aside_files};
use crate::format::record::{BATCH_HEADER_BYTES, BatchHeader, Place, Promises, Record};
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::format::version::LogFormat;
use crate::reader::LogReader;
use crate::retention::purge::Removals;
use crate::retention::spare::SegmentMaker;
use crate::shared::{ControlKeeper, Shared, Tip};
use crate::{Entry, LogError, LogOptions};
pub(crate) use segments::ActiveSegment;

/// A batch is closed when it has this many bytes; bounds the memory of a sync.
const BATCH_BYTES: usize = 4 << 20;
/// The write buffer is given back above this size.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

/// Loses what was not synced when it is dropped; [`LogWriter::close`] ends it orderly.
pub struct LogWriter {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) options: LogOptions,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reader: LogReader,
    pub(crate) control: Arc<ControlKeeper>,
    pub(crate) active: ActiveSegment,
    pub(crate) stream: Stream,
    pending: Vec<PendingRecord>,
    buffer: Vec<u8>,
    next: SegmentMaker,
    pub(crate) removals: Removals,
    failed: Option<Arc<LogError>>,
    syncs: u64,
    /// The last sync ended before a new segment, because the disk is full. Nothing is unknown: what
    /// is written is durable, the rest is pending.
    needs_space: bool,
    // Last field: released after everything else is dropped.
    _lock: Box<dyn FileLock>,
}

/// State of the log at the end of what was written of the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) tip: Tip,
    pub(crate) vote: HardState,
    pub(crate) next_batch: u64,
    /// Segment of the last reset, if the control file does not know of that reset yet.
    pub(crate) reset_in: Option<u64>,
}

struct PendingRecord {
    record: Record,
    bytes: usize,
    tip: Option<Tip>,
}

pub(crate) struct WriterParts {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) options: LogOptions,
    pub(crate) shared: Arc<Shared>,
    pub(crate) control: Control,
    pub(crate) active: ActiveSegment,
    pub(crate) stream: Stream,
    pub(crate) lock: Box<dyn FileLock>,
}

impl LogWriter {
    pub(crate) fn new(parts: WriterParts) -> LogWriter {
        let (files, dir) = (parts.files.clone(), parts.shared.dir());
        let control = Arc::new(ControlKeeper::new(files.clone(), dir, parts.control));
        LogWriter {
            next: SegmentMaker::new(files.clone(), dir, control.clone()),
            removals: Removals::new(files, dir, control.clone()),
            reader: LogReader::new(parts.shared.clone()),
            files: parts.files,
            options: parts.options,
            shared: parts.shared,
            control,
            active: parts.active,
            stream: parts.stream,
            pending: Vec::new(),
            buffer: Vec::new(),
            failed: None,
            syncs: 0,
            needs_space: false,
            _lock: parts.lock,
        }
    }

    /// Binds the log to a group. Durable on return.
    pub fn set_group(&mut self, group: GroupId) -> Result<(), LogError> {
        self.check_usable()?;
        let found = self.control.values().identity.group;
        if found == group {
            return Ok(());
        }
        if found != GroupId::NONE {
            let dir = self.shared.dir().to_owned();
            return Err(LogError::OtherGroup {
                dir,
                found,
                wanted: group,
            });
        }
        self.control.values().identity.group = group;
        let done = self.write_control();
        self.poison_on_error(done)
    }

    /// Writes the log in this format from now on: the control file at once, segments when they are
    /// made. Programs that do not read the format cannot open the log any more. Without effect if
    /// the format is not newer than the present one. Durable on return.
    /// A failure poisons the writer.
    pub fn raise_format(&mut self, format: LogFormat) -> Result<(), LogError> {
        self.check_usable()?;
        if format <= self.control.values().format {
            return Ok(());
        }
        self.control.values().format = format;
        let done = self.write_control();
        self.poison_on_error(done)?;
        self.shared.state().format = format;
        Ok(())
    }

    /// Appends entries; readable at once, durable after the next sync. Entries that do not
    /// follow each other and the log, or do not match their payload, are refused; none of the
    /// call's entries is taken then.
    pub fn append(&mut self, entries: &[Entry]) -> Result<(), LogError> {
        self.check_usable()?;
        let mut last = self.shared.state().last;
        for entry in entries {
            check_next(last, entry)?;
            last = Tip {
                id: entry.header.id(),
                seqno: entry.header.seqno,
            };
        }
        let mut state = self.shared.state();
        for entry in entries {
            let tip = Tip {
                id: entry.header.id(),
                seqno: entry.header.seqno,
            };
            let bytes = crate::format::record::entry_record_bytes(entry.payload.len());
            self.pending.push(PendingRecord {
                record: Record::Entry(entry.clone()),
                bytes,
                tip: Some(tip),
            });
            state.cache.push(entry.clone());
            state.summaries.push(&entry.header);
            state.last = tip;
        }
        Ok(())
    }

    /// Readers see it at once; durable after the next sync.
    pub fn truncate(&mut self, from: LogIndex) -> Result<(), LogError> {
        self.check_usable()?;
        let (first, last) = (self.reader.first_index(), self.reader.last_index());
        if from < first {
            return Err(LogError::Purged { first });
        }
        if from > last {
            return Ok(());
        }
        let tip = self.tip_at(from.prev())?;
        self.pending.retain(|pending| match &pending.record {
            Record::Entry(entry) => entry.header.index < from,
            Record::Truncate(_) | Record::Vote(_) | Record::Reset(_) => true,
        });
        self.push(Record::Truncate(from), Some(tip));
        let mut state = self.shared.state();
        state.cache.truncate(from);
        state.index.truncate(from);
        state.summaries.truncate(from);
        state.last = tip;
        state.durable = state.durable.min(tip.id.index);
        state.generation += 1;
        Ok(())
    }

    /// Durable after the next sync, in the order of what was appended.
    pub fn save_vote(&mut self, vote: HardState) -> Result<(), LogError> {
        self.check_usable()?;
        let noted = self.control.values().noted_term;
        let noted = noted.0.saturating_add(TERMS_NOTED);
        if vote.term.0 >= noted {
            self.control.values().noted_term = vote.term;
            let done = self.write_control();
            self.poison_on_error(done)?;
        }
        self.push(Record::Vote(vote), None);
        Ok(())
    }

    /// Begins the log again at `base`. Readers see it at once. A crash before the next sync leaves
    /// the old log or the new one. The vote stays.
    pub fn reset(&mut self, base: LogBase) -> Result<(), LogError> {
        self.check_usable()?;
        let tip = Tip {
            id: base.last,
            seqno: base.seqno,
        };
        let record = Record::Reset(base.clone());
        if record.encoded_bytes().is_none() {
            return Err(too_large(&base));
        }
        self.pending
            .retain(|pending| matches!(pending.record, Record::Vote(_)));
        self.push(record, Some(tip));
        let mut state = self.shared.state();
        state.cache.clear();
        state.index.clear();
        state.summaries.clear();
        state.last = tip;
        state.durable = state.durable.min(base.last.index);
        state.base = base;
        state.generation += 1;
        Ok(())
    }

    /// Makes everything since the last sync durable: one write and one fdatasync, unless the
    /// records exceed a batch (4 MiB) or a segment ends. When it returns, they are *persisted*.
    /// Errors: [`LogError::NoSpace`] or [`LogError::Io`]; afterwards the writer is poisoned, unless
    /// [`LogWriter::needs_space`] says that the sync may be tried again.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.check_usable()?;
        if self.pending.is_empty() {
            return Ok(());
        }
        self.needs_space = false;
        let done = self.flush();
        if self.needs_space {
            return done;
        }
        self.poison_on_error(done)
    }

    /// Whether the last sync failed only because the disk has no room for a new segment. After
    /// [`LogWriter::purge_for_space`] it may be tried again.
    pub fn needs_space(&self) -> bool {
        self.needs_space
    }

    /// States, by an empty batch, that the last batch is durable. Without that statement, damage to
    /// the batch would look like a torn tail. To be called when the log has been idle for a while;
    /// has no effect if some header or the control file states it already.
    pub fn write_floor(&mut self) -> Result<(), LogError> {
        self.sync()?;
        let active = &self.active;
        let room = active.segment.size.saturating_sub(active.segment.end);
        if active.stated_floor >= active.segment.end || room < BATCH_HEADER_BYTES as u64 {
            return Ok(());
        }
        let done = self.write_batch(0).and_then(|()| self.sync_active());
        // The empty batch itself needs no floor.
        self.active.stated_floor = self.active.segment.end;
        self.poison_on_error(done)
    }

    /// Syncs, and notes in the control file that everything is durable.
    pub fn close(mut self) -> Result<(), LogError> {
        self.sync()?;
        self.write_control()
    }

    pub fn size_bytes(&self) -> u64 {
        self.shared
            .state()
            .segments
            .values()
            .map(|segment| segment.size)
            .sum()
    }

    /// Control files and the preparation of segments are not counted.
    pub fn sync_count(&self) -> u64 {
        self.syncs
    }

    fn push(&mut self, record: Record, tip: Option<Tip>) {
        // Only a base can be too large, and `reset` has checked it.
        let bytes = record.encoded_bytes().unwrap_or_default();
        self.pending.push(PendingRecord { record, bytes, tip });
    }

    pub(crate) fn tip_at(&self, index: LogIndex) -> Result<Tip, LogError> {
        let state = self.shared.state();
        state.tip_at(index).ok_or_else(|| state.not_found(index))
    }

    fn flush(&mut self) -> Result<(), LogError> {
        while let Some(next) = self.pending.first() {
            let next_bytes = next.bytes;
            match self.count_for_batch() {
                0 => {
                    self.sync_active()?;
                    self.next_segment(next_bytes)?;
                }
                count => self.write_batch(count)?,
            }
        }
        self.sync_active()?;
        if self.stream.reset_in.is_some() {
            self.purge_segments_before_reset()?;
        }
        self.note_repaired()?;
        self.prepare_next();
        self.removals.check()
    }

    /// Zero if the segment is full.
    fn count_for_batch(&self) -> usize {
        let active = &self.active.segment;
        let room = active
            .size
            .saturating_sub(active.end + BATCH_HEADER_BYTES as u64);
        let mut bytes = 0;
        self.pending
            .iter()
            .take_while(|pending| {
                let fits = bytes < BATCH_BYTES && (bytes + pending.bytes) as u64 <= room;
                bytes += pending.bytes;
                fits
            })
            .count()
    }

    fn write_batch(&mut self, count: usize) -> Result<(), LogError> {
        let start = self.active.segment.end;
        let segment_id = self.active.segment.id;
        // The first batch of a segment is written together with the segment's header.
        let page = match &self.active.header_due {
            Some(_) => SEGMENT_HEADER_BYTES as usize, // a page
            None => 0,
        };
        let batch_at = start - page as u64; // the buffer begins here
        self.buffer.clear();
        self.buffer.resize(page + BATCH_HEADER_BYTES, 0);
        let mut offsets = Vec::with_capacity(count);
        for pending in &self.pending[..count] {
            let offset = batch_at + self.buffer.len() as u64;
            offsets.push(offset);
            pending
                .record
                .encode(&mut self.buffer, Place { segment_id, offset });
        }
        let header = BatchHeader {
            number: self.stream.next_batch,
            floor: self.active.floor,
            records_bytes: (self.buffer.len() - page - BATCH_HEADER_BYTES) as u64,
            records: count as u32, // at most 4 MiB of records of 24 bytes
            after: self.promises_after(count),
        };
        let header_bytes = header.encode(Place {
            segment_id,
            offset: start,
        });
        self.buffer[page..page + BATCH_HEADER_BYTES].copy_from_slice(&header_bytes);
        if let Some(header) = self.active.header_due.take() {
            let bytes = header.encode();
            self.buffer[..bytes.len()].copy_from_slice(&bytes);
        }
        write_all_at(&*self.active.segment.file, &self.buffer, batch_at)
            .map_err(|error| self.io("write to", error))?;
        self.active.stated_floor = self.active.stated_floor.max(header.floor);
        self.stream.next_batch += 1;
        self.written(count, &offsets, batch_at + self.buffer.len() as u64);
        Ok(())
    }

    /// The member's promises once the first `count` pending records are written.
    fn promises_after(&self, count: usize) -> Promises {
        let written = &self.pending[..count];
        let vote = written
            .iter()
            .rev()
            .find_map(|pending| match pending.record {
                Record::Vote(vote) => Some(vote),
                Record::Entry(_) | Record::Truncate(_) | Record::Reset(_) => None,
            });
        let tip = written.iter().rev().find_map(|pending| pending.tip);
        Promises {
            vote: vote.unwrap_or(self.stream.vote),
            last: tip.unwrap_or(self.stream.tip).id,
        }
    }

    /// `offsets` are those of the records, in a batch that ends at `batch_end`.
    fn written(&mut self, count: usize, offsets: &[u64], batch_end: u64) {
        let mut state = self.shared.state();
        let segment = &mut self.active.segment;
        segment.end = batch_end;
        for (pending, offset) in self.pending.drain(..count).zip(offsets) {
            match pending.record {
                Record::Entry(entry) => state.index.push(segment.number, *offset, &entry.header),
                Record::Vote(vote) => self.stream.vote = vote,
                Record::Reset(_) => self.stream.reset_in = Some(segment.number),
                Record::Truncate(_) => {}
            }
            self.stream.tip = pending.tip.unwrap_or(self.stream.tip);
        }
        state.segments.insert(segment.number, segment.clone());
        state.cache.evict(self.stream.tip.id.index);
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
    }

    fn sync_active(&mut self) -> Result<(), LogError> {
        if self.active.floor == self.active.segment.end {
            return Ok(());
        }
        let file = &self.active.segment.file;
        let done = synod_planted::planted!(AckBeforeSync, file.sync_data(), else Ok(()));
        let done = synod_planted::planted!(IgnoreFailedSync, done, else Ok(()));
        done.map_err(|error| self.io("sync", error))?;
        self.syncs += 1;
        self.active.floor = self.active.segment.end;
        let mut state = self.shared.state();
        state.durable = self.stream.tip.id.index.min(state.last.id.index);
        Ok(())
    }

    /// Ends a repair once the durable log again has everything that the segments set aside had.
    pub(crate) fn note_repaired(&mut self) -> Result<(), LogError> {
        let until = self.control.values().repair_until;
        if until.is_none_or(|until| self.stream.tip.id < until) {
            return Ok(());
        }
        self.control.values().repair_until = None;
        self.write_control()?;
        self.remove_set_aside()
    }

    /// Removes the segments that repairs have set aside, unless a repair is under way.
    pub(crate) fn remove_set_aside(&self) -> Result<(), LogError> {
        if self.control.values().repair_until.is_some() {
            return Ok(());
        }
        for path in set_aside_files(&*self.files, self.shared.dir())? {
            self.files
                .remove(&path)
                .map_err(|error| LogError::io("remove", &path, 0, error))?;
        }
        Ok(())
    }

    pub(crate) fn write_control(&mut self) -> Result<(), LogError> {
        let floor = self.durable_position();
        self.control.values().floor = floor;
        self.control.write()?;
        self.active.stated_floor = self.active.stated_floor.max(floor.offset);
        Ok(())
    }

    pub(crate) fn durable_position(&self) -> StreamPosition {
        StreamPosition {
            segment: self.active.segment.number,
            offset: self.active.floor,
        }
    }

    pub(crate) fn has_pending_removal(&self) -> bool {
        let removes = |pending: &PendingRecord| {
            matches!(pending.record, Record::Truncate(_) | Record::Reset(_))
        };
        self.pending.iter().any(removes)
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(crate) fn check_usable(&self) -> Result<(), LogError> {
        match &self.failed {
            None => Ok(()),
            Some(first) => Err(LogError::Poisoned {
                first: first.clone(),
            }),
        }
    }

    /// Remembers a failure: what is on disk is unknown from now on (after a failed fsync the page
    /// cache may show what the disk does not have).
    pub(crate) fn poison_on_error<T>(&mut self, done: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(error) = &done {
            self.failed.get_or_insert_with(|| Arc::new(error.clone()));
        }
        done
    }

    fn io(&self, doing: &'static str, error: std::io::Error) -> LogError {
        let path = segment_path(self.shared.dir(), self.active.segment.number);
        LogError::io(doing, &path, self.buffer.len() as u64, error)
    }
}

fn check_next(last: Tip, entry: &Entry) -> Result<(), LogError> {
    let header = &entry.header;
    let expected = last.id.index.next();
    if header.index != expected {
        return Err(LogError::NotNext {
            expected,
            found: header.index,
        });
    }
    if header.term < last.id.term || header.seqno < last.seqno {
        return Err(LogError::Regresses {
            index: header.index,
            term: header.term,
            seqno: header.seqno,
            last_term: last.id.term,
            last_seqno: last.seqno,
        });
    }
    entry.check()?;
    if header.kind == EntryKind::Config {
        Config::decode(&entry.payload).map_err(|error| LogError::BadConfig {
            index: header.index,
            reason: error.to_string(),
        })?;
    }
    Ok(())
}

fn too_large(base: &LogBase) -> LogError {
    LogError::TooLarge {
        index: base.last.index,
        bytes: base.config.config.members.len() as u64 * 64, // only a hint
        max: crate::format::record::OTHER_BODY_BYTES_MAX as u64,
    }
}

#[cfg(test)]
mod tests;
