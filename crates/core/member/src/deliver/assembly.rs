//! Assembly of chunked actions: where their chunks are in the log, and reading them when the last
//! piece is due. [`Assembly`] notes the chunks that delivery passes. It keeps indexes only, no
//! data: an action may be larger than memory allows to hold twice. If delivery began after some
//! chunks of an action, [`ChunkSearch`] looks for them backwards.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use synod_consensus::{EntryHeader, EntryKind, LogIndex};
use synod_log::{Entry, LogError, LogReader};
use synod_planted::planted;

use super::{DeliverError, HandedOver, READ_BYTES};
use crate::host::{DataChunk, Host};
use crate::payload::action::{ActionPiece, Chunk, Part};
use crate::payload::discard::{Discard, PartialActionId};

/// Entries read at a time when searching backwards for chunks.
const BACK_SCAN_ENTRIES: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkPlace {
    index: LogIndex,
    /// Bytes of data in it; zero if it has keys.
    data_bytes: usize,
}

impl ChunkPlace {
    pub(super) fn of_data(self) -> Option<LogIndex> {
        (self.data_bytes > 0).then_some(self.index)
    }

    fn of(index: LogIndex, chunk: &Chunk) -> ChunkPlace {
        let data_bytes = match chunk.part {
            Part::Keys => 0,
            Part::Data => chunk.bytes.len(),
        };
        ChunkPlace { index, data_bytes }
    }
}

/// Chunks of one partial action that delivery has passed.
#[derive(Default)]
struct PassedChunks {
    /// Ascending by index.
    chunks: Vec<ChunkPlace>,
    /// Index of the chunk that begins the action; zero if delivery began after it.
    first_chunk: LogIndex,
}

#[derive(Default)]
pub(super) struct Assembly {
    partial_actions: BTreeMap<PartialActionId, PassedChunks>,
}

impl Assembly {
    pub(super) fn add_chunk(&mut self, header: &EntryHeader, chunk: &Chunk) {
        let id = PartialActionId::of(&header.origin, chunk.action_no);
        let passed = self.partial_actions.entry(id).or_default();
        if chunk.chunk_index == 0 {
            passed.first_chunk = header.index;
        }
        passed.chunks.push(ChunkPlace::of(header.index, chunk));
    }

    pub(super) fn discard(&mut self, discard: &Discard) {
        match discard {
            Discard::Action(id) => {
                self.partial_actions.remove(id);
            }
            Discard::BegunBy(begun_by) => {
                self.partial_actions
                    .retain(|_, passed| passed.first_chunk > *begun_by);
            }
        }
    }

    pub(super) fn take(&mut self, id: &PartialActionId) -> Vec<ChunkPlace> {
        let passed = self.partial_actions.remove(id);
        passed.unwrap_or_default().chunks
    }

    pub(super) fn clear(&mut self) {
        self.partial_actions.clear();
    }

    pub(super) fn oldest_chunk(&self) -> Option<LogIndex> {
        let passed = self.partial_actions.values();
        let firsts = passed.filter_map(|passed| passed.chunks.first());
        firsts.map(|chunk| chunk.index).min()
    }
}

/// The chunks of an action whose last piece is `last`, all from a log. `passed` were passed.
pub(super) fn all_chunks(
    reader: &LogReader,
    last: &Entry,
    piece: &ActionPiece,
    passed: Vec<ChunkPlace>,
) -> Result<Vec<ChunkPlace>, DeliverError> {
    let mut search = ChunkSearch::new(last, piece, passed);
    // A log has what it has: the search does not stop in between.
    while !search.goes_on(reader)? {}
    search.take_chunks(last)
}

/// Source of entries, from one that the log has or the member can fetch.
pub(super) trait EntrySource {
    /// No earlier entry can be had.
    fn lowest_index(&self) -> LogIndex;

    /// This entry and later ones need not be fetched.
    fn held_from(&self) -> LogIndex;

    /// Entries from `from` to `to`, at least one and at most a few. `None`: they are not here yet.
    /// Errors: [`ReadError::Purged`] if no member has the first one.
    fn read(&self, from: LogIndex, to: LogIndex) -> Result<Option<Vec<Entry>>, ReadError>;
}

pub(super) enum ReadError {
    Purged,
    Log(LogError),
}

impl EntrySource for LogReader {
    fn lowest_index(&self) -> LogIndex {
        self.first_index()
    }

    fn held_from(&self) -> LogIndex {
        self.first_index()
    }

    fn read(&self, from: LogIndex, to: LogIndex) -> Result<Option<Vec<Entry>>, ReadError> {
        match LogReader::read(self, from, to, READ_BYTES) {
            Ok(entries) => Ok(Some(entries)),
            Err(LogError::Purged { .. }) => Err(ReadError::Purged),
            Err(error) => Err(ReadError::Log(error)),
        }
    }
}

/// The data of an action as it is put together: that of its chunks, then that of its last piece. It
/// is in memory once, or a chunk of it, for a host that takes chunks. It continues where it stopped
/// if entries have to be fetched.
pub(super) struct Assembling {
    last: Entry,
    piece: ActionPiece,
    stage: Stage,
}

enum Stage {
    Searching(ChunkSearch),
    /// Their data is read. The chunks are those that are not read yet.
    Reading {
        chunks: VecDeque<ChunkPlace>,
        action_bytes: usize,
        data: BytesMut,
    },
}

impl Assembling {
    /// Begins with the chunks that delivery has passed.
    pub(super) fn new(last: Entry, piece: ActionPiece, passed: Vec<ChunkPlace>) -> Assembling {
        let stage = Stage::Searching(ChunkSearch::new(&last, &piece, passed));
        Assembling { last, piece, stage }
    }

    pub(super) fn index(&self) -> LogIndex {
        self.last.header.index
    }

    /// Continues. The data, or the last part of it for a host that takes chunks; or why it stops.
    pub(super) fn go_on(
        &mut self,
        source: &dyn EntrySource,
        host: &dyn Host,
    ) -> Result<ControlFlow<HandedOver, Bytes>, DeliverError> {
        let by_chunk = host.takes_chunks();
        if let Stage::Searching(search) = &mut self.stage {
            if !search.goes_on(source)? {
                return Ok(ControlFlow::Break(HandedOver::Fetching));
            }
            let chunks = search.take_chunks(&self.last)?;
            let in_chunks: usize = chunks.iter().map(|chunk| chunk.data_bytes).sum();
            let action_bytes = in_chunks + self.piece.data.len();
            let of_data = chunks.into_iter().filter(|chunk| chunk.data_bytes > 0);
            self.stage = Stage::Reading {
                chunks: of_data.collect(),
                action_bytes,
                data: BytesMut::with_capacity(if by_chunk { 0 } else { action_bytes }),
            };
        }
        let Stage::Reading {
            chunks,
            action_bytes,
            data,
        } = &mut self.stage
        else {
            return Ok(ControlFlow::Break(HandedOver::Fetching));
        };
        while let Some(ChunkPlace { index, .. }) = chunks.front().copied() {
            match source.read(index, index) {
                Ok(None) => return Ok(ControlFlow::Break(HandedOver::Fetching)),
                Ok(Some(entries)) => add_data(index, entries, data)?,
                Err(ReadError::Purged) => {
                    let found = (self.piece.chunks as usize).saturating_sub(chunks.len());
                    return Err(missing(&self.last, self.piece.chunks, found));
                }
                Err(ReadError::Log(error)) => return Err(error.into()),
            }
            chunks.pop_front();
            if by_chunk {
                let chunk = DataChunk {
                    seqno: self.last.header.seqno,
                    depends_on: self.last.header.depends_on,
                    action_bytes: *action_bytes,
                    data: data.split().freeze(),
                };
                if host.deliver_chunk(chunk).is_break() {
                    return Ok(ControlFlow::Break(HandedOver::Stopped));
                }
            }
        }
        data.extend_from_slice(&self.piece.data);
        Ok(ControlFlow::Continue(std::mem::take(data).freeze()))
    }
}

fn add_data(index: LogIndex, entries: Vec<Entry>, data: &mut BytesMut) -> Result<(), DeliverError> {
    for entry in entries {
        let chunk = Chunk::decode(entry.payload)
            .map_err(|source| DeliverError::Payload { index, source })?;
        if chunk.part == Part::Data {
            data.extend_from_slice(&chunk.bytes);
        }
    }
    Ok(())
}

fn missing(last: &Entry, expected: u32, found: usize) -> DeliverError {
    DeliverError::MissingChunks {
        seqno: last.header.seqno,
        member: last.header.origin.member,
        found,
        expected: expected as usize,
    }
}

/// The search for the chunks of an action: backwards from its last piece, until all are found or
/// there is no earlier entry. It is over at once if delivery has passed them all.
struct ChunkSearch {
    wanted: PartialActionId,
    expected: u32,
    found: Vec<ChunkPlace>,
    /// Everything from here on was searched.
    end: LogIndex,
    /// The block before `end` that is being searched: what comes next, and what it has so far.
    block: Option<(LogIndex, Vec<ChunkPlace>)>,
    /// The entries before were purged.
    is_at_beginning: bool,
}

impl ChunkSearch {
    fn new(last: &Entry, piece: &ActionPiece, passed: Vec<ChunkPlace>) -> ChunkSearch {
        let is_incomplete = passed.len() < piece.chunks as usize;
        let mut search = ChunkSearch {
            wanted: PartialActionId::of(&last.header.origin, piece.action_no),
            expected: piece.chunks,
            found: passed,
            end: LogIndex(0),
            block: None,
            is_at_beginning: false,
        };
        if planted!(MissingChunks, is_incomplete, else false) {
            search.found.clear();
            search.end = last.header.index;
        }
        search
    }

    /// Continues; whether the search is over.
    fn goes_on(&mut self, source: &dyn EntrySource) -> Result<bool, DeliverError> {
        while self.found.len() < self.expected as usize {
            let first = source.lowest_index();
            if self.end <= first || self.is_at_beginning {
                break;
            }
            let start = LogIndex(self.end.0.saturating_sub(BACK_SCAN_ENTRIES).max(first.0));
            let (next, chunks) = self.block.get_or_insert((start, Vec::new()));
            while *next < self.end {
                match source.read(*next, self.end.prev()) {
                    Ok(None) => return Ok(false),
                    Ok(Some(entries)) => {
                        for entry in entries {
                            *next = entry.header.index.next();
                            chunks.extend(chunk_of(&entry, &self.wanted));
                        }
                    }
                    Err(ReadError::Purged) => {
                        self.is_at_beginning = true;
                        *next = source.held_from().max(next.next());
                    }
                    Err(ReadError::Log(error)) => return Err(error.into()),
                }
            }
            chunks.append(&mut self.found);
            self.found = std::mem::take(chunks);
            (self.end, self.block) = (start, None);
        }
        Ok(true)
    }

    fn take_chunks(&mut self, last: &Entry) -> Result<Vec<ChunkPlace>, DeliverError> {
        let (found, expected) = (self.found.len(), self.expected);
        if planted!(MissingChunks, found != expected as usize, else false) {
            return Err(missing(last, expected, found));
        }
        Ok(std::mem::take(&mut self.found))
    }
}

fn chunk_of(entry: &Entry, wanted: &PartialActionId) -> Option<ChunkPlace> {
    let origin = &entry.header.origin;
    let may_be = entry.header.kind == EntryKind::Chunk
        && (origin.member, origin.session) == (wanted.member, wanted.session);
    let chunk = Chunk::decode(may_be.then(|| entry.payload.clone())?).ok()?;
    (chunk.action_no == wanted.action_no).then(|| ChunkPlace::of(entry.header.index, &chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use synod_consensus::{MemberId, Origin, Seqno, SessionId, Term};

    fn origin() -> Origin {
        Origin::new(MemberId(1), SessionId(2), 3)
    }

    fn id(action_no: u64) -> PartialActionId {
        PartialActionId::of(&origin(), action_no)
    }

    fn taken(assembly: &mut Assembly, action_no: u64) -> Vec<LogIndex> {
        let chunks = assembly.take(&id(action_no));
        chunks.into_iter().map(|chunk| chunk.index).collect()
    }

    fn add(assembly: &mut Assembly, index: u64, action_no: u64, chunk_index: u32) {
        let header = EntryHeader {
            origin: origin(),
            ..EntryHeader::bare(Term(1), LogIndex(index), Seqno(0), EntryKind::Chunk)
        };
        let chunk = Chunk {
            part: Part::Data,
            chunk_index,
            action_no,
            bytes: Bytes::new(),
        };
        assembly.add_chunk(&header, &chunk);
    }

    #[test]
    fn chunks_of_interleaved_actions_are_kept_apart() {
        let mut assembly = Assembly::default();
        for (index, action_no, chunk_index) in [(4, 1, 0), (5, 2, 0), (6, 1, 1), (8, 2, 1)] {
            add(&mut assembly, index, action_no, chunk_index);
        }
        assert_eq!(assembly.oldest_chunk(), Some(LogIndex(4)));
        assert_eq!(taken(&mut assembly, 1), [LogIndex(4), LogIndex(6)]);
        assert_eq!(taken(&mut assembly, 1), []);
        assert_eq!(assembly.oldest_chunk(), Some(LogIndex(5)));
        assembly.clear();
        assert_eq!(assembly.oldest_chunk(), None);
    }

    #[test]
    fn bulk_discard_spares_what_began_later_and_nothing_whose_beginning_is_unknown() {
        let mut assembly = Assembly::default();
        add(&mut assembly, 4, 1, 0);
        add(&mut assembly, 5, 2, 0);
        add(&mut assembly, 6, 3, 7);
        assembly.discard(&Discard::BegunBy(LogIndex(4)));
        assert_eq!(taken(&mut assembly, 1), []);
        assert_eq!(taken(&mut assembly, 3), [], "it began before delivery did");
        assert_eq!(assembly.oldest_chunk(), Some(LogIndex(5)));
        assembly.discard(&Discard::Action(id(2)));
        assert_eq!(assembly.oldest_chunk(), None);
    }

    proptest! {
        /// However the chunks of several actions are mixed, each action gets its own, in order; and
        /// nothing before the first chunk that is needed counts as delivered.
        #[test]
        fn each_action_gets_its_own_chunks_in_order(
            actions in proptest::collection::vec(1..5u64, 1..60),
        ) {
            let mut assembly = Assembly::default();
            let mut expected: BTreeMap<u64, Vec<LogIndex>> = BTreeMap::new();
            for (index, action_no) in (1..).zip(&actions) {
                let chunks = expected.entry(*action_no).or_default();
                add(&mut assembly, index, *action_no, chunks.len() as u32);
                chunks.push(LogIndex(index));
            }
            while let Some((action_no, chunks)) = expected.pop_first() {
                let others = expected.values().chain([&chunks]);
                prop_assert_eq!(assembly.oldest_chunk(), others.map(|chunks| chunks[0]).min());
                prop_assert_eq!(taken(&mut assembly, action_no), chunks);
            }
            prop_assert_eq!(assembly.oldest_chunk(), None);
        }
    }
}
