//! Texts of others, for errors and lines.

/// Longest excerpt, in characters.
const LONGEST: usize = 100;

/// The beginning of a text, without characters that a terminal would obey.
pub(crate) fn excerpt(text: &str) -> String {
    let shown = text.chars().filter(|char| !char.is_control());
    shown.take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_is_short_and_plain() {
        assert_eq!(excerpt("a\u{1b}[2J\nb"), "a[2Jb");
        let long = "\nä".repeat(LONGEST + 1);
        assert_eq!(excerpt(&long), "ä".repeat(LONGEST));
    }
}
