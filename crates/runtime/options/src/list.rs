//! The syntax of option lists: `name=value;name=value`.
//!
//! White space around names and values is removed, empty segments are ignored, and a backslash
//! takes the next character literally.

use super::error::OptionsError;

/// Splits a list into pairs, in order.
///
/// # Errors
/// A segment without `=`, with two, or without a name.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, String)>, OptionsError> {
    let segments = split(text, ';');
    let filled = segments.iter().filter(|segment| !is_blank(segment));
    filled.map(|segment| pair(segment)).collect()
}

/// A value written so that [`parse`] takes it as it is.
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

/// The text without outer white space that was not escaped.
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

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap()
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
            let error = parse(text).unwrap_err();
            assert!(
                matches!(error, OptionsError::Malformed { .. }),
                "{text:?}: {error}"
            );
        }
    }
}
