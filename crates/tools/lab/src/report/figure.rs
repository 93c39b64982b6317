//! Formatting of numbers, with as many digits as are significant.

/// A number with three digits that count: 1234, 56.7, 8.90, 0.123.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        0.0 => 0,
        size if size >= 0.995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// The same; a dash if there is none.
pub(super) fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// A share (0 to 1) in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// Milliseconds; from ten seconds on, seconds.
pub(super) fn time(ms: f64) -> String {
    if ms >= 10_000.0 {
        return format!("{} s", number(ms / 1000.0));
    }
    format!("{} ms", number(ms))
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", number(bytes as f64 / f64::from(1 << 20)))
}

/// A median and, if there is more than one value, how far the values are apart.
pub(super) fn with_spread(median: f64, low: f64, high: f64, count: usize) -> String {
    if count < 2 {
        return number(median);
    }
    format!("{} ({}–{})", number(median), number(low), number(high))
}

/// Counts by kind, as `12 x 1213 deadlock`.
pub(super) fn kinds(kinds: &std::collections::BTreeMap<String, u64>) -> String {
    if kinds.is_empty() {
        return "none".to_owned();
    }
    let texts: Vec<String> = kinds
        .iter()
        .map(|(kind, n)| format!("{n} x {kind}"))
        .collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let cases = [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.0, "1.00"),
            (9.999, "10.0"),
            (56.78, "56.8"),
            (99.99, "100"),
            (1606.4, "1606"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(f64::NAN), "-");
    }

    #[test]
    fn long_times_are_in_seconds() {
        assert_eq!(time(0.35), "0.350 ms");
        assert_eq!(time(28_400.0), "28.4 s");
    }

    #[test]
    fn single_value_has_no_spread() {
        assert_eq!(with_spread(5.0, 5.0, 5.0, 1), "5.00");
        assert_eq!(with_spread(5.0, 4.0, 7.5, 3), "5.00 (4.00–7.50)");
    }
}
