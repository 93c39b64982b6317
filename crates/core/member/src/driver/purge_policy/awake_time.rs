//! The time in which this process ran, and its disk worked. The database flushes by threads of this
//! process. While the process stands still (SIGSTOP, a frozen container, a suspended machine), its
//! clock runs, and nothing is flushed. So what was applied long ago by the clock may be in memory
//! only. The same holds while the disk hangs: the log and the database share it, or the machine's
//! ways to it.

use std::time::Duration;

use synod_consensus::Time;

/// A clock that stands still with the process, and with the disk. It learns the time at each slow
/// tick. A tick that comes late may have been kept by a busy machine, or by a pause: only the first
/// part of the time since the tick before it counts. Invariant: it is never ahead of the times that
/// it has learned.
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

    /// A tick. `oldest_write` is for how long the oldest write of the log has been under way.
    pub(super) fn observe(&mut self, now: Time, oldest_write: Duration) {
        let passed = now.since(self.last);
        let counted = if oldest_write > self.step_max {
            Duration::ZERO
        } else {
            passed.min(self.step_max)
        };
        self.awake = self.awake.plus(counted);
        self.last = self.last.max(now);
    }

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
            time.observe(at(250 * tick), Duration::ZERO);
        }
        assert_eq!(time.now(), at(2000));
        time.observe(at(2400), Duration::ZERO);
        assert_eq!(time.now(), at(2400), "a late tick");
        time.observe(at(62_400), Duration::ZERO);
        assert_eq!(time.now(), at(2900), "a minute's pause");
        time.observe(at(62_650), Duration::ZERO);
        assert_eq!(time.now(), at(3150));
    }

    #[test]
    fn time_in_which_the_disk_hangs_does_not_count() {
        let at = |ms| Time(9).plus(Duration::from_millis(ms));
        let mut time = AwakeTime::new(at(0), Duration::from_millis(250));
        for (tick, oldest_ms) in [(1, 250), (2, 500), (3, 750), (4, 1000), (5, 0)] {
            time.observe(at(250 * tick), Duration::from_millis(oldest_ms));
        }
        assert_eq!(
            time.now(),
            at(750),
            "two ticks, and the one after the write was done"
        );
    }
}
