//! Classifies a statement in a binlog by its first words.

use synod_binlog::query::Query;
use synod_binlog::{EventError, EventType};

/// Longest part of a statement that an error repeats, in characters.
const QUOTED_MAX: usize = 100;

/// Effect of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    End,
    /// Part of the transaction's control: a savepoint, a part of XA.
    Control,
    /// Completes a prepared XA transaction, and is all of its own transaction.
    XaEnd,
    Rows,
    /// Any other change; also compressed statements: only long ones are.
    Other,
}

impl Statement {
    pub(crate) fn of(event_type: EventType, body: &[u8]) -> Result<Statement, EventError> {
        let query = Query::parse(body)?;
        if event_type == EventType::QUERY_COMPRESSED {
            return Ok(Statement::Other);
        }
        Ok(Statement::of_text(query.statement))
    }

    fn of_text(text: &[u8]) -> Statement {
        let mut words = Words(text);
        let first = words.next().unwrap_or_default();
        let second = words.next();
        match (first.as_str(), second.as_deref()) {
            ("COMMIT" | "ROLLBACK", None) => Statement::End,
            ("XA", Some("COMMIT" | "ROLLBACK")) => Statement::XaEnd,
            ("BEGIN" | "SAVEPOINT" | "ROLLBACK" | "RELEASE" | "XA", _) => Statement::Control,
            ("INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "WITH", _)
            // A function that changes rows is called so.
            | ("SELECT" | "DO" | "CALL", _) => Statement::Rows,
            _ => Statement::Other,
        }
    }
}

/// Whether the statement is about a transaction of XA.
pub(super) fn is_xa(text: &[u8]) -> bool {
    Words(text).next().as_deref() == Some("XA")
}

/// The beginning of the statement in the body of an event, for an error.
pub(crate) fn quoted(event_type: EventType, body: &[u8]) -> String {
    if event_type == EventType::QUERY_COMPRESSED {
        return "a compressed one".to_owned();
    }
    let statement = Query::parse(body).map_or(&[][..], |query| query.statement);
    let text = String::from_utf8_lossy(statement);
    text.chars().take(QUOTED_MAX).collect()
}

/// Words of a text in upper case, without comments.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn skip_blanks(&mut self) {
        loop {
            self.0 = self.0.trim_ascii_start();
            let end: &[u8] = match self.0 {
                [b'/', b'*', ..] => b"*/",
                [b'-', b'-', ..] | [b'#', ..] => b"\n",
                _ => return,
            };
            let found = self.0.windows(end.len()).position(|bytes| bytes == end);
            let after = found.map_or(self.0.len(), |at| at + end.len());
            self.0 = self.0.get(after..).unwrap_or_default();
        }
    }
}

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.skip_blanks();
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = self.0.iter().take_while(|byte| is_letter(byte)).count();
        // Anything else is a word of one byte.
        let length = length.max(1);
        let (word, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(word).to_uppercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statements_are_told_apart_by_their_first_words() {
        for (text, statement) in [
            ("COMMIT", Statement::End),
            (" rollback ", Statement::End),
            ("ROLLBACK TO `a`", Statement::Control),
            ("SAVEPOINT `a`", Statement::Control),
            ("XA START X'61',X'',1", Statement::Control),
            ("XA COMMIT X'61',X'',1", Statement::XaEnd),
            ("/* by */ -- x\n insert into t values (1)", Statement::Rows),
            ("UPDATE t SET a = 1", Statement::Rows),
            ("SELECT `test`.`f`()", Statement::Rows),
            ("# x\nCREATE TABLE t (a INT)", Statement::Other),
            ("/* never ends", Statement::Other),
            ("", Statement::Other),
        ] {
            assert_eq!(Statement::of_text(text.as_bytes()), statement, "{text}");
        }
    }

    proptest! {
        #[test]
        fn made_up_statements_never_panic(
            text in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let _ = Statement::of_text(&text);
            let _ = Statement::of(EventType::QUERY, &text);
            prop_assert!(quoted(EventType::QUERY, &text).chars().count() <= QUOTED_MAX);
        }
    }
}
