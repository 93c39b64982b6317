//! Key runs: the keys of a large write set, sorted, as they travelled.
//!
//! A write set of millions of keys is not put into the index: that would cost a hash insert and
//! about 100 bytes for each key, in one step. Its encoded keys ascend by fingerprint, so they can
//! be searched as they are: 17 bytes a key, and taking them in costs nothing. Fingerprints are
//! uniform, so a search guesses the place and is near in two or three reads.

use bytes::Bytes;

use crate::key::{Fingerprint, Key};
use crate::key_set::{KEY_BYTES, key_at};

/// Guesses before a search only halves. Uniform keys need two or three; keys that a client has made
/// up need not be uniform.
const GUESSES: usize = 4;
/// Records that are as well halved as guessed.
const FEW: usize = 8;

/// Keys that ascend, encoded: each 16 bytes of fingerprint and one of type. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRun {
    records: Bytes,
}

impl KeyRun {
    /// The run of these records, which the caller has checked: they ascend, their types are known,
    /// and none is cut.
    pub(crate) fn of_checked(records: Bytes) -> KeyRun {
        debug_assert_eq!(records.len() % KEY_BYTES, 0, "a record is cut");
        KeyRun { records }
    }

    /// The keys, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Key> + '_ {
        (0..self.len()).map(|position| key_at(&self.records, position))
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.records.len() / KEY_BYTES
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.records.len()
    }

    /// The key with this fingerprint.
    pub(crate) fn find(&self, wanted: Fingerprint) -> Option<Key> {
        // All records before `low` are below what is wanted, all from `high` on above it.
        let (mut low, mut high) = (0, self.len());
        let (mut below, mut above) = (0, u128::MAX);
        let mut guesses = GUESSES;
        while low < high {
            let middle = if guesses == 0 || high - low <= FEW {
                low + (high - low) / 2
            } else {
                guesses -= 1;
                low + guess(wanted.0 - below, above - below, high - low)
            };
            let key = key_at(&self.records, middle);
            match key.fingerprint.cmp(&wanted) {
                std::cmp::Ordering::Equal => return Some(key),
                std::cmp::Ordering::Less => (low, below) = (middle + 1, key.fingerprint.0),
                std::cmp::Ordering::Greater => (high, above) = (middle, key.fingerprint.0),
            }
        }
        None
    }
}

/// Position among `records` uniform ones of what is `distance` into a range of `width`.
fn guess(distance: u128, width: u128, records: usize) -> usize {
    // 64 bits of both are enough for a guess, and their product with a count fits into 128.
    let shift = 64u32.saturating_sub(width.leading_zeros());
    let (distance, width) = (distance >> shift, (width >> shift).max(1));
    let position = distance * records as u128 / width;
    // At most `records`, which is in memory.
    (position as usize).min(records - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyType;
    use proptest::prelude::*;

    fn run(prints: &[u128]) -> KeyRun {
        let mut records = Vec::new();
        for print in prints {
            records.extend_from_slice(&print.to_le_bytes());
            records.push(KeyType::Update as u8);
        }
        KeyRun::of_checked(records.into())
    }

    #[test]
    fn first_and_last_of_all_fingerprints_are_found() {
        let ends = run(&[0, 1, u128::MAX - 1, u128::MAX]);
        for print in [0, 1, u128::MAX - 1, u128::MAX] {
            assert!(ends.find(Fingerprint(print)).is_some(), "{print}");
        }
        assert!(ends.find(Fingerprint(2)).is_none());
        assert!(KeyRun::default().find(Fingerprint(0)).is_none());
    }

    proptest! {
        #[test]
        fn exactly_what_is_in_it_is_found(
            uniform in proptest::collection::btree_set(any::<u128>(), 0..300),
            dense in proptest::collection::btree_set(0..600u128, 0..300),
            other in any::<u128>(),
        ) {
            let all: std::collections::BTreeSet<u128> = uniform.union(&dense).copied().collect();
            let sorted: Vec<u128> = all.iter().copied().collect();
            let run = run(&sorted);
            for print in (0..600).chain([other]).chain(uniform) {
                let found = run.find(Fingerprint(print)).map(|key| key.fingerprint.0);
                prop_assert_eq!(found, all.contains(&print).then_some(print));
            }
        }
    }
}
