//! This node's clock, and a watch that notices when the clock stood still.
//!
//! All timeouts, promises and leases are in the time of this clock. On Linux it is
//! `CLOCK_BOOTTIME`, which also counts the time in which the machine was suspended. Elsewhere it is
//! the monotonic clock. A hypervisor that pauses a guest may stop both. The wall clock then jumps
//! ahead once it is corrected; that is what the watch looks for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};
use synod_consensus::Time;

#[cfg(target_os = "linux")]
const SOURCE: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SOURCE: ClockId = ClockId::Monotonic;

/// By how much more the wall clock may advance than this node's, in microseconds. More than what
/// time servers correct without a step, between two looks; a step ends a lease in vain at most.
const DIFFERENCE_MAX_US: u64 = 10_000;

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

/// Compares this node's clock with the wall clock.
#[derive(Debug)]
pub(crate) struct StandstillWatch {
    /// Times of both clocks at the latest look; `None`: there was none.
    last: Option<(Time, u64)>,
}

impl StandstillWatch {
    pub(crate) fn new() -> StandstillWatch {
        StandstillWatch { last: None }
    }

    /// Whether the wall clock has left this node's clock behind since the latest look.
    pub(crate) fn notices(&mut self, now: Time) -> bool {
        self.compare(now, wall_us())
    }

    fn compare(&mut self, now: Time, wall_us: u64) -> bool {
        let last = self.last.replace((now, wall_us));
        last.is_some_and(|(then, wall_then_us)| {
            let on_the_wall = wall_us.saturating_sub(wall_then_us);
            on_the_wall.saturating_sub(now.since_us(then)) > DIFFERENCE_MAX_US
        })
    }
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

    #[test]
    fn watch_notices_a_wall_clock_that_runs_ahead() {
        let mut watch = StandstillWatch::new();
        let wall = 1_700_000_000_000_000;
        assert!(!watch.compare(Time(5), wall), "nothing to compare with");
        assert!(!watch.compare(Time(1_000_005), wall + 1_000_000));
        // A correction without a step, and a step back.
        assert!(!watch.compare(Time(2_000_005), wall + 2_000_500));
        assert!(!watch.compare(Time(2_000_105), wall - 9_000_000));
        // The node's clock stood still for three seconds.
        assert!(watch.compare(Time(2_000_205), wall - 6_000_000));
        assert!(!watch.compare(Time(2_000_305), wall - 5_999_900));
    }
}
