//! Figures of one list of numbers.
//!
//! An empty list has no figures: the functions give `None`. Numbers that are not finite are a
//! mistake of the caller and count as the greatest.

pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / count_of(values))
}

/// The middle value; of an even number of values the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return sorted.get(middle).copied();
    }
    let below = sorted.get(middle.checked_sub(1)?)?;
    Some((below + sorted.get(middle)?) / 2.0)
}

/// The smallest value that `percent` of 100 values do not exceed (the nearest rank, so it is one
/// of the values). 0 gives the smallest value, 100 the greatest.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    percentile_of_sorted(&sorted(values), percent)
}

/// Percentile of values that are in ascending order.
pub(super) fn percentile_of_sorted(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (percent / 100.0 * count_of(sorted)).ceil().max(1.0);
    // At most the length, because `percent` is at most 100.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let at = (rank as usize).min(sorted.len()).checked_sub(1)?;
    sorted.get(at).copied()
}

pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    Some((*sorted.first()?, *sorted.last()?))
}

/// The standard deviation of the values (not of a population that they are drawn from) as a share
/// of their mean: 0 is perfectly even. None also if the mean is zero.
///
/// For transactions in each second, the share says how steady a server is.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean != 0.0)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / count_of(values)).sqrt() / mean)
}

pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[allow(clippy::cast_precision_loss)] // no list here has 2^52 values
fn count_of(values: &[f64]) -> f64 {
    values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_nothing_do_not_exist() {
        assert_eq!(mean(&[]), None);
        assert_eq!(median(&[]), None);
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(spread(&[]), None);
        assert_eq!(coefficient_of_variation(&[]), None);
    }

    #[test]
    fn median_is_the_middle_whatever_the_order() {
        assert_eq!(median(&[9.0]), Some(9.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[10.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn percentiles_are_values_by_nearest_rank() {
        // The example of the nearest-rank method in textbooks.
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        let of = |percent| percentile(&values, percent);
        assert_eq!(of(0.0), Some(15.0));
        assert_eq!(of(5.0), Some(15.0));
        assert_eq!(of(30.0), Some(20.0));
        assert_eq!(of(40.0), Some(20.0));
        assert_eq!(of(50.0), Some(35.0));
        assert_eq!(of(100.0), Some(50.0));
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99.0), Some(99.0));
        assert_eq!(percentile(&hundred, 99.1), Some(100.0));
    }

    #[test]
    fn spread_is_from_the_smallest_to_the_greatest() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((1.0, 3.0)));
    }

    #[test]
    fn coefficient_of_variation_has_known_values() {
        assert_eq!(coefficient_of_variation(&[7.0, 7.0, 7.0]), Some(0.0));
        // Mean 5, standard deviation 2.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(coefficient_of_variation(&values), Some(0.4));
        // Half the time nothing, half the time twice the mean.
        assert_eq!(coefficient_of_variation(&[0.0, 10.0, 0.0, 10.0]), Some(1.0));
        assert_eq!(coefficient_of_variation(&[0.0, 0.0]), None);
    }
}
