//! The bytes of a binlog: events with headers that say where they are, and with checksums.

use std::borrow::Cow;

use crate::checksum::{CHECKSUM_BYTES, Checksum, crc32};
use crate::event::{Event, EventError};
use crate::format_description::FormatDescription;
use crate::gtid::GtidList;
use crate::header::{ARTIFICIAL, EventHeader, EventType, HEADER_BYTES};
use crate::heartbeat;
use crate::rotate::Rotate;

/// The position of the first event: a binlog in a file begins with four bytes that are none.
pub const FIRST_POSITION: u32 = 4;

/// An event that has no place in a binlog yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Start of its statement, in seconds since 1970.
    pub timestamp: u32,
    pub event_type: EventType,
    /// Bits of its header.
    pub flags: u16,
    /// Bytes after the header, without a checksum.
    pub body: Cow<'a, [u8]>,
}

/// An event with its place in a binlog. A large body stays where it is: it is not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    header: [u8; HEADER_BYTES],
    body: Cow<'a, [u8]>,
    checksum: Option<[u8; CHECKSUM_BYTES]>,
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

    /// Position of the next event. As in a server's own binlog, positions begin again at zero after
    /// 4 GiB of one transaction.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Gives an event its place.
    ///
    /// # Errors
    /// If the event is larger than an event can be; the place is free still.
    pub fn place<'a>(&mut self, event: &'a Outgoing<'_>) -> Result<Placed<'a>, EventError> {
        let header = EventHeader {
            timestamp: event.timestamp,
            event_type: event.event_type,
            server_id: self.server_id,
            event_bytes: 0,
            end_position: 0,
            flags: event.flags,
        };
        self.advance(header, Cow::Borrowed(&event.body))
    }

    /// Gives an event of another binlog its place, with the server and the flags that it has there.
    ///
    /// # Errors
    /// Errors of [`BinlogWriter::place`].
    pub fn place_foreign<'a>(&mut self, event: &Event<'a>) -> Result<Placed<'a>, EventError> {
        let header = EventHeader {
            flags: event.header.flags & !ARTIFICIAL,
            ..event.header
        };
        self.advance(header, Cow::Borrowed(event.body))
    }

    /// The event that tells a reader which binlog it gets. It has no place there.
    ///
    /// # Errors
    /// If the name of the binlog makes the event larger than an event can be.
    pub fn file_name(&self) -> Result<Placed<'static>, EventError> {
        let rotate = Rotate {
            position: u64::from(self.position),
            file: self.file.as_bytes(),
        };
        self.artificial(EventType::ROTATE, rotate.body(), 0)
    }

    /// The event that tells a reader the format of the others.
    ///
    /// # Errors
    /// None in practice: the event is far smaller than the largest one.
    pub fn format(
        &mut self,
        server_version: &str,
        timestamp: u32,
    ) -> Result<Placed<'static>, EventError> {
        let description = FormatDescription {
            server_version: server_version.to_owned(),
            created: 0,
            checksum: self.checksum,
        };
        let header = EventHeader {
            timestamp,
            event_type: EventType::FORMAT_DESCRIPTION,
            server_id: self.server_id,
            event_bytes: 0,
            end_position: 0,
            flags: 0,
        };
        self.advance(header, Cow::Owned(description.body()))
    }

    /// The event that says that there is no other.
    ///
    /// # Errors
    /// If the name of the binlog makes the event larger than an event can be.
    pub fn heartbeat(&self) -> Result<Placed<'static>, EventError> {
        let body = heartbeat::body(&self.file);
        self.artificial(EventType::HEARTBEAT, body, self.position)
    }

    /// The event that says that the reader has everything up to where it wanted to stop, with the
    /// newest GTID of each domain.
    ///
    /// # Errors
    /// If there are more domains than an event can have.
    pub fn until_reached(&self, gtids: &GtidList) -> Result<Placed<'static>, EventError> {
        let body = gtids.until_reached_body();
        self.artificial(EventType::GTID_LIST, body, self.position)
    }

    fn artificial(
        &self,
        event_type: EventType,
        body: Vec<u8>,
        position: u32,
    ) -> Result<Placed<'static>, EventError> {
        let header = EventHeader {
            timestamp: 0,
            event_type,
            server_id: self.server_id,
            event_bytes: self.event_bytes(event_type, body.len())?,
            end_position: position,
            flags: ARTIFICIAL,
        };
        Ok(Placed::new(header, Cow::Owned(body), self.checksum))
    }

    /// The event with this header, but for its size and place, where the next event begins.
    fn advance<'a>(
        &mut self,
        mut header: EventHeader,
        body: Cow<'a, [u8]>,
    ) -> Result<Placed<'a>, EventError> {
        header.event_bytes = self.event_bytes(header.event_type, body.len())?;
        header.end_position = self.position.wrapping_add(header.event_bytes);
        self.position = header.end_position;
        Ok(Placed::new(header, body, self.checksum))
    }

    fn event_bytes(&self, event_type: EventType, body_bytes: usize) -> Result<u32, EventError> {
        let bytes = HEADER_BYTES + body_bytes + self.checksum.bytes();
        u32::try_from(bytes).map_err(|_| EventError::Malformed {
            event_type,
            why: "it is larger than 4 GiB",
        })
    }
}

impl<'a> Placed<'a> {
    fn new(header: EventHeader, body: Cow<'a, [u8]>, checksum: Checksum) -> Placed<'a> {
        let header = header.bytes();
        let checksum = match checksum {
            Checksum::None => None,
            Checksum::Crc32 => Some(crc32(&[&header, &body])),
        };
        Placed {
            header,
            body,
            checksum,
        }
    }

    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// Its bytes, one piece after the other: header, body, checksum.
    pub fn pieces(&self) -> [&[u8]; 3] {
        let checksum = self.checksum.as_ref().map_or(&[][..], |sum| sum);
        [&self.header, &self.body, checksum]
    }
}
