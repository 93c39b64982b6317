//! Seqnos have no gaps.

use synod_consensus::{EntryHeader, Seqno};

use super::{Checked, require};

/// An entry follows one with this seqno.
pub(crate) fn follows(before: Seqno, header: &EntryHeader) -> Checked {
    let expected = match header.kind.is_ordered() {
        true => before.next(),
        false => before,
    };
    require(header.seqno == expected, "seqnos have no gaps", || {
        format!("{header:?} follows seqno {before}")
    })
}
