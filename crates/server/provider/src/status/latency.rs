//! Time that the group takes to order this server's actions (`wsrep_evs_repl_latency`).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::status::inputs::LatencyStats;

/// Times of two periods, from the moment an action is handed to the node to the moment its seqno is
/// known at the client's thread, when it is on the disks of a majority.
///
/// The value covers the present and the last period of `evs.stats_report_period`: a tool that looks
/// once a period sees each burst, and a burst is forgotten after two.
#[derive(Debug, Default)]
pub(crate) struct LatencyMeter(Mutex<Windows>);

#[derive(Debug, Default)]
struct Windows {
    begun: Option<Instant>,
    present: Window,
    last: Window,
}

/// Samples of one period, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    samples: u64,
    sum: f64,
    sum_of_squares: f64,
    min: f64,
    max: f64,
}

impl LatencyMeter {
    /// An action took so long.
    pub(crate) fn note(&self, now: Instant, took: Duration, period: Duration) {
        self.at(now, period, |windows| {
            windows.present.add(took.as_secs_f64())
        });
    }

    /// The present and the last period together.
    pub(crate) fn shown(&self, now: Instant, period: Duration) -> LatencyStats {
        self.at(now, period, |windows| {
            windows.present.with(&windows.last).stats()
        })
    }

    /// `FLUSH STATUS`.
    pub(crate) fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Windows::default();
    }

    fn at<T>(&self, now: Instant, period: Duration, then: impl FnOnce(&mut Windows) -> T) -> T {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.advance_to(now, period);
        then(&mut windows)
    }
}

impl Windows {
    fn advance_to(&mut self, now: Instant, period: Duration) {
        let begun = *self.begun.get_or_insert(now);
        let age = now.saturating_duration_since(begun);
        if age < period {
            return;
        }
        let is_next = age - period < period;
        let ended = std::mem::take(&mut self.present);
        self.last = if is_next { ended } else { Window::default() };
        self.begun = Some(if is_next { begun + period } else { now });
    }
}

impl Window {
    fn add(&mut self, seconds: f64) {
        let one = Window {
            samples: 1,
            sum: seconds,
            sum_of_squares: seconds * seconds,
            min: seconds,
            max: seconds,
        };
        *self = self.with(&one);
    }

    fn with(&self, other: &Window) -> Window {
        match (self.samples, other.samples) {
            (_, 0) => *self,
            (0, _) => *other,
            _ => Window {
                samples: self.samples + other.samples,
                sum: self.sum + other.sum,
                sum_of_squares: self.sum_of_squares + other.sum_of_squares,
                min: self.min.min(other.min),
                max: self.max.max(other.max),
            },
        }
    }

    fn stats(&self) -> LatencyStats {
        if self.samples == 0 {
            return LatencyStats::default();
        }
        let count = self.samples as f64;
        let average = self.sum / count;
        // Rounding may take it below zero.
        let variance = (self.sum_of_squares / count - average * average).max(0.0);
        LatencyStats {
            min: self.min,
            average,
            max: self.max,
            deviation: variance.sqrt(),
            samples: self.samples,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn five_numbers_say_what_was_measured() {
        let (meter, now) = (LatencyMeter::default(), Instant::now());
        assert_eq!(meter.shown(now, PERIOD), LatencyStats::default());
        for took in [2, 4, 4, 4, 5, 5, 7, 9] {
            meter.note(now, ms(took), PERIOD);
        }
        let shown = meter.shown(now, PERIOD);
        assert_eq!(shown.samples, 8);
        assert!(close(shown.min, 0.002) && close(shown.max, 0.009));
        assert!(close(shown.average, 0.005) && close(shown.deviation, 0.002));
        meter.reset();
        assert_eq!(meter.shown(now, PERIOD).samples, 0);
    }

    #[test]
    fn samples_are_shown_for_one_to_two_periods() {
        let (meter, start) = (LatencyMeter::default(), Instant::now());
        let samples = |at: u64| meter.shown(start + Duration::from_secs(at), PERIOD).samples;
        meter.note(start, ms(1), PERIOD);
        meter.note(start + Duration::from_secs(59), ms(1), PERIOD);
        meter.note(start + Duration::from_secs(61), ms(1), PERIOD);
        assert_eq!(samples(61), 3);
        assert_eq!(samples(119), 3);
        assert_eq!(samples(121), 1, "what came after the first period");
        assert_eq!(samples(181), 0);
        meter.note(start + Duration::from_secs(200), ms(1), PERIOD);
        assert_eq!(samples(3600), 0, "no look for long");
    }
}
