//! An action as the log has it, for questions about what was ordered.

use bytes::Bytes;
use synod_certify::KeySet;
use synod_consensus::{EntryKind, LogIndex, Origin, Seqno};
use synod_log::LogReader;

use crate::payload::action::ActionPiece;

/// An action that travelled in one piece.
#[derive(Clone, Debug)]
pub struct OrderedAction {
    pub origin: Origin,
    pub keys: KeySet,
    pub data: Bytes,
}

/// The action with this seqno, of a log that may be read up to `readable`. None if the log does not
/// have it, if it came in chunks, or if it cannot be decoded: whom that harms says so elsewhere.
pub fn ordered_action(
    reader: &LogReader,
    readable: LogIndex,
    seqno: Seqno,
) -> Option<OrderedAction> {
    let index = reader.seek_seqno(seqno).ok()?;
    if index > readable {
        return None;
    }
    let entry = reader.read(index, index, 0).ok()?.pop()?;
    if entry.header.kind != EntryKind::Action || entry.header.seqno != seqno {
        return None;
    }
    let piece = ActionPiece::decode(entry.payload).ok()?;
    if piece.chunks > 0 {
        return None;
    }
    Some(OrderedAction {
        origin: entry.header.origin,
        keys: KeySet::decode(&piece.keys).ok()?,
        data: piece.data,
    })
}
