//! The usual figures of a list of times.

use serde::{Deserialize, Serialize};

use super::sample::{mean, percentile_of_sorted, sorted};

/// Figures of a list of times, milliseconds. All are zero if there were none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub count: usize,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Distribution {
    pub fn of(times_ms: &[f64]) -> Distribution {
        let sorted = sorted(times_ms);
        let at = |percent| percentile_of_sorted(&sorted, percent).unwrap_or_default();
        Distribution {
            count: sorted.len(),
            mean_ms: mean(&sorted).unwrap_or_default(),
            p50_ms: at(50.0),
            p95_ms: at(95.0),
            p99_ms: at(99.0),
            max_ms: at(100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_known_times() {
        let times: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let figures = Distribution::of(&times);
        let expected = Distribution {
            count: 200,
            mean_ms: 100.5,
            p50_ms: 100.0,
            p95_ms: 190.0,
            p99_ms: 198.0,
            max_ms: 200.0,
        };
        assert_eq!(figures, expected);
        assert_eq!(Distribution::of(&[]), Distribution::default());
    }
}
