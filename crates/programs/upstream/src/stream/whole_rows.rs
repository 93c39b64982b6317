//! Whether the changes in an event are whole rows.
//!
//! What the upstream's settings say is checked when a connection to it begins. Its clients may set
//! others (`SET SESSION binlog_format`, as pt-table-checksum does), or an operator later.

use synod_binlog::EventType;
use synod_binlog::rows::have_all_columns;

use super::kinds::{EventKind, Member};
use super::raw::RawEvent;
use super::statement::{self, Statement};
use crate::error::Corruption;
use crate::incoming::NotWholeRows;

/// First lack in the changes of an event for readers of rows; none: whole rows, or no changes.
/// `is_alone`: its transaction is this one statement.
pub(super) fn lack_of(
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
            changes_rows(event, &statement, is_alone).then(|| {
                NotWholeRows::Statement(statement::quoted(event.event_type(), event.body()))
            })
        }
        Member::Before | Member::TableMap | Member::End => None,
    })
}

/// Whether a statement stands for rows.
pub(super) fn changes_rows(event: &RawEvent, statement: &Statement, is_alone: bool) -> bool {
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
    use super::*;
    use synod_binlog::query::with_statement;

    fn query(event_type: EventType, text: &str) -> RawEvent {
        // Thread, time, no schema, no error, no status variables.
        let empty = [0; 14];
        RawEvent::for_test(
            event_type,
            &with_statement(&empty, text.as_bytes()).unwrap(),
        )
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
