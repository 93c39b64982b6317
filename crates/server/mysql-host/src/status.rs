//! The host's state, for status variables.

use std::sync::atomic::{AtomicU64, Ordering};

/// How transactions of clients ended, since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) ordered: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Joining,
    Following,
    /// Its applier stops at a transaction, and is started again from time to time.
    Stuck,
    /// The server does not take the group's events: it waits for room on its disk.
    Blocked,
    /// Takes no part any more; a person, or a restart, helps.
    Failed,
    Stopped,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) state: &'static str,
    pub(crate) writer: String,
    pub(crate) problem: String,
    pub(crate) members: String,
    pub(crate) applied: i64,
    pub(crate) committed: i64,
    pub(crate) ordered: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) is_primary: bool,
}

impl Counters {
    pub(crate) fn one(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
