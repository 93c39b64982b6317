//! What this member tells the others of its database: what it surely has on its own disk.
//!
//! Only the member itself can tell: whoever heard that something was applied, and then nothing more, does
//! not know whether the machine lost its power before that was flushed.

use std::collections::VecDeque;
use std::time::Duration;

use synod_consensus::{Seqno, Time};
use synod_wire::DataState;

/// Samples within one margin.
const SAMPLES: u32 = 8;

/// See the module.
pub(super) struct Durable {
    /// What was applied so long ago is flushed.
    margin: Duration,
    samples: VecDeque<(Time, Seqno)>,
    seqno: Seqno,
}

impl Durable {
    pub(super) fn new(margin: Duration) -> Durable {
        Durable {
            margin,
            samples: VecDeque::new(),
            seqno: Seqno(0),
        }
    }

    /// Notes that everything up to `applied` is in the database.
    pub(super) fn note(&mut self, now: Time, state: DataState, applied: Seqno) {
        if !state.is_whole() {
            // None yet, or one that a copy replaces.
            *self = Durable::new(self.margin);
            return;
        }
        let step = self.margin / SAMPLES;
        let is_due = |last: &(Time, Seqno)| now.since(last.0) >= step;
        if self.samples.back().is_none_or(is_due) {
            self.samples.push_back((now, applied));
        }
        let is_flushed = |sample: &(Time, Seqno)| {
            now.since(sample.0) >= self.margin
                || synod_planted::is(synod_planted::Bug::RetainUnflushed)
        };
        while self.samples.front().is_some_and(is_flushed) {
            let (_, applied) = self.samples.pop_front().unwrap_or_default();
            self.seqno = self.seqno.max(applied);
        }
    }

    /// The database has this on its disk; zero if nothing is known of it.
    pub(super) fn seqno(&self) -> Seqno {
        self.seqno
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_applied_counts_after_the_margin() {
        let mut durable = Durable::new(Duration::from_secs(60));
        let start = Time(1_000);
        let mut note = |seconds: u64, applied: i64| {
            let now = start.plus(Duration::from_secs(seconds));
            durable.note(now, DataState::Synced, Seqno(applied));
            assert!(durable.samples.len() <= SAMPLES as usize + 1);
            durable.seqno()
        };
        assert_eq!(note(0, 5), Seqno(0));
        for second in 1..60 {
            assert_eq!(note(second, 5 + second as i64), Seqno(0));
        }
        assert_eq!(note(60, 100), Seqno(5));
        assert!(note(70, 200) < Seqno(20));
    }

    #[test]
    fn nothing_is_known_of_a_database_that_a_copy_replaces() {
        let mut durable = Durable::new(Duration::from_secs(60));
        let mut note = |seconds: u64, state| {
            let now = Time(1_000).plus(Duration::from_secs(seconds));
            durable.note(now, state, Seqno(7));
            durable.seqno()
        };
        assert_eq!(note(0, DataState::Synced), Seqno(0));
        assert_eq!(note(60, DataState::Donor), Seqno(7));
        assert_eq!(note(61, DataState::Joining), Seqno(0));
        assert_eq!(note(62, DataState::Joined), Seqno(0));
        assert_eq!(note(121, DataState::Synced), Seqno(0));
        assert_eq!(note(122, DataState::Synced), Seqno(7));
    }
}
