//! Text that others have written, made fit for a terminal.

use std::borrow::Cow;

/// The text with what a terminal would obey, or not show, as `\u` and the character's number, as in
/// JSON: control characters other than the tabulator and the end of a line, and those that change
/// the direction of writing.
pub fn visible(text: &str) -> Cow<'_, str> {
    replaced(text, |char| {
        !matches!(char, '\n' | '\t') && is_invisible(char)
    })
}

/// The same for these two, too: a name with the end of a line would look like a line of its own.
pub(crate) fn visible_line(text: &str) -> Cow<'_, str> {
    replaced(text, is_invisible)
}

fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

fn replaced(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        if is_bad(char) {
            shown.push_str(&format!("\\u{:04x}", u32::from(char)));
        } else {
            shown.push(char);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_is_told_nothing_by_a_text() {
        assert_eq!(
            visible("db1\u{1b}[31m\n\u{9b}2J"),
            "db1\\u001b[31m\n\\u009b2J"
        );
        assert_eq!(visible_line("db1\ndb2"), "db1\\u000adb2");
        assert_eq!(visible("a\u{202e}b\r"), "a\\u202eb\\u000d");
        assert!(matches!(visible("größer, 大\n"), Cow::Borrowed(_)));
    }
}
