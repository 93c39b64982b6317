//! Taking statements apart, as far as readers of binlogs write them: lists with commas, names,
//! texts in quotes. Nothing here is a parser of SQL.

/// Parts of a list, divided at commas that are neither in quotes nor in parentheses.
pub(crate) fn parts(list: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut begin, mut depth, mut quote) = (0, 0_usize, None);
    for (at, character) in list.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                found.push(list.get(begin..at).unwrap_or_default().trim());
                begin = at + 1;
            }
            (None, _) => {}
        }
    }
    found.push(list.get(begin..).unwrap_or_default().trim());
    found
}

/// Rest of a text after its first word, compared without case.
pub(crate) fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let text = text.trim_start();
    let begin = text.get(..word.len())?;
    let rest = text.get(word.len()..)?;
    let ends = rest.is_empty() || rest.starts_with(|c: char| !c.is_alphanumeric() && c != '_');
    (begin.eq_ignore_ascii_case(word) && ends).then(|| rest.trim_start())
}

/// Rest of a text after these words.
pub(crate) fn after_words<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    words
        .iter()
        .try_fold(text, |rest, word| after_word(rest, word))
}

/// A text without its quotes, if it is one in quotes.
pub(crate) fn unquoted(text: &str) -> Option<&str> {
    let text = text.trim();
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

/// Whether a name fits a pattern of LIKE, in which `%` stands for any characters. `_` stands for
/// itself: names have it.
pub(crate) fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.to_lowercase(), pattern.to_lowercase());
    let mut pieces = pattern.split('%');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_divided_outside_quotes_and_parentheses() {
        assert_eq!(parts("a, 'b,c' ,f(d, e)"), ["a", "'b,c'", "f(d, e)"]);
        assert_eq!(parts(""), [""]);
        assert_eq!(parts("a,"), ["a", ""]);
        assert_eq!(parts(")),'"), ["))", "'"]);
    }

    #[test]
    fn words_end_where_names_do() {
        assert_eq!(after_word(" select  1", "SELECT"), Some("1"));
        assert_eq!(after_word("SELECT@@x", "SELECT"), Some("@@x"));
        assert_eq!(after_word("SELECTED", "SELECT"), None);
        assert_eq!(
            after_words("show  Master status", &["SHOW", "MASTER"]),
            Some("status")
        );
        assert_eq!(after_word("é", "S"), None);
    }

    #[test]
    fn patterns_are_those_of_like() {
        assert!(is_like("server_id", "SERVER_ID"));
        assert!(is_like("binlog_checksum", "binlog%"));
        assert!(is_like("rpl_semi_sync_master_enabled", "rpl%master%"));
        assert!(!is_like("server_id", "server"));
        assert!(!is_like("server_id", "%x%"));
        assert!(is_like("server_id", "%"));
    }

    #[test]
    fn quotes_are_taken_off_in_pairs() {
        assert_eq!(unquoted(" '1-2-3' "), Some("1-2-3"));
        assert_eq!(unquoted("\"\""), Some(""));
        assert_eq!(unquoted("1"), None);
        assert_eq!(unquoted("'"), None);
        assert_eq!(unquoted("'a' 'b'"), None);
    }
}
