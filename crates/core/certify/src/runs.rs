//! The write sets of the certification window that are too large for the index, as key runs.
//!
//! Each was ordered once and holds its keys once, so its mark on a key is its seqno and its source.
//! No mark of the index is replaced by it: a rollback only drops it, and a verdict takes the later
//! of what the index and the runs say.
//!
//! Invariant: the runs ascend by seqno, and all are in the window.

use std::collections::VecDeque;

use crate::key::{Fingerprint, Key, KeyType};
use crate::key_run::KeyRun;
use crate::mark::Mark;
use crate::open_runs::{OpenId, OpenRun};
use crate::source::SourceId;

/// The keys of a large write set.
#[derive(Debug)]
pub(crate) enum RunKeys {
    /// Keys that came at once.
    Whole(KeyRun),
    /// Keys that came in parts: so many before the last piece.
    Parts {
        id: OpenId,
        run: OpenRun,
        parts: usize,
    },
}

impl RunKeys {
    fn find(&self, key: Fingerprint) -> Option<Key> {
        match self {
            RunKeys::Whole(keys) => keys.find(key),
            RunKeys::Parts { run, .. } => run.find(key),
        }
    }

    fn len(&self) -> usize {
        match self {
            RunKeys::Whole(keys) => keys.len(),
            RunKeys::Parts { run, .. } => run.len(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            RunKeys::Whole(keys) => keys.bytes(),
            RunKeys::Parts { run, .. } => run.bytes(),
        }
    }
}

/// A large write set that was ordered.
#[derive(Debug)]
pub(crate) struct OrderedRun {
    pub(crate) seqno: i64,
    pub(crate) source: SourceId,
    pub(crate) keys: RunKeys,
}

/// The large write sets of the window.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    ordered: VecDeque<OrderedRun>,
    /// Number of keys in `ordered`.
    keys: usize,
}

impl Runs {
    /// A large write set was ordered.
    pub(crate) fn push(&mut self, run: OrderedRun) {
        self.keys += run.keys.len();
        self.ordered.push_back(run);
    }

    /// How a key is held by the runs, and by which.
    pub(crate) fn marks(&self, key: Fingerprint) -> impl Iterator<Item = (KeyType, Mark)> {
        self.ordered.iter().filter_map(move |run| {
            let found = run.keys.find(key)?;
            Some((found.kind, Mark::of(run.seqno, run.source)))
        })
    }

    /// The action `seqno`, the last one, is undone. Returns its keys if it was one of the runs.
    pub(crate) fn rollback(&mut self, seqno: i64) -> Option<RunKeys> {
        self.ordered.back().filter(|run| run.seqno == seqno)?;
        let undone = self.ordered.pop_back()?;
        self.keys -= undone.keys.len();
        Some(undone.keys)
    }

    /// Drops the runs at or below this seqno, which have left the window.
    pub(crate) fn window_starts_at(&mut self, start: i64) {
        while self.ordered.front().is_some_and(|run| run.seqno <= start) {
            let left = self.ordered.pop_front();
            self.keys -= left.map_or(0, |run| run.keys.len());
        }
    }

    /// Whether there are more runs, or keys in them, than these. One run alone is never too many.
    pub(crate) fn exceed(&self, runs_max: usize, keys_max: usize) -> bool {
        let runs = self.ordered.len();
        runs > 1 && (runs > runs_max || self.keys > keys_max)
    }

    /// Number of keys in all runs.
    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    /// Memory held, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let keys: usize = self.ordered.iter().map(|run| run.keys.bytes()).sum();
        keys + self.ordered.capacity() * size_of::<OrderedRun>()
    }
}
