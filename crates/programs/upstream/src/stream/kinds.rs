//! Meaning of event types for a reader that passes events on.

use synod_binlog::EventType;

/// A server's orderly end of a file, at its shutdown.
const STOP: u8 = 3;
/// Types that statements with files have (`LOAD DATA`).
const LOAD: [u8; 4] = [9, 11, 17, 18];
/// The upstream has noted that changes are missing.
const INCIDENT: u8 = 26;
/// The end of a prepared transaction of XA.
const XA_PREPARE: u8 = 38;
/// The oldest file that a recovery of the upstream needs.
const BINLOG_CHECKPOINT: u8 = 161;
/// The rest of the file is encrypted on disk.
const START_ENCRYPTION: u8 = 164;

/// Treatment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The format of those after it.
    Format,
    /// The name of the present or the next file.
    Rotate,
    /// There is nothing else.
    Heartbeat,
    /// Meaningful only within its file.
    OfFile,
    Incident,
    Gtid,
    /// Part of a transaction.
    InTransaction(Member),
    Unknown,
}

/// Role of an event in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// The text of a statement with rows, or a value for the next statement.
    Before,
    /// A table for the next rows.
    TableMap,
    Rows,
    /// A statement, plain or compressed.
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
            | EventType(STOP)
            | EventType(BINLOG_CHECKPOINT)
            | EventType(START_ENCRYPTION) => EventKind::OfFile,
            EventType(INCIDENT) => EventKind::Incident,
            EventType::XID | EventType(XA_PREPARE) => EventKind::InTransaction(Member::End),
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
