//! Counts of the last hour, by minute.

/// Minutes that are counted one by one.
pub(super) const MINUTES: usize = 60;

/// Counts for each of the last sixty minutes.
#[derive(Clone)]
pub(super) struct MinuteCounts {
    /// By minute modulo their number.
    counts: [u32; MINUTES],
    /// The latest minute counted, since 1970.
    latest: u64,
}

impl Default for MinuteCounts {
    fn default() -> MinuteCounts {
        MinuteCounts {
            counts: [0; MINUTES],
            latest: 0,
        }
    }
}

impl MinuteCounts {
    pub(super) fn count(&mut self, now_ms: u64) {
        // A clock that was set back counts for the latest minute.
        let minute = (now_ms / 60_000).max(self.latest);
        let passed = (minute - self.latest).min(MINUTES as u64);
        for empty in 0..passed {
            self.counts[slot(minute - empty)] = 0;
        }
        self.latest = minute;
        let count = &mut self.counts[slot(minute)];
        *count = count.saturating_add(1);
    }

    /// Counts of the last sixty minutes, oldest first, the present one last.
    pub(super) fn each(&self, now_ms: u64) -> Vec<u32> {
        let now = (now_ms / 60_000).max(self.latest);
        let oldest = (self.latest + 1).saturating_sub(MINUTES as u64);
        let each = (0..MINUTES as u64).rev().map(|ago| {
            let minute = now.checked_sub(ago)?;
            let is_counted = (oldest..=self.latest).contains(&minute);
            is_counted.then(|| self.counts[slot(minute)])
        });
        each.map(Option::unwrap_or_default).collect()
    }

    /// Sum of the last `minutes`, the present one included.
    pub(super) fn last(&self, now_ms: u64, minutes: u64) -> u64 {
        let now = (now_ms / 60_000).max(self.latest);
        let first = (now + 1).saturating_sub(minutes);
        let oldest = (self.latest + 1).saturating_sub(MINUTES as u64);
        let counted = first.max(oldest)..=self.latest;
        counted.map(|m| u64::from(self.counts[slot(m)])).sum()
    }
}

fn slot(minute: u64) -> usize {
    (minute % MINUTES as u64) as usize // below sixty
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn counts_of_an_earlier_hour_do_not_come_back() {
        let mut minutes = MinuteCounts::default();
        let start = 5_000 * MINUTE;
        minutes.count(start);
        minutes.count(start + 60 * MINUTE);
        assert_eq!(minutes.last(start + 60 * MINUTE, 60), 1);
        minutes.count(start);
        assert_eq!(
            minutes.last(start + 60 * MINUTE, 1),
            2,
            "the clock was set back"
        );
    }

    #[test]
    fn each_minute_of_the_last_hour_is_told_oldest_first() {
        let mut minutes = MinuteCounts::default();
        let start = 5_000 * MINUTE;
        for (minute, times) in [(0, 1), (1, 2), (58, 3)] {
            (0..times).for_each(|_| minutes.count(start + minute * MINUTE));
        }
        let mut expected = vec![0; MINUTES];
        (expected[0], expected[57], expected[58]) = (2, 3, 0);
        assert_eq!(minutes.each(start + 60 * MINUTE), expected);
        assert_eq!(minutes.each(start + 200 * MINUTE), [0; MINUTES]);
        assert_eq!(MinuteCounts::default().each(7), [0; MINUTES]);
    }
}
