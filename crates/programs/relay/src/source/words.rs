//! The words that a statement begins with, as far as it matters whether it failed. Nothing here is
//! a parser of SQL: a statement that begins with other words than those here is not understood, and
//! never passed on unless it succeeded.

/// A word of a statement, in upper case, and where it ends.
type Word = (String, usize);

/// The bytes of a statement as a text with as many bytes. Names in other character sets lose their
/// letters; the words that matter here have none of those.
pub(super) fn text_of(statement: &[u8]) -> String {
    let ascii = |byte: &u8| {
        if byte.is_ascii() {
            char::from(*byte)
        } else {
            'x'
        }
    };
    statement.iter().map(ascii).collect()
}

/// Clause that makes a statement harmless, and where to insert it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    /// Bytes of the statement before it.
    pub(super) at: usize,
    /// Text to insert.
    pub(super) text: &'static str,
}

/// The next words of a statement: names, numbers, texts in quotes, and other characters one by one.
/// Comments are left out, except what servers execute of them.
struct Words<'a> {
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
fn words(statement: &str) -> Words<'_> {
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

/// The work that a failed statement may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfFailed {
    Nothing,
    /// A part: it names several objects, or replaces one. It makes no table.
    Part,
}

/// The work that this statement may have done if it has failed; none: its words are not known.
pub(super) fn if_failed(statement: &str) -> Option<IfFailed> {
    const WAYS: [&str; 3] = ["TEMPORARY", "ONLINE", "UNIQUE"];
    let words = words(statement).map(|(word, _)| word);
    let mut words = words.filter(|word| !WAYS.contains(&word.as_str()));
    let first = words.next().unwrap_or_default();
    let object = words.next().unwrap_or_default();
    let replaces = object == "OR" || object == "REPLACE";
    match (first.as_str(), object.as_str()) {
        ("CREATE" | "ALTER" | "RENAME", "USER" | "ROLE") => Some(IfFailed::Part),
        ("CREATE", _) if replaces => Some(IfFailed::Part),
        ("CREATE" | "ALTER" | "RENAME" | "TRUNCATE", _) => Some(IfFailed::Nothing),
        ("DROP", "DATABASE" | "SCHEMA") => Some(IfFailed::Part),
        ("DROP", _) if statement.contains(',') => Some(IfFailed::Part),
        ("DROP", _) => Some(IfFailed::Nothing),
        ("GRANT" | "REVOKE" | "INSTALL" | "UNINSTALL", _) => Some(IfFailed::Part),
        ("ANALYZE" | "CACHE" | "CHECK" | "FLUSH" | "OPTIMIZE" | "REPAIR", _) => {
            Some(IfFailed::Part)
        }
        ("SET", "PASSWORD" | "DEFAULT") => Some(IfFailed::Part),
        _ => None,
    }
}

/// The condition with which a statement that makes a table or a sequence leaves one alone that is
/// there; none if it is no such statement, or says itself what to do then.
pub(super) fn create_if_missing(statement: &str) -> Option<Condition> {
    condition_after(statement, "CREATE", " IF NOT EXISTS")
}

/// The condition with which a statement that drops tables, views or sequences passes over those
/// that are not there; none if it is no such statement, or does that itself.
pub(super) fn drop_if_there(statement: &str) -> Option<Condition> {
    condition_after(statement, "DROP", " IF EXISTS")
}

/// The condition `text` for a statement that begins with this verb and a kind of object.
fn condition_after(statement: &str, verb: &str, text: &'static str) -> Option<Condition> {
    let mut words = words(statement);
    words.next().filter(|(word, _)| word == verb)?;
    let (mut object, mut end) = words.next()?;
    if object == "TEMPORARY" {
        (object, end) = words.next()?;
    }
    let is_table = ["TABLE", "TABLES", "SEQUENCE", "VIEW"].contains(&object.as_str());
    let has_condition = words.next().is_some_and(|(word, _)| word == "IF");
    (is_table && !has_condition).then_some(Condition { at: end, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(statement: &str, condition: Condition) -> String {
        let mut text = statement.to_owned();
        text.insert_str(condition.at, condition.text);
        text
    }

    #[test]
    fn text_has_as_many_bytes_as_the_statement() {
        assert_eq!(text_of(b"CREATE TABLE \xe9\xff"), "CREATE TABLE xx");
    }

    #[test]
    fn tables_are_made_only_if_they_are_missing() {
        let table = [
            (
                "CREATE TABLE t (a INT)",
                Some("CREATE TABLE IF NOT EXISTS t (a INT)"),
            ),
            (
                "create table`t`(a INT)",
                Some("create table IF NOT EXISTS`t`(a INT)"),
            ),
            (
                "/* mine */ create\n  temporary table t LIKE u",
                Some("/* mine */ create\n  temporary table IF NOT EXISTS t LIKE u"),
            ),
            (
                "CREATE /*!40000 TABLE */ t (a INT)",
                Some("CREATE /*!40000 TABLE IF NOT EXISTS */ t (a INT)"),
            ),
            ("CREATE SEQUENCE s", Some("CREATE SEQUENCE IF NOT EXISTS s")),
            ("CREATE TABLE IF NOT EXISTS t (a INT)", None),
            ("CREATE OR REPLACE TABLE t (a INT)", None),
            (
                "--\n-- Table t\n--\tby a tool\n--\nCREATE TABLE t (a INT)",
                Some("--\n-- Table t\n--\tby a tool\n--\nCREATE TABLE IF NOT EXISTS t (a INT)"),
            ),
            (
                "SET STATEMENT a = 'x\\' FOR', b = 1 FOR set statement c = 1 for \
                 CREATE TABLE t (a INT)",
                Some(
                    "SET STATEMENT a = 'x\\' FOR', b = 1 FOR set statement c = 1 for \
                     CREATE TABLE IF NOT EXISTS t (a INT)",
                ),
            ),
            ("CREATE DATABASE d", None),
            ("ALTER TABLE t ADD b INT", None),
            ("", None),
        ];
        for (statement, expected) in table {
            let found = create_if_missing(statement).map(|condition| with(statement, condition));
            assert_eq!(found.as_deref(), expected, "{statement}");
        }
    }

    #[test]
    fn tables_are_dropped_only_if_they_are_there() {
        let drop = "DROP TABLE a, b";
        let found = drop_if_there(drop).unwrap();
        assert_eq!(with(drop, found), "DROP TABLE IF EXISTS a, b");
        assert_eq!(drop_if_there("drop view if exists a, b"), None);
        assert_eq!(drop_if_there("DROP USER a, b"), None);
    }

    #[test]
    fn statements_about_several_objects_may_have_done_a_part() {
        for whole in [
            "CREATE TABLE t (a INT, b INT)",
            "create unique index i ON t (a, b)",
            "ALTER TABLE t ADD a INT, ADD b INT",
            "RENAME TABLE a TO b, c TO d",
            "-- a comment\nDROP TABLE t",
            "--\nDROP TABLE t",
            "SET STATEMENT lock_wait_timeout = 5 FOR CREATE TABLE t (a INT)",
            "TRUNCATE t",
        ] {
            assert_eq!(if_failed(whole), Some(IfFailed::Nothing), "{whole}");
        }
        for part in [
            "DROP TABLE a, b",
            "DROP DATABASE d",
            "CREATE USER a, b",
            "CREATE OR REPLACE USER a, b",
            "CREATE OR REPLACE TABLE t (a INT, a INT)",
            "GRANT SELECT ON *.* TO a, b",
            "REVOKE ALL ON *.* FROM a",
            "SET PASSWORD FOR a = ''",
            "SET STATEMENT lock_wait_timeout = 5 FOR DROP TABLE a, b",
            "FLUSH TABLES",
        ] {
            assert_eq!(if_failed(part), Some(IfFailed::Part), "{part}");
        }
    }

    #[test]
    fn what_begins_with_other_words_is_not_understood() {
        for other in [
            "",
            "--CREATE TABLE t (a INT)",
            "EXECUTE IMMEDIATE 'CREATE TABLE t (a INT)'",
            "BEGIN NOT ATOMIC CREATE TABLE t (a INT); END",
            "SET STATEMENT a = 1",
            "SET STATEMENT a = 'x FOR CREATE TABLE t (a INT)",
            "SET a = 1",
            "(CREATE TABLE t (a INT))",
            "WITH x AS (SELECT 1) CREATE TABLE t (a INT)",
        ] {
            assert_eq!(if_failed(other), None, "{other}");
            assert_eq!(create_if_missing(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn made_up_statements_never_panic(
            begin in prop_oneof![
                Just("CREATE TABLE"), Just("DROP "), Just("/*"), Just("SET STATEMENT '"), Just("")
            ],
            rest in "\\PC{0,40}",
        ) {
            let statement = text_of(format!("{begin}{rest}").as_bytes());
            let _ = if_failed(&statement);
            for condition in [create_if_missing(&statement), drop_if_there(&statement)] {
                prop_assert!(condition.is_none_or(|found| found.at <= statement.len()));
            }
        }
    }
}
