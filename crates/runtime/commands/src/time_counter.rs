//! Counts of times by length, for the histograms of `synod agent`.

use std::sync::atomic::{AtomicU64, Ordering};

use synod_admin::status::TimeCounts;

/// Upper bounds of the buckets, in microseconds. Local disks and networks are at the beginning, far
/// regions in the middle; at the end a person should look.
pub const BOUNDS_US: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    10_000_000,
];

/// Counts times of one kind. Counts only grow while the server runs, `FLUSH STATUS` or not: so
/// rates can be made of them, and the counts of several servers added.
#[derive(Debug, Default)]
pub(crate) struct TimeCounter {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl TimeCounter {
    /// Counts a time, in microseconds. Two atomic additions.
    pub(crate) fn add(&self, us: u64) {
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// The counts. A time added concurrently may be included in part.
    pub(crate) fn counted(&self) -> TimeCounts {
        let counts = self.buckets.iter();
        TimeCounts {
            counts: counts.map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_and_each_belongs_to_its_bucket() {
        assert!(BOUNDS_US.is_sorted_by(|a, b| a < b));
        for (at, bound) in BOUNDS_US.into_iter().enumerate() {
            let counter = TimeCounter::default();
            counter.add(bound);
            counter.add(bound + 1);
            let counted = counter.counted();
            assert_eq!((counted.counts[at], counted.counts[at + 1]), (1, 1));
            assert_eq!(counted.sum_us, 2 * bound + 1);
        }
    }

    #[test]
    fn times_beyond_all_bounds_are_counted() {
        let counter = TimeCounter::default();
        counter.add(0);
        counter.add(u64::from(u32::MAX));
        let counts = counter.counted().counts;
        assert_eq!((counts[0], counts[BOUNDS_US.len()]), (1, 1));
        assert_eq!(counts.len(), BOUNDS_US.len() + 1);
    }
}
