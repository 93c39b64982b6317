//! This node's clock: all its timeouts and promises are in the time of this clock. On Linux it is
//! `CLOCK_BOOTTIME`, which also counts the time in which the machine was suspended.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};
use synod_consensus::Time;

#[cfg(target_os = "linux")]
const SOURCE: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SOURCE: ClockId = ClockId::Monotonic;

/// This node's clock: it starts when the node does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start_us: u64,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock {
            start_us: source_us(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time(source_us().saturating_sub(self.start_us))
    }

    /// How long it is until this time; zero if it has passed.
    pub(crate) fn until(&self, at: Time) -> Duration {
        at.since(self.now())
    }
}

fn source_us() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(SOURCE);
    let seconds = u64::try_from(tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000) + nanoseconds / 1_000
}

/// Time of the wall clock, in microseconds since 1970; zero before.
pub(crate) fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_starts_at_zero_and_never_goes_back() {
        let clock = Clock::start();
        let mut last = Time(0);
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(last < Time(3_600_000_000), "{last:?} after a moment");
        assert_eq!(clock.until(Time(0)), Duration::ZERO);
        let far = last.plus(Duration::from_secs(100_000));
        assert!(clock.until(far) > Duration::from_secs(90_000));
    }
}
