//! The number of voters, as far as the group changes it by itself (decision 021): a replacement
//! never makes it larger, nothing makes it smaller than the operators want, and every majority of
//! the former voters can still elect a leader.

use std::collections::BTreeSet;

use synod_consensus::{EntryId, MemberId};

use super::{Checked, require};

/// Between these numbers the group keeps its voters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VoterBounds {
    pub(crate) fewest: usize,
    pub(crate) most: usize,
}

/// A configuration that a leader made, and the voters of the one before it.
pub(crate) struct Made<'a> {
    pub(crate) entry: EntryId,
    pub(crate) before: &'a BTreeSet<MemberId>,
    pub(crate) voters: &'a BTreeSet<MemberId>,
    /// So many learners run and want to vote: each may be about to take a lost voter's place.
    pub(crate) successors: usize,
}

impl VoterBounds {
    /// A leader made a configuration; `is_up` says whether a member runs.
    pub(crate) fn made(self, made: &Made, is_up: impl Fn(MemberId) -> bool) -> Checked {
        let (before, voters) = (made.before, made.voters);
        require(
            voters.len() <= self.most,
            "no replacement adds a voter",
            || format!("{} makes {} voters: {voters:?}", made.entry, voters.len()),
        )?;
        let fewest = self.fewest.saturating_sub(made.successors);
        require(
            voters.len() >= fewest,
            "the group keeps the voters that its operators want",
            || format!("{} leaves {voters:?} of {before:?}", made.entry),
        )?;
        // Out of an even number, every majority of the former voters holds one of the rest.
        let costs_tolerance = voters.len() < before.len() && !before.len().is_multiple_of(2);
        let up = voters.iter().filter(|id| is_up(**id)).count();
        require(
            !costs_tolerance || up * 2 > voters.len(),
            "a vote is taken while a majority of the others answers",
            || format!("{} leaves {voters:?}, of which {up} run", made.entry),
        )
    }
}
