//! Words that `docs/glossary.md` bans, in text and as parts of names.

/// Phrases that hide their subject, or for which the glossary has another word.
const PHRASES: [&str; 15] = [
    "whoever",
    "somebody",
    "nobody",
    "anew",
    "astray",
    "mend",
    "mends",
    "mended",
    "in good order",
    "goes on",
    "go on",
    "went on",
    "heard of",
    "benefit of the doubt",
    "see the module",
];

/// The same as parts of a name in code.
const NAME_PARTS: [&str; 7] = [
    "whoever", "somebody", "nobody", "anew", "astray", "mend", "mended",
];

/// The first banned phrase in a line.
pub fn banned_phrase(line: &str) -> Option<&'static str> {
    let line = line.to_lowercase();
    PHRASES.into_iter().find(|phrase| has_phrase(&line, phrase))
}

fn has_phrase(line: &str, phrase: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(phrase).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + phrase.len()..].chars().next();
        !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
    })
}

/// The names in a line of code: runs of letters, digits and underscores.
pub fn names_in(line: &str) -> impl Iterator<Item = &str> {
    let is_outside = |c: char| !c.is_alphanumeric() && c != '_';
    line.split(is_outside).filter(|name| !name.is_empty())
}

/// The first banned word that a name is made of, written `like_this` or `LikeThis`.
pub fn banned_in_name(name: &str) -> Option<&'static str> {
    let mut parts = vec![String::new()];
    for c in name.chars() {
        let starts_part = c == '_' || c.is_uppercase();
        if starts_part {
            parts.push(String::new());
        }
        if c != '_' {
            let part = parts.last_mut().expect("begins with one part");
            part.extend(c.to_lowercase());
        }
    }
    let is_banned = |word: &&str| parts.iter().any(|part| part == word);
    NAME_PARTS.into_iter().find(is_banned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_as_whole_words_only() {
        assert_eq!(banned_phrase("// Whoever asks"), Some("whoever"));
        assert_eq!(banned_phrase("the log begins anew."), Some("anew"));
        assert_eq!(banned_phrase("recommended, amended, agonies"), None);
        assert_eq!(banned_phrase("let is_nobody_there = 1;"), None);
        assert_eq!(banned_phrase("the others go on"), Some("go on"));
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(banned_in_name("NobodyToRepairFrom"), Some("nobody"));
        assert_eq!(banned_in_name("vote_anew"), Some("anew"));
        assert_eq!(banned_in_name("recommended"), None);
        let names: Vec<&str> = names_in("fn vote_anew(x: u8)").collect();
        assert_eq!(names, ["fn", "vote_anew", "x", "u8"]);
    }
}
