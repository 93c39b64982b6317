//! The time in which this process ran.
//!
//! The database flushes by threads of this process. While the process stands still (SIGSTOP, a
//! frozen container, a suspended machine), its clock runs, and nothing is flushed. So what was
//! applied long ago by the clock may be in memory only.

use std::time::Duration;

use synod_consensus::Time;

/// A clock that stands still with the process.
///
/// It learns the time at each slow tick. A tick that comes late may have been kept by a busy
/// machine, or by a pause: only the first part of the time since the tick before it counts.
///
/// Invariant: it is never ahead of the times that it has learned.
pub(super) struct AwakeTime {
    last: Time,
    awake: Time,
    /// Counts for the time between two ticks at most.
    step_max: Duration,
}

impl AwakeTime {
    /// Ticks come once in `period`.
    pub(super) fn new(now: Time, period: Duration) -> AwakeTime {
        AwakeTime {
            last: now,
            awake: now,
            step_max: period * 2,
        }
    }

    /// A tick.
    pub(super) fn observe(&mut self, now: Time) {
        let passed = now.since(self.last);
        let counted = passed.min(self.step_max);
        self.awake = self.awake.plus(counted);
        self.last = self.last.max(now);
    }

    /// What the clock shows.
    pub(super) fn now(&self) -> Time {
        self.awake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_of_the_process_does_not_count() {
        let at = |ms| Time(9).plus(Duration::from_millis(ms));
        let mut time = AwakeTime::new(at(0), Duration::from_millis(250));
        for tick in 1..=8 {
            time.observe(at(250 * tick));
        }
        assert_eq!(time.now(), at(2000));
        time.observe(at(2400));
        assert_eq!(time.now(), at(2400), "a late tick");
        time.observe(at(62_400));
        assert_eq!(time.now(), at(2900), "a minute's pause");
        time.observe(at(62_650));
        assert_eq!(time.now(), at(3150));
    }
}
