//! Progress (promise P5): while a majority lives, transactions are committed.
//!
//! Time without a majority does not count against the group.

use std::time::{Duration, Instant};

/// Measures how long a group with a majority commits nothing.
pub(crate) struct Progress {
    /// Longest time without a commit.
    limit: Duration,
    /// Time since which a majority has lived without interruption.
    since: Option<Instant>,
    /// Longest time without a commit while a majority lived.
    pub(crate) longest: Duration,
}

impl Progress {
    pub(crate) fn new(limit: Duration) -> Progress {
        Progress {
            limit,
            since: None,
            longest: Duration::ZERO,
        }
    }

    /// Takes an observation. Returns the time without a commit, if it is too long.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        majority_lives: bool,
        last_success: Instant,
    ) -> Option<Duration> {
        if !majority_lives {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let still = now.saturating_duration_since(since.max(last_success));
        self.longest = self.longest.max(still);
        (still > self.limit).then_some(still)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_with_a_majority_counts() {
        let begin = Instant::now();
        let at = |s| begin + Duration::from_secs(s);
        let mut progress = Progress::new(Duration::from_secs(10));
        assert_eq!(progress.observe(at(0), true, at(0)), None);
        assert_eq!(progress.observe(at(9), true, at(0)), None);
        assert_eq!(progress.observe(at(15), true, at(8)), None);
        assert_eq!(progress.observe(at(16), false, at(8)), None);
        // The time without a majority does not count.
        assert_eq!(progress.observe(at(60), true, at(8)), None);
        assert_eq!(progress.observe(at(69), true, at(8)), None);
        assert_eq!(
            progress.observe(at(71), true, at(8)),
            Some(Duration::from_secs(11))
        );
        assert_eq!(progress.longest, Duration::from_secs(11));
    }
}
