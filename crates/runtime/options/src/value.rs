//! Values of options and how they are written, one by one and in lists.
//!
//! Every value keeps its text as written, which is what clients are shown; the parsed value is what
//! code reads.

use std::time::Duration;

use synod_node::{Region, RegionError};

use super::address::Address;
use super::error::OptionsError;

/// Type of an option's value, with bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `yes/no`, `on/off`, `true/false`, `1/0`, `y/n`, `none`; any case.
    Bool,
    /// A whole number within bounds, perhaps with K, M, G or T (powers of 1024), or hexadecimal.
    Int {
        min: i64,
        max: i64,
    },
    Real {
        min: f64,
        max: f64,
    },
    /// ISO 8601 of days and below: `P7D`, `PT0.5S`, `PT1M30S`; or seconds: `0`, `90`, `0.5`; or
    /// milliseconds: `50ms`.
    Duration,
    /// `host:port`, perhaps with `tcp://` before it; or empty.
    Address,
    /// One of these words, any case.
    Word(&'static [&'static str]),
    Region,
    Text,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Real(f64),
    Duration(Duration),
    Address(Option<Address>),
    /// Spelt as in the table.
    Word(&'static str),
    Region(Option<Region>),
    Text(String),
}

pub(crate) fn parse(kind: Kind, text: &str) -> Result<Value, String> {
    match kind {
        Kind::Bool => parse_bool(text).map(Value::Bool),
        Kind::Int { min, max } => within(parse_int(text)?, min, max).map(Value::Int),
        Kind::Real { min, max } => parse_real(text, min, max).map(Value::Real),
        Kind::Duration => parse_duration(text).map(Value::Duration),
        Kind::Address if text.is_empty() => Ok(Value::Address(None)),
        Kind::Address => Address::parse(text).map(|a| Value::Address(Some(a))),
        Kind::Word(words) => parse_word(text, words).map(Value::Word),
        Kind::Region if text.is_empty() => Ok(Value::Region(None)),
        Kind::Region => match text.parse() {
            Ok(region) => Ok(Value::Region(Some(region))),
            Err(error) => Err(RegionError::to_string(&error)),
        },
        Kind::Text => Ok(Value::Text(text.to_owned())),
    }
}

fn parse_bool(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "y" | "on" | "yes" | "true" => Ok(true),
        "0" | "n" | "off" | "no" | "false" | "none" => Ok(false),
        _ => Err("expected yes or no".to_owned()),
    }
}

fn parse_word(text: &str, words: &[&'static str]) -> Result<&'static str, String> {
    let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    word.copied()
        .ok_or_else(|| format!("expected one of {}", words.join(", ")))
}

fn parse_int(text: &str) -> Result<i64, String> {
    let expected = || "expected a whole number, perhaps with K, M, G or T".to_owned();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // `from_str_radix` would take a sign after the prefix.
        let digits = !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit());
        return digits
            .then(|| i64::from_str_radix(hex, 16).ok())
            .flatten()
            .ok_or_else(expected);
    }
    let unit = match text.bytes().last().map(|b| b.to_ascii_uppercase()) {
        Some(b'K') => 1 << 10,
        Some(b'M') => 1 << 20,
        Some(b'G') => 1 << 30,
        Some(b'T') => 1i64 << 40,
        _ => 1,
    };
    let digits = if unit == 1 {
        text
    } else {
        &text[..text.len() - 1]
    };
    let number: i64 = digits.parse().map_err(|_| expected())?;
    number
        .checked_mul(unit)
        .ok_or_else(|| "the number is too large".to_owned())
}

fn within(number: i64, min: i64, max: i64) -> Result<i64, String> {
    if (min..=max).contains(&number) {
        Ok(number)
    } else {
        Err(format!("expected a number from {min} to {max}"))
    }
}

fn parse_real(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("expected a number from {min} to {max}"))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    // Servers that make a variable of it write seconds.
    if let Some(duration) = scaled(text, 1) {
        return Ok(duration);
    }
    let expected = || {
        "expected an ISO 8601 duration such as PT0.5S, PT1M30S or P1D, seconds such as 90, or \
         milliseconds such as 50ms"
            .to_owned()
    };
    if let Some(millis) = text.strip_suffix("ms") {
        let is_number = !millis.is_empty() && millis.bytes().all(|b| b.is_ascii_digit());
        let millis = is_number.then(|| millis.parse().ok()).flatten();
        return millis.map(Duration::from_millis).ok_or_else(expected);
    }
    let rest = text.strip_prefix('P').ok_or_else(expected)?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return Err(expected()),
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return Err(expected());
    }
    // Years and months are missing on purpose: they have no fixed length.
    let days = parts(date, &[('W', 7 * 86_400), ('D', 86_400)]).ok_or_else(expected)?;
    let hours = parts(time, &[('H', 3_600), ('M', 60), ('S', 1)]).ok_or_else(expected)?;
    days.checked_add(hours).ok_or_else(expected)
}

/// Sums up `1.5H30M`: numbers with unit letters in the order of `units`, each at most once.
fn parts(mut text: &str, units: &[(char, u64)]) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for (letter, seconds) in units {
        let Some((number, rest)) = text.split_once(*letter) else {
            continue;
        };
        sum = sum.checked_add(scaled(number, *seconds)?)?;
        text = rest;
    }
    text.is_empty().then_some(sum)
}

/// A decimal number of units, exact to the nanosecond.
fn scaled(number: &str, unit_seconds: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    // Below 10^9 times at most 604,800: no overflow.
    let fraction = Duration::from_nanos(nanos * unit_seconds);
    Duration::from_secs(whole.checked_mul(unit_seconds)?).checked_add(fraction)
}

/// Splits a list `name=value;name=value` into pairs, in order. White space around names and values
/// is removed, empty segments are ignored, and a backslash takes the next character literally.
pub(crate) fn parse_list(text: &str) -> Result<Vec<(String, String)>, OptionsError> {
    let segments = split(text, ';');
    let filled = segments.iter().filter(|segment| !is_blank(segment));
    filled.map(|segment| pair(segment)).collect()
}

/// A value written so that [`parse_list`] takes it as it is.
pub(crate) fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut out = String::with_capacity(value.len());
    for (i, c) in value.chars().enumerate() {
        let is_outer_space = c.is_whitespace() && (i == 0 || i == last);
        if is_outer_space || matches!(c, ';' | '=' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A character and whether a backslash stood before it.
type Letter = (char, bool);

fn pair(segment: &[Letter]) -> Result<(String, String), OptionsError> {
    let malformed = |reason| OptionsError::Malformed {
        segment: plain(segment),
        reason,
    };
    let mut equals = (0..segment.len()).filter(|i| segment[*i] == ('=', false));
    let Some(at) = equals.next() else {
        return Err(malformed("there is no '='"));
    };
    if equals.next().is_some() {
        return Err(malformed(
            "there is more than one '='; write '\\=' within a value",
        ));
    }
    let (name, value) = (plain(&segment[..at]), plain(&segment[at + 1..]));
    if name.is_empty() {
        return Err(malformed("there is no name before '='"));
    }
    Ok((name, value))
}

fn split(text: &str, separator: char) -> Vec<Vec<Letter>> {
    let mut segments = vec![Vec::new()];
    let mut escaped = false;
    for c in text.chars() {
        if !escaped && c == '\\' {
            escaped = true;
            continue;
        }
        if !escaped && c == separator {
            segments.push(Vec::new());
        } else if let Some(segment) = segments.last_mut() {
            segment.push((c, escaped));
        }
        escaped = false;
    }
    segments
}

fn is_blank(segment: &[Letter]) -> bool {
    segment.iter().all(is_space)
}

fn is_space(letter: &Letter) -> bool {
    letter.0.is_whitespace() && !letter.1
}

fn plain(letters: &[Letter]) -> String {
    let start = letters
        .iter()
        .position(|l| !is_space(l))
        .unwrap_or(letters.len());
    let end = letters
        .iter()
        .rposition(|l| !is_space(l))
        .map_or(start, |last| last + 1);
    letters[start..end].iter().map(|l| l.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY_INT: Kind = Kind::Int {
        min: i64::MIN,
        max: i64::MAX,
    };

    #[test]
    fn booleans_are_understood_in_all_spellings() {
        for text in ["1", "y", "Y", "on", "ON", "yes", "Yes", "true", "TRUE"] {
            assert_eq!(parse(Kind::Bool, text), Ok(Value::Bool(true)), "{text}");
        }
        for text in ["0", "n", "off", "no", "FALSE", "none"] {
            assert_eq!(parse(Kind::Bool, text), Ok(Value::Bool(false)), "{text}");
        }
        for text in ["", "2", "maybe", "yesyes"] {
            assert!(parse(Kind::Bool, text).is_err(), "{text}");
        }
    }

    #[test]
    fn integers_have_suffixes_in_powers_of_1024() {
        let cases = [
            ("0", 0),
            ("-1", -1),
            ("1K", 1024),
            ("1k", 1024),
            ("128M", 134_217_728),
            ("4G", 4_294_967_296),
            ("1T", 1_099_511_627_776),
            ("0x1", 1),
            ("0xff", 255),
            ("9223372036854775807", i64::MAX),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(ANY_INT, text), Ok(Value::Int(expected)), "{text}");
        }
        for text in [
            "",
            "K",
            "1KK",
            "1.5M",
            "0x",
            "0x-1",
            "9223372036854775808",
            "8388608T",
            "é",
        ] {
            assert!(parse(ANY_INT, text).is_err(), "{text}");
        }
    }

    #[test]
    fn regions_are_words_or_empty() {
        assert_eq!(parse(Kind::Region, ""), Ok(Value::Region(None)));
        let region = "eu-west_1.b".parse().ok();
        assert_eq!(
            parse(Kind::Region, "eu-west_1.b"),
            Ok(Value::Region(region))
        );
        let error = parse(Kind::Region, "eu west").unwrap_err();
        assert!(error.contains("has no ' '"), "{error}");
        let error = parse(Kind::Region, &"x".repeat(33)).unwrap_err();
        assert!(error.contains("not 33"), "{error}");
    }

    #[test]
    fn integers_outside_their_bounds_are_refused() {
        let kind = Kind::Int { min: 0, max: 2 };
        assert!(parse(kind, "3").unwrap_err().contains("from 0 to 2"));
        assert!(parse(kind, "-1").is_err());
    }

    #[test]
    fn durations_are_iso_8601() {
        let cases = [
            ("PT30S", 30_000),
            ("PT0.1S", 100),
            ("PT7.5S", 7_500),
            ("PT1M", 60_000),
            ("PT1M30S", 90_000),
            ("PT1H", 3_600_000),
            ("PT0.5H", 1_800_000),
            ("P1D", 86_400_000),
            ("P1DT1H", 90_000_000),
            ("P1W", 604_800_000),
            ("PT0S", 0),
            ("0", 0),
            ("8.000000", 8_000),
            ("90", 90_000),
            ("0.5", 500),
            ("50ms", 50),
        ];
        for (text, ms) in cases {
            let expected = Value::Duration(Duration::from_millis(ms));
            assert_eq!(parse(Kind::Duration, text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        let cases = [
            "",
            "P",
            "PT",
            "P1DT",
            "5S",
            "ms",
            "5.5ms",
            "5 ms",
            "-5",
            "5.",
            "1e3",
            "T5S",
            "PT5",
            "PTS",
            "PT-1S",
            "PT1S1M",
            "PT1M1M",
            "P1Y",
            "P1M",
            "PT.S",
            "PT1.S",
            "PT.5S",
            "PT1e3S",
            "PT99999999999999999999S",
            "pt1s",
            "PT18446744073709551615H",
        ];
        for text in cases {
            assert!(parse(Kind::Duration, text).is_err(), "{text}");
        }
    }

    #[test]
    fn reals_outside_their_bounds_and_nan_are_refused() {
        let kind = Kind::Real { min: 0.0, max: 1.0 };
        assert_eq!(parse(kind, "0.25"), Ok(Value::Real(0.25)));
        for text in ["-0.1", "1.1", "NaN", "inf", ""] {
            assert!(parse(kind, text).is_err(), "{text}");
        }
    }

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse_list(text).unwrap()
    }

    fn pair_of(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn empty_and_blank_lists_have_no_pairs() {
        for text in ["", " ", ";", " ; ;; "] {
            assert_eq!(pairs(text), [], "{text:?}");
        }
    }

    #[test]
    fn white_space_around_names_and_values_is_dropped() {
        let expected = [pair_of("a.b", "1"), pair_of("c", "x y")];
        assert_eq!(pairs(" a.b =\t1 ;c= x y;"), expected);
    }

    #[test]
    fn backslash_takes_the_next_character_literally() {
        assert_eq!(
            pairs(r"a=x\;y\=z\\;b=\ "),
            [pair_of("a", r"x;y=z\"), pair_of("b", " ")]
        );
    }

    #[test]
    fn escaped_values_come_back() {
        for value in ["", "plain", "a b", r"x;y=z\", " ", "  x ", ";", "\t=\u{a0}"] {
            let list = format!("a = {}; b = 1; ", escaped(value));
            assert_eq!(pairs(&list), [pair_of("a", value), pair_of("b", "1")]);
        }
        assert_eq!(escaped("tcp://[::1]:4567 x"), "tcp://[::1]:4567 x");
    }

    #[test]
    fn empty_value_is_a_value() {
        assert_eq!(pairs("a="), [pair_of("a", "")]);
    }

    #[test]
    fn segments_that_are_no_pairs_are_refused() {
        for text in ["a", "a=1;b", "=1", " = ", "a=1=2"] {
            let error = parse_list(text).unwrap_err();
            assert!(
                matches!(error, OptionsError::Malformed { .. }),
                "{text:?}: {error}"
            );
        }
    }
}
