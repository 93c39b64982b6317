//! Encoded keys that come in parts, cut anywhere.
//!
//! A part is checked as it comes: known types, ascending, no more keys than announced. The first
//! bytes of a cut key wait for the next part.

use bytes::Bytes;

use crate::key::{Fingerprint, Key};
use crate::key_run::KeyRun;
use crate::key_set::{COUNT_BYTES, DecodeKeysError, KEY_BYTES, decode_key};

/// Reads an encoded key set part by part. Cheap to clone: a clone remembers the place.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyStream {
    /// Number of keys announced, once that has come.
    count: Option<u32>,
    /// Number of keys that have come.
    found: usize,
    /// The last of them.
    last: Option<Fingerprint>,
    /// First bytes of a count or key that was cut.
    cut: Vec<u8>,
}

/// The keys that one part completes: one that was cut, if any, and those after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartKeys {
    cut: KeyRun,
    whole: KeyRun,
}

impl PartKeys {
    /// The key with this fingerprint.
    pub(crate) fn find(&self, wanted: Fingerprint) -> Option<Key> {
        self.whole.find(wanted).or_else(|| self.cut.find(wanted))
    }

    /// The keys, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Key> + '_ {
        self.cut.iter().chain(self.whole.iter())
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.cut.len() + self.whole.len()
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.cut.bytes() + self.whole.bytes()
    }
}

impl KeyStream {
    /// Reads the next part.
    ///
    /// # Errors
    /// If `part` does not continue an encoded key set.
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

    /// The last key so far.
    pub(crate) fn last(&self) -> Option<Fingerprint> {
        self.last
    }

    /// Whether all keys have come.
    ///
    /// # Errors
    /// If the count or keys are missing.
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

    /// Checks whole records, and counts them.
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
