//! A member's monotonic clock: it starts at any time, runs a little fast or slow, and sometimes
//! jumps ahead or stands still. It never goes back.
//!
//! The driver sees only this clock; the event queue runs on the world's time.

use synod_consensus::Time;

const MILLION: i128 = 1_000_000;

/// Piecewise linear: from `global_us` on, the clock shows `local_us` plus the time passed since, at
/// its own rate.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    global_us: u64,
    local_us: u64,
    rate_ppm: i64,
}

impl Clock {
    /// A clock that shows `offset_us` at the world's beginning; `rate_ppm` may be negative.
    pub(crate) fn new(offset_us: u64, rate_ppm: i64) -> Clock {
        Clock {
            global_us: 0,
            local_us: offset_us,
            rate_ppm,
        }
    }

    /// Reading of the clock at a moment of the world's time.
    pub(crate) fn local(&self, now_us: u64) -> Time {
        let passed = i128::from(now_us.saturating_sub(self.global_us));
        let shown = passed * (MILLION + i128::from(self.rate_ppm)) / MILLION;
        Time(self.local_us + u64::try_from(shown).unwrap_or(0))
    }

    /// A moment of the world's time at or just after which the clock shows `local`.
    pub(crate) fn global(&self, local: Time) -> u64 {
        let missing = i128::from(local.0.saturating_sub(self.local_us).min(u64::MAX / 4));
        let passed = missing * MILLION / (MILLION + i128::from(self.rate_ppm));
        self.global_us + u64::try_from(passed).unwrap_or(0) + 1
    }

    /// A moment of the world's time at or just before which the clock showed `local`; `None` if it
    /// has jumped or stood still since.
    pub(crate) fn past(&self, local: Time) -> Option<u64> {
        (local.0 > self.local_us).then(|| self.global(local).saturating_sub(2))
    }

    /// Jumps ahead.
    pub(crate) fn jump(&mut self, now_us: u64, by_us: u64) {
        self.local_us = self.local(now_us).0 + by_us;
        self.global_us = self.global_us.max(now_us);
    }

    /// Stands still for a while.
    pub(crate) fn stall(&mut self, now_us: u64, for_us: u64) {
        self.local_us = self.local(now_us).0;
        self.global_us = self.global_us.max(now_us) + for_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_never_goes_back_and_finds_its_own_moments() {
        let mut clock = Clock::new(77, -9_000);
        let mut last = clock.local(0);
        for step in 1..200u64 {
            let now = step * 1_337;
            match step % 40 {
                7 => clock.jump(now, 900),
                23 => clock.stall(now, 2_000),
                _ => {}
            }
            let shown = clock.local(now);
            assert!(shown >= last);
            last = shown;
            let wanted = shown.plus_us(500);
            assert!(clock.local(clock.global(wanted) + 1) >= wanted);
            assert!(
                clock
                    .past(shown)
                    .is_none_or(|past| past <= now && past + 5 > now)
            );
        }
    }
}
