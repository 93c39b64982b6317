//! An origin refuses a transaction only if the leader of its term would: that leader has the action
//! named, which is later than the transaction's snapshot and conflicts with its keys.

use bytes::Bytes;
use synod_certify::{Class, KeySet};
use synod_consensus::{EntryHeader, EntryKind, MemberId, Seqno, SessionId};
use synod_member::ActionPiece;

use super::{Checked, Violation, require};

const RULE: &str = "an origin refuses what its leader would refuse";

/// A transaction that its origin has refused.
pub(crate) struct Refused {
    pub(crate) transaction: u64,
    pub(crate) origin: (MemberId, SessionId),
    pub(crate) locks_epoch: u64,
    pub(crate) last_seen: Seqno,
    pub(crate) keys: KeySet,
}

/// The action that it has lost to, from the origin's log.
pub(crate) struct Winner {
    pub(crate) header: EntryHeader,
    pub(crate) payload: Bytes,
    /// Whether it is committed, or the leader of the origin's term has it.
    pub(crate) is_of_leader: bool,
}

impl Refused {
    /// The refusal named the action at `with`; `winner` is that one, if the origin's log has it.
    pub(crate) fn check(&self, with: Seqno, winner: Option<&Winner>) -> Checked {
        let number = self.transaction;
        let Some(winner) = winner else {
            return Err(Violation {
                rule: RULE,
                what: format!("{number} lost to {with:?}, which its origin does not have"),
            });
        };
        let header = &winner.header;
        require(winner.is_of_leader, RULE, || {
            format!("{number} lost to {header:?}, which its leader does not have")
        })?;
        let seen = self.last_seen;
        require(with > seen, RULE, || {
            format!("{number} lost to {header:?}, but had seen {seen:?}")
        })?;
        require(self.conflicts_with(winner), RULE, || {
            format!("{number} lost to {header:?}, with which it does not conflict")
        })
    }

    fn conflicts_with(&self, winner: &Winner) -> bool {
        if winner.header.kind != EntryKind::Action {
            return false;
        }
        let Ok(piece) = ActionPiece::decode(winner.payload.clone()) else {
            return false;
        };
        let origin = &winner.header.origin;
        let is_write_set = matches!(piece.class, Class::WriteSet { .. });
        let by_same_locks = is_write_set
            && (origin.member, origin.session) == self.origin
            && piece.epoch == self.locks_epoch;
        if by_same_locks {
            return false;
        }
        // The other keys of an action in chunks are in entries before it.
        let is_whole = piece.action_no == 0;
        let keys = KeySet::decode(&piece.keys);
        !is_whole || keys.is_ok_and(|keys| !self.keys.conflicting(&keys).is_empty())
    }
}
