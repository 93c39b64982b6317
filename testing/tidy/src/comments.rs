//! Openings of doc comments, by which a reader finds an item.

/// Words that begin a riddle instead of naming the item.
const OPENINGS: [&str; 10] = [
    "What", "Who", "Whose", "Which", "Where", "As", "Of", "That", "Those", "It",
];

/// Doc and module comments that begin with a banned word: line, numbered from one, and word.
pub fn banned_openings(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut before = None;
    for (at, line) in text.lines().enumerate() {
        let comment = doc_comment(line);
        let marker = comment.map(|(marker, _)| marker);
        if let Some((_, words)) = comment.filter(|_| marker != before) {
            found.extend(banned_opening(words).map(|word| (at + 1, word)));
        }
        before = marker;
    }
    found
}

/// Marker and text of a line of a doc comment.
fn doc_comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let of = |marker| Some((marker, line.strip_prefix(marker)?));
    of("///").or_else(|| of("//!"))
}

fn banned_opening(words: &str) -> Option<&'static str> {
    let is_in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let first = words.trim_start().split(|c| !is_in_word(c)).next()?;
    OPENINGS.into_iter().find(|word| *word == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_openings_are_found() {
        let text = "//! What this is.\n//! Where it ends.\n\n    /// It's late.\nstruct A;\n";
        assert_eq!(banned_openings(text), [(1, "What"), (4, "It")]);
        assert_eq!(banned_openings("//! Names.\n/// As before.\n"), [(2, "As")]);
    }

    #[test]
    fn other_comments_may_begin_as_they_like() {
        let text = "/// Whether it is.\n/// What follows.\n// What comes next.\n/// Itself.\n";
        assert_eq!(banned_openings(text), []);
        assert_eq!(banned_openings("/// As-built plan.\n///\n/// It is.\n"), []);
    }
}
