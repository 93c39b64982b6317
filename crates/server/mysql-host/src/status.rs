//! The host's state, for status variables.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use synod_node::Seqno;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) ordered: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

/// Transactions of all servers that are ordered since this one joined.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    checked: u64,
    /// Numbers of others' that the database lacked at the last look.
    waiting: VecDeque<Seqno>,
}

impl Tally {
    pub(crate) fn note_own(&mut self) {
        self.checked += 1;
    }

    pub(crate) fn note_other(&mut self, seqno: Seqno, applied: Seqno) {
        self.checked += 1;
        self.waiting.push_back(seqno);
        self.forget(applied);
    }

    /// How many there are, and how many of others the database lacks.
    pub(crate) fn counts(&mut self, applied: Seqno) -> (u64, u64) {
        self.forget(applied);
        (self.checked, self.waiting.len() as u64)
    }

    fn forget(&mut self, applied: Seqno) {
        let has = self.waiting.partition_point(|seqno| *seqno <= applied);
        self.waiting.drain(..has);
    }
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
    pub(crate) checked: u64,
    pub(crate) waiting: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_counts_all_and_keeps_those_of_others_that_the_database_lacks() {
        let mut tally = Tally::default();
        tally.note_other(Seqno(3), Seqno(2));
        tally.note_own();
        tally.note_other(Seqno(5), Seqno(2));
        assert_eq!(tally.counts(Seqno(2)), (3, 2));
        assert_eq!(tally.counts(Seqno(4)), (3, 1));
        assert_eq!(tally.counts(Seqno(5)), (3, 0));
    }
}
