//! Policy for the number of voters, and for a voter that leaves. A group of five survives the loss
//! of two, a group of four that of one, as a group of three does. So the step from an even number
//! of voters to the odd one below costs nothing: any majority of the former voters holds a majority
//! of the new ones. The step from an odd number costs tolerance, at once and at the next start: it
//! is only made as far as the operator has allowed.

use std::collections::BTreeSet;
use std::time::Duration;

use synod_consensus::MemberId;
use synod_planted::planted;

/// Policy of an operator for the number of voters. The present leader's policy counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoterPolicy {
    /// A group does not go below this number of voters by itself; zero: it keeps the tolerance that
    /// its present voters have.
    pub wanted: usize,
    /// A voter that has been silent for so long may lose its vote.
    pub dead_after: Duration,
}

impl Default for VoterPolicy {
    fn default() -> VoterPolicy {
        VoterPolicy {
            wanted: 0,
            dead_after: Duration::from_secs(600),
        }
    }
}

impl VoterPolicy {
    /// The smallest number to which a group of so many voters may go by itself.
    pub(super) fn fewest(&self, voters: usize) -> usize {
        match self.wanted {
            0 => voters - usize::from(voters.is_multiple_of(2)),
            wanted => wanted,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// The voter goes, and keeps its vote: the others are a majority with it absent.
    Goes,
    /// This voter is taken out first: the leaver itself, or one that is absent.
    TakeOut(MemberId),
    /// Without it the others are no majority. If it goes all the same, it is as if it had crashed:
    /// it keeps its vote, and its return is enough.
    Needed,
}

#[derive(Clone, Copy)]
pub(super) struct Others<'a> {
    /// They have answered since the leaver asked, the leader itself included.
    pub(super) answered: &'a BTreeSet<MemberId>,
    pub(super) absent: &'a BTreeSet<MemberId>,
    /// Voters, the leaver too, that keep their votes: commits need their regions.
    pub(super) kept: &'a BTreeSet<MemberId>,
    /// At least one of those that have answered does not leave as well.
    pub(super) stays: bool,
}

/// Decides about the voter `leaver`. A configuration is in force when it is appended. One whose
/// majority does not answer could never be committed, nor anything after it, and the leaver's
/// return would not help.
pub(super) fn departure(
    policy: &VoterPolicy,
    voters: &BTreeSet<MemberId>,
    leaver: MemberId,
    Others {
        answered,
        absent,
        kept,
        stays,
    }: Others,
) -> Departure {
    let is_other = |id: &&MemberId| **id != leaver && voters.contains(*id);
    let (all, present) = (voters.len(), answered.iter().filter(is_other).count());
    let fewest = policy.fewest(all);
    let is_majority = |votes: usize, of: usize| votes * 2 > of;
    let may_lose_one = all.is_multiple_of(2) && all > fewest && !kept.contains(&leaver);
    if planted!(LeaverLosesVote, may_lose_one, else all > 1) {
        return if is_majority(present, all - 1) {
            Departure::TakeOut(leaver)
        } else {
            Departure::Needed
        };
    }
    if is_majority(present, all) {
        return Departure::Goes;
    }
    // The absent one first, with the leaver's vote; then the number is even.
    let may_shrink = all >= fewest + 2 && stays;
    let is_possible = is_majority(present + 1, all - 1) && is_majority(present, all - 2);
    match absent.difference(kept).find(is_other) {
        Some(absent) if may_shrink && is_possible => Departure::TakeOut(*absent),
        _ => Departure::Needed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: impl IntoIterator<Item = u64>) -> BTreeSet<MemberId> {
        ids.into_iter().map(MemberId).collect()
    }

    fn policy(wanted: usize) -> VoterPolicy {
        VoterPolicy {
            wanted,
            ..VoterPolicy::default()
        }
    }

    /// Voter `leaver` of 1 to `all` leaves while these others answer.
    fn leaves(wanted: usize, all: u64, leaver: u64, answered: &[u64]) -> Departure {
        let (voters, answered) = (ids(1..=all), ids(answered.iter().copied()));
        let others = Others {
            answered: &answered,
            absent: &(&voters - &answered),
            kept: &ids([]),
            stays: true,
        };
        departure(&policy(wanted), &voters, MemberId(leaver), others)
    }

    #[test]
    fn odd_number_of_voters_stays_and_an_even_one_loses_the_leaver() {
        assert_eq!(leaves(0, 3, 3, &[1, 2]), Departure::Goes);
        assert_eq!(leaves(0, 3, 3, &[1]), Departure::Needed);
        assert_eq!(leaves(0, 2, 2, &[1]), Departure::TakeOut(MemberId(2)));
        assert_eq!(leaves(0, 4, 4, &[1, 2]), Departure::TakeOut(MemberId(4)));
        assert_eq!(leaves(0, 4, 4, &[1]), Departure::Needed);
        assert_eq!(leaves(0, 5, 5, &[1, 2]), Departure::Needed);
        assert_eq!(leaves(0, 5, 5, &[1, 2, 3]), Departure::Goes);
    }

    #[test]
    fn group_goes_below_if_the_operator_has_allowed_it_and_the_absent_go_first() {
        assert_eq!(leaves(1, 3, 3, &[1, 2]), Departure::Goes, "no need yet");
        assert_eq!(leaves(1, 3, 3, &[1]), Departure::TakeOut(MemberId(2)));
        assert_eq!(leaves(3, 3, 3, &[1]), Departure::Needed);
        assert_eq!(leaves(3, 5, 5, &[1, 2]), Departure::TakeOut(MemberId(3)));
        assert_eq!(
            leaves(1, 5, 5, &[1]),
            Departure::Needed,
            "no majority as it is"
        );
    }

    #[test]
    fn number_that_the_operator_wants_is_kept_though_even() {
        assert_eq!(leaves(2, 2, 2, &[1]), Departure::Needed);
        assert_eq!(leaves(4, 4, 4, &[1, 2, 3]), Departure::Goes);
        assert_eq!(leaves(5, 3, 3, &[1, 2]), Departure::Goes);
    }

    #[test]
    fn no_voter_is_taken_out_for_members_that_all_leave_or_before_it_had_time_to_answer() {
        let (answered, none) = (ids([1]), ids([]));
        for (absent, stays) in [(&ids([2]), false), (&none, true)] {
            let others = Others {
                answered: &answered,
                absent,
                kept: &none,
                stays,
            };
            let leaves = departure(&policy(1), &ids(1..=3), MemberId(3), others);
            assert_eq!(leaves, Departure::Needed);
        }
    }

    #[test]
    fn last_voter_of_a_region_keeps_its_vote() {
        let (voters, answered, none) = (ids(1..=4), ids([1, 2, 3]), ids([]));
        let leaves = |leaver, answered: &BTreeSet<MemberId>, absent: &BTreeSet<MemberId>| {
            let others = Others {
                answered,
                absent,
                kept: &ids([4]),
                stays: true,
            };
            departure(&policy(1), &voters, MemberId(leaver), others)
        };
        assert_eq!(leaves(4, &answered, &none), Departure::Goes);
        assert_eq!(leaves(4, &ids([1, 2]), &none), Departure::Needed);
        let out = Departure::TakeOut(MemberId(3));
        assert_eq!(leaves(3, &ids([1, 2]), &ids([4])), out, "an even number");
    }

    /// Every majority of the voters before a stop has to hold a majority of those after it: so any
    /// majority of them can start the group again, whichever stopped last and lost its disk.
    #[test]
    fn any_majority_of_the_former_voters_can_start_the_group_again() {
        for all in 1..=7_u64 {
            let fewest = policy(0).fewest(usize::try_from(all).expect("small")) as u64;
            let kept = ids(1..=fewest);
            for chosen in 0..1_u64 << all {
                let started = ids((1..=all).filter(|id| chosen & (1 << (id - 1)) != 0));
                let votes = started.intersection(&kept).count();
                let is_majority = started.len() * 2 > usize::try_from(all).expect("small");
                assert!(
                    !is_majority || votes * 2 > kept.len(),
                    "{started:?} of {all}"
                );
            }
        }
    }
}
