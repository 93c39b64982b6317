//! The header that every event begins with.
//!
//! ```text
//! timestamp u32 | type u8 | server_id u32 | event_bytes u32 | end_position u32 | flags u16
//! ```

use crate::event::EventError;

pub const HEADER_BYTES: usize = 19;

/// The event was made for one reader and is in no binlog.
pub const ARTIFICIAL: u16 = 0x20;

/// The kind of an event, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventType(pub u8);

impl EventType {
    pub const QUERY: EventType = EventType(2);
    /// The name of the next binlog.
    pub const ROTATE: EventType = EventType(4);
    /// A number that the next statement uses.
    pub const INTVAR: EventType = EventType(5);
    /// Seeds of `RAND()` in the next statement.
    pub const RAND: EventType = EventType(13);
    /// A user variable that the next statement uses.
    pub const USER_VAR: EventType = EventType(14);
    /// The format of the events after it.
    pub const FORMAT_DESCRIPTION: EventType = EventType(15);
    /// The commit of a transaction.
    pub const XID: EventType = EventType(16);
    /// Name and columns of a table that the next row events are about.
    pub const TABLE_MAP: EventType = EventType(19);
    pub const WRITE_ROWS_V1: EventType = EventType(23);
    pub const UPDATE_ROWS_V1: EventType = EventType(24);
    pub const DELETE_ROWS_V1: EventType = EventType(25);
    /// Sent while there is nothing else to send.
    pub const HEARTBEAT: EventType = EventType(27);
    /// The statement behind the next row events, as MySQL writes it.
    pub const ROWS_QUERY: EventType = EventType(29);
    /// Inserted rows, in the form of MySQL 5.6.
    pub const WRITE_ROWS: EventType = EventType(30);
    /// Changed rows, in the form of MySQL 5.6.
    pub const UPDATE_ROWS: EventType = EventType(31);
    /// Deleted rows, in the form of MySQL 5.6.
    pub const DELETE_ROWS: EventType = EventType(32);
    /// The statement behind the next row events.
    pub const ANNOTATE_ROWS: EventType = EventType(160);
    /// The beginning of a transaction, with its GTID.
    pub const GTID: EventType = EventType(162);
    /// The newest GTID of each domain.
    pub const GTID_LIST: EventType = EventType(163);
    pub const QUERY_COMPRESSED: EventType = EventType(165);
    /// The first of six kinds of compressed row events.
    const FIRST_ROWS_COMPRESSED: u8 = 166;
    const LAST_ROWS_COMPRESSED: u8 = 171;

    /// Whether it is a change of rows.
    pub fn is_rows(self) -> bool {
        matches!(
            self.0,
            23..=25 | 30..=32 | EventType::FIRST_ROWS_COMPRESSED..=EventType::LAST_ROWS_COMPRESSED
        )
    }

    /// Whether it is a change of rows that are compressed.
    pub fn is_compressed_rows(self) -> bool {
        (EventType::FIRST_ROWS_COMPRESSED..=EventType::LAST_ROWS_COMPRESSED).contains(&self.0)
    }

    /// Whether it is a change of rows that has them before and after it.
    pub fn is_update(self) -> bool {
        matches!(self.0, 24 | 31 | 167 | 170)
    }

    /// Whether it is a change of rows in the form of MySQL 5.6, which has extra data.
    pub(crate) fn has_extra_data(self) -> bool {
        matches!(self.0, 30..=32 | 169..=171)
    }

    /// Whether it is a statement, plain or compressed.
    pub fn is_query(self) -> bool {
        matches!(self, EventType::QUERY | EventType::QUERY_COMPRESSED)
    }

    /// Whether it carries a value that the next statement uses.
    pub fn is_value_for_statement(self) -> bool {
        let values = [EventType::INTVAR, EventType::RAND, EventType::USER_VAR];
        values.contains(&self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader {
    /// Start of its statement, in seconds since 1970; zero in artificial events.
    pub timestamp: u32,
    pub event_type: EventType,
    /// `server_id` of the server where it began.
    pub server_id: u32,
    /// Bytes of the event, with header and checksum.
    pub event_bytes: u32,
    /// Position of the event's end in its binlog; zero where it has no place in one.
    pub end_position: u32,
    /// Bits about the event, such as [`ARTIFICIAL`].
    pub flags: u16,
}

impl EventHeader {
    /// Reads the header of an event.
    ///
    /// # Errors
    /// If there are too few bytes for a header.
    pub fn parse(bytes: &[u8]) -> Result<EventHeader, EventError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(EventError::Short {
                event_type: EventType(bytes.get(4).copied().unwrap_or(0)),
                wanted: HEADER_BYTES,
                found: bytes.len(),
            });
        };
        let [a, b, c, d, event_type, rest @ ..] = *header;
        let timestamp = u32::from_le_bytes([a, b, c, d]);
        let [a, b, c, d, rest @ ..] = rest;
        let server_id = u32::from_le_bytes([a, b, c, d]);
        let [a, b, c, d, rest @ ..] = rest;
        let event_bytes = u32::from_le_bytes([a, b, c, d]);
        let [a, b, c, d, low, high] = rest;
        Ok(EventHeader {
            timestamp,
            event_type: EventType(event_type),
            server_id,
            event_bytes,
            end_position: u32::from_le_bytes([a, b, c, d]),
            flags: u16::from_le_bytes([low, high]),
        })
    }

    /// Adds the header to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    /// The header's bytes.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let [t0, t1, t2, t3] = self.timestamp.to_le_bytes();
        let [s0, s1, s2, s3] = self.server_id.to_le_bytes();
        let [b0, b1, b2, b3] = self.event_bytes.to_le_bytes();
        let [p0, p1, p2, p3] = self.end_position.to_le_bytes();
        let [f0, f1] = self.flags.to_le_bytes();
        let EventType(kind) = self.event_type;
        [
            t0, t1, t2, t3, kind, s0, s1, s2, s3, b0, b1, b2, b3, p0, p1, p2, p3, f0, f1,
        ]
    }
}
