//! Key sets: the keys of one transaction, and their encoding.
//!
//! The origin collects them while the transaction runs; the encoded set travels in the action. The
//! encoding is frozen: members of different versions read it.

use std::num::NonZeroUsize;

use bytes::Bytes;
use hashbrown::HashTable;

use crate::key::{Fingerprint, Key, KeyType, Relation, push_part, relation};
use crate::key_run::KeyRun;

pub(crate) const COUNT_BYTES: usize = 4;
/// Parts of a table's key: schema and table.
const TABLE_PARTS: usize = 2;
pub(crate) const KEY_BYTES: usize = 17;

/// Collects the keys of one transaction in whatever order the server appends them: each key once,
/// with the strongest type it was given.
///
/// For a key of n parts every proper prefix is added as REFERENCE: the schema, the table, and
/// (without any part) the server. So a statement that holds a table EXCLUSIVE conflicts with every
/// row change in it, while row changes in one table do not conflict there.
///
/// A set with too many rows ([`KeySet::bound_rows`]) holds their tables EXCLUSIVE instead: it
/// then conflicts with whatever changes those tables, and costs nothing more for each row.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
    /// Positions in `keys` of servers, schemas and tables; empty after decoding.
    above_rows: Vec<u32>,
    /// Positions in `keys` of the tables of which a row was added.
    tables: Vec<u32>,
    /// Number of rows, of whatever key, from which on their tables are held; none: never.
    rows_max: Option<NonZeroUsize>,
    /// Whether the tables are held, and no rows.
    is_coarse: bool,
    /// Positions in `keys` by fingerprint. Empty after decoding, until the next append.
    positions: HashTable<u32>,
    appended: u64,
    appended_bytes: u64,
    scratch: Vec<u8>,
}

impl KeySet {
    pub fn new() -> KeySet {
        KeySet::default()
    }

    /// Bounds the set: more than `rows_max` rows are replaced by their tables. Call it before the
    /// first row.
    pub fn bound_rows(&mut self, rows_max: NonZeroUsize) {
        self.rows_max = Some(rows_max);
    }

    /// Adds a key and its implicit prefixes. No parts: the server as a whole.
    pub fn append(&mut self, parts: &[&[u8]], kind: KeyType) {
        self.index_positions();
        self.appended += 1;
        let mut buffer = std::mem::take(&mut self.scratch);
        buffer.clear();
        for (above, part) in parts.iter().enumerate() {
            let is_table_of_row = above == TABLE_PARTS;
            let held = if is_table_of_row && self.is_coarse {
                KeyType::Exclusive
            } else {
                KeyType::Reference
            };
            self.insert_above_rows(Fingerprint::of_prefixed(&buffer), held, is_table_of_row);
            push_part(&mut buffer, part);
            self.appended_bytes += part.len() as u64;
        }
        let print = Fingerprint::of_prefixed(&buffer);
        if parts.len() <= TABLE_PARTS {
            self.insert_above_rows(print, kind, false);
        } else if !self.is_coarse {
            self.insert(print, kind);
            self.hold_tables_if_too_many();
        }
        self.scratch = buffer;
    }

    /// Whether the tables of rows are held, because the rows were too many.
    pub fn is_coarse(&self) -> bool {
        self.is_coarse
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of calls of [`KeySet::append`]. Zero for a decoded set.
    pub fn appended(&self) -> u64 {
        self.appended
    }

    /// Bytes of the parts given to [`KeySet::append`]. Zero for a decoded set.
    pub fn appended_bytes(&self) -> u64 {
        self.appended_bytes
    }

    /// The keys; their order has no meaning.
    pub fn iter(&self) -> KeySetIter<'_> {
        KeySetIter {
            keys: self.keys.iter(),
        }
    }

    /// Fingerprints of the keys that conflict with the keys of an earlier action.
    pub fn conflicting(&self, earlier: &KeySet) -> Vec<Fingerprint> {
        let mut held: Vec<Key> = earlier.iter().collect();
        // Sorted already if it was decoded.
        held.sort_by_key(|key| key.fingerprint);
        let conflicts = |key: &&Key| {
            let found = held.binary_search_by_key(&key.fingerprint, |held| held.fingerprint);
            found.is_ok_and(|at| relation(held[at].kind, key.kind) == Relation::Conflicts)
        };
        let found = self.keys.iter().filter(conflicts);
        found.map(|key| key.fingerprint).collect()
    }

    pub fn encoded_len(&self) -> usize {
        COUNT_BYTES + self.keys.len() * KEY_BYTES
    }

    /// The keys as bytes: their count (u32), then for each, ascending by fingerprint, the
    /// fingerprint (16 bytes) and the type (1 byte); little-endian. Equal sets have equal
    /// encodings.
    pub fn encode(&self) -> Vec<u8> {
        let mut sorted: Vec<&Key> = self.keys.iter().collect();
        sorted.sort_unstable_by_key(|key| key.fingerprint);
        let mut out = Vec::with_capacity(self.encoded_len());
        // More than u32::MAX keys would need 100 GB; positions are u32 as well.
        out.extend_from_slice(&(sorted.len() as u32).to_le_bytes());
        for key in sorted {
            out.extend_from_slice(&key.fingerprint.0.to_le_bytes());
            out.push(key.kind as u8);
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<KeySet, DecodeKeysError> {
        let short = DecodeKeysError::NoCount { found: bytes.len() };
        let (count, body) = bytes.split_first_chunk::<COUNT_BYTES>().ok_or(short)?;
        let count = u32::from_le_bytes(*count);
        if body.len() as u64 != u64::from(count) * KEY_BYTES as u64 {
            return Err(DecodeKeysError::WrongLength {
                count,
                found: body.len(),
            });
        }
        let mut keys: Vec<Key> = Vec::with_capacity(body.len() / KEY_BYTES);
        for (position, bytes) in body.chunks_exact(KEY_BYTES).enumerate() {
            let key = decode_key(position, bytes)?;
            if keys
                .last()
                .is_some_and(|last| last.fingerprint >= key.fingerprint)
            {
                return Err(DecodeKeysError::NotAscending { position });
            }
            keys.push(key);
        }
        Ok(KeySet {
            keys,
            ..KeySet::default()
        })
    }

    pub(crate) fn to_run(&self) -> KeyRun {
        KeyRun::of_checked(Bytes::from(self.encode()).split_off(COUNT_BYTES))
    }

    fn insert_above_rows(&mut self, print: Fingerprint, kind: KeyType, is_table_of_row: bool) {
        let (at, is_new) = self.insert(print, kind);
        if is_new {
            self.above_rows.push(at);
        }
        let is_known = self.tables.last() == Some(&at) || self.tables.contains(&at);
        if is_table_of_row && self.rows_max.is_some() && !is_known {
            self.tables.push(at);
        }
    }

    fn hold_tables_if_too_many(&mut self) {
        let rows = self.keys.len() - self.above_rows.len();
        if self.rows_max.is_none_or(|most| rows <= most.get()) {
            return;
        }
        self.is_coarse = true;
        for at in &self.tables {
            self.keys[*at as usize].kind = KeyType::Exclusive;
        }
        let kept = self.above_rows.iter().map(|at| self.keys[*at as usize]);
        self.keys = kept.collect();
        self.above_rows = (0..self.keys.len() as u32).collect();
        self.tables.clear();
        self.positions = HashTable::new();
        self.index_positions();
    }

    fn insert(&mut self, fingerprint: Fingerprint, kind: KeyType) -> (u32, bool) {
        let hash = fingerprint.table_hash();
        let keys = &mut self.keys;
        let found = self
            .positions
            .find(hash, |at| keys[*at as usize].fingerprint == fingerprint);
        if let Some(&at) = found {
            let known = &mut keys[at as usize].kind;
            *known = kind.max(*known);
            return (at, false);
        }
        let at = keys.len() as u32;
        keys.push(Key { fingerprint, kind });
        self.positions
            .insert_unique(hash, at, |at| keys[*at as usize].fingerprint.table_hash());
        (at, true)
    }

    fn index_positions(&mut self) {
        let keys = &self.keys;
        for at in self.positions.len()..keys.len() {
            let hash = |at: &u32| keys[*at as usize].fingerprint.table_hash();
            let at = at as u32;
            self.positions.insert_unique(hash(&at), at, hash);
        }
    }
}

impl<'a> IntoIterator for &'a KeySet {
    type Item = Key;
    type IntoIter = KeySetIter<'a>;

    fn into_iter(self) -> KeySetIter<'a> {
        self.iter()
    }
}

#[derive(Clone, Debug)]
pub struct KeySetIter<'a> {
    keys: std::slice::Iter<'a, Key>,
}

impl Iterator for KeySetIter<'_> {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        self.keys.next().copied()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.keys.size_hint()
    }
}

impl ExactSizeIterator for KeySetIter<'_> {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeKeysError {
    #[error("key set of {found} bytes is too short for its count")]
    NoCount { found: usize },
    #[error("key set claims {count} keys but {found} bytes follow")]
    WrongLength {
        count: u32,
        /// Bytes after the count.
        found: usize,
    },
    #[error("key {position} has the unknown type {code}")]
    UnknownType {
        /// The key's position in the set, from zero.
        position: usize,
        code: u8,
    },
    #[error("key {position} is not above the one before it")]
    NotAscending {
        /// The key's position in the set, from zero.
        position: usize,
    },
}

/// The key at a position of encoded keys that were checked before.
pub(crate) fn key_at(records: &[u8], position: usize) -> Key {
    let at = position * KEY_BYTES;
    decode_key(position, &records[at..at + KEY_BYTES]).expect("these keys were checked")
}

pub(crate) fn decode_key(position: usize, bytes: &[u8]) -> Result<Key, DecodeKeysError> {
    let wrong = DecodeKeysError::WrongLength {
        count: 1,
        found: bytes.len(),
    };
    let (print, rest) = bytes.split_first_chunk::<16>().ok_or(wrong)?;
    let code = *rest.first().ok_or(wrong)?;
    let kind = KeyType::from_code(code).ok_or(DecodeKeysError::UnknownType { position, code })?;
    Ok(Key {
        fingerprint: Fingerprint(u128::from_le_bytes(*print)),
        kind,
    })
}
