//! Figures from measurements: medians, percentiles, spreads, and ratios of what was measured in
//! turn. Pure functions of numbers.

pub mod distribution;
pub mod ratio;
pub mod sample;

pub use distribution::Distribution;
pub use ratio::{Ratio, ratio_of_runs};
pub use sample::{coefficient_of_variation, mean, median, percentile, spread};
