//! Certification state of a member: the key index and the partial actions of its log.
//!
//! The leader asks for a verdict before it appends an entry ("certify once, at the leader"). Every
//! member feeds each appended entry to its [`CertificationState`], so that a new leader can certify
//! at once, without a scan of its log. The driver calls it, in the order of the log:
//!
//! ```text
//! leader, before it appends:  check_chunk(chunk)   certify(last piece) -> verdict
//! leader, after a refusal:    refused(piece)       the partial action to discard
//! every member:               appended(entry)      for each entry of its log
//!                             truncated(from)      undoes what the removed entries did
//!                             committed(entry)     the entry can never be undone
//!                             advance_window(low)  every live member has applied up to here
//! ```
//!
//! Invariants: `start <= last_index`; every entry after `start` was fed exactly once; `undo` has
//! one record for each uncommitted entry. A truncation that goes back to `start` or further empties
//! the state, and the next entry says where it begins again.

mod open_keys;
mod partial_actions;

use std::collections::VecDeque;

use bytes::Bytes;
use synod_certify::{
    CertLimits, Certifier, Class, DecodeKeysError, KeySet, KeyType, LastPart, OpenId, Request,
    Source, Verdict,
};
use synod_consensus::{EntryHeader, EntryKind, LogIndex, Origin, Seqno, Time};
use synod_planted::planted;

use self::open_keys::{OpenKeys, source_member};
pub(crate) use self::partial_actions::PartialActions;
use crate::payload::action::{ActionPiece, Chunk, Part, PayloadError};
use crate::payload::discard::{Discard, PartialActionId};

const KEY_BYTES: usize = 17;
/// Keys of an action wait if the certifier compares too many actions in parts already. So many
/// times what its index takes in a step are waited for; then the action is refused.
const WAITING_PARTS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertifyError {
    /// This log lacks chunks that precede the proposal, or the action was discarded or ordered.
    ChunksUnknown,
    Malformed(PayloadError),
    /// The action conflicts with this one for certain: its end would be refused.
    Doomed {
        with: Seqno,
    },
    /// Partial actions would take too much memory: on every member, as long as they are partial.
    TooMuch(String),
}

impl From<PayloadError> for CertifyError {
    fn from(error: PayloadError) -> CertifyError {
        CertifyError::Malformed(error)
    }
}

fn malformed_keys(error: DecodeKeysError) -> CertifyError {
    malformed_action(error.to_string())
}

fn malformed_action(why: impl Into<String>) -> CertifyError {
    CertifyError::Malformed(PayloadError {
        what: "action",
        why: why.into(),
    })
}

struct UndoPoint {
    index: LogIndex,
    /// Seqno of the first ordered entry at or after `index`.
    next_seqno: Seqno,
}

/// The certifier and the partial actions, as of the last entry of this member's log.
pub(crate) struct CertificationState {
    certifier: Certifier,
    partial_actions: PartialActions,
    open_keys: OpenKeys,
    undo: VecDeque<UndoPoint>,
    /// The last action fed; at first `start_seqno`.
    last_seqno: Seqno,
    /// The last entry fed; at first `start`.
    last_index: LogIndex,
    limits: CertLimits,
    /// Every entry after this index was fed, and none up to it.
    start: LogIndex,
    /// The last action at or before `start`.
    start_seqno: Seqno,
    /// A truncation went back to `start` or further: the next entry says what precedes it.
    restarts_at_next_entry: bool,
}

impl CertificationState {
    /// Knows nothing of actions up to `seqno`, the last one at or before `index`.
    pub(crate) fn new(index: LogIndex, seqno: Seqno, limits: CertLimits) -> CertificationState {
        CertificationState {
            certifier: Certifier::new(seqno.0, limits),
            partial_actions: PartialActions::default(),
            open_keys: OpenKeys::default(),
            undo: VecDeque::new(),
            last_seqno: seqno,
            last_index: index,
            limits,
            start: index,
            start_seqno: seqno,
            restarts_at_next_entry: false,
        }
    }

    /// The log was reset: it begins after this entry and action.
    pub(crate) fn log_reset(&mut self, index: LogIndex, seqno: Seqno) {
        *self = CertificationState::new(index, seqno, self.limits);
    }

    pub(crate) fn last_index(&self) -> LogIndex {
        self.last_index
    }

    pub(crate) fn partial_actions(&self) -> &PartialActions {
        &self.partial_actions
    }

    /// Whether a chunk is the next one of its action, and the action may still be ordered.
    pub(crate) fn check_chunk(&self, origin: &Origin, payload: &Bytes) -> Result<(), CertifyError> {
        let chunk = Chunk::decode(payload.clone())?;
        let id = PartialActionId::of(origin, chunk.action_no);
        self.partial_actions.check_next_chunk(&id, &chunk)?;
        self.partial_actions.check_room(&id, &chunk)?;
        let Some(open) = self.open_keys.get(&id) else {
            return self.partial_actions.check_waiting_keys(
                &id,
                &chunk,
                WAITING_PARTS * self.run_bytes(),
            );
        };
        // What was ordered after its first chunk and needs its rows waits for it at its origin: the
        // action cannot have seen it.
        let seen = self.partial_actions.preceding(&id).unwrap_or(Seqno(0));
        if let Some(with) = self.certifier.doomed(open, seen.0) {
            return Err(CertifyError::Doomed { with: Seqno(with) });
        }
        if chunk.part == Part::Keys {
            let checked = self.certifier.check_part(open, chunk.bytes);
            return checked.map_err(malformed_keys);
        }
        Ok(())
    }

    /// The verdict on an action that would be ordered next.
    pub(crate) fn certify(
        &self,
        origin: &Origin,
        payload: &Bytes,
    ) -> Result<Verdict, CertifyError> {
        let piece = ActionPiece::decode(payload.clone())?;
        let next = self.last_seqno.next().0;
        if let Some((open, last)) = self.last_part(origin, &piece)? {
            let verdict = self.certifier.certify_open(next, open, &last);
            return verdict.map_err(malformed_keys);
        }
        let keys = self.keys_of(origin, &piece)?;
        let request = request(origin, &piece, &keys);
        Ok(self.certifier.certify(next, &request))
    }

    /// A piece was refused, so that its action will never be ordered: names the action if the log
    /// has chunks of it, to be discarded.
    pub(crate) fn refused(
        &self,
        origin: &Origin,
        kind: EntryKind,
        payload: &Bytes,
    ) -> Option<PartialActionId> {
        let payload = payload.clone();
        let action_no = if kind == EntryKind::Chunk {
            Chunk::decode(payload).ok()?.action_no
        } else {
            ActionPiece::decode(payload).ok()?.action_no
        };
        let id = PartialActionId::of(origin, action_no);
        self.partial_actions.is_partial(&id).then_some(id)
    }

    /// Feeds an entry that was appended to this member's log. Fails if the payload cannot be
    /// decoded. The entry then counts as conflicting with everything.
    pub(crate) fn appended(
        &mut self,
        now: Time,
        header: &EntryHeader,
        payload: &Bytes,
    ) -> Result<(), PayloadError> {
        if self.restarts_at_next_entry {
            let preceding = if header.kind.is_ordered() {
                header.seqno.prev()
            } else {
                header.seqno
            };
            *self = CertificationState::new(header.index.prev(), preceding, self.limits);
        }
        self.undo.push_back(UndoPoint {
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
            EntryKind::Chunk => {
                let chunk = Chunk::decode(payload.clone())?;
                let id = PartialActionId::of(&header.origin, chunk.action_no);
                let preceding = self.last_seqno;
                let keys = (chunk.part == Part::Keys).then(|| chunk.bytes.clone());
                self.partial_actions
                    .add_chunk(now, id, header.index, preceding, chunk);
                keys.map_or(Ok(()), |keys| self.keys_came(&id, header.index, keys))
            }
            EntryKind::Discard => {
                let discard = Discard::decode(payload.clone())?;
                self.partial_actions.discard(header.index, &discard);
                Ok(())
            }
        }
    }

    /// A chunk brought keys. Once there are more than the index takes in a step, the certifier is
    /// given them chunk by chunk.
    fn keys_came(
        &mut self,
        id: &PartialActionId,
        index: LogIndex,
        keys: Bytes,
    ) -> Result<(), PayloadError> {
        let above = self.run_bytes();
        let (open_keys, certifier) = (&mut self.open_keys, &mut self.certifier);
        let fed = if open_keys.get(id).is_some() {
            open_keys.extend(certifier, id, index, keys)
        } else {
            match self.partial_actions.waiting_keys(id) {
                Some((bytes, chunks)) if bytes > above => {
                    open_keys.begin(certifier, *id, index, chunks)
                }
                Some(_) | None => Ok(()),
            }
        };
        fed.map_err(|error| PayloadError {
            what: "chunk",
            why: error.to_string(),
        })
    }

    fn run_bytes(&self) -> usize {
        KEY_BYTES.saturating_mul(self.limits.run_above)
    }

    /// Feeds an entry as a write set without keys, which hides its conflicts. For the planted bug
    /// `ColdCertification` only.
    pub(crate) fn ingest_without_keys(&mut self, header: &EntryHeader) {
        self.last_index = header.index;
        if header.kind.is_ordered() {
            self.last_seqno = header.seqno;
            let class = Class::WriteSet { pa_unsafe: false };
            self.ingest_as(header.seqno, &KeySet::new(), class);
        }
    }

    fn ingest_action(
        &mut self,
        now: Time,
        header: &EntryHeader,
        payload: &Bytes,
    ) -> Result<(), PayloadError> {
        let ingested = self.ingest_decoded(now, header, payload);
        ingested.map_err(|error| {
            // Its keys are unknown here: every write set that has not seen it conflicts with it.
            let mut everything = KeySet::new();
            everything.append(&[], KeyType::Exclusive);
            self.ingest_as(header.seqno, &everything, Class::TotalOrder);
            match error {
                CertifyError::Malformed(error) => error,
                CertifyError::ChunksUnknown
                | CertifyError::Doomed { .. }
                | CertifyError::TooMuch(_) => PayloadError {
                    what: "action",
                    why: "its chunks are unknown".to_owned(),
                },
            }
        })
    }

    fn ingest_decoded(
        &mut self,
        now: Time,
        header: &EntryHeader,
        payload: &Bytes,
    ) -> Result<(), CertifyError> {
        let piece = ActionPiece::decode(payload.clone())?;
        let id = PartialActionId::of(&header.origin, piece.action_no);
        let in_parts = self.last_part(&header.origin, &piece);
        let keys = match &in_parts {
            Ok(None) => self.keys_of(&header.origin, &piece),
            Ok(Some(_)) | Err(_) => Ok(KeySet::new()),
        };
        if piece.action_no != 0 {
            // Even if some of its chunks are unknown here: this entry ends the action.
            self.partial_actions.complete(now, id, header.index);
        }
        if let Some((open, last)) = in_parts? {
            let ingested = self.certifier.ingest_open(header.seqno.0, open, &last);
            return ingested.map_err(malformed_keys);
        }
        let keys = keys?;
        let request = request(&header.origin, &piece, &keys);
        self.certifier.ingest(header.seqno.0, &request);
        Ok(())
    }

    /// Ingests an action that no origin's locks protect.
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

    /// The end of an action whose keys the certifier has in parts, and its name for them; `None` if
    /// it has not.
    fn last_part(
        &self,
        origin: &Origin,
        piece: &ActionPiece,
    ) -> Result<Option<(OpenId, LastPart)>, CertifyError> {
        let id = PartialActionId::of(origin, piece.action_no);
        let Some(open) = self.open_keys.get(&id) else {
            return Ok(None);
        };
        let expected = piece.chunks as usize;
        self.partial_actions.check_all_chunks(&id, expected)?;
        let last = LastPart {
            source: source(origin, piece),
            last_seen: piece.last_seen,
            class: piece.class,
            keys: piece.keys.clone(),
        };
        Ok(Some((open, last)))
    }

    fn keys_of(&self, origin: &Origin, piece: &ActionPiece) -> Result<KeySet, CertifyError> {
        let mut encoded = Vec::new();
        if piece.action_no != 0 {
            let id = PartialActionId::of(origin, piece.action_no);
            encoded = self
                .partial_actions
                .keys_of_chunks(&id, piece.chunks as usize)?;
        }
        let keys = if encoded.is_empty() {
            KeySet::decode(&piece.keys)
        } else {
            encoded.extend_from_slice(&piece.keys);
            KeySet::decode(&encoded)
        };
        keys.map_err(|error| malformed_action(error.to_string()))
    }

    pub(crate) fn truncated(&mut self, from: LogIndex) {
        if from > self.last_index {
            return;
        }
        let kept = self.undo.partition_point(|point| point.index < from);
        let Some(first_gone) = self.undo.get(kept).filter(|_| from > self.start) else {
            // The truncation goes back further than the entries fed.
            *self = CertificationState::new(from.prev(), Seqno(0), self.limits);
            self.restarts_at_next_entry = true;
            return;
        };
        let next_seqno = first_gone.next_seqno;
        self.undo.truncate(kept);
        planted!(
            NoCertificationRollback,
            self.certifier.rollback(next_seqno.0),
            else {}
        );
        self.last_seqno = next_seqno.prev();
        self.last_index = from.prev();
        self.partial_actions.truncate(from);
        self.open_keys.truncate(&mut self.certifier, from);
    }

    /// Entries up to this one can never be truncated. If the entry is the last piece of a chunked
    /// action, returns the index of the action's first chunk.
    pub(crate) fn committed(&mut self, header: &EntryHeader) -> Option<LogIndex> {
        let index = header.index;
        while self.undo.front().is_some_and(|point| point.index <= index) {
            self.undo.pop_front();
        }
        self.certifier.committed(header.seqno.0);
        match header.kind {
            EntryKind::Action => self.forget_ended(index),
            EntryKind::Discard => {
                // No member needs the chunks of a discarded action.
                self.forget_ended(index);
                None
            }
            EntryKind::NoOp
            | EntryKind::Config
            | EntryKind::View
            | EntryKind::Chunk
            | EntryKind::Decision => None,
        }
    }

    /// Like [`CertificationState::committed`], for entries of which only the index is known.
    /// Returns the first chunk of all actions in chunks that end at or before it.
    pub(crate) fn forget_ended(&mut self, index: LogIndex) -> Option<LogIndex> {
        let first_chunk = self.partial_actions.forget_ended(index);
        if first_chunk.is_some() {
            let known = |id: &PartialActionId| self.partial_actions.is_known(id);
            self.open_keys.retain(&mut self.certifier, known);
        }
        first_chunk
    }

    /// Every live member has applied up to here.
    pub(crate) fn advance_window(&mut self, low_water: Seqno) {
        self.certifier.advance_window(low_water.0);
    }

    /// Index and seqno before the first entry fed. Actions whose chunks begin at or before this
    /// index are not known here.
    pub(crate) fn start(&self) -> (LogIndex, Seqno) {
        (self.start, self.start_seqno)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.certifier.memory_bytes()
    }

    pub(crate) fn window_start(&self) -> Seqno {
        Seqno(self.certifier.window_start())
    }

    pub(crate) fn key_count(&self) -> usize {
        self.certifier.key_count()
    }
}

fn source(origin: &Origin, piece: &ActionPiece) -> Source {
    Source {
        member: source_member(&PartialActionId::of(origin, piece.action_no)),
        epoch: piece.epoch,
    }
}

fn request<'a>(origin: &Origin, piece: &ActionPiece, keys: &'a KeySet) -> Request<'a> {
    Request {
        source: source(origin, piece),
        last_seen: piece.last_seen,
        keys,
        class: piece.class,
    }
}

#[cfg(test)]
mod tests;
