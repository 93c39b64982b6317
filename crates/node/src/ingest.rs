//! Certification state of a member: the key index, and the chunks of actions not complete yet.
//!
//! The leader asks for a verdict before it appends; every member, leader or not, ingests what is
//! appended to its log, so that whoever leads next needs no scan (design: "certify once, at the
//! leader"). A truncation undoes exactly what the dropped entries had done.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use synod_certify::{CertLimits, Certifier, Class, KeySet, KeyType, Request, Source, Verdict};
use synod_consensus::{EntryHeader, EntryKind, LogIndex, MemberId, Origin, Seqno, SessionId};

use crate::action::{ActionPiece, Chunk, Part, PayloadError};

/// Names an action in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OpenId {
    pub(crate) member: MemberId,
    pub(crate) session: SessionId,
    /// The origin's number for the action.
    pub(crate) chunked: u64,
}

impl OpenId {
    fn of(origin: &Origin, chunked: u64) -> OpenId {
        OpenId { member: origin.member, session: origin.session, chunked }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(24);
        out.put_u64_le(self.member.0);
        out.put_u64_le(self.session.0);
        out.put_u64_le(self.chunked);
        out.freeze()
    }

    pub(crate) fn decode(mut payload: Bytes) -> Result<OpenId, PayloadError> {
        if payload.len() != 24 {
            return Err(PayloadError { what: "discard", why: format!("{} bytes", payload.len()) });
        }
        Ok(OpenId {
            member: MemberId(payload.get_u64_le()),
            session: SessionId(payload.get_u64_le()),
            chunked: payload.get_u64_le(),
        })
    }
}

/// An action some chunks of which are in the log.
struct Open {
    /// Keys by the index of the chunk that brought them.
    keys: Vec<(LogIndex, Bytes)>,
    chunks: Vec<LogIndex>,
    touched: Instant,
    /// Index of the last piece or discard, once appended. Kept until that is committed.
    closed: Option<LogIndex>,
}

/// What an uncommitted entry did, for the way back.
struct Trail {
    index: LogIndex,
    /// Seqno of the first ordered entry at or after `index`.
    next_seqno: Seqno,
}

/// See the module.
pub(crate) struct Ingestor {
    certifier: Certifier,
    open: HashMap<OpenId, Open>,
    trail: VecDeque<Trail>,
    last_seqno: Seqno,
    last_index: LogIndex,
}

impl Ingestor {
    /// Knows nothing of actions up to `seqno`, the last one at or before `index`.
    pub(crate) fn new(index: LogIndex, seqno: Seqno, limits: CertLimits) -> Ingestor {
        Ingestor {
            certifier: Certifier::new(seqno.0, limits),
            open: HashMap::new(),
            trail: VecDeque::new(),
            last_seqno: seqno,
            last_index: index,
        }
    }

    /// Index of the last entry ingested.
    pub(crate) fn last_index(&self) -> LogIndex {
        self.last_index
    }

    /// The verdict on an action that would be ordered next.
    pub(crate) fn certify(
        &self,
        origin: &Origin,
        payload: &Bytes,
    ) -> Result<Verdict, PayloadError> {
        let piece = ActionPiece::decode(payload.clone())?;
        let keys = self.keys_of(origin, &piece)?;
        let request = request(origin, &piece, &keys);
        Ok(self.certifier.certify(self.last_seqno.next().0, &request))
    }

    /// Takes in an entry that was appended to this member's log. An error means that the payload is
    /// not understood; it is then treated as conflicting with everything.
    pub(crate) fn appended(
        &mut self,
        header: &EntryHeader,
        payload: &Bytes,
    ) -> Result<(), PayloadError> {
        self.trail.push_back(Trail { index: header.index, next_seqno: self.last_seqno.next() });
        self.last_index = header.index;
        if header.kind.is_ordered() {
            assert_eq!(header.seqno, self.last_seqno.next(), "seqnos are gapless");
            self.last_seqno = header.seqno;
        }
        match header.kind {
            EntryKind::NoOp | EntryKind::Config => Ok(()),
            EntryKind::View => {
                self.ingest_as(header.seqno, &KeySet::new(), Class::Barrier);
                Ok(())
            }
            EntryKind::Action => self.ingest_action(header, payload),
            EntryKind::Chunk => self.ingest_chunk(header, payload),
            EntryKind::Discard => {
                let id = OpenId::decode(payload.clone())?;
                self.close(&id, header.index);
                Ok(())
            }
        }
    }

    fn ingest_action(&mut self, header: &EntryHeader, payload: &Bytes) -> Result<(), PayloadError> {
        let parsed = ActionPiece::decode(payload.clone())
            .and_then(|piece| Ok((self.keys_of(&header.origin, &piece)?, piece)));
        match parsed {
            Ok((keys, piece)) => {
                let request = request(&header.origin, &piece, &keys);
                self.certifier.ingest(header.seqno.0, &request);
                if piece.chunked != 0 {
                    self.close(&OpenId::of(&header.origin, piece.chunked), header.index);
                }
                Ok(())
            }
            Err(error) => {
                // Its keys are unknown here: whatever has not seen it conflicts with it.
                let mut everything = KeySet::new();
                everything.append(&[], KeyType::Exclusive);
                self.ingest_as(header.seqno, &everything, Class::TotalOrder);
                Err(error)
            }
        }
    }

    fn ingest_as(&mut self, seqno: Seqno, keys: &KeySet, class: Class) {
        let source = Source { member: 0, epoch: 0 };
        let request = Request { source, last_seen: seqno.0 - 1, keys, class };
        self.certifier.ingest(seqno.0, &request);
    }

    fn ingest_chunk(&mut self, header: &EntryHeader, payload: &Bytes) -> Result<(), PayloadError> {
        let chunk = Chunk::decode(payload.clone())?;
        let open = self
            .open
            .entry(OpenId::of(&header.origin, chunk.chunked))
            .or_insert_with(|| Open {
                keys: Vec::new(),
                chunks: Vec::new(),
                touched: Instant::now(),
                closed: None,
            });
        open.touched = Instant::now();
        open.chunks.push(header.index);
        if chunk.part == Part::Keys {
            open.keys.push((header.index, chunk.bytes));
        }
        Ok(())
    }

    fn close(&mut self, id: &OpenId, index: LogIndex) {
        if let Some(open) = self.open.get_mut(id) {
            open.closed = Some(index);
        }
    }

    fn keys_of(&self, origin: &Origin, piece: &ActionPiece) -> Result<KeySet, PayloadError> {
        let bad = |why: String| PayloadError { what: "action", why };
        let mut encoded = Vec::new();
        if piece.chunked != 0 {
            let id = OpenId::of(origin, piece.chunked);
            let open = self.open.get(&id).ok_or_else(|| bad("its chunks are unknown".into()))?;
            if open.chunks.len() != piece.chunks as usize {
                let (found, expected) = (open.chunks.len(), piece.chunks);
                return Err(bad(format!("{found} of {expected} chunks")));
            }
            for (_, bytes) in &open.keys {
                encoded.extend_from_slice(bytes);
            }
        }
        if encoded.is_empty() {
            return KeySet::decode(&piece.keys).map_err(|e| bad(e.to_string()));
        }
        encoded.extend_from_slice(&piece.keys);
        KeySet::decode(&encoded).map_err(|e| bad(e.to_string()))
    }

    /// The log was cut: entries at and after `from` are gone.
    pub(crate) fn truncated(&mut self, from: LogIndex) {
        let kept = self.trail.partition_point(|t| t.index < from);
        let Some(first_gone) = self.trail.get(kept) else { return };
        let next_seqno = first_gone.next_seqno;
        self.trail.truncate(kept);
        self.certifier.rollback(next_seqno.0);
        self.last_seqno = next_seqno.prev();
        self.last_index = from.prev();
        self.open.retain(|_, open| {
            open.keys.retain(|(index, _)| *index < from);
            open.chunks.retain(|index| *index < from);
            open.closed = open.closed.filter(|index| *index < from);
            !open.chunks.is_empty()
        });
    }

    /// Entries up to here can never be cut.
    pub(crate) fn committed(&mut self, header: &EntryHeader) {
        while self.trail.front().is_some_and(|t| t.index <= header.index) {
            self.trail.pop_front();
        }
        self.certifier.committed(header.seqno.0);
        let closed_by_this =
            matches!(header.kind, EntryKind::Action | EntryKind::Discard) && !self.open.is_empty();
        if closed_by_this {
            self.open.retain(|_, open| open.closed.is_none_or(|index| index > header.index));
        }
    }

    /// Every live member has applied up to here.
    pub(crate) fn advance_window(&mut self, low_water: Seqno) {
        self.certifier.advance_window(low_water.0);
    }

    /// Actions in chunks that nobody has continued since `before`.
    pub(crate) fn stale(&self, before: Instant) -> Vec<OpenId> {
        let mut stale: Vec<OpenId> = self
            .open
            .iter()
            .filter(|(_, open)| open.closed.is_none() && open.touched < before)
            .map(|(id, _)| *id)
            .collect();
        stale.sort();
        stale
    }

    /// First chunk of any action that is not complete.
    pub(crate) fn oldest_open_chunk(&self) -> Option<LogIndex> {
        self.open.values().filter_map(|open| open.chunks.first().copied()).min()
    }

    /// Keys in the index.
    pub(crate) fn key_count(&self) -> usize {
        self.certifier.key_count()
    }
}

fn request<'a>(origin: &Origin, piece: &ActionPiece, keys: &'a KeySet) -> Request<'a> {
    // The session is part of the source: locks do not outlive the process that held them.
    let source = Source { member: origin.member.0 ^ origin.session.0, epoch: piece.epoch };
    Request { source, last_seen: piece.last_seen, keys, class: piece.class }
}
