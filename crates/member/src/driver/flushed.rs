//! Up to where the database has surely reached its own disk.
//!
//! The database runs without flushing at commit: what was applied just now is lost with a power cut,
//! and has to come from the log. The engine flushes about once a second; what was applied
//! [`crate::Tuning::local_flush_margin`] ago is taken for flushed.

use std::collections::VecDeque;
use std::time::Duration;

use synod_consensus::{LogIndex, Seqno, Time};

/// A position on its way to the database's disk.
struct Sample {
    index: LogIndex,
    seqno: Seqno,
    applied_at: Option<Time>,
}

/// Positions noted from time to time.
pub(super) struct Flushed {
    /// What was applied so long ago is flushed.
    margin: Duration,
    samples: VecDeque<Sample>,
    index: LogIndex,
}

impl Flushed {
    pub(super) fn new(margin: Duration) -> Flushed {
        Flushed {
            margin,
            samples: VecDeque::new(),
            index: LogIndex(0),
        }
    }

    /// Notes that everything up to `index` was delivered, which is at most seqno `seqno`, and that the
    /// database has applied everything up to `applied`.
    pub(super) fn note(&mut self, now: Time, index: LogIndex, seqno: Seqno, applied: Seqno) {
        self.samples.push_back(Sample {
            index,
            seqno,
            applied_at: None,
        });
        for sample in self.samples.iter_mut().filter(|s| s.seqno <= applied) {
            sample.applied_at.get_or_insert(now);
        }
        let is_flushed = |sample: &Sample| {
            sample.applied_at.is_some_and(|at| {
                now.since(at) >= self.margin
                    || synod_planted::is(synod_planted::Bug::RetainUnflushed)
            })
        };
        while self.samples.front().is_some_and(is_flushed) {
            if let Some(sample) = self.samples.pop_front() {
                self.index = self.index.max(sample.index);
            }
        }
    }

    /// The log before here is not needed for the database's sake.
    pub(super) fn index(&self) -> LogIndex {
        self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_counts_a_minute_after_it_was_applied() {
        let start = Time(1_000);
        let after = |seconds| start.plus(Duration::from_secs(seconds));
        let mut flushed = Flushed::new(Duration::from_secs(60));
        flushed.note(start, LogIndex(10), Seqno(8), Seqno(7));
        flushed.note(after(100), LogIndex(20), Seqno(18), Seqno(8));
        assert_eq!(flushed.index(), LogIndex(0), "applied only now");
        flushed.note(after(159), LogIndex(30), Seqno(28), Seqno(18));
        assert_eq!(flushed.index(), LogIndex(0));
        flushed.note(after(160), LogIndex(40), Seqno(38), Seqno(18));
        assert_eq!(flushed.index(), LogIndex(10));
        flushed.note(after(219), LogIndex(50), Seqno(48), Seqno(48));
        assert_eq!(flushed.index(), LogIndex(20));
    }
}
