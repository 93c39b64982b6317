//! Actions in chunks that have not ended: which chunks the log has, and how each action ends.
//!
//! A partial action begins with the first of its chunks that the log shows. It ends with its last
//! piece (the action is ordered) or with a discard (it never will be). The end takes effect at once
//! for new proposals, but the action is kept until the ending entry is committed, because a
//! truncation may undo it.
//!
//! ```text
//! chunk 0 -> chunk 1 -> .. -> last piece | discard -> committed: forgotten
//!    ^          ^                 ^
//!    +----------+-----------------+--- a truncation goes back
//! ```
//!
//! Invariants: `chunks` and `keys` ascend by index; `first_chunk` is zero if the chunk that begins
//! the action is not known here. Zero is before every entry, so such an action holds up every
//! purge.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use synod_consensus::{LogIndex, Seqno, Time};

use super::{CertifyError, malformed_action};
use crate::payload::action::{Chunk, Part, PayloadError};
use crate::payload::discard::{Discard, PartialActionId};

/// Upper bound on the partial actions of one member: each is a small record on every member.
const ACTIONS_MAX: usize = 4096;
/// Upper bound on the keys of all partial actions, in bytes, on every member: more than ten actions
/// of a million rows.
const KEY_BYTES_MAX: usize = 256 << 20;

struct PartialAction {
    /// Slices of the encoded keys, each with the index of the chunk that carries it.
    keys: Vec<(LogIndex, Bytes)>,
    chunks: Vec<LogIndex>,
    /// Index of the chunk that begins it; zero if that chunk is not known.
    first_chunk: LogIndex,
    /// The last action ordered before it began; zero if that is not known.
    preceding: Seqno,
    /// When its latest chunk was appended here.
    continued_at: Time,
    /// Index of the last piece or discard, once appended.
    ended_by: Option<LogIndex>,
}

impl PartialAction {
    /// An action whose beginning is not known.
    fn without_beginning(now: Time) -> PartialAction {
        PartialAction {
            keys: Vec::new(),
            chunks: Vec::new(),
            first_chunk: LogIndex(0),
            preceding: Seqno(0),
            continued_at: now,
            ended_by: None,
        }
    }

    fn key_bytes(&self) -> usize {
        self.keys.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    fn has_ended(&self) -> bool {
        self.ended_by.is_some()
    }

    fn is_ended_by(&self, committed: LogIndex) -> bool {
        self.ended_by.is_some_and(|ended_by| ended_by <= committed)
    }
}

#[derive(Default)]
pub(crate) struct PartialActions {
    /// Actions that have not ended, and those whose end is not committed.
    actions: BTreeMap<PartialActionId, PartialAction>,
    last_bulk_discard: Option<(LogIndex, LogIndex)>,
}

impl PartialActions {
    pub(super) fn check_next_chunk(
        &self,
        id: &PartialActionId,
        chunk: &Chunk,
    ) -> Result<(), CertifyError> {
        let known = self.actions.get(id);
        if known.is_some_and(PartialAction::has_ended) {
            return Err(CertifyError::ChunksUnknown);
        }
        let expected = known.map_or(0, |action| action.chunks.len());
        match (chunk.chunk_index as usize).cmp(&expected) {
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(CertifyError::ChunksUnknown),
            Ordering::Less => Err(CertifyError::Malformed(PayloadError {
                what: "chunk",
                why: format!("number {} where {expected} is next", chunk.chunk_index),
            })),
        }
    }

    pub(super) fn check_room(
        &self,
        id: &PartialActionId,
        chunk: &Chunk,
    ) -> Result<(), CertifyError> {
        if chunk.chunk_index == 0 {
            let of_member = |other: &&PartialActionId| other.member == id.member;
            let open = self.actions.keys().filter(of_member).count();
            if open >= ACTIONS_MAX {
                let why = format!("{open} other large actions of that member are under way");
                return Err(CertifyError::TooMuch(why));
            }
        }
        if chunk.part == Part::Keys {
            let bytes: usize = self.actions.values().map(PartialAction::key_bytes).sum();
            if bytes + chunk.bytes.len() > KEY_BYTES_MAX {
                let mib = bytes >> 20;
                let why = format!("large actions under way have {mib} MiB of keys already");
                return Err(CertifyError::TooMuch(why));
            }
        }
        Ok(())
    }

    /// Whether the keys of an action may wait for its last piece: with this chunk, at most `most`
    /// bytes of them.
    pub(super) fn check_waiting_keys(
        &self,
        id: &PartialActionId,
        chunk: &Chunk,
        most: usize,
    ) -> Result<(), CertifyError> {
        let waiting = self.actions.get(id).map_or(0, PartialAction::key_bytes);
        if chunk.part == Part::Keys && waiting > most {
            let why = "too many other large actions have keys to be compared".to_owned();
            return Err(CertifyError::TooMuch(why));
        }
        Ok(())
    }

    /// The encoded keys that an action has in chunks: their bytes, and the chunks. `None` if it is
    /// not known from its beginning.
    pub(super) fn waiting_keys(
        &self,
        id: &PartialActionId,
    ) -> Option<(usize, std::slice::Iter<'_, (LogIndex, Bytes)>)> {
        let known = self.actions.get(id)?;
        let action = (known.first_chunk != LogIndex(0)).then_some(known)?;
        Some((action.key_bytes(), action.keys.iter()))
    }

    pub(super) fn preceding(&self, id: &PartialActionId) -> Option<Seqno> {
        self.actions.get(id).map(|action| action.preceding)
    }

    /// Whether the log has chunks of an action that has not ended.
    pub(super) fn is_partial(&self, id: &PartialActionId) -> bool {
        let known = self.actions.get(id);
        known.is_some_and(|action| !action.has_ended())
    }

    pub(super) fn is_known(&self, id: &PartialActionId) -> bool {
        self.actions.contains_key(id)
    }

    pub(super) fn check_all_chunks(
        &self,
        id: &PartialActionId,
        expected: usize,
    ) -> Result<(), CertifyError> {
        self.complete_action(id, expected).map(|_| ())
    }

    /// The encoded keys that the chunks of an action carry, if the log has all its `expected`
    /// chunks and the action has not ended.
    pub(super) fn keys_of_chunks(
        &self,
        id: &PartialActionId,
        expected: usize,
    ) -> Result<Vec<u8>, CertifyError> {
        let action = self.complete_action(id, expected)?;
        let slices: Vec<&[u8]> = action.keys.iter().map(|(_, bytes)| &bytes[..]).collect();
        Ok(slices.concat())
    }

    /// An action of which the log has all its `expected` chunks, and that has not ended.
    fn complete_action(
        &self,
        id: &PartialActionId,
        expected: usize,
    ) -> Result<&PartialAction, CertifyError> {
        let known = self.actions.get(id);
        // Members forget the chunks once the end of the action is committed. A last piece that came
        // after such an end would find none of them.
        let action = known
            .filter(|action| !action.has_ended())
            .ok_or(CertifyError::ChunksUnknown)?;
        let found = action.chunks.len();
        match found.cmp(&expected) {
            Ordering::Equal => Ok(action),
            Ordering::Less => Err(CertifyError::ChunksUnknown),
            Ordering::Greater => Err(malformed_action(format!("{found} of {expected} chunks"))),
        }
    }

    pub(super) fn add_chunk(
        &mut self,
        now: Time,
        id: PartialActionId,
        index: LogIndex,
        preceding: Seqno,
        chunk: Chunk,
    ) {
        let action = self.entry(now, id);
        if chunk.chunk_index == 0 {
            (action.first_chunk, action.preceding) = (index, preceding);
        }
        action.continued_at = now;
        action.chunks.push(index);
        if chunk.part == Part::Keys {
            action.keys.push((index, chunk.bytes));
        }
    }

    pub(super) fn complete(&mut self, now: Time, id: PartialActionId, index: LogIndex) {
        self.entry(now, id).ended_by = Some(index);
    }

    /// A discard was appended at `index`: it ends the actions that it names.
    pub(super) fn discard(&mut self, index: LogIndex, discard: &Discard) {
        match discard {
            Discard::Action(id) => {
                if let Some(action) = self.actions.get_mut(id) {
                    action.ended_by = Some(index);
                }
            }
            Discard::BegunBy(begun_by) => {
                self.last_bulk_discard = Some((index, *begun_by));
                for action in self.actions.values_mut() {
                    if !action.has_ended() && action.first_chunk <= *begun_by {
                        action.ended_by = Some(index);
                    }
                }
            }
        }
    }

    /// Entries at and after `from` are gone, with the chunks and ends that they were.
    pub(super) fn truncate(&mut self, from: LogIndex) {
        self.actions.retain(|_, action| {
            action.keys.retain(|(index, _)| *index < from);
            action.chunks.retain(|index| *index < from);
            action.ended_by = action.ended_by.filter(|index| *index < from);
            !action.chunks.is_empty() || action.has_ended()
        });
        self.last_bulk_discard = self.last_bulk_discard.filter(|(index, _)| *index < from);
    }

    /// Everything up to `committed` is committed: forgets the actions that ended by then. Returns
    /// the first chunk of all of them, if there are any.
    pub(super) fn forget_ended(&mut self, committed: LogIndex) -> Option<LogIndex> {
        let actions = self.actions.values();
        let ended = actions.filter(|action| action.is_ended_by(committed));
        let first_chunk = ended.map(|action| action.first_chunk).min();
        if first_chunk.is_some() {
            self.actions
                .retain(|_, action| !action.is_ended_by(committed));
        }
        first_chunk
    }

    /// Actions that have not ended, and whose latest chunk came more than `limit` ago.
    pub(crate) fn stale(&self, now: Time, limit: Duration) -> Vec<PartialActionId> {
        let is_stale =
            |action: &PartialAction| !action.has_ended() && now.since(action.continued_at) > limit;
        let stale = self.actions.iter().filter(|(_, action)| is_stale(action));
        stale.map(|(id, _)| *id).collect()
    }

    /// The action that began first among those that have not ended, and the last action ordered
    /// before it began.
    pub(crate) fn oldest(&self) -> Option<(PartialActionId, Seqno)> {
        let actions = self.actions.iter();
        let not_ended = actions.filter(|(_, action)| !action.has_ended());
        let oldest = not_ended.min_by_key(|(_, action)| action.first_chunk);
        oldest.map(|(id, action)| (*id, action.preceding))
    }

    /// First chunk of all actions that have not ended, or whose end is not committed. Zero if one
    /// of them has a beginning that is not known.
    pub(crate) fn first_chunk(&self) -> Option<LogIndex> {
        self.actions.values().map(|action| action.first_chunk).min()
    }

    /// The latest discard of all actions begun by some index ([`Discard::BegunBy`]): the index of
    /// the entry, and that index. A truncation that removes the entry does not bring back an
    /// earlier one: the leader then only discards once more.
    pub(crate) fn last_bulk_discard(&self) -> Option<(LogIndex, LogIndex)> {
        self.last_bulk_discard
    }

    fn entry(&mut self, now: Time, id: PartialActionId) -> &mut PartialAction {
        let unknown = || PartialAction::without_beginning(now);
        self.actions.entry(id).or_insert_with(unknown)
    }
}

#[cfg(test)]
mod tests;
