//! Bound on the messages of a stranger: one that asks to join repeats its request a few times a
//! second, and needs no more.

use std::time::{Duration, Instant};

/// Messages that a stranger may send at once.
const BURST: u32 = 64;
/// After this time it may send one more.
const REFILL: Duration = Duration::from_millis(50);

/// The messages that one connection may still send.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u32,
    /// Up to when refills are counted in.
    since: Instant,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Allowance {
        Allowance {
            left: BURST,
            since: now,
        }
    }

    /// A message has arrived. False if it was one too many.
    pub(super) fn permits(&mut self, now: Instant) -> bool {
        while self.left < BURST && now.saturating_duration_since(self.since) >= REFILL {
            self.left += 1;
            self.since += REFILL;
        }
        if self.left == BURST {
            self.since = now;
        }
        let permits = self.left > 0;
        self.left = self.left.saturating_sub(1);
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joiner_is_never_stopped_and_a_flood_is() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut allowance = Allowance::new(start);
        assert!((0..1000).all(|n| allowance.permits(at(n * 100))));
        let calm = at(200_000);
        assert!((0..BURST).all(|_| allowance.permits(calm)));
        assert!(!allowance.permits(calm));
        assert!(allowance.permits(calm + REFILL));
        assert!(!allowance.permits(calm + REFILL));
    }
}
