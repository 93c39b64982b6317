//! Assembly of chunked actions: where their chunks are in the log, and reading them when the last
//! piece is due.
//!
//! [`Assembly`] notes the chunks that delivery passes. It keeps indexes only, no data: an action
//! may be larger than memory allows to hold twice. If delivery began after some chunks of an
//! action, [`assemble`] searches the log backwards for them.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use synod_consensus::{EntryHeader, EntryKind, LogIndex};
use synod_log::{Entry, LogError, LogReader};
use synod_planted::planted;

use super::{DeliverError, READ_BYTES};
use crate::payload::action::{ActionPiece, Chunk, Part};
use crate::payload::discard::{Discard, PartialActionId};

/// Entries read at a time when searching backwards for chunks.
const BACK_SCAN_ENTRIES: u64 = 512;

/// A chunk of a partial action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkPlace {
    index: LogIndex,
    /// Bytes of data in it; zero if it has keys.
    data_bytes: usize,
}

impl ChunkPlace {
    /// Index of the chunk, if it has data.
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

/// The partial actions that delivery has passed.
#[derive(Default)]
pub(super) struct Assembly {
    partial_actions: BTreeMap<PartialActionId, PassedChunks>,
}

impl Assembly {
    /// Delivery passes a chunk.
    pub(super) fn add_chunk(&mut self, header: &EntryHeader, chunk: &Chunk) {
        let id = PartialActionId::of(&header.origin, chunk.action_no);
        let passed = self.partial_actions.entry(id).or_default();
        if chunk.chunk_index == 0 {
            passed.first_chunk = header.index;
        }
        passed.chunks.push(ChunkPlace::of(header.index, chunk));
    }

    /// Delivery passes a discard: the actions that it names will not be completed.
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

    /// Delivery passes the last piece of an action: forgets and returns its chunks.
    pub(super) fn take(&mut self, id: &PartialActionId) -> Vec<ChunkPlace> {
        let passed = self.partial_actions.remove(id);
        passed.unwrap_or_default().chunks
    }

    /// Forgets every partial action.
    pub(super) fn clear(&mut self) {
        self.partial_actions.clear();
    }

    /// The first chunk passed of any partial action.
    pub(super) fn oldest_chunk(&self) -> Option<LogIndex> {
        let passed = self.partial_actions.values();
        let firsts = passed.filter_map(|passed| passed.chunks.first());
        firsts.map(|chunk| chunk.index).min()
    }
}

/// The chunks of an action whose last piece is `last`. `passed` are those that delivery has passed.
pub(super) fn all_chunks(
    reader: &LogReader,
    last: &Entry,
    piece: &ActionPiece,
    passed: Vec<ChunkPlace>,
) -> Result<Vec<ChunkPlace>, DeliverError> {
    let expected = piece.chunks as usize;
    let mut chunks = passed;
    if planted!(MissingChunks, chunks.len() < expected, else false) {
        chunks = search_chunks(reader, last, piece)?;
    }
    if planted!(MissingChunks, chunks.len() != expected, else false) {
        return Err(missing(last, piece, chunks.len()));
    }
    Ok(chunks)
}

/// The data of an action whose last piece is `last`: that of its chunks, then that of `piece`. It
/// is in memory once, and beside it one chunk. `chunks` are the chunks that delivery has passed.
pub(super) fn assemble(
    reader: &LogReader,
    last: &Entry,
    piece: &ActionPiece,
    chunks: Vec<ChunkPlace>,
) -> Result<Bytes, DeliverError> {
    let chunks = all_chunks(reader, last, piece, chunks)?;
    let in_chunks: usize = chunks.iter().map(|chunk| chunk.data_bytes).sum();
    let mut data = BytesMut::with_capacity(in_chunks + piece.data.len());
    let numbered = chunks.into_iter().enumerate();
    for (found, ChunkPlace { index, .. }) in numbered.filter(|(_, chunk)| chunk.data_bytes > 0) {
        let entries = match reader.read(index, index, READ_BYTES) {
            Err(LogError::Purged { .. }) => return Err(missing(last, piece, found)),
            read => read?,
        };
        for entry in entries {
            let chunk = Chunk::decode(entry.payload)
                .map_err(|source| DeliverError::Payload { index, source })?;
            if chunk.part == Part::Data {
                data.extend_from_slice(&chunk.bytes);
            }
        }
    }
    data.extend_from_slice(&piece.data);
    Ok(data.freeze())
}

fn missing(last: &Entry, piece: &ActionPiece, found: usize) -> DeliverError {
    DeliverError::MissingChunks {
        seqno: last.header.seqno,
        member: last.header.origin.member,
        found,
        expected: piece.chunks as usize,
    }
}

/// Searches the log backwards from the last piece for the chunks of its action. Stops when all are
/// found, or at the beginning of the log.
fn search_chunks(
    reader: &LogReader,
    last: &Entry,
    piece: &ActionPiece,
) -> Result<Vec<ChunkPlace>, DeliverError> {
    let wanted = PartialActionId::of(&last.header.origin, piece.action_no);
    let first = reader.first_index();
    let mut found = Vec::new();
    let mut end = last.header.index;
    while end > first && found.len() < piece.chunks as usize {
        let start = LogIndex(end.0.saturating_sub(BACK_SCAN_ENTRIES).max(first.0));
        let mut chunks = chunks_between(reader, start, end, &wanted)?;
        chunks.append(&mut found);
        found = chunks;
        end = start;
    }
    Ok(found)
}

/// The action's chunks from `start` to before `end`.
fn chunks_between(
    reader: &LogReader,
    start: LogIndex,
    end: LogIndex,
    wanted: &PartialActionId,
) -> Result<Vec<ChunkPlace>, DeliverError> {
    let mut chunks = Vec::new();
    let mut next = start;
    while next < end {
        let entries = match reader.read(next, end.prev(), READ_BYTES) {
            // The log was purged in the meantime.
            Err(LogError::Purged { first }) => {
                next = first;
                continue;
            }
            read => read?,
        };
        for entry in entries {
            next = entry.header.index.next();
            chunks.extend(chunk_of(&entry, wanted));
        }
    }
    Ok(chunks)
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
        Origin {
            member: MemberId(1),
            session: SessionId(2),
            number: 3,
        }
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
            term: Term(1),
            index: LogIndex(index),
            seqno: Seqno(0),
            kind: EntryKind::Chunk,
            origin: origin(),
            depends_on: Seqno::UNDEFINED,
            payload_len: 0,
            payload_crc: 0,
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
