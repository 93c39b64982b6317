//! Certification state of a member: the key index, and the chunks of actions not complete yet.
//!
//! The leader asks for a verdict before it appends; every member, leader or not, ingests what is
//! appended to its log, so that whoever leads next needs no scan (design: "certify once, at the
//! leader"). A truncation undoes exactly what the dropped entries had done.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use synod_certify::{CertLimits, Certifier, Class, KeySet, KeyType, Request, Source, Verdict};
use synod_consensus::{EntryHeader, EntryKind, LogIndex, Origin, Seqno, Time};

use crate::payload::action::{ActionPiece, Chunk, Part, PayloadError};
use crate::payload::discard::{Discard, PartialActionId};

/// An action some chunks of which are in the log.
struct Open {
    /// Keys by the index of the chunk that brought them.
    keys: Vec<(LogIndex, Bytes)>,
    chunks: Vec<LogIndex>,
    /// Index of the first chunk; the beginning of all logs if that chunk is not known.
    begins: LogIndex,
    /// The action before it.
    after: Seqno,
    touched: Time,
    /// Index of the last piece or discard, once appended. Kept until that is committed.
    closed: Option<LogIndex>,
}

impl Open {
    /// One of which nothing is known yet.
    fn unknown(now: Time) -> Open {
        Open {
            keys: Vec::new(),
            chunks: Vec::new(),
            begins: LogIndex(0),
            after: Seqno(0),
            touched: now,
            closed: None,
        }
    }
}

/// Why a proposal cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertifyError {
    /// Chunks before it are not known here, or were given up, or the action is ordered already.
    ChunksUnknown,
    /// It is not what its kind says.
    Malformed(PayloadError),
}

impl From<PayloadError> for CertifyError {
    fn from(error: PayloadError) -> CertifyError {
        CertifyError::Malformed(error)
    }
}

/// What an uncommitted entry did, for the way back.
struct Trail {
    index: LogIndex,
    /// Seqno of the first ordered entry at or after `index`.
    next_seqno: Seqno,
}

/// See the module.
pub(crate) struct CertificationState {
    certifier: Certifier,
    open: BTreeMap<PartialActionId, Open>,
    trail: VecDeque<Trail>,
    last_seqno: Seqno,
    last_index: LogIndex,
    limits: CertLimits,
    /// Everything after this index was ingested.
    start: LogIndex,
    /// The last action at or before that.
    start_seqno: Seqno,
    /// The last entry that gave up all that had begun by some index, and that index.
    discarded: Option<(LogIndex, LogIndex)>,
    /// What came before the next entry is not known: it will tell.
    lost: bool,
}

impl CertificationState {
    /// Knows nothing of actions up to `seqno`, the last one at or before `index`.
    pub(crate) fn new(index: LogIndex, seqno: Seqno, limits: CertLimits) -> CertificationState {
        CertificationState {
            certifier: Certifier::new(seqno.0, limits),
            open: BTreeMap::new(),
            trail: VecDeque::new(),
            last_seqno: seqno,
            last_index: index,
            limits,
            start: index,
            start_seqno: seqno,
            discarded: None,
            lost: false,
        }
    }

    /// Index of the last entry ingested.
    pub(crate) fn last_index(&self) -> LogIndex {
        self.last_index
    }

    /// Whether a chunk continues what its origin has sent so far.
    pub(crate) fn check_chunk(&self, origin: &Origin, payload: &Bytes) -> Result<(), CertifyError> {
        let chunk = Chunk::decode(payload.clone())?;
        let known = self.open.get(&PartialActionId::of(origin, chunk.action_no));
        let expected = known.map_or(0, |open| open.chunks.len());
        let closed = known.is_some_and(|open| open.closed.is_some());
        match (chunk.chunk_index as usize).cmp(&expected) {
            Ordering::Equal if !closed => Ok(()),
            Ordering::Less if !closed => Err(CertifyError::Malformed(PayloadError {
                what: "chunk",
                why: format!("number {} where {expected} is next", chunk.chunk_index),
            })),
            _ => Err(CertifyError::ChunksUnknown),
        }
    }

    /// The verdict on an action that would be ordered next.
    pub(crate) fn certify(
        &self,
        origin: &Origin,
        payload: &Bytes,
    ) -> Result<Verdict, CertifyError> {
        let piece = ActionPiece::decode(payload.clone())?;
        let keys = self.keys_of(origin, &piece)?;
        let request = request(origin, &piece, &keys);
        Ok(self.certifier.certify(self.last_seqno.next().0, &request))
    }

    /// Takes in an entry that was appended to this member's log. An error means that the payload is
    /// not understood; it is then treated as conflicting with everything.
    pub(crate) fn appended(
        &mut self,
        now: Time,
        header: &EntryHeader,
        payload: &Bytes,
    ) -> Result<(), PayloadError> {
        if self.lost {
            let before = match header.kind.is_ordered() {
                true => header.seqno.prev(),
                false => header.seqno,
            };
            *self = CertificationState::new(header.index.prev(), before, self.limits);
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
            EntryKind::NoOp | EntryKind::Config | EntryKind::Decision => Ok(()),
            EntryKind::View => {
                self.ingest_as(header.seqno, &KeySet::new(), Class::Barrier);
                Ok(())
            }
            EntryKind::Action => self.ingest_action(now, header, payload),
            EntryKind::Chunk => self.ingest_chunk(now, header, payload),
            EntryKind::Discard => {
                self.ingest_discard(header.index, Discard::decode(payload.clone())?);
                Ok(())
            }
        }
    }

    /// The planted bug: takes an entry in as one without keys.
    pub(crate) fn pretend(&mut self, header: &EntryHeader) {
        self.last_index = header.index;
        if header.kind.is_ordered() {
            self.last_seqno = header.seqno;
            self.ingest_as(
                header.seqno,
                &KeySet::new(),
                Class::WriteSet { pa_unsafe: false },
            );
        }
    }

    fn ingest_action(
        &mut self,
        now: Time,
        header: &EntryHeader,
        payload: &Bytes,
    ) -> Result<(), PayloadError> {
        let ingested = self.ingest_understood(now, header, payload);
        ingested.map_err(|unfit| {
            // Its keys are unknown here: whatever has not seen it conflicts with it.
            let mut everything = KeySet::new();
            everything.append(&[], KeyType::Exclusive);
            self.ingest_as(header.seqno, &everything, Class::TotalOrder);
            match unfit {
                CertifyError::Malformed(error) => error,
                CertifyError::ChunksUnknown => PayloadError {
                    what: "action",
                    why: "its chunks are unknown".to_owned(),
                },
            }
        })
    }

    fn ingest_understood(
        &mut self,
        now: Time,
        header: &EntryHeader,
        payload: &Bytes,
    ) -> Result<(), CertifyError> {
        let piece = ActionPiece::decode(payload.clone())?;
        let keys = self.keys_of(&header.origin, &piece);
        if piece.action_no != 0 {
            // Also if not all of its chunks are known: it is over, and had begun somewhere.
            let id = PartialActionId::of(&header.origin, piece.action_no);
            let open = self.open.entry(id).or_insert_with(|| Open::unknown(now));
            open.closed = Some(header.index);
        }
        let keys = keys?;
        let request = request(&header.origin, &piece, &keys);
        self.certifier.ingest(header.seqno.0, &request);
        Ok(())
    }

    fn ingest_as(&mut self, seqno: Seqno, keys: &KeySet, class: Class) {
        let source = Source {
            member: 0,
            epoch: 0,
        };
        let request = Request {
            source,
            last_seen: seqno.0 - 1,
            keys,
            class,
        };
        self.certifier.ingest(seqno.0, &request);
    }

    fn ingest_chunk(
        &mut self,
        now: Time,
        header: &EntryHeader,
        payload: &Bytes,
    ) -> Result<(), PayloadError> {
        let chunk = Chunk::decode(payload.clone())?;
        let id = PartialActionId::of(&header.origin, chunk.action_no);
        let open = self.open.entry(id).or_insert_with(|| Open::unknown(now));
        if chunk.chunk_index == 0 {
            (open.begins, open.after) = (header.index, self.last_seqno);
        }
        open.touched = now;
        open.chunks.push(header.index);
        if chunk.part == Part::Keys {
            open.keys.push((header.index, chunk.bytes));
        }
        Ok(())
    }

    fn ingest_discard(&mut self, index: LogIndex, discard: Discard) {
        let begun_by = match discard {
            Discard::Action(id) => {
                if let Some(open) = self.open.get_mut(&id) {
                    open.closed = Some(index);
                }
                return;
            }
            Discard::BegunBy(begun_by) => begun_by,
        };
        self.discarded = Some((index, begun_by));
        for open in self.open.values_mut() {
            if open.closed.is_none() && open.begins <= begun_by {
                open.closed = Some(index);
            }
        }
    }

    fn keys_of(&self, origin: &Origin, piece: &ActionPiece) -> Result<KeySet, CertifyError> {
        let bad = |why: String| {
            CertifyError::Malformed(PayloadError {
                what: "action",
                why,
            })
        };
        let mut encoded = Vec::new();
        if piece.action_no != 0 {
            let id = PartialActionId::of(origin, piece.action_no);
            // Members forget the chunks when what closed it commits, and would not know what to do with the rest.
            let open = self.open.get(&id).filter(|open| open.closed.is_none());
            let open = open.ok_or(CertifyError::ChunksUnknown)?;
            let (found, expected) = (open.chunks.len(), piece.chunks as usize);
            match found.cmp(&expected) {
                Ordering::Equal => {}
                Ordering::Less => return Err(CertifyError::ChunksUnknown),
                Ordering::Greater => return Err(bad(format!("{found} of {expected} chunks"))),
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
        if from > self.last_index {
            return;
        }
        let kept = self.trail.partition_point(|t| t.index < from);
        let Some(first_gone) = self.trail.get(kept).filter(|_| from > self.start) else {
            // It goes back further than what is known here.
            *self = CertificationState::new(from.prev(), Seqno(0), self.limits);
            self.lost = true;
            return;
        };
        let next_seqno = first_gone.next_seqno;
        self.trail.truncate(kept);
        if !synod_planted::is(synod_planted::Bug::NoCertificationRollback) {
            self.certifier.rollback(next_seqno.0);
        }
        self.last_seqno = next_seqno.prev();
        self.last_index = from.prev();
        self.open.retain(|_, open| {
            open.keys.retain(|(index, _)| *index < from);
            open.chunks.retain(|index| *index < from);
            open.closed = open.closed.filter(|index| *index < from);
            !open.chunks.is_empty() || open.closed.is_some()
        });
        self.discarded = self.discarded.filter(|(index, _)| *index < from);
    }

    /// Entries up to here can never be cut. Answers where the action in chunks begins, if it is one, that this is the
    /// last piece of.
    pub(crate) fn committed(&mut self, header: &EntryHeader) -> Option<LogIndex> {
        while self.trail.front().is_some_and(|t| t.index <= header.index) {
            self.trail.pop_front();
        }
        self.certifier.committed(header.seqno.0);
        let ended = match header.kind {
            EntryKind::Action | EntryKind::Discard => self.forget_closed(header.index),
            _ => None,
        };
        // What was given up is of no use to anybody.
        ended.filter(|_| header.kind == EntryKind::Action)
    }

    /// Everything up to this index is committed. Answers where the actions in chunks begin, if any, that this ends.
    pub(crate) fn forget_closed(&mut self, index: LogIndex) -> Option<LogIndex> {
        let is_closed = |open: &Open| open.closed.is_some_and(|closed| closed <= index);
        let closed = self.open.values().filter(|open| is_closed(open));
        let first = closed.map(|open| open.begins).min();
        if first.is_some() {
            self.open.retain(|_, open| !is_closed(open));
        }
        first
    }

    /// Every live member has applied up to here.
    pub(crate) fn advance_window(&mut self, low_water: Seqno) {
        self.certifier.advance_window(low_water.0);
    }

    /// Actions in chunks that nobody has continued for longer than `limit`.
    pub(crate) fn stale(&self, now: Time, limit: Duration) -> Vec<PartialActionId> {
        let is_stale = |open: &Open| open.closed.is_none() && now.since(open.touched) > limit;
        let stale = self.open.iter().filter(|(_, open)| is_stale(open));
        stale.map(|(id, _)| *id).collect()
    }

    /// Of all actions in chunks that are not complete the one that began first, and what was ordered before it.
    pub(crate) fn oldest_unfinished(&self) -> Option<(PartialActionId, Seqno)> {
        let unfinished = self.open.iter().filter(|(_, open)| open.closed.is_none());
        let oldest = unfinished.min_by_key(|(_, open)| open.begins);
        oldest.map(|(id, open)| (*id, open.after))
    }

    /// Everything before this was ingested by nobody here: actions in chunks that began there are not known. Index
    /// and seqno.
    pub(crate) fn start(&self) -> (LogIndex, Seqno) {
        (self.start, self.start_seqno)
    }

    /// The last entry that gave up everything unfinished that had begun by some index, and that index.
    pub(crate) fn discarded(&self) -> Option<(LogIndex, LogIndex)> {
        self.discarded
    }

    /// First chunk of any action that is not complete, or not committed.
    pub(crate) fn oldest_open_chunk(&self) -> Option<LogIndex> {
        self.open.values().map(|open| open.begins).min()
    }

    /// Bytes held for certification, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.certifier.memory_bytes()
    }

    /// Start of the certification window.
    pub(crate) fn window_start(&self) -> Seqno {
        Seqno(self.certifier.window_start())
    }

    /// Keys in the index.
    pub(crate) fn key_count(&self) -> usize {
        self.certifier.key_count()
    }
}

fn request<'a>(origin: &Origin, piece: &ActionPiece, keys: &'a KeySet) -> Request<'a> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{MemberId, SessionId, Term};

    const MEMBER: MemberId = MemberId(1);

    /// A log as the leader would write it, with its ingestor.
    struct Log {
        ingest: CertificationState,
        index: u64,
        seqno: i64,
    }

    impl Log {
        fn new() -> Log {
            Log {
                ingest: CertificationState::new(LogIndex(0), Seqno(0), CertLimits::default()),
                index: 0,
                seqno: 0,
            }
        }

        fn append(&mut self, kind: EntryKind, payload: &Bytes) -> Result<EntryHeader, String> {
            self.index += 1;
            self.seqno += i64::from(kind.is_ordered());
            let header = EntryHeader {
                term: Term(1),
                index: LogIndex(self.index),
                seqno: Seqno(self.seqno),
                kind,
                origin: origin(self.index),
                depends_on: Seqno::UNDEFINED,
                payload_len: payload.len() as u32,
                payload_crc: 0,
            };
            let taken = self.ingest.appended(Time(1), &header, payload);
            taken.map(|()| header).map_err(|error| error.to_string())
        }

        fn verdict(&self, payload: &Bytes) -> Result<Verdict, String> {
            let verdict = self.ingest.certify(&other(), payload);
            verdict.map_err(|error| format!("{error:?}"))
        }

        fn truncate(&mut self, from: u64, seqno: i64) {
            self.ingest.truncated(LogIndex(from));
            (self.index, self.seqno) = (from - 1, seqno);
        }
    }

    fn origin(number: u64) -> Origin {
        Origin {
            member: MEMBER,
            session: SessionId(7),
            number,
        }
    }

    /// Somebody whom own locks do not protect.
    fn other() -> Origin {
        Origin {
            member: MemberId(2),
            ..origin(1)
        }
    }

    fn keys(row: &str) -> Bytes {
        let mut keys = KeySet::new();
        keys.append(&[b"db", b"t", row.as_bytes()], KeyType::Exclusive);
        keys.encode().into()
    }

    fn piece(row: &str, last_seen: i64, action_no: u64, chunks: u32) -> ActionPiece {
        ActionPiece {
            class: Class::WriteSet { pa_unsafe: false },
            epoch: 0,
            last_seen,
            action_no,
            chunks,
            keys: keys(row),
            data: Bytes::from_static(b"data"),
        }
    }

    fn action(row: &str, last_seen: i64) -> Bytes {
        piece(row, last_seen, 0, 0).encode()
    }

    fn chunk(part: Part, chunk_index: u32, bytes: Bytes) -> Bytes {
        Chunk {
            part,
            chunk_index,
            action_no: 5,
            bytes,
        }
        .encode()
    }

    fn conflicts(log: &Log, row: &str, last_seen: i64) -> bool {
        matches!(
            log.verdict(&action(row, last_seen)),
            Ok(Verdict::Conflict { .. })
        )
    }

    #[test]
    fn truncation_restores_what_was_before() {
        let mut log = Log::new();
        log.append(EntryKind::Action, &action("a", 0)).unwrap();
        log.append(EntryKind::NoOp, &Bytes::new()).unwrap();
        log.append(EntryKind::Action, &action("b", 1)).unwrap();
        assert!(conflicts(&log, "a", 0) && conflicts(&log, "b", 0));
        log.truncate(2, 1);
        assert!(conflicts(&log, "a", 0) && !conflicts(&log, "b", 0));
        assert_eq!(log.ingest.last_index(), LogIndex(1));
        let header = log.append(EntryKind::Action, &action("c", 1)).unwrap();
        assert_eq!(header.seqno, Seqno(2));
        assert!(conflicts(&log, "c", 1));
    }

    #[test]
    fn truncation_beyond_what_is_known_starts_anew_with_the_next_entry() {
        let mut log = Log {
            ingest: CertificationState::new(LogIndex(100), Seqno(50), CertLimits::default()),
            index: 100,
            seqno: 50,
        };
        log.append(EntryKind::Action, &action("a", 50)).unwrap();
        log.truncate(90, 45);
        log.append(EntryKind::NoOp, &Bytes::new()).unwrap();
        log.append(EntryKind::Action, &action("b", 45)).unwrap();
        assert_eq!(log.ingest.last_index(), LogIndex(91));
        assert!(conflicts(&log, "b", 45));
        let unseen = log.verdict(&action("c", 44));
        assert!(
            matches!(unseen, Ok(Verdict::TooOld { .. })),
            "what is not known counts as a conflict: {unseen:?}"
        );
    }

    #[test]
    fn keys_of_all_chunks_count() {
        let mut log = Log::new();
        let encoded = keys("a");
        let (first, rest) = (encoded.slice(..9), encoded.slice(9..));
        log.append(EntryKind::Chunk, &chunk(Part::Keys, 0, first))
            .unwrap();
        let data = Bytes::from_static(b"more");
        log.append(EntryKind::Chunk, &chunk(Part::Data, 1, data))
            .unwrap();
        let mut last = piece("a", 0, 5, 2);
        last.keys = rest;
        let last = last.encode();
        assert_eq!(
            log.ingest.oldest_open_chunk(),
            Some(LogIndex(1)),
            "kept in the log"
        );
        assert!(log.ingest.certify(&origin(9), &last).is_ok());
        let header = log.append(EntryKind::Action, &last).unwrap();
        assert!(conflicts(&log, "a", 0));
        let second = log.append(EntryKind::Action, &action("b", 0)).unwrap();
        assert_eq!(log.ingest.committed(&header), Some(LogIndex(1)));
        assert_eq!(log.ingest.committed(&second), None);
        assert_eq!(log.ingest.oldest_open_chunk(), None);
    }

    #[test]
    fn chunk_out_of_order_is_not_accepted() {
        let mut log = Log::new();
        let payload = |chunk_index| chunk(Part::Data, chunk_index, Bytes::from_static(b"x"));
        let unknown = log.ingest.check_chunk(&origin(1), &payload(1));
        assert_eq!(unknown, Err(CertifyError::ChunksUnknown));
        assert!(log.ingest.check_chunk(&origin(1), &payload(0)).is_ok());
        log.append(EntryKind::Chunk, &payload(0)).unwrap();
        let again = log.ingest.check_chunk(&origin(2), &payload(0));
        assert!(
            matches!(again, Err(CertifyError::Malformed(_))),
            "{again:?}"
        );
        assert!(log.ingest.check_chunk(&origin(2), &payload(1)).is_ok());
        let garbage = Bytes::from_static(b"\x01garbage");
        assert!(log.ingest.check_chunk(&origin(2), &garbage).is_err());
    }

    #[test]
    fn action_with_unknown_chunks_is_not_judged() {
        let mut log = Log::new();
        let last = piece("a", 0, 5, 2).encode();
        let certify = |log: &Log| log.ingest.certify(&origin(9), &last).unwrap_err();
        assert_eq!(certify(&log), CertifyError::ChunksUnknown);
        let data = Bytes::from_static(b"x");
        log.append(EntryKind::Chunk, &chunk(Part::Data, 0, data))
            .unwrap();
        assert_eq!(certify(&log), CertifyError::ChunksUnknown);
    }

    #[test]
    fn action_whose_first_chunks_are_unknown_is_over_all_the_same() {
        let mut log = Log::new();
        let data = Bytes::from_static(b"x");
        log.append(EntryKind::Chunk, &chunk(Part::Data, 1, data))
            .unwrap();
        assert_eq!(
            log.ingest.oldest_open_chunk(),
            Some(LogIndex(0)),
            "anywhere"
        );
        let last = piece("a", 0, 5, 2).encode();
        assert!(log.append(EntryKind::Action, &last).is_err());
        let header = EntryHeader {
            index: LogIndex(2),
            seqno: Seqno(1),
            ..log
                .append(EntryKind::Action, &piece("b", 0, 0, 0).encode())
                .unwrap()
        };
        log.ingest.committed(&header);
        assert_eq!(log.ingest.oldest_open_chunk(), None);
    }

    #[test]
    fn truncated_chunks_are_forgotten_and_a_reopened_action_goes_on() {
        let mut log = Log::new();
        for chunk_index in 0..2 {
            let data = Bytes::from_static(b"x");
            log.append(EntryKind::Chunk, &chunk(Part::Data, chunk_index, data))
                .unwrap();
        }
        let last = piece("a", 0, 5, 2).encode();
        log.append(EntryKind::Action, &last).unwrap();
        log.truncate(2, 0);
        assert!(!conflicts(&log, "a", 0));
        let again = chunk(Part::Data, 1, Bytes::from_static(b"x"));
        assert!(log.ingest.check_chunk(&origin(9), &again).is_ok());
        log.truncate(1, 0);
        assert_eq!(log.ingest.oldest_open_chunk(), None);
    }

    #[test]
    fn discard_closes_what_nobody_continues() {
        let mut log = Log::new();
        log.append(EntryKind::Chunk, &chunk(Part::Data, 0, Bytes::new()))
            .unwrap();
        let stale = log.ingest.stale(Time(2), Duration::ZERO);
        let [id] = stale.as_slice() else {
            panic!("one action is open")
        };
        let last = piece("a", 0, 5, 1).encode();
        assert!(log.ingest.certify(&origin(9), &last).is_ok());
        let header = log
            .append(EntryKind::Discard, &Discard::Action(*id).encode())
            .unwrap();
        let late = log.ingest.certify(&origin(9), &last);
        assert!(late.is_err(), "its chunks are as good as gone: {late:?}");
        assert!(log.ingest.stale(Time(2), Duration::ZERO).is_empty());
        log.ingest.committed(&header);
        assert_eq!(log.ingest.oldest_open_chunk(), None);
    }

    #[test]
    fn everything_begun_by_an_index_is_given_up_at_once() {
        let mut log = Log::new();
        log.append(EntryKind::Chunk, &chunk(Part::Data, 0, Bytes::new()))
            .unwrap();
        let by = |index| Discard::BegunBy(LogIndex(index)).encode();
        log.append(EntryKind::Discard, &by(0)).unwrap();
        assert!(log.ingest.oldest_unfinished().is_some(), "it began later");
        let header = log.append(EntryKind::Discard, &by(1)).unwrap();
        assert_eq!(log.ingest.oldest_unfinished(), None);
        let last = piece("a", 0, 5, 1).encode();
        let late = log.ingest.certify(&origin(9), &last).unwrap_err();
        assert_eq!(late, CertifyError::ChunksUnknown);
        let discarded = Some((header.index, LogIndex(1)));
        assert_eq!(log.ingest.discarded(), discarded);
        log.truncate(3, 0);
        assert_eq!(
            log.ingest.discarded(),
            None,
            "the earlier one is forgotten, too"
        );
        assert!(log.ingest.certify(&origin(9), &last).is_ok());
    }

    #[test]
    fn action_that_is_not_understood_conflicts_with_everything() {
        let mut log = Log::new();
        assert!(
            log.append(EntryKind::Action, &Bytes::from_static(b"?"))
                .is_err()
        );
        assert!(conflicts(&log, "any", 0));
        assert!(!conflicts(&log, "any", 1), "unless it has been seen");
        assert!(log.verdict(&Bytes::from_static(b"?")).is_err());
    }
}
