//! An estimate of how far the database has flushed to its own files.
//!
//! The database runs without a flush at each commit: a power cut loses what it applied just before,
//! and that has to come back from the log. The engine flushes about once a second. What it applied
//! a margin of time ago counts as flushed; that is time in which the process ran
//! ([`super::awake_time`]). An estimate is never called durable: no fsync of the database is seen
//! here.
//!
//! [`super::PurgePolicy`] holds two estimates. The local one has the long margin
//! ([`crate::Tuning::local_flush_margin`]) and decides what this member's own database may still
//! need. The reported one has the short margin ([`crate::Tuning::reported_flush_margin`]): there
//! the database is one of several that hold an action, and clients wait for it while the log is
//! full.

use std::collections::VecDeque;
use std::time::Duration;

use synod_consensus::{Seqno, Time};

struct Sample<P> {
    position: P,
    seqno: Seqno,
    noted_at: Time,
    applied_at: Option<Time>,
}

/// Positions noted from time to time, and the last of them that counts as flushed. `P` is how the
/// caller names positions: by seqno or by log index. Invariant: `flushed` never goes down, except
/// by [`FlushEstimate::reset`].
pub(super) struct FlushEstimate<P> {
    /// Age from which an applied position counts as flushed.
    margin: Duration,
    /// Positions closer to each other in time are not noted: bounds the samples within one margin.
    step: Duration,
    samples: VecDeque<Sample<P>>,
    flushed: P,
}

impl<P: Copy + Ord + Default> FlushEstimate<P> {
    pub(super) fn new(margin: Duration, step: Duration) -> FlushEstimate<P> {
        FlushEstimate {
            margin,
            step,
            samples: VecDeque::new(),
            flushed: P::default(),
        }
    }

    /// Notes a position, which needs everything up to `seqno`, and that the database has applied
    /// everything up to `applied`.
    pub(super) fn note(&mut self, now: Time, position: P, seqno: Seqno, applied: Seqno) {
        let is_due = |last: &Sample<P>| now.since(last.noted_at) >= self.step;
        if self.samples.back().is_none_or(is_due) {
            self.samples.push_back(Sample {
                position,
                seqno,
                noted_at: now,
                applied_at: None,
            });
        }
        for sample in self.samples.iter_mut().filter(|s| s.seqno <= applied) {
            sample.applied_at.get_or_insert(now);
        }
        let margin = self.margin;
        let has_aged =
            |at: Time| synod_planted::planted!(RetainUnflushed, now.since(at) >= margin, else true);
        while let Some(sample) = self.samples.front()
            && sample.applied_at.is_some_and(has_aged)
        {
            self.flushed = self.flushed.max(sample.position);
            self.samples.pop_front();
        }
    }

    /// The last position that counts as flushed; the default (zero) if none does.
    pub(super) fn flushed(&self) -> P {
        self.flushed
    }

    pub(super) fn reset(&mut self) {
        self.samples.clear();
        self.flushed = P::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::LogIndex;

    const MINUTE: Duration = Duration::from_secs(60);

    fn after(seconds: u64) -> Time {
        Time(1_000).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn position_counts_a_margin_after_it_was_applied() {
        let mut estimate = FlushEstimate::new(MINUTE, Duration::ZERO);
        estimate.note(after(0), LogIndex(10), Seqno(8), Seqno(7));
        estimate.note(after(100), LogIndex(20), Seqno(18), Seqno(8));
        assert_eq!(estimate.flushed(), LogIndex(0), "applied only now");
        estimate.note(after(159), LogIndex(30), Seqno(28), Seqno(18));
        assert_eq!(estimate.flushed(), LogIndex(0));
        estimate.note(after(160), LogIndex(40), Seqno(38), Seqno(18));
        assert_eq!(estimate.flushed(), LogIndex(10));
        estimate.note(after(219), LogIndex(50), Seqno(48), Seqno(48));
        assert_eq!(estimate.flushed(), LogIndex(20));
    }

    #[test]
    fn step_bounds_the_samples() {
        let mut estimate = FlushEstimate::new(MINUTE, MINUTE / 8);
        let mut note = |seconds: u64, applied: i64| {
            estimate.note(
                after(seconds),
                Seqno(applied),
                Seqno(applied),
                Seqno(applied),
            );
            assert!(estimate.samples.len() <= 9);
            estimate.flushed()
        };
        assert_eq!(note(0, 5), Seqno(0));
        for second in 1..60 {
            assert_eq!(note(second, 5 + second as i64), Seqno(0));
        }
        assert_eq!(note(60, 100), Seqno(5));
        assert!(note(70, 200) < Seqno(20));
    }

    #[test]
    fn reset_forgets_the_estimate_and_its_samples() {
        let mut estimate = FlushEstimate::new(MINUTE, Duration::ZERO);
        estimate.note(after(0), Seqno(7), Seqno(7), Seqno(7));
        estimate.note(after(60), Seqno(7), Seqno(7), Seqno(7));
        assert_eq!(estimate.flushed(), Seqno(7));
        estimate.reset();
        assert_eq!(estimate.flushed(), Seqno(0));
        estimate.note(after(61), Seqno(7), Seqno(7), Seqno(7));
        assert_eq!(estimate.flushed(), Seqno(0));
    }
}
