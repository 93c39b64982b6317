//! Words of a statement. Nothing here is a parser of SQL: it is for those who look how a statement
//! begins.

/// A word of a statement, in upper case, and where it ends.
pub type Word = (String, usize);

/// The bytes of a statement as a text with as many bytes. Names in other character sets lose their
/// letters; the words that matter here have none of those.
pub fn text_of(statement: &[u8]) -> String {
    let ascii = |byte: &u8| {
        if byte.is_ascii() {
            char::from(*byte)
        } else {
            'x'
        }
    };
    statement.iter().map(ascii).collect()
}

/// The next words of a statement: names, numbers, texts in quotes, and other characters one by one.
/// Comments are left out, except what servers execute of them.
pub struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl Words<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            let skipped = match blank {
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
        self.skip_blanks();
        let rest = self.rest();
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let name = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let bytes = match name {
            0 => quoted_bytes(rest).or_else(|| Some(rest.chars().next()?.len_utf8()))?,
            name => name,
        };
        let word = rest.get(..bytes)?.to_uppercase();
        self.at += bytes;
        Some((word, self.at))
    }
}

/// Bytes of the comment at the beginning; of one that servers execute, those that open or close it.
fn comment_bytes(text: &str) -> usize {
    if text.starts_with("*/") {
        return 2;
    }
    for open in ["/*M!", "/*!"] {
        if let Some(version) = text.strip_prefix(open) {
            let digits = version.bytes().take_while(u8::is_ascii_digit).count();
            return open.len() + digits;
        }
    }
    let through = |end: &str| text.find(end).map_or(text.len(), |at| at + end.len());
    if text.starts_with("/*") {
        return through("*/");
    }
    if text.starts_with('#') || text.strip_prefix("--").is_some_and(is_blank_first) {
        return through("\n");
    }
    0
}

/// Two dashes begin a comment before a blank, a control character, or the end of the statement.
fn is_blank_first(text: &str) -> bool {
    let first = text.chars().next();
    first.is_none_or(|first| first.is_whitespace() || first.is_control())
}

/// Bytes of the text in quotes at the beginning; none: there is none.
fn quoted_bytes(text: &str) -> Option<usize> {
    let quote = text
        .chars()
        .next()
        .filter(|first| "'\"`".contains(*first))?;
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if !is_escaped && character == quote {
            return Some(at + 1);
        }
        is_escaped = !is_escaped && character == '\\' && quote != '`';
    }
    Some(text.len())
}

/// The words of a statement, without the variables that are set for it (`SET STATEMENT ... FOR`).
pub fn words(statement: &str) -> Words<'_> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_as_many_bytes_as_the_statement() {
        assert_eq!(text_of(b"CREATE TABLE \xe9\xff"), "CREATE TABLE xx");
    }

    #[test]
    fn words_are_those_that_servers_execute() {
        let statement = "/* a */ SET STATEMENT max_statement_time = 9 FOR grant /*!50000 proxy*/ \
                         -- b\n ON 'x y'@h";
        let found: Vec<String> = words(statement).map(|(word, _)| word).collect();
        assert_eq!(found, ["GRANT", "PROXY", "ON", "'X Y'", "@", "H"]);
    }
}
