//! Times at which the driver works: its clock, its slow tick, and its end.

use std::time::Duration;

use synod_consensus::Time;

/// The component that says what is due. Invariants: time never goes back, and a member that has
/// stopped stays so.
pub(super) struct Turns {
    /// Microseconds of this member's own clock, as of the input being handled.
    pub(super) now: Time,
    period: Duration,
    next_slow_tick: Time,
    stopped: bool,
}

impl Turns {
    pub(super) fn new(now: Time, period: Duration) -> Turns {
        Turns {
            now,
            period,
            next_slow_tick: now,
            stopped: false,
        }
    }

    /// `now` is monotonic; an earlier time is ignored.
    pub(super) fn observe(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Whether the slow work is due at `now`. If so, it is due again a period later.
    pub(super) fn is_slow_tick_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.next_slow_tick;
        if is_due {
            self.next_slow_tick = now.plus(self.period);
        }
        is_due
    }

    pub(super) fn next_slow_tick(&self) -> Time {
        self.next_slow_tick
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_never_goes_back_and_the_slow_tick_comes_once_a_period() {
        let period = Duration::from_micros(100);
        let mut turns = Turns::new(Time(50), period);
        turns.observe(Time(40));
        assert_eq!(turns.now, Time(50));
        assert!(turns.is_slow_tick_due(Time(50)));
        assert!(!turns.is_slow_tick_due(Time(149)));
        assert_eq!(turns.next_slow_tick(), Time(150));
        assert!(turns.is_slow_tick_due(Time(150)));
        assert!(!turns.is_stopped());
        turns.stop();
        assert!(turns.is_stopped());
    }
}
