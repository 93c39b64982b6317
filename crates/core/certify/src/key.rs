//! Keys, on which conflicts are detected, and the matrix of which pairs of holds conflict.
//!
//! A key has parts (schema, table, row) and is known by a hash of them, its [`Fingerprint`]. A
//! transaction holds a key in one of four ways, its [`KeyType`].

use xxhash_rust::xxh3::xxh3_128;

/// How a transaction holds a key, weakest first. A stronger type conflicts with, and depends on,
/// everything that a weaker one does. So the strongest type describes a key
/// that is held in several ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum KeyType {
    /// Used, not changed; other transactions may change what is below it.
    Shared = 0,
    /// Referred to: the parent row of a foreign key, or the table and schema of a changed row.
    Reference = 1,
    /// Changed without touching any unique value.
    Update = 2,
    /// Created, removed, or altered in a unique value.
    Exclusive = 3,
}

impl KeyType {
    pub const ALL: [KeyType; 4] = [
        KeyType::Shared,
        KeyType::Reference,
        KeyType::Update,
        KeyType::Exclusive,
    ];

    pub fn from_code(code: u8) -> Option<KeyType> {
        KeyType::ALL.get(usize::from(code)).copied()
    }
}

/// A key as the index knows it: the 128-bit xxh3 hash of its parts, each preceded by its length (so
/// that `("ab", "c")` and `("a", "bc")` differ, and no key is another's prefix).
///
/// Two different keys with the same fingerprint can only cause a needless conflict or a needless
/// dependency, never a missed one. Among n keys in the window the chance that any two collide is
/// below n^2 / 2^129: for ten million keys 1.5e-25. The hash is not keyed, so a client that may
/// write rows could build collisions on purpose. All it gains is a deadlock error for a transaction
/// that it could have blocked by writing to the same row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// The fingerprint of a key with these parts. No parts: the server as a whole.
    pub fn of(parts: &[&[u8]]) -> Fingerprint {
        let mut buffer = Vec::with_capacity(parts.iter().map(|part| part.len() + 4).sum());
        for part in parts {
            push_part(&mut buffer, part);
        }
        Fingerprint::of_prefixed(&buffer)
    }

    pub(crate) fn of_prefixed(buffer: &[u8]) -> Fingerprint {
        Fingerprint(xxh3_128(buffer))
    }

    /// Bits for a hash table; the fingerprint is uniform already.
    pub(crate) fn table_hash(self) -> u64 {
        // Truncation wanted: any 64 of the 128 bits do.
        self.0 as u64
    }
}

/// Appends a part, preceded by its length, to a buffer for hashing.
pub(crate) fn push_part(buffer: &mut Vec<u8>, part: &[u8]) {
    // Parts come from the server and are far below 4 GiB; a longer one would only hash differently.
    buffer.extend_from_slice(&(part.len() as u32).to_le_bytes());
    buffer.extend_from_slice(part);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub fingerprint: Fingerprint,
    pub kind: KeyType,
}

/// Effect of an earlier action's hold on a key on a later hold on the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// The order of the two makes no difference.
    Nothing,
    /// The later action must be applied after the earlier.
    Depends,
    /// Like `Depends`. If another source made the earlier action, and the later one has not seen
    /// it, the later one is also refused.
    Conflicts,
}

/// The relation between a hold found in the index and a new one on the same key: the conflict
/// matrix of the provider contract, section 7.3, which has the rules of the reference
/// implementation that the server's own tests expect.
///
/// C: conflicts, D: depends, -: nothing.
///
/// | found \ new | EXCLUSIVE | UPDATE | REFERENCE | SHARED |
/// |---|---|---|---|---|
/// | EXCLUSIVE | C | C | C | C |
/// | UPDATE | C | C | D | D |
/// | REFERENCE | C | D | - | - |
/// | SHARED | D | D | - | - |
pub fn relation(found: KeyType, new: KeyType) -> Relation {
    use KeyType::{Exclusive, Reference, Shared, Update};
    use Relation::{Conflicts, Depends, Nothing};
    match (found, new) {
        (Exclusive, Exclusive | Update | Reference | Shared) => Conflicts,
        (Update, Exclusive | Update) => Conflicts,
        (Update, Reference | Shared) => Depends,
        (Reference, Exclusive) => Conflicts,
        (Reference, Update) => Depends,
        (Reference, Reference | Shared) => Nothing,
        (Shared, Exclusive | Update) => Depends,
        (Shared, Reference | Shared) => Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_depend_on_where_parts_end() {
        let a = Fingerprint::of(&[b"ab", b"c"]);
        let b = Fingerprint::of(&[b"a", b"bc"]);
        let c = Fingerprint::of(&[b"abc"]);
        let none = Fingerprint::of(&[]);
        let empty = Fingerprint::of(&[b""]);
        let all = [a, b, c, none, empty];
        for (i, x) in all.iter().enumerate() {
            for y in &all[i + 1..] {
                assert_ne!(x, y);
            }
        }
    }

    #[test]
    fn fingerprint_never_changes_between_versions() {
        // Fingerprints travel between members of different versions.
        let print = Fingerprint::of(&[b"test", b"t1", b"\0\x0a\0\0\0"]);
        assert_eq!(print.0, 0xb8d5_3880_c274_1053_2486_127a_7fdd_96c3);
    }

    #[test]
    fn codes_round_trip() {
        for kind in KeyType::ALL {
            assert_eq!(KeyType::from_code(kind as u8), Some(kind));
        }
        assert_eq!(KeyType::from_code(4), None);
    }

    #[test]
    fn stronger_types_never_relate_less() {
        for a in KeyType::ALL {
            for pair in KeyType::ALL.windows(2) {
                assert!(
                    relation(pair[0], a) <= relation(pair[1], a),
                    "{pair:?} found, {a:?} new"
                );
                assert!(
                    relation(a, pair[0]) <= relation(a, pair[1]),
                    "{a:?} found, {pair:?} new"
                );
            }
        }
    }
}
