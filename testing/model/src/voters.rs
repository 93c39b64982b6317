//! Sets of members, and majorities of them.

use std::fmt;

/// A set of members, by number. The voters of a configuration, or the members that granted
/// something.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Voters(u8);

impl Voters {
    /// The members with numbers below `count`.
    pub fn first(count: usize) -> Voters {
        Voters((0..count).fold(0, |bits, id| bits | 1 << id))
    }

    /// Whether this member is in the set.
    pub fn contains(self, id: u8) -> bool {
        self.0 & 1 << id != 0
    }

    /// The set with this member.
    #[must_use]
    pub fn with(self, id: u8) -> Voters {
        Voters(self.0 | 1 << id)
    }

    /// The set in which this member is what it was not: in, or out.
    #[must_use]
    pub fn toggled(self, id: u8) -> Voters {
        Voters(self.0 ^ 1 << id)
    }

    /// Whether the set has no member.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |id| self.contains(*id))
    }

    /// Whether those of the set for which `holds` is true are more than half of it.
    pub fn majority(self, holds: impl Fn(u8) -> bool) -> bool {
        let (mut all, mut held) = (0, 0);
        for id in self.iter() {
            all += 1;
            held += usize::from(holds(id));
        }
        2 * held > all
    }

    /// The set after the members were given other numbers: `to[old]` is the new one.
    pub(crate) fn renamed(self, to: &[u8]) -> Voters {
        self.iter()
            .fold(Voters::default(), |set, id| set.with(to[usize::from(id)]))
    }
}

impl fmt::Debug for Voters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majorities_are_more_than_half() {
        let four = Voters::first(4);
        assert!(!four.majority(|id| id < 2));
        assert!(four.majority(|id| id < 3));
        assert!(!Voters::first(3).majority(|id| id == 7));
        assert!(!Voters::default().majority(|_| true));
    }

    #[test]
    fn renaming_moves_members() {
        assert_eq!(
            Voters::first(2).renamed(&[2, 1, 0]),
            Voters::first(3).toggled(0)
        );
    }
}
