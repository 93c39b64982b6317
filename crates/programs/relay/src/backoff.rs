//! Delays before another attempt: to connect to an upstream, to read the log.

use std::time::Duration;

/// The first pause.
const SHORTEST: Duration = Duration::from_millis(500);
/// The longest pause after what may pass by itself.
const LONGEST: Duration = Duration::from_secs(5);
/// The longest pause after what an operator has to correct.
const LONGEST_BEFORE_OPERATOR: Duration = Duration::from_secs(30);

/// Pauses that double until something works.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff(SHORTEST)
    }

    /// Something has worked.
    pub(crate) fn reset(&mut self) {
        self.0 = SHORTEST;
    }

    /// The pause before the next attempt. `may_pass`: what was wrong may pass by itself.
    pub(crate) fn next(&mut self, may_pass: bool) -> Duration {
        let longest = if may_pass {
            LONGEST
        } else {
            LONGEST_BEFORE_OPERATOR
        };
        let pause = self.0.min(longest);
        self.0 = pause * 2;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u128> = (0..6).map(|_| backoff.next(true).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(backoff.next(false), Duration::from_secs(10));
        backoff.reset();
        assert_eq!(backoff.next(false), SHORTEST);
    }
}
