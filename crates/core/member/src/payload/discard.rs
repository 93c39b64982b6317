//! Discards: entries that end partial actions which will not be completed.
//!
//! ```text
//! one action:  member u64 | session u64 | action_no u64
//! in bulk:     log index u64
//! ```
//! All numbers are little-endian; the length tells the two forms apart.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use synod_consensus::{LogIndex, MemberId, Origin, SessionId};

use crate::payload::action::PayloadError;

/// Names an action in chunks, from its first chunk to its last piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartialActionId {
    pub member: MemberId,
    pub session: SessionId,
    /// The origin's number for the action; not zero.
    pub action_no: u64,
}

impl PartialActionId {
    pub fn of(origin: &Origin, action_no: u64) -> PartialActionId {
        PartialActionId {
            member: origin.member,
            session: origin.session,
            action_no,
        }
    }
}

/// The partial actions that a discard entry ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    Action(PartialActionId),
    /// Every partial action whose first chunk is at or before this index.
    BegunBy(LogIndex),
}

impl Discard {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(24);
        match self {
            Discard::Action(id) => {
                out.put_u64_le(id.member.0);
                out.put_u64_le(id.session.0);
                out.put_u64_le(id.action_no);
            }
            Discard::BegunBy(index) => out.put_u64_le(index.0),
        }
        out.freeze()
    }

    pub fn decode(mut payload: Bytes) -> Result<Discard, PayloadError> {
        match payload.len() {
            24 => Ok(Discard::Action(PartialActionId {
                member: MemberId(payload.get_u64_le()),
                session: SessionId(payload.get_u64_le()),
                action_no: payload.get_u64_le(),
            })),
            8 => Ok(Discard::BegunBy(LogIndex(payload.get_u64_le()))),
            len => Err(PayloadError {
                what: "discard",
                why: format!("{len} bytes"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discards_are_read_as_written() {
        let id = PartialActionId {
            member: MemberId(1),
            session: SessionId(2),
            action_no: 3,
        };
        for discard in [Discard::Action(id), Discard::BegunBy(LogIndex(77))] {
            assert_eq!(Discard::decode(discard.encode()), Ok(discard));
        }
        assert!(Discard::decode(Bytes::from_static(b"neither")).is_err());
    }
}
