//! Certification state of a simulated member: the same calls of `synod-certify`, in the same order,
//! as the node's ingestor makes them. Every entry appended to the member's log is shown to the
//! certifier; a truncation undoes exactly what the dropped entries had done.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use synod_certify::{CertLimits, Certifier, Class, KeySet, KeyType, Request, Source, Verdict};
use synod_consensus::{EntryHeader, EntryKind, LogIndex, MemberId, Origin, Seqno, SessionId};

use crate::action::{Chunk, Piece};

/// Names an action in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenId {
    pub(crate) member: MemberId,
    pub(crate) session: SessionId,
    pub(crate) chunked: u64,
}

impl OpenId {
    pub(crate) fn of(origin: &Origin, chunked: u64) -> OpenId {
        OpenId {
            member: origin.member,
            session: origin.session,
            chunked,
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let words = [self.member.0, self.session.0, self.chunked];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<OpenId> {
        let word = |at: usize| {
            Some(u64::from_le_bytes(
                payload.get(at..at + 8)?.try_into().ok()?,
            ))
        };
        Some(OpenId {
            member: MemberId(word(0)?),
            session: SessionId(word(8)?),
            chunked: word(16)?,
        })
    }
}

#[derive(Debug, Default)]
struct Open {
    chunks: Vec<(LogIndex, Bytes)>,
    touched_us: u64,
    closed: Option<LogIndex>,
}

#[derive(Debug)]
struct Trail {
    index: LogIndex,
    next_seqno: Seqno,
}

/// See the module.
pub(crate) struct Ingestor {
    certifier: Certifier,
    open: BTreeMap<OpenId, Open>,
    trail: VecDeque<Trail>,
    last_seqno: Seqno,
    last_index: LogIndex,
    limits: CertLimits,
    start: LogIndex,
    /// What came before the next entry is not known: it will tell.
    lost: bool,
    /// The last action whose keys were not known: its chunks came before this member's history.
    pub(crate) blind: i64,
    /// The planted bug "window off by one".
    pub(crate) generous: bool,
    /// The planted bug "no rollback of certification".
    pub(crate) keeps_cut: bool,
}

impl Ingestor {
    pub(crate) fn new(index: LogIndex, seqno: Seqno, limits: CertLimits) -> Ingestor {
        Ingestor {
            certifier: Certifier::new(seqno.0, limits),
            open: BTreeMap::new(),
            trail: VecDeque::new(),
            last_seqno: seqno,
            last_index: index,
            limits,
            start: index,
            lost: false,
            blind: 0,
            generous: false,
            keeps_cut: false,
        }
    }

    fn restart(&mut self, index: LogIndex, seqno: Seqno) {
        let (generous, keeps_cut) = (self.generous, self.keeps_cut);
        *self = Ingestor {
            generous,
            keeps_cut,
            ..Ingestor::new(index, seqno, self.limits)
        };
    }

    pub(crate) fn last_index(&self) -> LogIndex {
        self.last_index
    }

    pub(crate) fn window_start(&self) -> i64 {
        self.certifier.window_start()
    }

    /// Bytes held for certification, about; for the bounds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.certifier.memory_bytes()
    }

    /// Whether a chunk continues what its origin has sent so far.
    pub(crate) fn check_chunk(&self, origin: &Origin, payload: &Bytes) -> bool {
        let Ok(chunk) = Chunk::decode(payload.clone()) else {
            return false;
        };
        let known = self.open.get(&OpenId::of(origin, chunk.chunked));
        let expected = known.map_or(0, |open| open.chunks.len());
        let closed = known.is_some_and(|open| open.closed.is_some());
        !closed && chunk.ordinal as usize == expected
    }

    /// The verdict on an action that would be ordered next; none if it cannot be read.
    pub(crate) fn certify(&self, origin: &Origin, payload: &Bytes) -> Option<Verdict> {
        let piece = Piece::decode(payload.clone()).ok()?;
        let keys = self.keys_of(origin, &piece)?;
        let mut request = request(origin, &piece, &keys);
        if self.generous {
            request.last_seen = (request.last_seen + 1).min(self.last_seqno.0);
        }
        Some(self.certifier.certify(self.last_seqno.next().0, &request))
    }

    /// Takes in an entry that was appended to this member's log.
    pub(crate) fn appended(&mut self, header: &EntryHeader, payload: &Bytes, now_us: u64) {
        if self.lost {
            let before = match header.kind.is_ordered() {
                true => header.seqno.prev(),
                false => header.seqno,
            };
            self.restart(header.index.prev(), before);
        }
        self.trail.push_back(Trail {
            index: header.index,
            next_seqno: self.last_seqno.next(),
        });
        self.last_index = header.index;
        if header.kind.is_ordered() {
            assert_eq!(header.seqno, self.last_seqno.next(), "seqnos are gapless");
            self.last_seqno = header.seqno;
        }
        match header.kind {
            EntryKind::NoOp | EntryKind::Config => {}
            EntryKind::View => self.ingest_as(header.seqno, &KeySet::new(), Class::Barrier),
            EntryKind::Action => self.ingest_action(header, payload),
            EntryKind::Chunk => self.ingest_chunk(header, payload, now_us),
            EntryKind::Discard => {
                if let Some(id) = OpenId::decode(payload) {
                    self.close(&id, header.index);
                }
            }
        }
    }

    fn ingest_action(&mut self, header: &EntryHeader, payload: &Bytes) {
        let piece = Piece::decode(payload.clone()).ok();
        let parsed = piece.and_then(|piece| Some((self.keys_of(&header.origin, &piece)?, piece)));
        let Some((keys, piece)) = parsed else {
            // Its keys are unknown here: whatever has not seen it conflicts with it.
            self.blind = header.seqno.0;
            let mut everything = KeySet::new();
            everything.append(&[], KeyType::Exclusive);
            return self.ingest_as(header.seqno, &everything, Class::TotalOrder);
        };
        let request = request(&header.origin, &piece, &keys);
        self.certifier.ingest(header.seqno.0, &request);
        if piece.chunked != 0 {
            self.close(&OpenId::of(&header.origin, piece.chunked), header.index);
        }
    }

    fn ingest_as(&mut self, seqno: Seqno, keys: &KeySet, class: Class) {
        let request = Request {
            source: Source {
                member: 0,
                epoch: 0,
            },
            last_seen: seqno.0 - 1,
            keys,
            class,
        };
        self.certifier.ingest(seqno.0, &request);
    }

    fn ingest_chunk(&mut self, header: &EntryHeader, payload: &Bytes, now_us: u64) {
        let Ok(chunk) = Chunk::decode(payload.clone()) else {
            return;
        };
        let open = self
            .open
            .entry(OpenId::of(&header.origin, chunk.chunked))
            .or_default();
        open.touched_us = now_us;
        open.chunks.push((header.index, chunk.keys));
    }

    fn close(&mut self, id: &OpenId, index: LogIndex) {
        if let Some(open) = self.open.get_mut(id) {
            open.closed = Some(index);
        }
    }

    fn keys_of(&self, origin: &Origin, piece: &Piece) -> Option<KeySet> {
        let mut encoded = Vec::new();
        if piece.chunked != 0 {
            let open = self.open.get(&OpenId::of(origin, piece.chunked))?;
            if open.chunks.len() != piece.chunks as usize {
                return None;
            }
            for (_, keys) in &open.chunks {
                encoded.extend_from_slice(keys);
            }
        }
        encoded.extend_from_slice(&piece.keys);
        KeySet::decode(&encoded).ok()
    }

    /// The log was cut: entries at and after `from` are gone.
    pub(crate) fn truncated(&mut self, from: LogIndex) {
        if from > self.last_index || self.keeps_cut {
            return;
        }
        let kept = self.trail.partition_point(|t| t.index < from);
        let Some(first_gone) = self.trail.get(kept).filter(|_| from > self.start) else {
            // It goes back further than what is known here.
            self.restart(from.prev(), Seqno(0));
            self.lost = true;
            return;
        };
        let next_seqno = first_gone.next_seqno;
        self.trail.truncate(kept);
        self.certifier.rollback(next_seqno.0);
        self.last_seqno = next_seqno.prev();
        self.last_index = from.prev();
        self.open.retain(|_, open| {
            open.chunks.retain(|(index, _)| *index < from);
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
        self.open
            .retain(|_, open| open.closed.is_none_or(|index| index > header.index));
    }

    pub(crate) fn advance_window(&mut self, low_water: i64) {
        self.certifier.advance_window(low_water);
    }

    /// Actions in chunks that nobody has continued since `before_us`.
    pub(crate) fn stale(&self, before_us: u64) -> Vec<OpenId> {
        let stale = |open: &Open| open.closed.is_none() && open.touched_us < before_us;
        let open = self.open.iter().filter(|(_, open)| stale(open));
        open.map(|(id, _)| *id).collect()
    }

    pub(crate) fn oldest_open_chunk(&self) -> Option<LogIndex> {
        let firsts = self.open.values().filter_map(|open| open.chunks.first());
        firsts.map(|(index, _)| *index).min()
    }
}

/// What the certifier is asked about an action.
pub(crate) fn request<'a>(origin: &Origin, piece: &Piece, keys: &'a KeySet) -> Request<'a> {
    // The session is part of the source: locks do not outlive the process that held them.
    let source = Source {
        member: origin.member.0 ^ origin.session.0,
        epoch: piece.epoch,
    };
    Request {
        source,
        last_seen: piece.last_seen,
        keys,
        class: piece.class,
    }
}
