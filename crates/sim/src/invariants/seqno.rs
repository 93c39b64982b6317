//! Seqnos have no gaps, and every database gets the same actions in the same order.

use synod_consensus::{EntryHeader, MemberId, Seqno};

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

/// A member's database, which has everything up to `applied`, gets an entry; `committed` is what is
/// committed at that index.
pub(crate) fn delivered(
    member: MemberId,
    applied: Seqno,
    entry: &EntryHeader,
    committed: Option<&EntryHeader>,
) -> Checked {
    require(
        committed == Some(entry),
        "the same actions everywhere",
        || format!("{member} delivers {entry:?}, committed is {committed:?}"),
    )?;
    let next = entry.seqno == applied.next();
    require(next, "databases get every action once, in order", || {
        format!("{member} delivers seqno {} after {applied}", entry.seqno)
    })
}
