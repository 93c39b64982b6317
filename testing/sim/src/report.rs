//! What a run brought: counts of what happened, and, if a rule was broken, what is needed to see it
//! again.

use std::collections::BTreeMap;
use std::fmt;

use crate::options::Options;
use crate::trace::Note;

/// How often what happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
    /// When a clock jumped last, in microseconds.
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

    /// Adds another run's counts; and for each name one run more, under the name with "seeds".
    pub fn add(&mut self, other: &Coverage) {
        for (name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
    }

    /// How often this happened.
    pub fn of(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// All counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(name, count)| (*name, *count))
    }
}

/// A run in which everything was right.
#[derive(Clone, Debug)]
pub struct Passed {
    /// What happened.
    pub coverage: Coverage,
    /// Equal for equal runs.
    pub trace_hash: u64,
    /// Events noted.
    pub events: u64,
    /// Entries committed.
    pub committed: u64,
    /// The world's time at the end, in microseconds.
    pub simulated_us: u64,
}

/// A run in which something was wrong.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// The rule that was broken, or "panic".
    pub rule: String,
    /// What contradicts it.
    pub what: String,
    /// The state of all members at the end.
    pub state: String,
    /// The options drawn from the seed.
    pub options: Box<Options>,
    /// The last events.
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
