//! The result of a run: counts of what happened, and, if a rule was broken, everything that is
//! needed to see it again.
//!
//! Counts show that a test tests something: a fault that never happens proves nothing.

use std::collections::BTreeMap;
use std::fmt;

use crate::options::Options;
use crate::trace::Note;

/// Number of events, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
    /// Counts of `expected.rs`, by the title of a list and the name in it.
    kinds: BTreeMap<(&'static str, &'static str), u64>,
    /// Time of the last jump of a clock, in microseconds.
    pub(crate) last_jump_us: Option<u64>,
}

impl Coverage {
    pub(crate) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    pub(crate) fn count_if(&mut self, condition: bool, name: &'static str) {
        if condition {
            self.count(name);
        }
    }

    pub(crate) fn count_kind(&mut self, list: &'static str, name: &'static str) {
        *self.kinds.entry((list, name)).or_default() += 1;
    }

    /// Whether this one of a list has been seen.
    pub(crate) fn has_kind(&self, list: &'static str, name: &'static str) -> bool {
        self.kinds.contains_key(&(list, name))
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Coverage) {
        for (kind, count) in &other.kinds {
            *self.kinds.entry(*kind).or_default() += count;
        }
        for (name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
    }

    /// The count of this name; zero if it never happened.
    pub fn of(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// All counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(name, count)| (*name, *count))
    }
}

/// A run that broke no rule.
#[derive(Clone, Debug)]
pub struct Passed {
    /// Counts of what happened.
    pub coverage: Coverage,
    /// Hash over all events, without texts. Equal for equal runs.
    pub trace_hash: u64,
    /// Number of events in the trace.
    pub events: u64,
    /// Number of entries committed.
    pub committed: u64,
    /// The world's time at the end, in microseconds.
    pub simulated_us: u64,
}

/// A run that broke a rule, panicked, or had impossible options.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// The rule that was broken, "panic", or "options".
    pub rule: String,
    /// The contradiction.
    pub what: String,
    /// The state of all members at the end.
    pub state: String,
    /// The options of the run.
    pub options: Box<Options>,
    /// The last events before the end.
    pub last: Vec<Note>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} failed: {}: {}", self.seed, self.rule, self.what)?;
        writeln!(f, "options: {:?}", self.options)?;
        writeln!(f, "last events:")?;
        for note in &self.last {
            writeln!(f, "  {note}")?;
        }
        writeln!(f, "members at the end:")?;
        f.write_str(&self.state)
    }
}
