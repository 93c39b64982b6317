//! Maps a TOI statement's outcome, which its origin notes in the log, to what replicas receive.
//!
//! | outcome | readers get |
//! |---|---|
//! | it succeeded | the statement |
//! | it failed, and has done nothing | nothing |
//! | it dropped some of several tables, others were not there | the statement with `IF EXISTS` |
//! | it failed otherwise, perhaps after a part | the statement, with the error to expect |
//! | not known | the statement; one that makes a table leaves a table alone that is there |
//! | it failed, or that is not known, and its words are not understood | none: the dump ends |
//!
//! A reader with MariaDB's default settings executes `CREATE TABLE` as `CREATE OR REPLACE TABLE`.
//! So one that failed, or may have failed, never gets out unchanged. The note of an outcome has an
//! error, and does not say whether a part was done: that is what the words are for. A statement
//! that begins with other words than those here is never passed on unless it succeeded.
//!
//! A statement promises a note, unless its origin could not or needed not write one. The origin
//! writes it as long as its session is in the view. So what comes first in the log decides, and
//! every relay finds the same: the note, or a view without the session.

use std::ops::ControlFlow;

use synod_binlog::bodies::Query;
use synod_binlog::words::{excerpt, words};
use synod_binlog::write_set::Note;
use synod_binlog::{EventType, Gtid, Outgoing, TransactionError};
use synod_node::{Followed, FollowedAction, Follower, LogIndex};

use crate::source::streams::sessions;
use crate::source::{SourceError, head_of};

/// `ER_DB_DROP_EXISTS`: a database to be dropped is not there.
const NO_SUCH_DATABASE: u16 = 1008;
/// `ER_BAD_TABLE_ERROR`: a table to be dropped is not there.
const NO_SUCH_TABLE: u16 = 1051;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StatementError {
    #[error("action {} cannot be given to readers: {source}", gtid.sequence)]
    Transaction {
        gtid: Gtid,
        source: TransactionError,
    },
    #[error(
        "This relay does not pass on statement {gtid}, '{begins}': {outcome}, and its words do not \
         say whether it has done a part of its work. Compare the reader's data with a server of \
         the group, and do on the reader what is missing; then SET GLOBAL gtid_slave_pos = \
         '{gtid}', and start the reader again"
    )]
    NotUnderstood {
        gtid: Gtid,
        begins: String,
        outcome: Outcome,
    },
}

#[derive(Debug, PartialEq, Eq)]
enum Form {
    Nothing,
    Unchanged,
    /// With the error that readers are to expect.
    Expecting(u16),
    If(Condition),
}

/// The events of a statement, for an outcome; none if readers get nothing of it.
pub(crate) fn statement<'a>(
    gtid: Gtid,
    events: &'a [u8],
    outcome: Outcome,
) -> Result<Vec<Outgoing<'a>>, StatementError> {
    let unusable = |source| StatementError::Transaction { gtid, source };
    let mut events = synod_binlog::statement(gtid, events).map_err(unusable)?;
    let is_query = |event: &&mut Outgoing<'a>| event.event_type.is_query();
    let Some(event) = events.iter_mut().find(is_query) else {
        return Ok(events);
    };
    if event.event_type != EventType::QUERY && outcome != Outcome::Ended(0) {
        // A compressed one, which servers do not write: its text is not known.
        return Err(unusable(TransactionError::Unexpected(event.event_type.0)));
    }
    let damaged = |error| unusable(TransactionError::Event(error));
    let query = Query::parse(&event.body).map_err(damaged)?;
    let text = query.statement;
    let form = form(text, outcome).ok_or_else(|| StatementError::NotUnderstood {
        gtid,
        begins: excerpt(text),
        outcome,
    })?;
    let changed: Vec<u8>;
    let query = match form {
        Form::Nothing => return Ok(Vec::new()),
        Form::Unchanged => return Ok(events),
        Form::Expecting(error_code) => Query {
            error_code,
            ..query
        },
        Form::If(condition) => {
            let (before, after) = text.split_at_checked(condition.at).unwrap_or((text, b""));
            changed = [before, condition.text.as_bytes(), after].concat();
            Query {
                statement: &changed,
                ..query
            }
        }
    };
    event.body = query.body().map_err(damaged)?.into();
    Ok(events)
}

/// Form in which readers get a statement; none: its words are not understood, and it may have
/// failed.
fn form(text: &[u8], outcome: Outcome) -> Option<Form> {
    let changed = |condition: Option<Condition>| condition.map_or(Form::Unchanged, Form::If);
    Some(match (outcome, if_failed(text)) {
        (Outcome::Ended(0), _) => Form::Unchanged,
        (Outcome::Ended(NO_SUCH_DATABASE), _) => Form::Nothing,
        (_, None) => return None,
        (Outcome::Unknown, Some(_)) => changed(create_if_missing(text)),
        (Outcome::Ended(_), Some(IfFailed::Nothing)) => Form::Nothing,
        (Outcome::Ended(NO_SUCH_TABLE), Some(IfFailed::Part)) => changed(drop_if_there(text)),
        (Outcome::Ended(error), Some(IfFailed::Part)) => Form::Expecting(error),
    })
}

/// Entries that are looked at at a time.
const WINDOW: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Outcome {
    #[error("the log does not say whether it failed")]
    Unknown,
    #[error("it ended with error {0}")]
    Ended(u16),
}

pub(crate) struct Held {
    pub(crate) action: FollowedAction,
    /// The first entry that was not looked at.
    next: LogIndex,
}

impl Held {
    /// A statement whose note comes at `after` or later.
    pub(crate) fn until_noted(action: FollowedAction, after: LogIndex) -> Held {
        Held {
            action,
            next: after,
        }
    }

    /// Looks at what the group has committed since; the outcome, if that says it.
    pub(crate) fn look(&mut self, follower: &Follower) -> Result<Option<Outcome>, SourceError> {
        let end = follower.last_index().next();
        while self.next < end {
            let start = self.next.max(follower.first_index());
            let stop = LogIndex(start.0.saturating_add(WINDOW)).min(end);
            let mut said = Ok(None);
            let mut take = |followed| {
                said = self.says(follower, &followed);
                match said {
                    Ok(None) => ControlFlow::Continue(()),
                    Ok(Some(_)) | Err(_) => ControlFlow::Break(()),
                }
            };
            follower.look_at(start, stop, self.action.origin, &mut take)?;
            match said? {
                Some(outcome) => return Ok(Some(outcome)),
                None => self.next = stop,
            }
        }
        Ok(None)
    }

    fn says(
        &self,
        follower: &Follower,
        followed: &Followed,
    ) -> Result<Option<Outcome>, SourceError> {
        match followed {
            Followed::View(view) => {
                let is_present = sessions(view).contains(&self.action.origin);
                Ok((!is_present).then_some(Outcome::Unknown))
            }
            Followed::Action(action) => match head_of(follower, action)?.note {
                Note::Outcome { statement, error }
                    if statement == self.action.seqno.0.unsigned_abs() =>
                {
                    Ok(Some(Outcome::Ended(error)))
                }
                Note::Outcome { .. } | Note::Promised | Note::None => Ok(None),
            },
        }
    }
}

/// Clause that makes a statement harmless, and where to insert it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Condition {
    /// Bytes of the statement before it.
    at: usize,
    text: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfFailed {
    Nothing,
    /// A part: it names several objects, or replaces one. It makes no table.
    Part,
}

/// The work that this statement may have done if it has failed; none: its words are not known.
fn if_failed(statement: &[u8]) -> Option<IfFailed> {
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
        ("DROP", _) if statement.contains(&b',') => Some(IfFailed::Part),
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
fn create_if_missing(statement: &[u8]) -> Option<Condition> {
    condition_after(statement, "CREATE", " IF NOT EXISTS")
}

/// The condition with which a statement that drops tables, views or sequences passes over those
/// that are not there; none if it is no such statement, or does that itself.
fn drop_if_there(statement: &[u8]) -> Option<Condition> {
    condition_after(statement, "DROP", " IF EXISTS")
}

fn condition_after(statement: &[u8], verb: &str, text: &'static str) -> Option<Condition> {
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statement_that_failed_never_makes_a_table() {
        for begin in [
            "",
            "--\n",
            "--\t\n",
            "SET STATEMENT lock_wait_timeout = 5 FOR ",
        ] {
            let create = format!("{begin}CREATE TABLE t (a INT)");
            assert_eq!(
                form(create.as_bytes(), Outcome::Ended(0)),
                Some(Form::Unchanged)
            );
            assert_eq!(
                form(create.as_bytes(), Outcome::Ended(1050)),
                Some(Form::Nothing)
            );
            let careful = create_if_missing(create.as_bytes()).unwrap();
            assert_eq!(
                form(create.as_bytes(), Outcome::Unknown),
                Some(Form::If(careful))
            );
        }
    }

    #[test]
    fn statement_that_is_not_understood_is_given_only_if_it_succeeded() {
        let other = "EXECUTE IMMEDIATE 'CREATE TABLE t (a INT)'";
        assert_eq!(
            form(other.as_bytes(), Outcome::Ended(0)),
            Some(Form::Unchanged)
        );
        for outcome in [Outcome::Unknown, Outcome::Ended(1050), Outcome::Ended(1051)] {
            assert_eq!(form(other.as_bytes(), outcome), None);
        }
    }

    #[test]
    fn statement_that_may_have_done_a_part_is_given() {
        let some = drop_if_there(b"DROP TABLE a, b").unwrap();
        for (text, outcome, expected) in [
            ("DROP TABLE a, b", Outcome::Ended(1051), Form::If(some)),
            (
                "DROP TABLE a, b",
                Outcome::Ended(1451),
                Form::Expecting(1451),
            ),
            ("DROP TABLE a", Outcome::Ended(1051), Form::Nothing),
            (
                "DROP DATABASE d",
                Outcome::Ended(1010),
                Form::Expecting(1010),
            ),
            (
                "DROP DATABASE nonesuch",
                Outcome::Ended(1008),
                Form::Nothing,
            ),
            (
                "CREATE USER a, b",
                Outcome::Ended(1396),
                Form::Expecting(1396),
            ),
            ("ALTER TABLE t ADD a INT", Outcome::Unknown, Form::Unchanged),
        ] {
            assert_eq!(form(text.as_bytes(), outcome), Some(expected), "{text}");
        }
    }

    fn with(statement: &str, condition: Condition) -> String {
        let mut text = statement.to_owned();
        text.insert_str(condition.at, condition.text);
        text
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
            let found =
                create_if_missing(statement.as_bytes()).map(|condition| with(statement, condition));
            assert_eq!(found.as_deref(), expected, "{statement}");
        }
    }

    #[test]
    fn tables_are_dropped_only_if_they_are_there() {
        let drop = "DROP TABLE a, b";
        let found = drop_if_there(drop.as_bytes()).unwrap();
        assert_eq!(with(drop, found), "DROP TABLE IF EXISTS a, b");
        assert_eq!(drop_if_there(b"drop view if exists a, b"), None);
        assert_eq!(drop_if_there(b"DROP USER a, b"), None);
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
            assert_eq!(
                if_failed(whole.as_bytes()),
                Some(IfFailed::Nothing),
                "{whole}"
            );
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
            assert_eq!(if_failed(part.as_bytes()), Some(IfFailed::Part), "{part}");
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
            assert_eq!(if_failed(other.as_bytes()), None, "{other}");
            assert_eq!(create_if_missing(other.as_bytes()), None, "{other}");
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
            let statement = format!("{begin}{rest}").into_bytes();
            let _ = if_failed(&statement);
            for condition in [create_if_missing(&statement), drop_if_there(&statement)] {
                prop_assert!(condition.is_none_or(|found| found.at <= statement.len()));
            }
        }
    }
}
