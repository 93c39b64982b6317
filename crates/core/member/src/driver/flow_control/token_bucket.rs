//! A token bucket: lets actions pass at a rate, one token each.

use std::time::Duration;

use synod_consensus::Time;

/// Millionths of a token in a token.
const TOKEN: u64 = 1_000_000;
/// Tokens are spent at once that gather in this time at most: no bursts after a pause.
const BURST: Duration = Duration::from_millis(10);
/// A bucket without a token is looked at again after this time at the earliest: one wake-up for
/// several actions.
const PATIENCE: Duration = Duration::from_millis(1);

/// Tokens, and when they were counted last.
#[derive(Default)]
pub(super) struct TokenBucket {
    /// Millionths.
    tokens: u64,
    counted: Time,
}

impl TokenBucket {
    pub(super) fn begin(&mut self, now: Time) {
        (self.tokens, self.counted) = (TOKEN, now);
    }

    /// Adds what has gathered since the last call, at `rate` thousandths of a token per second.
    pub(super) fn fill(&mut self, now: Time, rate: u64) {
        let passed_us = u64::try_from(now.since(self.counted).as_micros()).unwrap_or(u64::MAX);
        let gathered = rate.saturating_mul(passed_us) / 1000;
        if gathered == 0 {
            // Too little to count; the time is not lost.
            return;
        }
        self.counted = now;
        let burst_us = BURST.as_micros() as u64; // a small constant
        let most = TOKEN.max(rate.saturating_mul(burst_us) / 1000);
        self.tokens = self.tokens.saturating_add(gathered).min(most);
    }

    pub(super) fn has_token(&self) -> bool {
        self.tokens >= TOKEN
    }

    pub(super) fn take(&mut self) {
        self.tokens = self.tokens.saturating_sub(TOKEN);
    }

    pub(super) fn next_token(&self, rate: u64) -> Time {
        let missing = TOKEN.saturating_sub(self.tokens);
        let wait_us = missing.saturating_mul(1000) / rate.max(1);
        self.counted
            .plus(Duration::from_micros(wait_us).max(PATIENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(
        bucket: &mut TokenBucket,
        from_us: u64,
        to_us: u64,
        step_us: usize,
        rate: u64,
    ) -> u64 {
        let mut passed = 0;
        for now in (from_us..to_us).step_by(step_us) {
            bucket.fill(Time(now), rate);
            while bucket.has_token() {
                bucket.take();
                passed += 1;
            }
        }
        passed
    }

    #[test]
    fn tokens_come_at_the_rate_however_often_it_is_asked() {
        for step_us in [10, 700, 5_000] {
            let mut bucket = TokenBucket::default();
            bucket.begin(Time(1_000_000));
            let passed = passed(&mut bucket, 1_000_000, 6_000_000, step_us, 2_000_000);
            assert!((9_900..=10_020).contains(&passed), "{step_us}: {passed}");
        }
    }

    #[test]
    fn pause_is_followed_by_a_small_burst_only() {
        let mut bucket = TokenBucket::default();
        bucket.begin(Time(1_000_000));
        assert_eq!(
            passed(&mut bucket, 60_000_000, 60_000_001, 1, 2_000_000),
            20
        );
        assert_eq!(bucket.next_token(2_000_000), Time(60_001_000));
        assert_eq!(bucket.next_token(20_000), Time(60_050_000), "20 a second");
    }
}
