//! Drain rate: actions per second that leave the commit order of a majority of databases. While
//! databases keep up, that is no more than what is ordered, and says nothing of what they could do:
//! then only higher rates count. Once they lag, it is what they can do.

use std::time::Duration;

use synod_consensus::{Seqno, Time};

/// Shortest time over which a rate is measured.
const WINDOW: Duration = Duration::from_millis(20);
/// In about this time the estimate follows a rate that has risen, ...
const RISE: Duration = Duration::from_millis(100);
/// ... and one that has fallen.
const FALL: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct DrainRate {
    rate: u64,
    position: Seqno,
    measured: Option<Time>,
}

impl DrainRate {
    /// Everything up to `position` has left by now; `lags` says whether more could have.
    pub(super) fn observe(&mut self, now: Time, position: Seqno, lags: bool) {
        let Some(measured) = self.measured.filter(|_| position >= self.position) else {
            // The first one, or other databases are counted now.
            (self.position, self.measured) = (position, Some(now));
            return;
        };
        if position == self.position {
            if !lags {
                self.measured = Some(now);
            }
            return;
        }
        let passed = now.since(measured);
        if passed < WINDOW {
            return;
        }
        let actions = u64::try_from(position.0 - self.position.0).unwrap_or(0);
        let passed_us = micros(passed);
        let sample = actions.saturating_mul(1_000_000_000) / passed_us;
        (self.position, self.measured) = (position, Some(now));
        if self.rate == 0 {
            self.rate = sample;
        } else if sample > self.rate {
            let rise = u128::from(sample - self.rate) * u128::from(passed_us);
            let rise = rise / u128::from(micros(RISE) + passed_us);
            self.rate = self
                .rate
                .saturating_add(u64::try_from(rise).unwrap_or(u64::MAX));
        } else if lags {
            // One action that takes long halves the estimate, and no more.
            let counted_us = passed_us.min(micros(FALL));
            let fall = u128::from(self.rate - sample) * u128::from(counted_us);
            let fall = fall / u128::from(micros(FALL) + counted_us);
            self.rate -= u64::try_from(fall).unwrap_or(self.rate);
        }
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    pub(super) fn stands_still(&self, now: Time) -> Duration {
        self.measured.map_or(Duration::ZERO, |at| now.since(at))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros())
        .unwrap_or(u64::MAX)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observes for `ms` milliseconds at `per_ms` actions each.
    fn run(rate: &mut DrainRate, at: &mut (u64, i64), ms: u64, per_ms: i64, lags: bool) {
        for _ in 0..ms {
            at.0 += 1000;
            at.1 += per_ms;
            rate.observe(Time(at.0), Seqno(at.1), lags);
        }
    }

    #[test]
    fn rate_of_databases_that_lag_is_followed_in_both_directions() {
        let (mut rate, mut at) = (DrainRate::default(), (1_000_000, 0));
        run(&mut rate, &mut at, 1000, 2, true);
        assert!(
            (1_900_000..2_100_000).contains(&rate.rate()),
            "{}",
            rate.rate()
        );
        run(&mut rate, &mut at, 1000, 8, true);
        assert!(
            (7_900_000..8_100_000).contains(&rate.rate()),
            "{}",
            rate.rate()
        );
        run(&mut rate, &mut at, 3000, 1, true);
        assert!(
            (900_000..1_200_000).contains(&rate.rate()),
            "{}",
            rate.rate()
        );
    }

    #[test]
    fn databases_that_keep_up_could_do_more() {
        let (mut rate, mut at) = (DrainRate::default(), (1_000_000, 0));
        run(&mut rate, &mut at, 1000, 8, true);
        run(&mut rate, &mut at, 60_000, 1, false);
        assert!(rate.rate() > 7_900_000, "{}", rate.rate());
        assert!(rate.stands_still(Time(at.0)) < WINDOW);
    }

    #[test]
    fn one_long_action_halves_the_estimate_at_most() {
        let (mut rate, mut at) = (DrainRate::default(), (1_000_000, 0));
        run(&mut rate, &mut at, 1000, 8, true);
        run(&mut rate, &mut at, 13_000, 0, true);
        assert!(rate.stands_still(Time(at.0)) >= Duration::from_secs(12));
        run(&mut rate, &mut at, 1, 1, true);
        assert!(rate.rate() >= 3_900_000, "{}", rate.rate());
    }

    #[test]
    fn position_that_goes_back_is_a_new_beginning() {
        let (mut rate, mut at) = (DrainRate::default(), (1_000_000, 5000));
        run(&mut rate, &mut at, 1000, 2, true);
        let before = rate.rate();
        rate.observe(Time(at.0 + 1000), Seqno(3), true);
        assert_eq!(rate.rate(), before);
    }
}
