//! Times at which actions were committed, to say for how long a database has lacked one of them.
//! The time counts from when this member learned of the commit. So no clock of another member
//! matters; and for this member's own database it is the time of the appliers alone, whatever the
//! network needs.

use std::collections::VecDeque;
use std::time::Duration;

use synod_consensus::{Seqno, Time};

/// Commits closer to each other are one sample: the lag may count from so much earlier.
const STEP: Duration = Duration::from_millis(2);
/// Most samples. When there are more, neighbours are joined.
const SAMPLES_MAX: usize = 4096;

/// When actions were committed that a database lacks. Invariant: samples ascend by time and seqno.
#[derive(Default)]
pub(super) struct CommitTimes {
    /// At this time, the first action after those of the sample before was committed; the sample
    /// reaches up to this seqno.
    samples: VecDeque<(Time, Seqno)>,
}

impl CommitTimes {
    /// Actions up to `seqno` are committed, as this member has learned now; everything up to `left`
    /// has passed every database that is asked for.
    pub(super) fn committed(&mut self, now: Time, seqno: Seqno, left: Seqno) {
        while self
            .samples
            .front()
            .is_some_and(|(_, seqno)| *seqno <= left)
        {
            self.samples.pop_front();
        }
        match self.samples.back_mut() {
            Some((_, last)) if *last >= seqno => {}
            None if left >= seqno => {}
            Some((at, last)) if now.since(*at) < STEP => *last = seqno,
            _ => self.samples.push_back((now, seqno)),
        }
        if self.samples.len() > SAMPLES_MAX {
            self.join_neighbours();
        }
    }

    fn join_neighbours(&mut self) {
        let old = std::mem::take(&mut self.samples);
        for (place, (at, seqno)) in old.into_iter().enumerate() {
            match self.samples.back_mut() {
                Some((_, last)) if place % 2 == 1 => *last = seqno,
                _ => self.samples.push_back((at, seqno)),
            }
        }
    }

    /// The log was reset, or a copy replaces the database: no action is lacking that is known here.
    pub(super) fn reset(&mut self) {
        self.samples.clear();
    }

    pub(super) fn lag(&self, now: Time, left: Seqno) -> Duration {
        let passed = self.samples.partition_point(|(_, seqno)| *seqno <= left);
        let oldest = self.samples.get(passed);
        oldest.map_or(Duration::ZERO, |(at, _)| now.since(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time(1_000_000).plus(Duration::from_millis(ms))
    }

    #[test]
    fn lag_counts_from_the_commit_of_the_first_action_that_is_lacking() {
        let mut lag = CommitTimes::default();
        assert_eq!(lag.lag(ms(0), Seqno(0)), Duration::ZERO);
        for n in 1..=5 {
            lag.committed(ms(10 * n), Seqno(n as i64), Seqno(0));
        }
        assert_eq!(lag.lag(ms(60), Seqno(2)), Duration::from_millis(30));
        assert_eq!(lag.lag(ms(70), Seqno(4)), Duration::from_millis(20));
        assert_eq!(lag.lag(ms(70), Seqno(5)), Duration::ZERO);
        lag.committed(ms(80), Seqno(9), Seqno(5));
        assert_eq!(lag.samples.len(), 1);
        lag.reset();
        assert_eq!(lag.lag(ms(90), Seqno(5)), Duration::ZERO);
    }

    #[test]
    fn samples_are_bounded_and_the_lag_is_never_too_small() {
        let mut lag = CommitTimes::default();
        for n in 1..=20_000 {
            lag.committed(ms(10 * n), Seqno(n as i64), Seqno(0));
        }
        assert!(lag.samples.len() <= SAMPLES_MAX);
        for left in (0..20_000).step_by(771) {
            let is = lag.lag(ms(200_000), Seqno(left));
            let at_least = Duration::from_millis(200_000 - 10 * (left as u64 + 1));
            assert!(is >= at_least, "{left}: {is:?} < {at_least:?}");
            let at_most = at_least + Duration::from_secs(6);
            assert!(is <= at_most, "{left}: {is:?} > {at_most:?}");
        }
    }
}
