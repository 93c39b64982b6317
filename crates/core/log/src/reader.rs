//! Reading entries: the newest from memory, older ones from disk. A reader takes the lock of the
//! shared state only to look up where an entry is, never over I/O. It reads disk in blocks and
//! keeps what it read ahead, under a lock of its own. Every entry from disk is verified again, so a
//! reader never gives bytes that changed after they were durable. A truncation raises the
//! *generation*; entries read ahead in an older generation are not used.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use synod_consensus::{EntryHeader, EntryKind, LogIndex, Seqno};

use crate::format::names::segment_path;
use crate::format::record::{
    BATCH_HEADER_BYTES, BatchHeader, ENTRY_FIXED_BYTES, Mismatch, Outline, PREFIX_BYTES, Place,
    Record,
};
use crate::format::version::LogFormat;
use crate::recovery::scan::{BlockReader, read_outline};
use crate::retention::index::Spot;
use crate::shared::{Segment, Shared, State, Tip};
use crate::{Entry, EntrySummary, LogError};

const HEADER_BLOCK_BYTES: usize = 64 << 10;
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Reads the log beside its writer. Each clone reads ahead for itself.
pub struct LogReader {
    shared: Arc<Shared>,
    ahead: Mutex<ReadAhead>,
}

#[derive(Default)]
struct ReadAhead {
    /// Consecutive, ascending.
    entries: Vec<Entry>,
    generation: u64,
}

enum Source {
    Memory(Vec<Entry>),
    /// A segment, a place in it, and the generation of the log that this belongs to.
    Disk(Segment, Spot, u64),
    End,
}

impl Clone for LogReader {
    fn clone(&self) -> LogReader {
        LogReader::new(self.shared.clone())
    }
}

impl LogReader {
    pub(crate) fn new(shared: Arc<Shared>) -> LogReader {
        LogReader {
            shared,
            ahead: Mutex::default(),
        }
    }

    /// One above [`LogReader::last_index`] if the log holds no entry.
    pub fn first_index(&self) -> LogIndex {
        self.shared.state().base.last.index.next()
    }

    /// Index of the last entry appended, durable or not.
    pub fn last_index(&self) -> LogIndex {
        self.shared.state().last.id.index
    }

    pub fn durable_index(&self) -> LogIndex {
        self.shared.state().durable
    }

    /// The first seqno held: every action with this seqno or a higher one is in the log.
    pub fn first_seqno_available(&self) -> Seqno {
        self.shared.state().base.seqno.next()
    }

    /// Older segments may have an older format.
    pub fn format(&self) -> LogFormat {
        self.shared.state().format
    }

    /// Time at which the oldest file of the log was begun, in milliseconds since 1970, by the wall
    /// clock of that time.
    pub fn begins_unix_ms(&self) -> u64 {
        let state = self.shared.state();
        let oldest = state.segments.values().next();
        oldest.map_or(0, |segment| segment.created_ms)
    }

    /// Entries from `from` to `to` (both inclusive), in order: at most `max_bytes` of payload, but
    /// at least one entry if there is one. Empty if `from` is above the last entry or above `to`.
    /// Entries appended and not yet durable are included. Errors: [`LogError::Purged`] if `from` is
    /// no longer held; [`LogError::Damaged`] or [`LogError::Io`] if the disk does not give it back.
    pub fn read(
        &self,
        from: LogIndex,
        to: LogIndex,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, LogError> {
        let mut wanted = ReadRequest {
            next: from,
            to,
            bytes_left: max_bytes,
            entries: Vec::new(),
        };
        while !wanted.is_full() {
            match self.source(&wanted) {
                Ok(Source::Memory(entries)) => wanted.take(entries),
                Ok(Source::Disk(segment, spot, generation)) => {
                    let found = self.read_disk(&wanted, &segment, spot, generation)?;
                    wanted.take(found);
                }
                Ok(Source::End) => break,
                // A purge may have overtaken this call; the entries found before it are valid.
                Err(_) if !wanted.entries.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(wanted.entries)
    }

    /// Whether this entry and all later ones are read without the disk.
    pub fn is_in_memory(&self, index: LogIndex) -> bool {
        self.shared.state().cache.get(index).is_some()
    }

    pub fn header(&self, index: LogIndex) -> Result<EntryHeader, LogError> {
        let (segment, spot) = {
            let state = self.shared.state();
            state.check_held(index)?;
            if let Some(entry) = state.cache.get(index) {
                return Ok(entry.header);
            }
            state.on_disk(index).ok_or_else(|| state.not_found(index))?
        };
        let mut scan = Scan::new(&self.shared, &segment, spot, HEADER_BLOCK_BYTES);
        loop {
            let passed = scan.next_entry()?;
            if passed.header.index == index {
                return Ok(passed.header);
            }
        }
    }

    /// Reads no disk.
    pub fn summary(&self, index: LogIndex) -> Option<EntrySummary> {
        self.shared.state().summaries.at(index)
    }

    /// Reads no disk.
    pub fn last_of(&self, kind: EntryKind, end: LogIndex) -> Option<LogIndex> {
        self.shared.state().summaries.last_of(kind, end)
    }

    /// Index of the last action that a database at this seqno has: that of the ordered entry with
    /// the seqno, or of the base if the log begins right after it.
    pub fn seek_database(&self, seqno: Seqno) -> Result<LogIndex, LogError> {
        {
            let state = self.shared.state();
            if seqno == state.base.seqno {
                return Ok(state.base.last.index);
            }
        }
        self.seek_seqno(seqno)
    }

    /// Reads no disk.
    pub fn seek_seqno(&self, seqno: Seqno) -> Result<LogIndex, LogError> {
        let found = {
            let state = self.shared.state();
            if seqno <= state.base.seqno {
                return Err(LogError::SeqnoPurged {
                    first: state.base.seqno.next(),
                });
            }
            if seqno > state.last.seqno {
                return Err(LogError::SeqnoNotFound {
                    seqno,
                    last: state.last.seqno,
                });
            }
            state.summaries.find_seqno(seqno)
        };
        found.ok_or(LogError::SeqnoNotFound {
            seqno,
            last: self.shared.state().last.seqno,
        })
    }

    fn source(&self, wanted: &ReadRequest) -> Result<Source, LogError> {
        let state = self.shared.state();
        if wanted.next > state.last.id.index {
            return Ok(Source::End);
        }
        state.check_held(wanted.next)?;
        if state.cache.get(wanted.next).is_some() {
            return Ok(Source::Memory(state.cached(wanted)));
        }
        let read_ahead = self.take_ahead(wanted, state.generation);
        if !read_ahead.is_empty() {
            return Ok(Source::Memory(read_ahead));
        }
        let (segment, spot) = state
            .on_disk(wanted.next)
            .ok_or_else(|| state.not_found(wanted.next))?;
        Ok(Source::Disk(segment, spot, state.generation))
    }

    fn ahead(&self) -> std::sync::MutexGuard<'_, ReadAhead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_ahead(&self, wanted: &ReadRequest, generation: u64) -> Vec<Entry> {
        let mut ahead = self.ahead();
        let entries = std::mem::take(&mut ahead.entries);
        let fits = ahead.generation == generation
            && entries
                .first()
                .is_some_and(|entry| entry.header.index == wanted.next);
        if !fits {
            return Vec::new();
        }
        let (now, later) = wanted.split(entries);
        ahead.entries = later;
        now
    }

    fn read_disk(
        &self,
        wanted: &ReadRequest,
        segment: &Segment,
        spot: Spot,
        generation: u64,
    ) -> Result<Vec<Entry>, LogError> {
        let block = wanted.bytes_left.clamp(HEADER_BLOCK_BYTES, BLOCK_BYTES_MAX);
        let mut scan = Scan::new(&self.shared, segment, spot, block);
        let found = scan.entries(wanted)?;
        let (now, later) = wanted.split(found);
        *self.ahead() = ReadAhead {
            entries: later,
            generation,
        };
        Ok(now)
    }
}

struct ReadRequest {
    next: LogIndex,
    to: LogIndex,
    bytes_left: usize,
    entries: Vec<Entry>,
}

impl ReadRequest {
    fn is_full(&self) -> bool {
        self.next > self.to || (self.bytes_left == 0 && !self.entries.is_empty())
    }

    /// Number of these entries, which start at `next`, that may be taken.
    fn count<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> usize {
        let mut left = self.bytes_left;
        let mut count = 0;
        for entry in entries {
            let len = entry.payload.len();
            let first = self.entries.is_empty() && count == 0;
            if entry.header.index > self.to || (len > left && !first) {
                break;
            }
            left = left.saturating_sub(len);
            count += 1;
        }
        count
    }

    fn split(&self, mut entries: Vec<Entry>) -> (Vec<Entry>, Vec<Entry>) {
        let later = entries.split_off(self.count(entries.iter()));
        (entries, later)
    }

    fn take(&mut self, entries: Vec<Entry>) {
        let Some(last) = entries.last() else {
            self.to = LogIndex(0);
            return;
        };
        self.next = last.header.index.next();
        let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        if self.entries.is_empty() {
            self.entries = entries;
        } else {
            self.entries.extend(entries);
        }
    }
}

impl State {
    fn check_held(&self, index: LogIndex) -> Result<(), LogError> {
        let first = self.base.last.index.next();
        if index < first {
            Err(LogError::Purged { first })
        } else {
            Ok(())
        }
    }

    pub(crate) fn not_found(&self, index: LogIndex) -> LogError {
        LogError::NotFound {
            index,
            last: self.last.id.index,
        }
    }

    fn on_disk(&self, index: LogIndex) -> Option<(Segment, Spot)> {
        let spot = self.index.find(index)?;
        Some((self.segments.get(&spot.segment)?.clone(), spot))
    }

    fn cached(&self, wanted: &ReadRequest) -> Vec<Entry> {
        let entries = || (wanted.next.0..).map_while(|index| self.cache.get(LogIndex(index)));
        let count = wanted.count(entries());
        entries().take(count).cloned().collect()
    }

    pub(crate) fn tip_at(&self, index: LogIndex) -> Option<Tip> {
        if index == self.base.last.index {
            return Some(Tip {
                id: self.base.last,
                seqno: self.base.seqno,
            });
        }
        let EntrySummary { id, seqno, .. } = self.summaries.at(index)?;
        Some(Tip { id, seqno })
    }
}

struct Passed {
    header: EntryHeader,
    outline: Outline,
    at: u64,
}

struct Scan<'a> {
    shared: &'a Shared,
    blocks: BlockReader,
    segment: u64,
    segment_id: u64,
    offset: u64,
    spot: Spot,
    /// Last entry passed; zero before the first.
    passed: LogIndex,
}

impl<'a> Scan<'a> {
    fn new(shared: &'a Shared, segment: &Segment, spot: Spot, block_bytes: usize) -> Scan<'a> {
        let blocks = BlockReader::new(segment.file.clone(), segment.end, block_bytes);
        Scan {
            shared,
            blocks,
            segment: segment.number,
            segment_id: segment.id,
            offset: spot.offset,
            spot,
            passed: LogIndex(0),
        }
    }

    /// The wanted entries, and those after them that came with the last block.
    fn entries(&mut self, wanted: &ReadRequest) -> Result<Vec<Entry>, LogError> {
        let mut found = Vec::new();
        let mut bytes = 0;
        let mut enough = false;
        loop {
            let passed = self.next_entry()?;
            // An entry that only starts in this block would cost another read.
            if enough && !self.blocks.holds(passed.at, passed.outline.bytes) {
                return Ok(found);
            }
            let index = passed.header.index;
            if index >= wanted.next {
                let entry = self.complete(&passed)?;
                bytes += entry.payload.len();
                found.push(entry);
                enough = bytes >= wanted.bytes_left || index >= wanted.to;
            }
            let next_is_here = self
                .blocks
                .holds(self.offset, BATCH_HEADER_BYTES + HEADER_BYTES);
            if index >= self.spot.last || (enough && !next_is_here) {
                return Ok(found);
            }
        }
    }

    fn next_entry(&mut self) -> Result<Passed, LogError> {
        loop {
            let at = self.offset;
            let is_batch = self.blocks.look(at, 4).map(BatchHeader::may_start);
            if is_batch.map_err(|error| self.io(error))? {
                self.offset += BATCH_HEADER_BYTES as u64;
                continue;
            }
            let place = Place {
                segment_id: self.segment_id,
                offset: at,
            };
            let outline = read_outline(&mut self.blocks, place).map_err(|error| self.io(error))?;
            let outline = outline.map_err(|mismatch| self.damaged(at, mismatch))?;
            self.offset += outline.bytes as u64;
            if let Some(header) = outline.entry {
                self.passed = header.index;
                return Ok(Passed {
                    header,
                    outline,
                    at,
                });
            }
        }
    }

    fn complete(&mut self, passed: &Passed) -> Result<Entry, LogError> {
        let Passed { outline, at, .. } = passed;
        let bytes = self
            .blocks
            .bytes(*at, outline.bytes)
            .map_err(|error| self.io(error))?;
        match outline
            .complete(&bytes)
            .map_err(|mismatch| self.damaged(*at, mismatch))?
        {
            Record::Entry(entry) => Ok(entry),
            Record::Truncate(_) | Record::Vote(_) | Record::Reset(_) => {
                Err(self.damaged(*at, Mismatch::new("the entry just seen", "another record")))
            }
        }
    }

    fn damaged(&self, offset: u64, mismatch: Mismatch) -> LogError {
        self.shared
            .damaged(self.segment, offset, self.passed, mismatch)
    }

    fn io(&self, error: io::Error) -> LogError {
        LogError::io(
            "read",
            &segment_path(self.shared.dir(), self.segment),
            0,
            error,
        )
    }
}

const HEADER_BYTES: usize = PREFIX_BYTES + ENTRY_FIXED_BYTES;
