//! Kinds of events for a reader that passes them on, of statements by their first words, and of
//! changes that are not whole rows.
//!
//! The upstream's settings about rows are checked when a connection to it begins. Its clients may
//! set others (`SET SESSION binlog_format`, as pt-table-checksum does), or an operator later.

use synod_binlog::bodies::{Query, have_all_columns};
use synod_binlog::words::{excerpt, words};
use synod_binlog::{EventError, EventType};

use crate::error::Corruption;
use crate::position::NotWholeRows;
use crate::stream::raw::RawEvent;

/// Types that statements with files have (`LOAD DATA`).
const LOAD: [u8; 4] = [9, 11, 17, 18];
/// The upstream has noted that changes are missing.
const INCIDENT: u8 = 26;
/// The oldest file that a recovery of the upstream needs.
const BINLOG_CHECKPOINT: u8 = 161;
/// The rest of the file is encrypted on disk.
const START_ENCRYPTION: u8 = 164;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Format,
    Rotate,
    Heartbeat,
    /// Meaningful only within its file.
    OfFile,
    Incident,
    Gtid,
    InTransaction(Member),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// The text of a statement with rows, or a value for the next statement.
    Before,
    TableMap,
    Rows,
    Query,
    /// A part of a statement with a file.
    Load,
    /// The end, by commit or preparation.
    End,
}

impl EventKind {
    pub(crate) fn of(event_type: EventType) -> EventKind {
        let before = [EventType::ANNOTATE_ROWS, EventType::ROWS_QUERY];
        match event_type {
            EventType::FORMAT_DESCRIPTION => EventKind::Format,
            EventType::ROTATE => EventKind::Rotate,
            EventType::HEARTBEAT => EventKind::Heartbeat,
            EventType::GTID => EventKind::Gtid,
            EventType::GTID_LIST
            | EventType::STOP
            | EventType(BINLOG_CHECKPOINT)
            | EventType(START_ENCRYPTION) => EventKind::OfFile,
            EventType(INCIDENT) => EventKind::Incident,
            EventType::XID | EventType::XA_PREPARE => EventKind::InTransaction(Member::End),
            EventType::TABLE_MAP => EventKind::InTransaction(Member::TableMap),
            _ if event_type.is_rows() => EventKind::InTransaction(Member::Rows),
            _ if event_type.is_query() => EventKind::InTransaction(Member::Query),
            _ if event_type.is_value_for_statement() || before.contains(&event_type) => {
                EventKind::InTransaction(Member::Before)
            }
            EventType(number) if LOAD.contains(&number) => EventKind::InTransaction(Member::Load),
            _ => EventKind::Unknown,
        }
    }
}

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
        let mut words = words(text).map(|(word, _)| word);
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

pub(crate) fn is_xa(text: &[u8]) -> bool {
    words(text).next().is_some_and(|(word, _)| word == "XA")
}

/// The beginning of the statement in the body of an event, for an error.
pub(crate) fn quoted(event_type: EventType, body: &[u8]) -> String {
    if event_type == EventType::QUERY_COMPRESSED {
        return "a compressed one".to_owned();
    }
    Query::parse(body).map_or_else(|_| String::new(), |query| excerpt(query.statement))
}

/// First lack in the changes of an event for readers of rows; none: whole rows, or no changes.
/// `is_alone`: its transaction is this one statement.
pub(crate) fn lack_of(
    event: &RawEvent,
    is_alone: bool,
) -> Result<Option<NotWholeRows>, Corruption> {
    let EventKind::InTransaction(member) = EventKind::of(event.event_type()) else {
        return Ok(None);
    };
    Ok(match member {
        Member::Rows => {
            // An event that only ends a statement has no columns.
            let is_whole = have_all_columns(event.event_type(), event.body()).unwrap_or(true);
            (!is_whole).then_some(NotWholeRows::Columns)
        }
        Member::Load => Some(NotWholeRows::Statement("LOAD DATA".to_owned())),
        Member::Query => {
            let statement = Statement::of(event.event_type(), event.body())?;
            changes_rows(event, &statement, is_alone)
                .then(|| NotWholeRows::Statement(quoted(event.event_type(), event.body())))
        }
        Member::Before | Member::TableMap | Member::End => None,
    })
}

pub(crate) fn changes_rows(event: &RawEvent, statement: &Statement, is_alone: bool) -> bool {
    match statement {
        _ if is_alone => false,
        Statement::Rows => true,
        // Statements with rows are so long at times; others in a transaction are not.
        Statement::Other => event.event_type() == EventType::QUERY_COMPRESSED,
        Statement::End | Statement::Control | Statement::XaEnd => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            let _ = quoted(EventType::QUERY, &text);
        }
    }

    fn query(event_type: EventType, text: &str) -> RawEvent {
        let query = Query {
            statement: text.as_bytes(),
            ..Query::default()
        };
        RawEvent::for_test(event_type, &query.body().unwrap())
    }

    fn lack(event: &RawEvent, is_alone: bool) -> Option<NotWholeRows> {
        lack_of(event, is_alone).unwrap()
    }

    #[test]
    fn statement_amid_a_transaction_stands_for_rows() {
        let text = "REPLACE INTO t SELECT 1";
        let statement = query(EventType::QUERY, text);
        let expected = NotWholeRows::Statement(text.to_owned());
        assert_eq!(lack(&statement, false), Some(expected));
        assert_eq!(lack(&statement, true), None);
        let compressed = query(EventType::QUERY_COMPRESSED, "");
        assert!(lack(&compressed, false).is_some() && lack(&compressed, true).is_none());
        for text in ["COMMIT", "SAVEPOINT a", "XA COMMIT X'61',X'',1"] {
            assert_eq!(lack(&query(EventType::QUERY, text), false), None, "{text}");
        }
        assert!(
            lack(&RawEvent::for_test(EventType(18), &[]), false).is_some(),
            "a file"
        );
    }

    #[test]
    fn rows_without_all_columns_are_told_from_whole_ones() {
        let rows = |bits| {
            let body = [1, 0, 0, 0, 0, 0, 1, 0, 3, bits, 0xf8, 5];
            RawEvent::for_test(EventType::WRITE_ROWS_V1, &body)
        };
        assert_eq!(lack(&rows(0b111), false), None);
        assert_eq!(lack(&rows(0b101), false), Some(NotWholeRows::Columns));
        // It only ends its statement.
        let end = RawEvent::for_test(EventType::WRITE_ROWS_V1, &[0xff, 0xff, 0xff, 0, 0, 0, 1, 0]);
        assert_eq!(lack(&end, false), None);
        assert_eq!(
            lack(&RawEvent::for_test(EventType::XID, &[0; 8]), false),
            None
        );
    }
}
