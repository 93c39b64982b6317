//! The bytes of a binlog: events with headers that say where they are, and with checksums.

use std::borrow::Cow;

use crate::checksum::{Checksum, crc32};
use crate::event::{Event, EventError};
use crate::format_description::FormatDescription;
use crate::header::{ARTIFICIAL, EventHeader, EventType, HEADER_BYTES};
use crate::heartbeat;
use crate::rotate::Rotate;

/// The position of the first event: a binlog in a file begins with four bytes that are none.
pub const FIRST_POSITION: u32 = 4;

/// An event that has no place in a binlog yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// When its statement began, in seconds since 1970.
    pub timestamp: u32,
    /// Its kind.
    pub event_type: EventType,
    /// Bits of its header.
    pub flags: u16,
    /// What follows the header, without a checksum.
    pub body: Cow<'a, [u8]>,
}

/// Writes the events of one binlog, for one reader.
#[derive(Clone, Debug)]
pub struct BinlogWriter {
    server_id: u32,
    checksum: Checksum,
    file: String,
    position: u32,
}

impl BinlogWriter {
    /// A writer of the binlog `file`, at its beginning. All events get this `server_id`.
    pub fn new(server_id: u32, checksum: Checksum, file: String) -> BinlogWriter {
        BinlogWriter {
            server_id,
            checksum,
            file,
            position: FIRST_POSITION,
        }
    }

    /// Name of the binlog.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where the next event begins. As in a server's own binlog, it begins again at zero after
    /// 4 GiB of one transaction.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Adds an event in its place to `out`.
    ///
    /// # Errors
    /// It is larger than an event can be; nothing was added.
    pub fn write(&mut self, event: &Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), EventError> {
        let bytes = self.event_bytes(event)?;
        let end = self.position.wrapping_add(bytes);
        self.add(self.server_id, event, bytes, end, out);
        self.position = end;
        Ok(())
    }

    /// Adds an event of another binlog in its place to `out`, with the server and the flags that it
    /// has there.
    ///
    /// # Errors
    /// As [`BinlogWriter::write`].
    pub fn write_foreign(
        &mut self,
        event: &Event<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), EventError> {
        let header = &event.header;
        let outgoing = Outgoing {
            timestamp: header.timestamp,
            event_type: header.event_type,
            flags: header.flags & !ARTIFICIAL,
            body: event.body.into(),
        };
        let bytes = self.event_bytes(&outgoing)?;
        let end = self.position.wrapping_add(bytes);
        self.add(header.server_id, &outgoing, bytes, end, out);
        self.position = end;
        Ok(())
    }

    /// Adds the event that tells a reader which binlog it gets. It has no place there.
    ///
    /// # Errors
    /// The name of the binlog is larger than an event can be.
    pub fn write_file_name(&self, out: &mut Vec<u8>) -> Result<(), EventError> {
        let rotate = Rotate {
            position: u64::from(self.position),
            file: self.file.as_bytes(),
        };
        self.write_artificial(EventType::ROTATE, rotate.body(), 0, out)
    }

    /// Adds the event that tells a reader the format of the others.
    ///
    /// # Errors
    /// Never: it is small.
    pub fn write_format(
        &mut self,
        server_version: &str,
        timestamp: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EventError> {
        let description = FormatDescription {
            server_version: server_version.to_owned(),
            created: 0,
            checksum: self.checksum,
        };
        let event = Outgoing {
            timestamp,
            event_type: EventType::FORMAT_DESCRIPTION,
            flags: 0,
            body: description.body().into(),
        };
        self.write(&event, out)
    }

    /// Adds the event that says that there is no other.
    ///
    /// # Errors
    /// The name of the binlog is larger than an event can be.
    pub fn write_heartbeat(&self, out: &mut Vec<u8>) -> Result<(), EventError> {
        let body = heartbeat::body(&self.file);
        self.write_artificial(EventType::HEARTBEAT, body, self.position, out)
    }

    fn write_artificial(
        &self,
        event_type: EventType,
        body: Vec<u8>,
        position: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EventError> {
        let event = Outgoing {
            timestamp: 0,
            event_type,
            flags: ARTIFICIAL,
            body: body.into(),
        };
        let bytes = self.event_bytes(&event)?;
        self.add(self.server_id, &event, bytes, position, out);
        Ok(())
    }

    fn event_bytes(&self, event: &Outgoing<'_>) -> Result<u32, EventError> {
        let bytes = HEADER_BYTES + event.body.len() + self.checksum.bytes();
        u32::try_from(bytes).map_err(|_| EventError::Malformed {
            event_type: event.event_type,
            why: "it is larger than 4 GiB",
        })
    }

    fn add(
        &self,
        server_id: u32,
        event: &Outgoing<'_>,
        event_bytes: u32,
        end_position: u32,
        out: &mut Vec<u8>,
    ) {
        let begin = out.len();
        let header = EventHeader {
            timestamp: event.timestamp,
            event_type: event.event_type,
            server_id,
            event_bytes,
            end_position,
            flags: event.flags,
        };
        header.write(out);
        out.extend_from_slice(&event.body);
        if self.checksum == Checksum::Crc32 {
            let checksum = crc32(out.get(begin..).unwrap_or_default());
            out.extend_from_slice(&checksum);
        }
    }
}
