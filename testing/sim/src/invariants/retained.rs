//! Nothing is lost for good: what no log holds any more is on the disk of some database (promise
//! P1).
//!
//! Everything therefore comes back even if all machines lose their power now, or a minority of the
//! disks is lost (decision 011).

use synod_consensus::{MemberId, Seqno};

use super::{Checked, require};

/// A member has purged its log. `logs`: for each log, the action after which it has all actions
/// with all their chunks. `databases`: what each database has certainly flushed.
pub(crate) fn purged(
    member: MemberId,
    logs: impl Iterator<Item = Seqno>,
    databases: impl Iterator<Item = Seqno>,
) -> Checked {
    let longest = logs.min().unwrap_or(Seqno(0));
    let newest = databases.max().unwrap_or(Seqno(0));
    require(
        longest <= newest,
        "every action is in a log or a database",
        || {
            format!(
                "{member} has purged entries: the longest log has everything after {longest}, but \
                 the newest of all databases has {newest} on its disk"
            )
        },
    )
}

/// A member has purged its log up to `base`, which `enough` databases must have, if that is an
/// operator's choice. `databases`: the highest position that each database
/// of the `voters` has ever flushed (lost disks count: the others are there for that case).
pub(crate) fn redundancy(
    member: MemberId,
    base: Seqno,
    voters: usize,
    databases: Vec<Seqno>,
    enough: Option<usize>,
) -> Checked {
    let minority = (voters - 1) / 2;
    let left = databases.len().saturating_sub(minority);
    let wanted = enough.unwrap_or(usize::clamp(left, 1, minority + 1));
    let found = databases.iter().filter(|had| **had >= base).count();
    require(
        found >= wanted,
        "what a log purges survives the loss of a minority",
        || {
            format!(
                "{member} has purged everything up to {base}, which {found} of the databases \
                 {databases:?} had; with {voters} voters there must be {wanted}"
            )
        },
    )
}

/// A member has purged its log up to `base` although there was room.
pub(crate) fn own_database(member: MemberId, base: Seqno, durable: Seqno) -> Checked {
    require(
        base <= durable,
        "a log keeps what its database has not flushed",
        || {
            format!(
                "{member} has purged everything up to {base}, its database has {durable} on disk"
            )
        },
    )
}
