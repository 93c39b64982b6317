//! Times as texts, in UTC: the servers of a group may be in several time zones.

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// `2026-11-23 08:15:59Z`, of milliseconds since 1970.
pub(super) fn text(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (year, month, day) = date(seconds / SECONDS_PER_DAY);
    let (hour, minute, second) = clock(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

fn clock(seconds: u64) -> (u64, u64, u64) {
    let of_day = seconds % SECONDS_PER_DAY;
    (of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Year, month and day of so many days since 1970, in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    let mut left = days;
    let mut year = 1970;
    while left >= days_of_year(year) {
        left -= days_of_year(year);
        year += 1;
    }
    let february = days_of_year(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

fn days_of_year(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    365 + u64::from(is_leap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (951_868_800, "2000-03-01 00:00:00Z"),
            (1_767_225_599, "2025-12-31 23:59:59Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(text(seconds * 1000 + 999), expected);
        }
    }
}
