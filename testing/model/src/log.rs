//! Logs: short, and copied by value.
//!
//! A log is an array of at most [`LOG_MAX`] entries, so that a state is small. That equal (term,
//! position) means the same entry is not built in: a property checks that the rules keep it so.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::voters::Voters;

/// The longest log any bounds may lead to.
pub(crate) const LOG_MAX: usize = 8;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A leader's first entry of its term.
    #[default]
    NoOp,
    /// An action that a client waits for.
    Action,
    /// The voters from here on.
    Config(Voters),
}

/// An entry. In a term with one leader, term and position say which.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// Term of the leader that appended it.
    pub term: u8,
    /// Kind of the entry.
    pub kind: Kind,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::NoOp => write!(f, "t{}", self.term),
            Kind::Action => write!(f, "t{}:action", self.term),
            Kind::Config(voters) => write!(f, "t{}:{voters:?}", self.term),
        }
    }
}

/// A log. Positions count from 1; position 0 is "before the log" in term 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Log {
    len: u8,
    /// Entries; those after `len` are default, so that equal logs are equal.
    entries: [Entry; LOG_MAX],
}

impl Log {
    /// Position of the last entry.
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries[..usize::from(self.len)]
    }

    /// The entry at a position.
    pub fn at(&self, index: u8) -> Option<Entry> {
        self.entries()
            .get(usize::from(index.checked_sub(1)?))
            .copied()
    }

    /// Term at a position; zero before the log and after its end.
    pub fn term_at(&self, index: u8) -> u8 {
        self.at(index).map_or(0, |entry| entry.term)
    }

    /// Term and position of the last entry: what elections compare, in this order.
    pub fn last(&self) -> (u8, u8) {
        (self.term_at(self.len), self.len)
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.entries[usize::from(self.len)] = entry;
        self.len += 1;
    }

    /// The first `len` entries.
    #[must_use]
    pub fn prefix(&self, len: u8) -> Log {
        let mut log = *self;
        while log.len > len {
            log.len -= 1;
            log.entries[usize::from(log.len)] = Entry::default();
        }
        log
    }

    /// Number of entries with which both logs begin.
    pub fn common(&self, other: &Log) -> u8 {
        let pairs = self.entries().iter().zip(other.entries());
        // At most LOG_MAX.
        pairs.take_while(|(a, b)| a == b).count() as u8
    }

    /// Whether the other log begins with this one.
    pub fn is_prefix_of(&self, other: &Log) -> bool {
        self.common(other) == self.len
    }

    /// Position and voters of the last configuration at or before a position; `initial` (position
    /// zero) if there is none.
    pub fn config_at(&self, index: u8, initial: Voters) -> (u8, Voters) {
        let below = (1..=index.min(self.len)).rev();
        let configs = below.filter_map(|i| match self.at(i)?.kind {
            Kind::Config(voters) => Some((i, voters)),
            Kind::NoOp | Kind::Action => None,
        });
        configs.take(1).last().map_or((0, initial), |config| config)
    }

    /// Maps each entry of the log.
    pub(crate) fn map(&self, change: impl Fn(Entry) -> Entry) -> Log {
        let mut log = *self;
        for entry in &mut log.entries[..usize::from(self.len)] {
            *entry = change(*entry);
        }
        log
    }
}

impl Hash for Log {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries().hash(state);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(terms: &[u8]) -> Log {
        let mut log = Log::default();
        for term in terms {
            let kind = Kind::NoOp;
            log.push(Entry { term: *term, kind });
        }
        log
    }

    #[test]
    fn prefixes_and_common_parts() {
        let (a, b) = (log(&[1, 1, 2]), log(&[1, 1, 3, 3]));
        assert_eq!(a.common(&b), 2);
        assert_eq!(b.prefix(2), a.prefix(2));
        assert!(a.prefix(2).is_prefix_of(&b) && !a.is_prefix_of(&b));
        assert!(b.last() > a.last());
        assert!(a.last() > log(&[1, 1, 1, 1]).last(), "term before length");
    }

    #[test]
    fn config_is_the_last_one_at_or_before() {
        let initial = Voters::first(3);
        let mut log = log(&[1]);
        log.push(Entry {
            term: 1,
            kind: Kind::Config(Voters::first(2)),
        });
        assert_eq!(log.config_at(1, initial), (0, initial));
        assert_eq!(log.config_at(2, initial), (2, Voters::first(2)));
        assert_eq!(log.config_at(9, initial), (2, Voters::first(2)));
    }
}
