//! The vertical axis: round numbers from zero up.

/// Greatest number of lines in the plot.
const LINES_MAX: f64 = 6.0;

/// The distance between lines, so that few lines with round numbers reach the greatest value.
pub(in super::super) fn step(greatest: f64) -> f64 {
    if !greatest.is_finite() || greatest <= 0.0 {
        return 1.0;
    }
    let rough = greatest / LINES_MAX;
    let power = 10f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|f| f * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// The values of the lines: from zero to the first that is not below the greatest value.
pub(in super::super) fn lines(greatest: f64) -> Vec<f64> {
    let step = step(greatest);
    let mut values = vec![0.0];
    let mut at = 0.0;
    while at < greatest.max(step * 0.5) && values.len() < 20 {
        at += step;
        values.push(at);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_round_and_reach_the_greatest_value() {
        assert_eq!(lines(1606.0), [0.0, 500.0, 1000.0, 1500.0, 2000.0]);
        assert_eq!(lines(6.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(lines(0.0), [0.0, 1.0]);
        assert_eq!(lines(f64::NAN), [0.0, 1.0]);
    }
}
