//! How long something has lasted, as all that show it say it.

/// `7 s`, `12 min`, `4.5 h`, `3.2 days`.
#[must_use]
pub fn text(ms: u64) -> String {
    const HOUR: f64 = 3600.0;
    let seconds = ms / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{:.1} h", seconds as f64 / HOUR),
        _ => format!("{:.1} days", seconds as f64 / (24.0 * HOUR)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_in_the_unit_that_suits_them() {
        let texts = [900, 119_999, 120_000, 7_200_000, 172_800_000].map(text);
        assert_eq!(texts, ["0 s", "119 s", "2 min", "2.0 h", "2.0 days"]);
    }
}
