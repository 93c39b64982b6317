//! Maps a TOI statement's outcome to what replicas receive.
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
//! error, and does not say whether a part was done: that is what the words are for.

use synod_binlog::words::text_of;
use synod_binlog::{EventType, Gtid, Outgoing, TransactionError, query};

use super::outcome::Outcome;
use super::words::{self, IfFailed};
use crate::excerpt::excerpt;

/// `ER_DB_DROP_EXISTS`: a database to be dropped is not there.
const NO_SUCH_DATABASE: u16 = 1008;
/// `ER_BAD_TABLE_ERROR`: a table to be dropped is not there.
const NO_SUCH_TABLE: u16 = 1051;

/// Why readers cannot get a statement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatementError {
    /// The bytes are not one statement.
    #[error("action {} cannot be given to readers: {source}", gtid.sequence)]
    Transaction {
        /// The statement.
        gtid: Gtid,
        source: TransactionError,
    },
    /// The statement failed, or may have, and its words are not understood.
    #[error(
        "This relay does not pass on statement {gtid}, '{begins}': {outcome}, and its words do not \
         say whether it has done a part of its work. Compare the reader's data with a server of \
         the group, and do on the reader what is missing; then SET GLOBAL gtid_slave_pos = \
         '{gtid}', and start the reader again"
    )]
    NotUnderstood {
        /// The statement.
        gtid: Gtid,
        /// Its first words.
        begins: String,
        /// Its end in the group.
        outcome: Outcome,
    },
}

/// Form in which readers get the statement.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    Nothing,
    Unchanged,
    /// With the error that readers are to expect.
    Expecting(u16),
    If(words::Condition),
}

/// The events of a statement, for an outcome; none if readers get nothing of it.
///
/// # Errors
/// The bytes are not one statement, or readers might do another thing than the group.
pub(super) fn statement<'a>(
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
    let text = query::Query::parse(&event.body).map_err(damaged)?.statement;
    let plain = text_of(text);
    let form = form(&plain, outcome).ok_or_else(|| StatementError::NotUnderstood {
        gtid,
        begins: excerpt(&plain),
        outcome,
    })?;
    match form {
        Form::Nothing => return Ok(Vec::new()),
        Form::Unchanged => {}
        Form::Expecting(error) => {
            event.body = query::with_error(&event.body, error)
                .map_err(damaged)?
                .into();
        }
        Form::If(condition) => {
            let (before, after) = text.split_at_checked(condition.at).unwrap_or((text, b""));
            let changed = [before, condition.text.as_bytes(), after].concat();
            let changed = query::with_statement(&event.body, &changed);
            event.body = changed.map_err(damaged)?.into();
        }
    }
    Ok(events)
}

/// Form in which readers get a statement; none: its words are not understood, and it may have
/// failed.
fn form(text: &str, outcome: Outcome) -> Option<Form> {
    let changed = |condition: Option<words::Condition>| condition.map_or(Form::Unchanged, Form::If);
    Some(match (outcome, words::if_failed(text)) {
        (Outcome::Ended(0), _) => Form::Unchanged,
        (Outcome::Ended(NO_SUCH_DATABASE), _) => Form::Nothing,
        (_, None) => return None,
        (Outcome::Unknown, Some(_)) => changed(words::create_if_missing(text)),
        (Outcome::Ended(_), Some(IfFailed::Nothing)) => Form::Nothing,
        (Outcome::Ended(NO_SUCH_TABLE), Some(IfFailed::Part)) => {
            changed(words::drop_if_there(text))
        }
        (Outcome::Ended(error), Some(IfFailed::Part)) => Form::Expecting(error),
    })
}

#[cfg(test)]
mod tests {
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
            assert_eq!(form(&create, Outcome::Ended(0)), Some(Form::Unchanged));
            assert_eq!(form(&create, Outcome::Ended(1050)), Some(Form::Nothing));
            let careful = words::create_if_missing(&create).unwrap();
            assert_eq!(form(&create, Outcome::Unknown), Some(Form::If(careful)));
        }
    }

    #[test]
    fn statement_that_is_not_understood_is_given_only_if_it_succeeded() {
        let other = "EXECUTE IMMEDIATE 'CREATE TABLE t (a INT)'";
        assert_eq!(form(other, Outcome::Ended(0)), Some(Form::Unchanged));
        for outcome in [Outcome::Unknown, Outcome::Ended(1050), Outcome::Ended(1051)] {
            assert_eq!(form(other, outcome), None);
        }
    }

    #[test]
    fn statement_that_may_have_done_a_part_is_given() {
        let some = words::drop_if_there("DROP TABLE a, b").unwrap();
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
            assert_eq!(form(text, outcome), Some(expected), "{text}");
        }
    }
}
