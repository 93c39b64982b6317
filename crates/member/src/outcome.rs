//! How an action ended on the members, and which outcome stands if they differ.
//!
//! The rule is that of Galera's inconsistency voting, as its documentation has it: the outcome that
//! most members had stands. [`ruling`] decides on what has been heard, and only if nothing that is
//! still to be heard could change it. Pure; who may answer, and how long is waited, is the driver's.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

/// How an action ended on a member: success, or an error by the hash of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplyOutcome(pub u64);

impl ApplyOutcome {
    /// The action was applied.
    pub const SUCCESS: ApplyOutcome = ApplyOutcome(0);

    /// The error with this text, in the host's own words: equal errors have equal texts. No text is
    /// taken for success.
    pub fn of_error(text: &[u8]) -> ApplyOutcome {
        ApplyOutcome(xxh3_64(text).max(1))
    }

    /// Whether the action was applied.
    pub fn is_success(self) -> bool {
        self == ApplyOutcome::SUCCESS
    }
}

impl std::fmt::Display for ApplyOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_success() {
            true => f.write_str("success"),
            false => write!(f, "error {:016x}", self.0),
        }
    }
}

/// How answers are counted (`gcs.vote_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InconsistencyPolicy {
    /// The most frequent outcome stands.
    #[default]
    MostFrequent,
    /// Success stands if at least so many members had it, even if more had an error; otherwise the
    /// most frequent outcome.
    SuccessOf(u32),
}

/// The outcome that stands, given the answers of some members, and `missing` more that are not known
/// yet; `None` if they could change it. Of outcomes equally frequent success stands, or else the error
/// with the larger hash: anything will do that is the same wherever it is computed.
pub(crate) fn ruling(
    answers: impl Iterator<Item = ApplyOutcome>,
    missing: usize,
    policy: InconsistencyPolicy,
) -> Option<ApplyOutcome> {
    let mut counts: BTreeMap<ApplyOutcome, usize> = BTreeMap::new();
    for outcome in answers {
        *counts.entry(outcome).or_default() += 1;
    }
    let stands = winner(&counts, policy)?;
    // The most that any rival can get is all of what is missing; one that nobody has yet included.
    let unheard_of = ApplyOutcome(u64::MAX);
    let rivals = [ApplyOutcome::SUCCESS, unheard_of];
    let holds = rivals
        .into_iter()
        .chain(counts.keys().copied())
        .all(|rival| {
            let mut counts = counts.clone();
            *counts.entry(rival).or_default() += missing;
            winner(&counts, policy) == Some(stands)
        });
    holds.then_some(stands)
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

    fn rule(answers: &[u64], missing: usize, policy: InconsistencyPolicy) -> Option<u64> {
        let answers = answers.iter().map(|hash| ApplyOutcome(*hash));
        ruling(answers, missing, policy).map(|outcome| outcome.0)
    }

    #[test]
    fn most_frequent_outcome_stands_once_nothing_can_change_it() {
        let table = [
            // Who fails alone is out, whoever is yet to be heard.
            (vec![A, 0, 0], 0, Some(0)),
            (vec![A, 0], 0, Some(0)),
            (vec![A, 0], 1, None),
            (vec![A, 0, 0, 0], 1, Some(0)),
            // All fail alike: as soon as they have said so.
            (vec![A], 0, Some(A)),
            (vec![A, A, A], 0, Some(A)),
            (vec![A, A], 1, Some(A)),
            (vec![A], 2, None),
            (vec![A, A], 2, None),
            // A server that did what others could not.
            (vec![0, A, A], 0, Some(A)),
            // Ties: success, or else the larger one.
            (vec![A, A, 0, 0], 0, Some(0)),
            (vec![A, B], 0, Some(B)),
            (vec![A, B], 1, None),
            (vec![A, B, 0], 0, Some(0)),
            (vec![A, A, B, B, 0], 0, Some(B)),
            // Nobody has said anything.
            (vec![], 0, None),
            (vec![], 3, None),
        ];
        for (answers, missing, expected) in table {
            let found = rule(&answers, missing, MostFrequent);
            assert_eq!(found, expected, "{answers:?} and {missing} more");
        }
    }

    #[test]
    fn enough_successes_stand_against_more_errors() {
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
            let found = rule(&answers, missing, policy);
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
        /// Whoever is heard later, in whatever order, the ruling is the same as that on all answers.
        #[test]
        fn later_answers_never_change_a_ruling(
            answers in proptest::collection::vec(outcome(), 1..8),
            heard in 0..8usize,
            policy in policy(),
        ) {
            let heard = heard.min(answers.len());
            let early = rule(&answers[..heard], answers.len() - heard, policy);
            let all = rule(&answers, 0, policy);
            prop_assert!(all.is_some());
            prop_assert!(early.is_none() || early == all, "{early:?}, then {all:?}");
        }

        /// Nothing is waited for in vain: if nothing could change the ruling, it is given.
        #[test]
        fn ruling_is_given_as_soon_as_it_is_certain(
            answers in proptest::collection::vec(outcome(), 1..6),
            missing in 0..4usize,
            policy in policy(),
        ) {
            let mut endings = vec![answers.clone()];
            for _ in 0..missing {
                endings = endings
                    .iter()
                    .flat_map(|so_far| [0, 1, A, B, u64::MAX].map(|next| [&so_far[..], &[next]].concat()))
                    .collect();
            }
            let rulings: BTreeSet<_> = endings.iter().map(|all| rule(all, 0, policy)).collect();
            let expected = if rulings.len() == 1 { *rulings.first().unwrap() } else { None };
            prop_assert_eq!(rule(&answers, missing, policy), expected);
        }

        /// What stands, somebody had.
        #[test]
        fn what_stands_is_what_somebody_had(
            answers in proptest::collection::vec(outcome(), 1..8),
            policy in policy(),
        ) {
            let stands = rule(&answers, 0, policy);
            prop_assert!(stands.is_some_and(|outcome| answers.contains(&outcome)));
        }
    }
}
