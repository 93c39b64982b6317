//! Majority arithmetic, and nothing else. Elections, the commit index, check-quorum and read rounds
//! all count here, so that the crate has one idea of a majority.

use synod_planted::planted;

/// How many of `voters` make a majority (Raft, section 5.1).
pub(crate) fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// The highest value that a majority has reached, given one value per voter. `None` without voters.
/// Values are durable positions for the commit index, times for check-quorum, and round numbers for
/// reads.
pub(crate) fn reached_by_majority<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable_by(|a, b| b.cmp(a));
    let voters = values.len();
    let enough = planted!(HalfIsMajority, majority(voters), else voters.div_ceil(2));
    values.get(enough.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn majorities() {
        let table = [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)];
        for (voters, expected) in table {
            assert_eq!(majority(voters), expected, "{voters} voters");
        }
    }

    #[test]
    fn values_reached() {
        let table: [(&[u64], Option<u64>); 7] = [
            (&[], None),
            (&[5], Some(5)),
            (&[5, 3], Some(3)),
            (&[5, 3, 1], Some(3)),
            (&[9, 9, 0], Some(9)),
            (&[4, 3, 2, 1], Some(2)),
            (&[0, 0, 7, 7, 7], Some(7)),
        ];
        for (values, expected) in table {
            assert_eq!(reached_by_majority(values.to_vec()), expected, "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn result_is_the_largest_with_a_majority(values in prop::collection::vec(0u64..50, 1..9)) {
            let reached = reached_by_majority(values.clone()).unwrap();
            let count = |at_least: u64| values.iter().filter(|v| **v >= at_least).count();
            prop_assert!(count(reached) >= majority(values.len()));
            prop_assert!(count(reached + 1) < majority(values.len()));
        }
    }
}
