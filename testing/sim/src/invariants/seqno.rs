//! Seqnos have no gaps: an ordered entry has the next seqno, any other entry the one before it.
//!
//! Checked when an entry is committed for the first time.

use synod_consensus::{EntryHeader, Seqno};

use super::{Checked, require};

/// An entry follows an entry with this seqno.
pub(crate) fn follows(before: Seqno, header: &EntryHeader) -> Checked {
    let expected = if header.kind.is_ordered() {
        before.next()
    } else {
        before
    };
    require(header.seqno == expected, "seqnos have no gaps", || {
        format!("{header:?} follows seqno {before}")
    })
}
