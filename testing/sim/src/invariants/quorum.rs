//! Committed, and so acknowledged to a client, means durable on a majority of the voters at that
//! moment (promise P1).
//!
//! A damaged disk counts while its member answers for what it has lost.

use std::collections::BTreeSet;

use synod_consensus::{EntryId, LogIndex, MemberId};

use super::{Checked, require};

/// An entry is durable on a majority; `holds` says whether a member's disk certainly has it.
pub(crate) fn durable_on_quorum(
    entry: EntryId,
    voters: &[MemberId],
    holds: impl Fn(MemberId) -> bool,
) -> Checked {
    let rule = "acknowledged is durable on a quorum";
    held_by_quorum(voters, holds, rule, |copies| {
        format!("{entry} counts as committed, but of {voters:?} only {copies:?} have it on disk")
    })
}

/// An entry that is committed survives the loss of any one region (decision 049): unless all voters
/// are in one, disks outside it have the entry. `region` names a member's.
pub(crate) fn outlives_each_region<R: Ord>(
    entry: EntryId,
    voters: &[MemberId],
    holds: impl Fn(MemberId) -> bool,
    region: impl Fn(MemberId) -> R,
) -> Checked {
    let regions_of =
        |members: &[MemberId]| -> BTreeSet<R> { members.iter().map(|id| region(*id)).collect() };
    let copies: Vec<MemberId> = voters.iter().copied().filter(|id| holds(*id)).collect();
    let outlives = regions_of(&copies).len() >= regions_of(voters).len().min(2);
    require(
        outlives,
        "what is acknowledged outlives each region",
        || {
            format!(
                "{entry} is committed, and of {voters:?} only {copies:?} have it, in one region"
            )
        },
    )
}

/// All chunks of an action are durable on a majority; `holds` says whether a member's disk has
/// them.
pub(crate) fn whole_on_quorum(
    entry: EntryId,
    voters: &[MemberId],
    holds: impl Fn(MemberId) -> bool,
) -> Checked {
    let rule = "all chunks of what is acknowledged are on a quorum";
    held_by_quorum(voters, holds, rule, |copies| {
        format!("{entry} is committed, but of {voters:?} only {copies:?} have all its chunks")
    })
}

/// `what` gets the members that hold it.
fn held_by_quorum(
    voters: &[MemberId],
    holds: impl Fn(MemberId) -> bool,
    rule: &'static str,
    what: impl FnOnce(&[MemberId]) -> String,
) -> Checked {
    let copies: Vec<MemberId> = voters.iter().copied().filter(|id| holds(*id)).collect();
    let enough = copies.len() > voters.len() / 2;
    require(enough, rule, || what(&copies))
}

/// The voters that committed each entry. A leader counts by the configuration in force when it
/// counts, which may be a later one than that in force at the entry.
#[derive(Default)]
pub(crate) struct Quorums {
    voters: Vec<(LogIndex, Vec<MemberId>)>,
}

impl Quorums {
    /// Everything up to `index` was committed by these voters' disks.
    pub(crate) fn committed(&mut self, index: LogIndex, voters: &[MemberId]) {
        self.voters.push((index, voters.to_vec()));
    }

    /// Entries after `kept_to` are lost to a forced primary.
    pub(crate) fn forget_after(&mut self, kept_to: LogIndex) {
        let kept = self.voters.partition_point(|(up_to, _)| *up_to < kept_to);
        self.voters.truncate(kept + 1);
        if let Some((up_to, _)) = self.voters.get_mut(kept) {
            *up_to = kept_to;
        }
    }

    /// The voters by whose disks an entry was committed.
    pub(crate) fn voters_of(&self, index: LogIndex) -> &[MemberId] {
        let at = self.voters.partition_point(|(up_to, _)| *up_to < index);
        self.voters.get(at).map_or(&[], |(_, voters)| voters)
    }
}
