//! What readers get of a statement in total order, by its outcome in the group.
//!
//! | outcome | readers get |
//! |---|---|
//! | it succeeded | the statement |
//! | it failed, and has done nothing | nothing |
//! | it dropped some of several tables, others were not there | the statement with `IF EXISTS` |
//! | it failed otherwise, perhaps after a part | the statement, with the error to expect |
//! | not known | the statement; one that makes a table leaves a table alone that is there |
//!
//! A reader with MariaDB's default settings executes `CREATE TABLE` as `CREATE OR REPLACE TABLE`.
//! So one that failed, or may have failed, never gets out unchanged.

use synod_binlog::{EventType, Gtid, Outgoing, TransactionError, query};

use super::outcome::Outcome;
use super::words;

/// `ER_BAD_TABLE_ERROR`: a table to be dropped is not there.
const NO_SUCH_TABLE: u16 = 1051;

/// How the statement is given.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    Nothing,
    Unchanged,
    /// With the error that readers are to expect.
    Expecting(u16),
    /// With a condition.
    If(words::Condition),
}

/// The events of a statement, for an outcome; none if readers get nothing of it.
///
/// # Errors
/// The bytes are not one statement.
pub(super) fn statement<'a>(
    gtid: Gtid,
    events: &'a [u8],
    outcome: Outcome,
) -> Result<Vec<Outgoing<'a>>, TransactionError> {
    let mut events = synod_binlog::statement(gtid, events)?;
    let is_query = |event: &&mut Outgoing<'a>| event.event_type.is_query();
    let Some(event) = events.iter_mut().find(is_query) else {
        return Ok(events);
    };
    if event.event_type != EventType::QUERY && outcome != Outcome::Ended(0) {
        // A compressed one, which servers do not write: its text is not known.
        return Err(TransactionError::Unexpected(event.event_type.0));
    }
    let text = query::Query::parse(&event.body)?.statement;
    match form(&words::text_of(text), outcome) {
        Form::Nothing => return Ok(Vec::new()),
        Form::Unchanged => {}
        Form::Expecting(error) => event.body = query::with_error(&event.body, error)?.into(),
        Form::If(condition) => {
            let (before, after) = text.split_at_checked(condition.at).unwrap_or((text, b""));
            let changed = [before, condition.text.as_bytes(), after].concat();
            event.body = query::with_statement(&event.body, &changed)?.into();
        }
    }
    Ok(events)
}

fn form(text: &str, outcome: Outcome) -> Form {
    let changed = |condition: Option<words::Condition>| condition.map_or(Form::Unchanged, Form::If);
    match outcome {
        Outcome::Ended(0) => Form::Unchanged,
        Outcome::Unknown => changed(words::create_if_missing(text)),
        Outcome::Ended(_) if words::fails_as_a_whole(text) => Form::Nothing,
        Outcome::Ended(NO_SUCH_TABLE) => changed(words::drop_if_there(text)),
        Outcome::Ended(error) => Form::Expecting(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_that_failed_never_makes_a_table() {
        let create = "CREATE TABLE t (a INT)";
        assert_eq!(form(create, Outcome::Ended(0)), Form::Unchanged);
        assert_eq!(form(create, Outcome::Ended(1050)), Form::Nothing);
        let careful = words::create_if_missing(create).unwrap();
        assert_eq!(form(create, Outcome::Unknown), Form::If(careful));
    }

    #[test]
    fn statement_that_may_have_done_a_part_is_given() {
        let some = words::drop_if_there("DROP TABLE a, b").unwrap();
        assert_eq!(
            form("DROP TABLE a, b", Outcome::Ended(1051)),
            Form::If(some)
        );
        assert_eq!(
            form("DROP TABLE a, b", Outcome::Ended(1451)),
            Form::Expecting(1451)
        );
        assert_eq!(form("DROP TABLE a", Outcome::Ended(1051)), Form::Nothing);
        assert_eq!(
            form("CREATE USER a, b", Outcome::Ended(1396)),
            Form::Expecting(1396)
        );
        assert_eq!(
            form("ALTER TABLE t ADD a INT", Outcome::Unknown),
            Form::Unchanged
        );
    }
}
