//! Nothing is gone for good: what no log has any more is on the disk of some database, so that everything
//! comes back even if all machines lose their power now (promise P1).

use synod_consensus::{MemberId, Seqno};

use super::{Checked, require};

/// A member has dropped the beginning of its log. `logs`: the action after which each log has all actions with
/// all their chunks; `databases`: how far each database has surely come on its own disk.
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
                "{member} has dropped entries: the longest log has everything after {longest}, but of all databases the \
             newest has {newest} on its disk"
            )
        },
    )
}

/// A member has dropped its log up to `base`. `databases`: how far those of the `voters` ever were on their
/// disks (a burnt disk is what the others are for).
pub(crate) fn redundancy(
    member: MemberId,
    base: Seqno,
    voters: usize,
    databases: Vec<Seqno>,
) -> Checked {
    let minority = (voters - 1) / 2;
    let left = databases.len().saturating_sub(minority);
    let wanted = usize::clamp(left, 1, minority + 1);
    let found = databases.iter().filter(|had| **had >= base).count();
    require(
        found >= wanted,
        "what a log drops survives the loss of a minority",
        || {
            format!(
                "{member} has dropped everything up to {base}, which {found} of the databases {databases:?} had; \
                 with {voters} voters there must be {wanted}"
            )
        },
    )
}

/// A member has dropped its log up to `base` although there was room.
pub(crate) fn own_database(member: MemberId, base: Seqno, durable: Seqno) -> Checked {
    require(
        base <= durable,
        "a log keeps what its database has not flushed",
        || {
            format!(
                "{member} has dropped everything up to {base}, its database has {durable} on its disk"
            )
        },
    )
}
