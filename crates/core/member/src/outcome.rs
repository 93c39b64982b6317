//! Apply outcomes: how an action ended on the members, and which outcome wins if they differ. The
//! rule is that of Galera's inconsistency voting, as its documentation describes it: the outcome
//! that most members had wins. [`winning_outcome`] decides on the answers so far, and only if no
//! missing answer could change the result. Pure functions. The driver knows which members may
//! answer, and how long it waits for them.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

/// How an action ended on a member: success, or an error by the hash of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplyOutcome(pub u64);

impl ApplyOutcome {
    pub const SUCCESS: ApplyOutcome = ApplyOutcome(0);
    /// The member was killed before it noted how the action had ended. Counts for nothing.
    pub const UNKNOWN: ApplyOutcome = ApplyOutcome(u64::MAX);

    /// The error with this text, in the host's own words: equal errors have equal texts. No text
    /// gives success.
    pub fn of_error(text: &[u8]) -> ApplyOutcome {
        ApplyOutcome(xxh3_64(text).clamp(1, u64::MAX - 1))
    }

    pub fn is_success(self) -> bool {
        self == ApplyOutcome::SUCCESS
    }

    pub(crate) fn is_error(self) -> bool {
        !self.is_success() && self != ApplyOutcome::UNKNOWN
    }
}

impl std::fmt::Display for ApplyOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            ApplyOutcome::SUCCESS => f.write_str("success"),
            ApplyOutcome::UNKNOWN => f.write_str("not known"),
            ApplyOutcome(error) => write!(f, "error {error:016x}"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InconsistencyPolicy {
    #[default]
    MostFrequent,
    /// Success wins if at least this many members had it, even if more had an error. Otherwise the
    /// most frequent outcome wins.
    SuccessOf(u32),
}

/// The outcome that wins, given the answers of some members, while `missing` more are not known
/// yet; `None` if those could change it. Of equally frequent outcomes success wins, or else the
/// error with the larger hash. That choice is arbitrary, but the same on every member.
pub(crate) fn winning_outcome(
    answers: impl Iterator<Item = ApplyOutcome>,
    missing: usize,
    policy: InconsistencyPolicy,
) -> Option<ApplyOutcome> {
    let mut counts: BTreeMap<ApplyOutcome, usize> = BTreeMap::new();
    for outcome in answers {
        *counts.entry(outcome).or_default() += 1;
    }
    let leading = winner(&counts, policy)?;
    // The most that a rival can get is every missing answer. Success, and an error that no member
    // has had so far, are rivals, too.
    let new_error = ApplyOutcome(u64::MAX);
    let rivals = [ApplyOutcome::SUCCESS, new_error];
    let is_certain = rivals
        .into_iter()
        .chain(counts.keys().copied())
        .all(|rival| {
            let mut counts = counts.clone();
            *counts.entry(rival).or_default() += missing;
            winner(&counts, policy) == Some(leading)
        });
    is_certain.then_some(leading)
}

fn winner(
    counts: &BTreeMap<ApplyOutcome, usize>,
    policy: InconsistencyPolicy,
) -> Option<ApplyOutcome> {
    let successes = counts.get(&ApplyOutcome::SUCCESS).copied().unwrap_or(0);
    if let InconsistencyPolicy::SuccessOf(enough) = policy
        && successes > 0
        && successes >= enough as usize
    {
        return Some(ApplyOutcome::SUCCESS);
    }
    let most_frequent = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .max_by_key(|(outcome, count)| (**count, outcome.is_success(), **outcome));
    most_frequent.map(|(outcome, _)| *outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use InconsistencyPolicy::{MostFrequent, SuccessOf};
    use proptest::prelude::*;

    const A: u64 = 5;
    const B: u64 = 9;
    /// Every outcome that can make a difference.
    const ANY: [u64; 5] = [0, 1, A, B, u64::MAX];

    fn winner_of(answers: &[u64], missing: usize, policy: InconsistencyPolicy) -> Option<u64> {
        let answers = answers.iter().map(|hash| ApplyOutcome(*hash));
        winning_outcome(answers, missing, policy).map(|outcome| outcome.0)
    }

    #[test]
    fn most_frequent_outcome_wins_once_nothing_can_change_it() {
        let table = [
            // One member failed alone.
            (vec![A, 0, 0], 0, Some(0)),
            (vec![A, 0], 0, Some(0)),
            (vec![A, 0], 1, None),
            (vec![A, 0, 0, 0], 1, Some(0)),
            // All fail alike.
            (vec![A], 0, Some(A)),
            (vec![A, A, A], 0, Some(A)),
            (vec![A, A], 1, Some(A)),
            (vec![A], 2, None),
            (vec![A, A], 2, None),
            // One member applied what the others could not.
            (vec![0, A, A], 0, Some(A)),
            // Ties: success, or else the larger one.
            (vec![A, A, 0, 0], 0, Some(0)),
            (vec![A, B], 0, Some(B)),
            (vec![A, B], 1, None),
            (vec![A, B, 0], 0, Some(0)),
            (vec![A, A, B, B, 0], 0, Some(B)),
            // No member has answered.
            (vec![], 0, None),
            (vec![], 3, None),
        ];
        for (answers, missing, expected) in table {
            let found = winner_of(&answers, missing, MostFrequent);
            assert_eq!(found, expected, "{answers:?} and {missing} more");
        }
    }

    #[test]
    fn enough_successes_win_against_more_errors() {
        let table = [
            (vec![A, A, 0], 0, SuccessOf(1), Some(0)),
            (vec![A, A, 0], 5, SuccessOf(1), Some(0)),
            (vec![A, A, 0], 0, SuccessOf(2), Some(A)),
            (vec![A, A, A, 0, 0], 0, SuccessOf(2), Some(0)),
            // One success is yet possible.
            (vec![A, A], 1, SuccessOf(1), None),
            (vec![A, A], 1, SuccessOf(2), Some(A)),
            (vec![A, A], 0, SuccessOf(1), Some(A)),
        ];
        for (answers, missing, policy, expected) in table {
            let found = winner_of(&answers, missing, policy);
            assert_eq!(found, expected, "{answers:?}, {missing} more, {policy:?}");
        }
    }

    #[test]
    fn equal_errors_are_equal_and_none_is_success() {
        let error = ApplyOutcome::of_error(b" Error_code: 1060;\0");
        assert_eq!(error, ApplyOutcome::of_error(b" Error_code: 1060;\0"));
        assert_ne!(error, ApplyOutcome::of_error(b" Error_code: 1061;\0"));
        assert!(!ApplyOutcome::of_error(b"").is_success());
    }

    fn policy() -> impl Strategy<Value = InconsistencyPolicy> {
        prop_oneof![Just(MostFrequent), (1..5u32).prop_map(SuccessOf)]
    }

    fn outcome() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(A), Just(B), Just(u64::MAX)]
    }

    proptest! {
        /// An early winner is that of all answers, whatever the missing ones are.
        #[test]
        fn later_answers_never_change_the_winner(
            answers in proptest::collection::vec(outcome(), 1..8),
            known in 0..8usize,
            policy in policy(),
        ) {
            let known = known.min(answers.len());
            let early = winner_of(&answers[..known], answers.len() - known, policy);
            let all = winner_of(&answers, 0, policy);
            prop_assert!(all.is_some());
            prop_assert!(early.is_none() || early == all, "{early:?}, then {all:?}");
        }

        /// No answer is waited for in vain: if none could change the winner, it is known.
        #[test]
        fn winner_is_known_as_soon_as_it_is_certain(
            answers in proptest::collection::vec(outcome(), 1..6),
            missing in 0..4usize,
            policy in policy(),
        ) {
            let mut endings = vec![answers.clone()];
            for _ in 0..missing {
                endings = endings
                    .iter()
                    .flat_map(|so_far| ANY.map(|next| [&so_far[..], &[next]].concat()))
                    .collect();
            }
            let winners = endings.iter().map(|all| winner_of(all, 0, policy));
            let winners: BTreeSet<_> = winners.collect();
            let expected = if winners.len() == 1 { *winners.first().unwrap() } else { None };
            prop_assert_eq!(winner_of(&answers, missing, policy), expected);
        }

        /// At least one member had the winning outcome.
        #[test]
        fn winning_outcome_is_one_of_the_answers(
            answers in proptest::collection::vec(outcome(), 1..8),
            policy in policy(),
        ) {
            let winner = winner_of(&answers, 0, policy);
            prop_assert!(winner.is_some_and(|outcome| answers.contains(&outcome)));
        }
    }
}
