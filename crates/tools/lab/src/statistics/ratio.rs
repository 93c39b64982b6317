//! Ratios of two systems that were measured in turn: A B A B.
//!
//! A machine changes while it measures: other programs run, disks fill, processors get warm. Two
//! runs that follow each other saw nearly the same machine, so each pair gives a ratio, and the
//! median of these says more than the ratio of two medians. How far they are apart says what the
//! median is worth.

use super::sample::{median, spread};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub pairs: usize,
}

/// The ratio of `ours` to `theirs`. Each run is its repetition (from 1) and its figure; the runs
/// of a repetition are a pair. A run without a partner, or whose partner is zero, does not count.
/// None: there is no pair.
pub fn ratio_of_runs(ours: &[(u32, f64)], theirs: &[(u32, f64)]) -> Option<Ratio> {
    let ratios: Vec<f64> = ours
        .iter()
        .filter_map(|(repetition, our)| {
            let partner = theirs.iter().find(|(other, _)| other == repetition);
            let their = partner.map(|(_, figure)| *figure)?;
            (their != 0.0).then(|| our / their)
        })
        .collect();
    let (low, high) = spread(&ratios)?;
    Some(Ratio {
        median: median(&ratios)?,
        low,
        high,
        pairs: ratios.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_the_median_of_pairs_and_not_the_ratio_of_medians() {
        // The machine is twice as fast in the second repetition: the pairs do not see it.
        let ours = [(1, 110.0), (2, 220.0), (3, 99.0)];
        let theirs = [(1, 100.0), (2, 200.0), (3, 100.0)];
        let ratio = ratio_of_runs(&ours, &theirs).unwrap();
        assert_eq!(ratio.pairs, 3);
        assert!((ratio.median - 1.1).abs() < 1e-9);
        assert!((ratio.low - 0.99).abs() < 1e-9);
        assert!((ratio.high - 1.1).abs() < 1e-9);
    }

    #[test]
    fn run_without_a_partner_does_not_count() {
        let ratio = ratio_of_runs(&[(1, 10.0), (2, 30.0)], &[(2, 10.0), (3, 50.0)]).unwrap();
        assert_eq!((ratio.pairs, ratio.median), (1, 3.0));
        assert_eq!(ratio_of_runs(&[(1, 10.0)], &[(2, 10.0)]), None);
        assert_eq!(ratio_of_runs(&[(1, 10.0)], &[(1, 0.0)]), None);
    }
}
