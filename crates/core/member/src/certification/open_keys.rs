//! The keys of large partial actions: compared with the log chunk by chunk, as they come. The
//! certifier is given the keys of an action in parts once they are more than it would put into its
//! index (`run_above`), so that no turn of the driver handles more keys than that, or than one
//! chunk holds. The keys of smaller actions wait, and are certified at once with the last piece.
//! Invariant: an action is known here from the chunk `since` until its end is committed, or `since`
//! is truncated; the certifier has one part for each of its chunks with keys.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_certify::{Certifier, DecodeKeysError, OpenId};
use synod_consensus::LogIndex;

use crate::payload::discard::PartialActionId;

struct InParts {
    id: OpenId,
    /// The chunk at which the certifier was given the first of them.
    since: LogIndex,
    chunks: Vec<LogIndex>,
}

#[derive(Default)]
pub(super) struct OpenKeys {
    actions: BTreeMap<PartialActionId, InParts>,
}

impl OpenKeys {
    pub(super) fn get(&self, id: &PartialActionId) -> Option<OpenId> {
        self.actions.get(id).map(|action| action.id)
    }

    /// A chunk with keys was appended at `index`.
    pub(super) fn extend(
        &mut self,
        certifier: &mut Certifier,
        id: &PartialActionId,
        index: LogIndex,
        keys: Bytes,
    ) -> Result<(), DecodeKeysError> {
        let Some(action) = self.actions.get_mut(id) else {
            return Ok(());
        };
        action.chunks.push(index);
        certifier.extend(action.id, keys)
    }

    /// The keys of an action are too many to wait: these chunks have them so far. Without effect if
    /// the certifier has no place for another action; they wait on then.
    pub(super) fn begin<'a>(
        &mut self,
        certifier: &mut Certifier,
        id: PartialActionId,
        since: LogIndex,
        chunks: impl Iterator<Item = &'a (LogIndex, Bytes)>,
    ) -> Result<(), DecodeKeysError> {
        let Some(open) = certifier.open(source_member(&id)) else {
            return Ok(());
        };
        let action = InParts {
            id: open,
            since,
            chunks: Vec::new(),
        };
        self.actions.insert(id, action);
        for (index, keys) in chunks {
            self.extend(certifier, &id, *index, keys.clone())?;
        }
        Ok(())
    }

    /// Entries at and after `from` are gone. The certifier has undone what was ordered there.
    pub(super) fn truncate(&mut self, certifier: &mut Certifier, from: LogIndex) {
        self.actions.retain(|_, action| {
            if action.since >= from {
                certifier.abandon(action.id);
                return false;
            }
            action.chunks.retain(|index| *index < from);
            certifier.retract(action.id, action.chunks.len());
            true
        });
    }

    /// Forgets the actions that are not to be kept. Those that were ordered stay with the
    /// certifier.
    pub(super) fn retain(
        &mut self,
        certifier: &mut Certifier,
        keep: impl Fn(&PartialActionId) -> bool,
    ) {
        self.actions.retain(|id, action| {
            let is_kept = keep(id);
            if !is_kept {
                certifier.abandon(action.id);
            }
            is_kept
        });
    }
}

/// The member of an action's source: it includes the session, because locks end with the process
/// that held them.
pub(super) fn source_member(id: &PartialActionId) -> u64 {
    id.member.0 ^ id.session.0
}
