//! Percentiles of latencies, from histograms.

use crate::results::{Bucket, Latency};

/// The percentiles of a histogram whose buckets are in order. Mean and maximum stay zero: a
/// histogram does not tell them exactly.
pub(super) fn percentiles(histogram: &[Bucket]) -> Latency {
    Latency {
        p50_ms: percentile(histogram, 50),
        p95_ms: percentile(histogram, 95),
        p99_ms: percentile(histogram, 99),
        ..Latency::default()
    }
}

/// The bucket below or in which `percent` of 100 transactions are; zero without transactions.
fn percentile(histogram: &[Bucket], percent: u64) -> f64 {
    let total: u64 = histogram.iter().map(|bucket| bucket.count).sum();
    let wanted = (total * percent).div_ceil(100);
    let mut seen = 0;
    for bucket in histogram {
        seen += bucket.count;
        if seen >= wanted {
            return bucket.ms;
        }
    }
    0.0
}

pub(super) fn merge<'a>(histograms: impl Iterator<Item = &'a [Bucket]>) -> Vec<Bucket> {
    let mut all: Vec<Bucket> = histograms.flatten().cloned().collect();
    all.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    all.dedup_by(|later, kept| {
        let is_same = later.ms == kept.ms;
        if is_same {
            kept.count += later.count;
        }
        is_same
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(all: &[(f64, u64)]) -> Vec<Bucket> {
        all.iter()
            .map(|&(ms, count)| Bucket { ms, count })
            .collect()
    }

    #[test]
    fn percentile_is_the_bucket_that_reaches_it() {
        let latency = percentiles(&buckets(&[(1.0, 95), (2.0, 4), (3.0, 1)]));
        assert_eq!(
            (latency.p50_ms, latency.p95_ms, latency.p99_ms),
            (1.0, 1.0, 2.0)
        );
        assert_eq!(percentiles(&[]), Latency::default());
    }

    #[test]
    fn equal_buckets_of_several_loads_are_added() {
        let (a, b) = (
            buckets(&[(1.0, 2), (3.0, 1)]),
            buckets(&[(2.0, 5), (3.0, 4)]),
        );
        let merged = merge([&a[..], &b[..]].into_iter());
        assert_eq!(merged, buckets(&[(1.0, 2), (2.0, 5), (3.0, 5)]));
    }
}
