//! Bodies of the events that relays read or write; GTIDs have a module of their own.
//!
//! ```text
//! format description: version u16 | server_version 50 bytes | created u32 | header_bytes u8
//!             | bytes of the fixed part of each type, u8 each | checksum u8
//! query:      thread u32 | exec_seconds u32 | schema_bytes u8 | error_code u16 | status_bytes u16
//!             | status variables | schema | zero u8 | statement
//! rotate:     position u64 | file
//! table map:  table u48 | flags u16 | schema: length u8, name, zero u8 | table: the same | columns
//! rows:       table u48 | flags u16 | [extra: its size u16, itself counted, ..] | columns: how
//!             many, packed | bits of the columns that the rows have | [of an update: those of the
//!             rows after it] | rows
//! xid:        number u64
//! heartbeat:  name of the binlog, without an end
//! ```
//!
//! Four bytes of a checksum follow a format description in any case; they count only if events have
//! checksums. Extra data of rows are in the form of MySQL 5.6 only. Rows may be compressed, what is
//! before them is not. The crash recovery of the server that wrote an XID alone needs its number.

use bytes::BufMut;

use crate::event::{CHECKSUM_BYTES, Checksum, EventError, EventType, Fields, HEADER_BYTES};

const BINLOG_VERSION: u16 = 4;
const SERVER_VERSION_BYTES: usize = 50;
/// Types that are described, beginning with 1: all of MariaDB 10.2 to 11.4.
const TYPES: usize = 171;

/// Body of the first event of a binlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatDescription {
    /// Version of the server, by which readers tell what to expect. At most 50 bytes.
    pub server_version: String,
    /// Checksum at the end of the events after it.
    pub checksum: Checksum,
}

impl FormatDescription {
    /// Reads the body of the event, as it is without a checksum at its end.
    pub fn parse(body: &[u8]) -> Result<FormatDescription, EventError> {
        let mut fields = Fields::of(EventType::FORMAT_DESCRIPTION, body);
        if fields.u16()? != BINLOG_VERSION {
            return Err(fields.malformed("its version is not 4"));
        }
        let version = fields.bytes(SERVER_VERSION_BYTES)?;
        let end = version.iter().position(|byte| *byte == 0);
        let version = version.get(..end.unwrap_or(SERVER_VERSION_BYTES));
        let _created = fields.u32()?;
        if usize::from(fields.u8()?) != HEADER_BYTES {
            return Err(fields.malformed("its events have headers of another size than 19 bytes"));
        }
        let checksum = match fields.rest().last() {
            Some(1) => Checksum::Crc32,
            Some(_) | None => Checksum::None,
        };
        Ok(FormatDescription {
            server_version: String::from_utf8_lossy(version.unwrap_or_default()).into_owned(),
            checksum,
        })
    }

    /// The body of the event. Where events have no checksums, four zero bytes stand in its place:
    /// this event has room for one in any case.
    pub fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u16_le(BINLOG_VERSION);
        out.extend_from_slice(self.server_version.as_bytes());
        out.resize(2 + SERVER_VERSION_BYTES, 0);
        // The time at which the server began the binlog at its start. Zero to a reader that comes
        // again: at any other number it drops its temporary tables.
        out.put_u32_le(0);
        out.push(HEADER_BYTES as u8);
        out.extend((1..=TYPES).map(|number| fixed_bytes(number as u8)));
        out.push(self.checksum.code());
        if self.checksum == Checksum::None {
            out.extend_from_slice(&[0; CHECKSUM_BYTES]);
        }
        out
    }
}

/// Bytes of the part of an event that every event of its type has.
fn fixed_bytes(event_type: u8) -> u8 {
    match event_type {
        1 => 56,
        2 | 165 => 13,
        4 | 19 | 23..=25 | 166..=168 => 8,
        6 | 12 => 18,
        8..=11 | 17 | 161 | 163 => 4,
        // Everything before the list, and the list itself.
        15 => 57 + TYPES as u8,
        18 => 26,
        26 => 2,
        30..=32 | 169..=171 => 10,
        162 => 19,
        _ => 0,
    }
}

/// A statement, with what it needs to mean the same elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// The connection's number at its server; keeps temporary tables apart.
    pub thread: u32,
    /// Duration of the statement, in seconds.
    pub exec_seconds: u32,
    /// The error that it ended with where it began; zero: none.
    pub error_code: u16,
    /// Modes and character sets, one after the other, each with its code.
    pub status: &'a [u8],
    /// The default schema; empty: none.
    pub schema: &'a [u8],
    /// The text; compressed in a compressed event.
    pub statement: &'a [u8],
}

impl<'a> Query<'a> {
    pub fn parse(body: &'a [u8]) -> Result<Query<'a>, EventError> {
        let mut fields = Fields::of(EventType::QUERY, body);
        let thread = fields.u32()?;
        let exec_seconds = fields.u32()?;
        let schema_bytes = usize::from(fields.u8()?);
        let error_code = fields.u16()?;
        let status_bytes = usize::from(fields.u16()?);
        let status = fields.bytes(status_bytes)?;
        let schema = fields.bytes(schema_bytes)?;
        fields.zero()?;
        Ok(Query {
            thread,
            exec_seconds,
            error_code,
            status,
            schema,
            statement: fields.rest(),
        })
    }

    /// The body of the event; an error if its variables or its schema are longer than they can be.
    pub fn body(&self) -> Result<Vec<u8>, EventError> {
        let long = |_| EventError::Malformed {
            event_type: EventType::QUERY,
            why: "its status variables are too long",
        };
        let mut out = Vec::new();
        out.put_u32_le(self.thread);
        out.put_u32_le(self.exec_seconds);
        out.put_u8(u8::try_from(self.schema.len()).map_err(long)?);
        out.put_u16_le(self.error_code);
        out.put_u16_le(u16::try_from(self.status.len()).map_err(long)?);
        for part in [self.status, self.schema, &[0], self.statement] {
            out.extend_from_slice(part);
        }
        Ok(out)
    }
}

/// Binlog and position at which a reader continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate<'a> {
    pub position: u64,
    pub file: &'a [u8],
}

impl<'a> Rotate<'a> {
    pub fn parse(body: &'a [u8]) -> Result<Rotate<'a>, EventError> {
        let mut fields = Fields::of(EventType::ROTATE, body);
        Ok(Rotate {
            position: fields.u64()?,
            file: fields.rest(),
        })
    }

    pub fn body(&self) -> Vec<u8> {
        [&self.position.to_le_bytes()[..], self.file].concat()
    }
}

/// The event is the last one of its statement.
pub const STATEMENT_END: u16 = 1;
const EXTRA_SIZE_BYTES: u16 = 2;
/// A packed number up to here is one byte; this byte says that two follow.
const PACKED_MAX: u8 = 250;
const PACKED_TWO: u8 = 252;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsHead {
    /// The number that a table map has given it.
    pub table_id: u64,
    pub flags: u16,
}

impl RowsHead {
    pub fn parse(event_type: EventType, body: &[u8]) -> Result<RowsHead, EventError> {
        let mut fields = Fields::of(event_type, body);
        Ok(RowsHead {
            table_id: fields.u48()?,
            flags: fields.u16()?,
        })
    }

    pub fn ends_statement(self) -> bool {
        self.flags & STATEMENT_END != 0
    }
}

/// Whether the rows in the body of an event of this type have all columns of their table.
pub fn have_all_columns(event_type: EventType, body: &[u8]) -> Result<bool, EventError> {
    let mut fields = Fields::of(event_type, body);
    let _table_and_flags = fields.bytes(8)?;
    if event_type.has_extra_data() {
        let bytes = fields.u16()?;
        let Some(extra) = bytes.checked_sub(EXTRA_SIZE_BYTES) else {
            return Err(fields.malformed("its extra data are smaller than their size"));
        };
        fields.bytes(extra.into())?;
    }
    let columns = match fields.u8()? {
        columns @ 0..=PACKED_MAX => u16::from(columns),
        PACKED_TWO => fields.u16()?,
        _ => return Err(fields.malformed("no table has so many columns")),
    };
    let images = if event_type.is_update() { 2 } else { 1 };
    for _ in 0..images {
        let bits = fields.bytes(columns.div_ceil(8).into())?;
        let has = |column: u16| {
            let byte = bits.get(usize::from(column / 8));
            byte.is_some_and(|byte| byte >> (column % 8) & 1 == 1)
        };
        if !(0..columns).all(has) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMap<'a> {
    pub table_id: u64,
    pub schema: &'a [u8],
    pub table: &'a [u8],
}

impl<'a> TableMap<'a> {
    pub fn parse(body: &'a [u8]) -> Result<TableMap<'a>, EventError> {
        let mut fields = Fields::of(EventType::TABLE_MAP, body);
        let table_id = fields.u48()?;
        let _flags = fields.u16()?;
        Ok(TableMap {
            table_id,
            schema: fields.name()?,
            table: fields.name()?,
        })
    }
}

pub fn xid_body(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn query_is_changed_in_one_field_and_nothing_else() {
        let mut body = vec![0; 8];
        body.extend_from_slice(&[2, 0, 0, 3, 0, 1, 2, 3, b'd', b'b', 0]);
        body.extend_from_slice(b"DROP TABLE t");
        let query = Query::parse(&body).unwrap();
        assert_eq!((query.schema, query.status), (&b"db"[..], &[1, 2, 3][..]));
        assert_eq!(query.statement, b"DROP TABLE t");
        assert_eq!(query.body(), Ok(body.clone()));
        for changed in [
            Query {
                error_code: 1051,
                ..query
            },
            Query {
                status: &[9; 5],
                ..query
            },
            Query {
                statement: b"SELECT 1",
                ..query
            },
        ] {
            assert_eq!(Query::parse(&changed.body().unwrap()), Ok(changed));
        }
        let status = &[0; 1 << 16];
        assert!(Query { status, ..query }.body().is_err());
        assert!(Query::parse(&body[..5]).is_err() && Query::parse(b"").is_err());
    }

    /// Beginnings of events that MariaDB 10.11 has written, of a table with six columns; after a
    /// statement under this `binlog_row_image`.
    #[test]
    fn columns_are_all_there_only_in_full_images() {
        const HEAD: [u8; 8] = [0x13, 0, 0, 0, 0, 0, 1, 0];
        for (event_type, columns, expected) in [
            (EventType::WRITE_ROWS_V1, &[6, 0x3f, 0xc0][..], true),
            (EventType(24), &[6, 0x3f, 0x3f, 0xc0], true),
            // MINIMAL
            (EventType::WRITE_ROWS_V1, &[6, 0x17, 0xf0], false),
            (EventType(24), &[6, 0x01, 0x12, 0xfe], false),
            (EventType(25), &[6, 0x01, 0xfe], false),
            // NOBLOB
            (EventType(24), &[6, 0x3b, 0x3b], false),
            // FULL_NODUP: what has not changed is in the image before only.
            (EventType(24), &[6, 0x3f, 0x02], false),
            // Compressed: an update, full; a row that was inserted, MINIMAL.
            (EventType(167), &[6, 0x3f, 0x3f, 0x82, 8], true),
            (EventType(166), &[6, 0x17, 0x82, 3], false),
            // The form of MySQL 5.6, with extra data.
            (EventType(30), &[2, 0, 6, 0x3f], true),
            (EventType(31), &[4, 0, 9, 9, 6, 0x3f, 0x3e], false),
        ] {
            let body = [&HEAD, columns].concat();
            let found = have_all_columns(event_type, &body);
            assert_eq!(found, Ok(expected), "{event_type:?} {columns:x?}");
        }
    }

    #[test]
    fn all_columns_of_a_wide_table_are_looked_at() {
        let mut body = vec![1, 0, 0, 0, 0, 0, 1, 0, PACKED_TWO, 0x2c, 1];
        body.extend([0xff; 38]);
        let event_type = EventType::WRITE_ROWS_V1;
        assert_eq!(have_all_columns(event_type, &body), Ok(true));
        // Column 299 of 300.
        *body.last_mut().unwrap() = 0b0111;
        assert_eq!(have_all_columns(event_type, &body), Ok(false));
    }

    proptest! {
        #[test]
        fn made_up_bodies_never_panic(
            number in any::<u8>(),
            body in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let _ = have_all_columns(EventType(number), &body);
        }
    }
}
