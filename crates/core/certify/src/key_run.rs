//! Key runs: the keys of a large write set, sorted, as they travelled.
//!
//! A write set of millions of keys is not put into the index: that would cost a hash insert and
//! about 100 bytes for each key, in one step. Its encoded keys ascend by fingerprint, so they can
//! be searched as they are: 17 bytes a key, and taking them in costs nothing. Fingerprints are
//! uniform, so a search guesses the place and is near in two or three reads.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::key::{Fingerprint, Key};
use crate::key_set::{COUNT_BYTES, DecodeKeysError, KEY_BYTES, decode_key, key_at};

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

    pub(crate) fn iter(&self) -> impl Iterator<Item = Key> + '_ {
        (0..self.len()).map(|position| key_at(&self.records, position))
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len() / KEY_BYTES
    }

    pub(crate) fn bytes(&self) -> usize {
        self.records.len()
    }

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
                Ordering::Equal => return Some(key),
                Ordering::Less => (low, below) = (middle + 1, key.fingerprint.0),
                Ordering::Greater => (high, above) = (middle, key.fingerprint.0),
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

/// Reads an encoded key set that comes in parts, cut anywhere. A part is checked as it comes: known
/// types, ascending, no more keys than announced. The first bytes of a cut key wait for the next
/// part. Cheap to clone: a clone remembers the place.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyStream {
    /// Number of keys announced, once that has come.
    count: Option<u32>,
    found: usize,
    last: Option<Fingerprint>,
    /// First bytes of a count or key that was cut.
    cut: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PartKeys {
    cut: KeyRun,
    whole: KeyRun,
}

impl PartKeys {
    pub(crate) fn find(&self, wanted: Fingerprint) -> Option<Key> {
        self.whole.find(wanted).or_else(|| self.cut.find(wanted))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Key> + '_ {
        self.cut.iter().chain(self.whole.iter())
    }

    pub(crate) fn len(&self) -> usize {
        self.cut.len() + self.whole.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.cut.bytes() + self.whole.bytes()
    }
}

impl KeyStream {
    pub(crate) fn take(&mut self, mut part: Bytes) -> Result<PartKeys, DecodeKeysError> {
        if self.count.is_none() {
            let Some(count) = self.complete::<COUNT_BYTES>(&mut part) else {
                return Ok(PartKeys::default());
            };
            self.count = Some(u32::from_le_bytes(count));
        }
        let mut keys = PartKeys::default();
        if !self.cut.is_empty() {
            let Some(cut) = self.complete::<KEY_BYTES>(&mut part) else {
                return Ok(keys);
            };
            keys.cut = self.checked(Bytes::copy_from_slice(&cut))?;
        }
        let left = part.split_off(part.len() - part.len() % KEY_BYTES);
        self.cut.extend_from_slice(&left);
        keys.whole = self.checked(part)?;
        Ok(keys)
    }

    pub(crate) fn last(&self) -> Option<Fingerprint> {
        self.last
    }

    pub(crate) fn finish(&self) -> Result<(), DecodeKeysError> {
        let found = self.found * KEY_BYTES + self.cut.len();
        match self.count {
            None => Err(DecodeKeysError::NoCount { found }),
            Some(count) if count as usize != self.found || !self.cut.is_empty() => {
                Err(DecodeKeysError::WrongLength { count, found })
            }
            Some(_) => Ok(()),
        }
    }

    /// Completes what was cut with the beginning of `part`; none if that is too short.
    fn complete<const N: usize>(&mut self, part: &mut Bytes) -> Option<[u8; N]> {
        let wanted = N - self.cut.len();
        self.cut
            .extend_from_slice(&part.split_to(wanted.min(part.len())));
        let completed = <[u8; N]>::try_from(self.cut.as_slice()).ok()?;
        self.cut.clear();
        Some(completed)
    }

    fn checked(&mut self, records: Bytes) -> Result<KeyRun, DecodeKeysError> {
        for record in records.chunks_exact(KEY_BYTES) {
            let position = self.found;
            let key = decode_key(position, record)?;
            if self.last.is_some_and(|last| last >= key.fingerprint) {
                return Err(DecodeKeysError::NotAscending { position });
            }
            self.last = Some(key.fingerprint);
            self.found += 1;
        }
        let count = self.count.unwrap_or(0);
        if self.found > count as usize {
            let found = self.found * KEY_BYTES;
            return Err(DecodeKeysError::WrongLength { count, found });
        }
        Ok(KeyRun::of_checked(records))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyType;
    use crate::key_set::KeySet;
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

    fn some_keys(rows: u32) -> KeySet {
        let mut keys = KeySet::new();
        for row in 0..rows {
            keys.append(&[b"db", b"t", &row.to_le_bytes()], KeyType::Update);
        }
        keys
    }

    proptest! {
        /// Wherever the bytes are cut, and whatever is wrong with them, the result is that of
        /// decoding them at once.
        #[test]
        fn parts_read_like_the_whole(
            rows in 0..40u32,
            wrong in proptest::option::of((0..400usize, any::<u8>())),
            missing in prop_oneof![4 => Just(0usize), 1 => 0..60usize],
            part_bytes in 1..80usize,
        ) {
            let mut bytes = some_keys(rows).encode();
            if let Some((at, value)) = wrong {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            bytes.truncate(bytes.len() - missing.min(bytes.len()));
            let bytes = Bytes::from(bytes);
            let mut stream = KeyStream::default();
            let mut found = Vec::new();
            let parts = bytes.chunks(part_bytes).map(|part| bytes.slice_ref(part));
            let read = parts.map(|part| stream.take(part)).try_for_each(|part| {
                found.extend(part?.iter());
                Ok::<(), DecodeKeysError>(())
            });
            let read = read.and_then(|()| stream.finish());
            match KeySet::decode(&bytes) {
                Ok(whole) => {
                    prop_assert_eq!(read, Ok(()));
                    prop_assert_eq!(found, whole.iter().collect::<Vec<_>>());
                }
                Err(_) => prop_assert!(read.is_err()),
            }
        }
    }
}
