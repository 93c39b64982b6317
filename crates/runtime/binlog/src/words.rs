//! First words of a statement. Nothing here is a parser of SQL.

/// A word of a statement, in upper case, and where it ends.
pub type Word = (String, usize);

/// Longest excerpt of a text of others, in characters.
const EXCERPT_MAX: usize = 100;

/// The beginning of a text of others, for an error, without characters that a terminal would obey.
pub fn excerpt(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let shown = text.chars().filter(|char| !char.is_control());
    shown.take(EXCERPT_MAX).collect()
}

/// The next words of a statement: names, numbers, texts in quotes, and other characters one by one.
/// Comments are left out, except what servers execute of them.
pub struct Words<'a> {
    text: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let skipped = match rest.iter().take_while(|byte| is_blank(byte)).count() {
                0 => comment_bytes(rest),
                blank => blank,
            };
            if skipped == 0 {
                return;
            }
            self.at += skipped;
        }
    }
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        // Names in other character sets have bytes that are not ASCII.
        let is_name =
            |byte: &&u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"_$".contains(byte);
        self.skip_blanks();
        let rest = self.rest();
        let bytes = match rest.iter().take_while(is_name).count() {
            0 => quoted_bytes(rest).unwrap_or(1),
            name => name,
        };
        let word = String::from_utf8_lossy(rest.get(..bytes)?).to_ascii_uppercase();
        self.at += bytes;
        Some((word, self.at))
    }
}

/// Bytes of the comment at the beginning; of one that servers execute, those that open or close it.
fn comment_bytes(text: &[u8]) -> usize {
    let through = |end: &[u8]| {
        let at = text.windows(end.len()).position(|bytes| bytes == end);
        at.map_or(text.len(), |at| at + end.len())
    };
    let opened = |open: usize| {
        let version = text.iter().skip(open);
        open + version.take_while(|byte| byte.is_ascii_digit()).count()
    };
    match text {
        [b'*', b'/', ..] => 2,
        [b'/', b'*', b'M', b'!', ..] => opened(4),
        [b'/', b'*', b'!', ..] => opened(3),
        [b'/', b'*', ..] => through(b"*/"),
        [b'#', ..] => through(b"\n"),
        // Two dashes begin a comment before a blank, a control character, or the end.
        [b'-', b'-', after @ ..] if after.first().is_none_or(|byte| *byte <= b' ') => {
            through(b"\n")
        }
        _ => 0,
    }
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Bytes of the text in quotes at the beginning; none: there is none.
fn quoted_bytes(text: &[u8]) -> Option<usize> {
    let (quote, inner) = text
        .split_first()
        .filter(|(first, _)| b"'\"`".contains(first))?;
    let mut is_escaped = false;
    for (at, byte) in inner.iter().enumerate() {
        if !is_escaped && byte == quote {
            return Some(at + 2);
        }
        is_escaped = !is_escaped && *byte == b'\\' && *quote != b'`';
    }
    Some(text.len())
}

/// The words of a statement, without the variables that are set for it (`SET STATEMENT ... FOR`).
pub fn words(statement: &[u8]) -> Words<'_> {
    let mut words = Words {
        text: statement,
        at: 0,
    };
    loop {
        let before = words.at;
        let mut next = || words.next().map(|(word, _)| word).unwrap_or_default();
        if next() != "SET" || next() != "STATEMENT" {
            words.at = before;
            return words;
        }
        words.find(|(word, _)| word == "FOR");
    }
}

/// Whether a name fits a pattern, in which the byte `any` stands for any bytes.
pub fn is_like(name: &[u8], pattern: &[u8], any: u8) -> bool {
    let (mut at, mut of) = (0, 0);
    // Where the newest wildcard is, and how much of the name was left to it.
    let mut wildcard = None;
    while at < name.len() {
        if pattern.get(of) == Some(&any) {
            wildcard = Some((of, at));
            of += 1;
        } else if pattern.get(of) == name.get(at) {
            at += 1;
            of += 1;
        } else if let Some((at_wildcard, taken)) = wildcard {
            wildcard = Some((at_wildcard, taken + 1));
            at = taken + 1;
            of = at_wildcard + 1;
        } else {
            return false;
        }
    }
    pattern.iter().skip(of).all(|byte| *byte == any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_servers_execute() {
        let statement = b"/* a */ SET STATEMENT max_statement_time = 9 FOR grant /*!50000 proxy*/ \
                          -- b\n ON 'x y'@h\xe9";
        let found: Vec<String> = words(statement).map(|(word, _)| word).collect();
        assert_eq!(found, ["GRANT", "PROXY", "ON", "'X Y'", "@", "H\u{fffd}"]);
    }

    #[test]
    fn excerpt_is_short_and_plain() {
        assert_eq!(excerpt(b"a\x1b[2J\nb"), "a[2Jb");
        let long = "\nä".repeat(EXCERPT_MAX + 1);
        assert_eq!(excerpt(long.as_bytes()), "ä".repeat(EXCERPT_MAX));
    }

    #[test]
    fn stars_stand_for_any_characters() {
        for (name, pattern, fits) in [
            ("", "*", true),
            ("abc", "a*c", true),
            ("abcbc", "a*bc", true),
            ("abc", "*b", false),
            ("abc", "**c*", true),
            ("abc", "abcd", false),
        ] {
            assert_eq!(
                is_like(name.as_bytes(), pattern.as_bytes(), b'*'),
                fits,
                "{pattern}"
            );
        }
    }
}
