//! Events one after the other, as a write set or a binlog has them: header, body, checksum.
//!
//! ```text
//! timestamp u32 | type u8 | server_id u32 | event_bytes u32 | end_position u32 | flags u16
//!     | body | [checksum 4 bytes]
//! ```

use bytes::{Buf, BufMut};

use crate::bodies::FormatDescription;

pub const HEADER_BYTES: usize = 19;

/// The event was made for one reader and is in no binlog.
pub const ARTIFICIAL: u16 = 0x20;

/// The kind of an event, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventType(pub u8);

impl EventType {
    pub const QUERY: EventType = EventType(2);
    /// A server's orderly end of a file, at its shutdown.
    pub const STOP: EventType = EventType(3);
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
    /// Sent while there is nothing else to send.
    pub const HEARTBEAT: EventType = EventType(27);
    /// The statement behind the next row events, as MySQL writes it.
    pub const ROWS_QUERY: EventType = EventType(29);
    /// The end of a prepared transaction of XA.
    pub const XA_PREPARE: EventType = EventType(38);
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

    pub fn is_rows(self) -> bool {
        matches!(
            self.0,
            23..=25 | 30..=32 | EventType::FIRST_ROWS_COMPRESSED..=EventType::LAST_ROWS_COMPRESSED
        )
    }

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

    pub fn is_query(self) -> bool {
        matches!(self, EventType::QUERY | EventType::QUERY_COMPRESSED)
    }

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
    pub fn parse(bytes: &[u8]) -> Result<EventHeader, EventError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(EventError::Short {
                event_type: EventType(bytes.get(4).copied().unwrap_or(0)),
                wanted: HEADER_BYTES,
                found: bytes.len(),
            });
        };
        let mut fields = &header[..];
        Ok(EventHeader {
            timestamp: fields.get_u32_le(),
            event_type: EventType(fields.get_u8()),
            server_id: fields.get_u32_le(),
            event_bytes: fields.get_u32_le(),
            end_position: fields.get_u32_le(),
            flags: fields.get_u16_le(),
        })
    }

    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let mut out = &mut header[..];
        out.put_u32_le(self.timestamp);
        out.put_u8(self.event_type.0);
        out.put_u32_le(self.server_id);
        out.put_u32_le(self.event_bytes);
        out.put_u32_le(self.end_position);
        out.put_u16_le(self.flags);
        header
    }

    /// An event with this header, but for its size, and this body: the header, and its bytes
    /// without a checksum.
    pub fn with_body(mut self, body: &[u8]) -> (EventHeader, Vec<u8>) {
        // Bodies that are made for it are far smaller than 4 GiB.
        self.event_bytes = (HEADER_BYTES + body.len()) as u32;
        (self, [&self.bytes(), body].concat())
    }
}

pub const CHECKSUM_BYTES: usize = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    #[default]
    None,
    /// CRC32 of the event's bytes, as zlib computes it.
    Crc32,
}

impl Checksum {
    /// The number that a format description event has for it.
    pub fn code(self) -> u8 {
        match self {
            Checksum::None => 0,
            Checksum::Crc32 => 1,
        }
    }

    /// Number of bytes added to an event.
    pub fn bytes(self) -> usize {
        match self {
            Checksum::None => 0,
            Checksum::Crc32 => CHECKSUM_BYTES,
        }
    }
}

/// The checksum of an event's bytes, which come in pieces, as it stands after them.
pub fn crc32(pieces: &[&[u8]]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.finalize().to_le_bytes()
}

/// An event without the checksum at its end; none if that is not the checksum of the event.
pub fn without_crc32(event: &[u8]) -> Option<&[u8]> {
    let (before, last) = event.split_last_chunk::<CHECKSUM_BYTES>()?;
    (crc32(&[before]) == *last).then_some(before)
}

/// The bytes before the next zero byte, which is taken, too.
pub fn until_zero<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (bytes, after) = rest.split_at(end);
    *rest = &after[1..]; // the zero
    Some(bytes)
}

/// Bytes of an event that have not been read yet.
pub(crate) struct Fields<'a> {
    event_type: EventType,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(event_type: EventType, bytes: &'a [u8]) -> Fields<'a> {
        Fields {
            event_type,
            rest: bytes,
        }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], EventError> {
        let (event_type, found) = (self.event_type, self.rest.len());
        self.rest.split_off(..count).ok_or(EventError::Short {
            event_type,
            wanted: count,
            found,
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EventError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, EventError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, EventError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, EventError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number of six bytes, as tables have.
    pub(crate) fn u48(&mut self) -> Result<u64, EventError> {
        let low = u64::from(self.u32()?);
        let high = u64::from(self.u16()?);
        Ok(high << 32 | low)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, EventError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A name with its length before it and a zero byte after it.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], EventError> {
        let length = usize::from(self.u8()?);
        let name = self.bytes(length)?;
        self.zero()?;
        Ok(name)
    }

    /// A zero byte, which ends a text.
    pub(crate) fn zero(&mut self) -> Result<(), EventError> {
        match self.u8()? {
            0 => Ok(()),
            _ => Err(self.malformed("a name has no zero byte at its end")),
        }
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn malformed(&self, why: &'static str) -> EventError {
        EventError::Malformed {
            event_type: self.event_type,
            why,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    #[error(
        "an event of type {} is damaged: {wanted} more bytes are expected, {found} are there",
        event_type.0
    )]
    Short {
        event_type: EventType,
        wanted: usize,
        found: usize,
    },
    #[error(
        "an event of type {} is damaged: its header gives it {event_bytes} bytes, with {found} \
         there",
        event_type.0
    )]
    Size {
        event_type: EventType,
        event_bytes: u32,
        /// Bytes from its beginning on.
        found: usize,
    },
    #[error("an event of type {} is damaged: its checksum is that of other bytes", event_type.0)]
    Checksum { event_type: EventType },
    #[error("an event of type {} is damaged: {why}", event_type.0)]
    Malformed {
        event_type: EventType,
        why: &'static str,
    },
}

/// An event, in the bytes that it was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    pub header: EventHeader,
    /// Bytes after the header, without a checksum.
    pub body: &'a [u8],
}

/// Number of these bytes that are whole events; all of them, if what follows cannot be one. For
/// events without checksums that come in pieces.
pub fn whole_events(bytes: &[u8]) -> usize {
    let mut whole = 0;
    while let Some(rest) = bytes.get(whole..)
        && let Ok(header) = EventHeader::parse(rest)
    {
        let size = header.event_bytes as usize;
        if size < HEADER_BYTES {
            return bytes.len();
        }
        if size > rest.len() {
            break;
        }
        whole += size;
    }
    whole
}

/// Reads events one after the other. Ends at the first error.
///
/// Events have no checksums before a format description event says that they have.
pub struct Events<'a> {
    rest: &'a [u8],
    checksum: Checksum,
}

impl<'a> Events<'a> {
    pub fn of(bytes: &'a [u8]) -> Events<'a> {
        Events {
            rest: bytes,
            checksum: Checksum::None,
        }
    }

    fn take(&mut self) -> Result<Event<'a>, EventError> {
        let bytes = std::mem::take(&mut self.rest);
        let header = EventHeader::parse(bytes)?;
        let size = header.event_bytes as usize;
        if size < HEADER_BYTES || size > bytes.len() {
            return Err(EventError::Size {
                event_type: header.event_type,
                event_bytes: header.event_bytes,
                found: bytes.len(),
            });
        }
        let (event, rest) = bytes.split_at(size);
        let body = self.body(&header, event)?;
        self.rest = rest;
        Ok(Event { header, body })
    }

    /// Bytes of an event after its header, without a checksum.
    fn body(&mut self, header: &EventHeader, event: &'a [u8]) -> Result<&'a [u8], EventError> {
        let event_type = header.event_type;
        let without = if event_type == EventType::FORMAT_DESCRIPTION {
            // It has room for a checksum in any case.
            event
                .split_last_chunk::<CHECKSUM_BYTES>()
                .map(|(before, _)| before)
        } else {
            match self.checksum {
                Checksum::None => Some(event),
                Checksum::Crc32 => without_crc32(event),
            }
        };
        let body = without.and_then(|event| event.get(HEADER_BYTES..));
        let body = body.ok_or(EventError::Checksum { event_type })?;
        if event_type == EventType::FORMAT_DESCRIPTION {
            self.checksum = FormatDescription::parse(body)?.checksum;
        }
        Ok(body)
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<'a>, EventError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_zlib() {
        assert_eq!(crc32(&[b"1234", b"56789"]), 0xcbf4_3926_u32.to_le_bytes());
    }

    #[test]
    fn only_a_matching_checksum_is_taken_off() {
        let with = [&b"event"[..], &crc32(&[b"event"])].concat();
        assert_eq!(without_crc32(&with), Some(&b"event"[..]));
        assert_eq!(without_crc32(b"event"), None);
        assert_eq!(without_crc32(b"abc"), None);
    }
}
