//! The conflict matrix: which pairs of key types conflict.
//!
//! The matrix is that of the provider contract, section 7.3: the rules of the reference
//! implementation, which the server's own tests expect.

use crate::key::KeyType;

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

/// The relation between a hold found in the index and a new one on the same key.
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
