//! From what an action of the group holds to a transaction of a binlog.
//!
//! The write set of a transaction has row events, and of a streamed one each fragment has some: the
//! GTID before them and the commit after them are added, and a fragment's repetition of the tables
//! amid a statement is left out. A statement in total order has its query.
//!
//! Invariants: events come out in the order in which they went in, with their bytes unchanged; row
//! events only for tables that were named before in their statement; a transaction ends only where
//! a statement does.

use std::collections::BTreeMap;

use crate::bodies::{Query, RowsHead, TableMap, xid_body};
use crate::event::{Event, EventError, EventType, Events};
use crate::gtid::{self, Gtid, GtidEvent};
use crate::writer::Outgoing;

/// Tables that one statement may name. A statement of a server joins at most 61, each with its
/// triggers.
pub const TABLES_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    #[error(transparent)]
    Event(#[from] EventError),
    #[error(
        "an event of type {0} is in a write set, which this version does not pass to readers. Run \
         a version of synod that is not older than that of the servers"
    )]
    Unexpected(u8),
    #[error("there are rows of table number {0}, which no event before them names")]
    UnknownTable(u64),
    #[error("a statement names more than {TABLES_MAX} tables")]
    TooManyTables,
    #[error("the rows of a statement end without the mark of its end")]
    Unfinished,
    #[error("an action in total order holds {0} statements instead of one")]
    Statements(usize),
}

/// The transaction of a statement in total order, such as a DDL statement: its GTID, and its
/// query.
pub fn statement(gtid: Gtid, events: &[u8]) -> Result<Vec<Outgoing<'_>>, TransactionError> {
    let mut outgoing = Vec::new();
    let mut statements = 0;
    for event in Events::of(events) {
        let event = event?;
        let event_type = event.header.event_type;
        if is_left_out(event_type) {
            continue;
        }
        if event_type.is_query() {
            Query::parse(event.body)?;
            statements += 1;
        } else if !event_type.is_value_for_statement() {
            return Err(TransactionError::Unexpected(event_type.0));
        }
        outgoing.push(Outgoing::of(&event));
    }
    if statements != 1 {
        return Err(TransactionError::Statements(statements));
    }
    let timestamp = outgoing.first().map_or(0, |event| event.timestamp);
    let flags = gtid::STANDALONE | gtid::DDL | gtid::ALLOW_PARALLEL;
    outgoing.insert(0, beginning(gtid, flags, timestamp));
    Ok(outgoing)
}

/// A transaction with rows, of which the write sets come one by one.
#[derive(Debug)]
pub struct Transaction {
    gtid: Gtid,
    /// Timestamp of the newest event; none before the first one.
    timestamp: Option<u32>,
    tables: Tables,
}

impl Transaction {
    /// A transaction with this GTID, without events so far.
    pub fn new(gtid: Gtid) -> Transaction {
        Transaction {
            gtid,
            timestamp: None,
            tables: Tables::default(),
        }
    }

    /// The events of the next write set, with the transaction's beginning before its first.
    pub fn add<'a>(&mut self, events: &'a [u8]) -> Result<Vec<Outgoing<'a>>, TransactionError> {
        let mut outgoing = Vec::new();
        for event in Events::of(events) {
            let event = event?;
            if is_left_out(event.header.event_type) || !self.tables.take(&event)? {
                continue;
            }
            let timestamp = event.header.timestamp;
            if self.timestamp.replace(timestamp).is_none() {
                let flags = flags_for(event.header.event_type);
                outgoing.push(beginning(self.gtid, flags, timestamp));
            }
            outgoing.push(Outgoing::of(&event));
        }
        Ok(outgoing)
    }

    /// The event that commits the transaction; none if it has no events.
    pub fn finish(self) -> Result<Option<Outgoing<'static>>, TransactionError> {
        if self.tables.is_in_statement() {
            return Err(TransactionError::Unfinished);
        }
        let body = xid_body(self.gtid.sequence);
        let commit = |timestamp| Outgoing::new(EventType::XID, timestamp, body);
        Ok(self.timestamp.map(commit))
    }
}

/// The tables that the present statement has named, by number.
#[derive(Debug, Default)]
struct Tables {
    named: BTreeMap<u64, Vec<u8>>,
    /// Rows have come, and the statement has not ended.
    has_rows: bool,
}

impl Tables {
    /// Takes an event; whether readers need it.
    fn take(&mut self, event: &Event<'_>) -> Result<bool, TransactionError> {
        let event_type = event.header.event_type;
        if event_type == EventType::TABLE_MAP {
            return self.name(event.body);
        }
        if event_type.is_rows() {
            return self.rows(event).map(|()| true);
        }
        let names_statement = [EventType::ANNOTATE_ROWS, EventType::ROWS_QUERY];
        if names_statement.contains(&event_type) {
            // A fragment amid a statement may repeat the statement's text.
            return Ok(!self.has_rows);
        }
        if !event_type.is_query() && !event_type.is_value_for_statement() {
            return Err(TransactionError::Unexpected(event_type.0));
        }
        if self.has_rows {
            return Err(TransactionError::Unfinished);
        }
        Ok(true)
    }

    /// Whether the table is named for the first time in its statement.
    fn name(&mut self, body: &[u8]) -> Result<bool, TransactionError> {
        let map = TableMap::parse(body)?;
        if self
            .named
            .get(&map.table_id)
            .is_some_and(|known| known == body)
        {
            return Ok(false);
        }
        if self.named.len() >= TABLES_MAX {
            return Err(TransactionError::TooManyTables);
        }
        self.named.insert(map.table_id, body.to_vec());
        Ok(true)
    }

    fn rows(&mut self, event: &Event<'_>) -> Result<(), TransactionError> {
        let head = RowsHead::parse(event.header.event_type, event.body)?;
        if !self.named.contains_key(&head.table_id) {
            return Err(TransactionError::UnknownTable(head.table_id));
        }
        self.has_rows = !head.ends_statement();
        if head.ends_statement() {
            self.named.clear();
        }
        Ok(())
    }

    fn is_in_statement(&self) -> bool {
        self.has_rows
    }
}

/// Events that mean something only in the binlog that they come from.
fn is_left_out(event_type: EventType) -> bool {
    let own = [
        EventType::FORMAT_DESCRIPTION,
        EventType::GTID,
        EventType::XID,
    ];
    own.contains(&event_type)
}

/// The flags of a transaction that begins with this event. `CREATE TABLE ... SELECT` begins with a
/// statement, and has rows after it: it cannot be rolled back, so readers apply it alone.
fn flags_for(first: EventType) -> u8 {
    if first.is_query() {
        gtid::DDL | gtid::ALLOW_PARALLEL
    } else {
        gtid::TRANSACTIONAL | gtid::ALLOW_PARALLEL
    }
}

fn beginning(gtid: Gtid, flags: u8, timestamp: u32) -> Outgoing<'static> {
    /// Readers need not choose a schema for it.
    const WITHOUT_SCHEMA: u16 = 8;
    let event = GtidEvent {
        sequence: gtid.sequence,
        domain: gtid.domain,
        flags,
    };
    Outgoing {
        flags: WITHOUT_SCHEMA,
        ..Outgoing::new(EventType::GTID, timestamp, event.body())
    }
}
