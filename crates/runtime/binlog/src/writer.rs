//! The bytes of a binlog: events with headers that say where they are, and with checksums.

use std::borrow::Cow;

use crate::bodies::{FormatDescription, Rotate};
use crate::event::{
    ARTIFICIAL, CHECKSUM_BYTES, Checksum, Event, EventError, EventHeader, EventType, HEADER_BYTES,
    crc32,
};
use crate::gtid::GtidList;

/// The position of the first event: a binlog in a file begins with four bytes that are none.
pub const FIRST_POSITION: u32 = 4;

/// An event that has no place in a binlog yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Start of its statement, in seconds since 1970.
    pub timestamp: u32,
    pub event_type: EventType,
    pub flags: u16,
    /// Bytes after the header, without a checksum.
    pub body: Cow<'a, [u8]>,
    /// `server_id` of the server where it began; none: the one of its binlog.
    pub server_id: Option<u32>,
}

impl<'a> Outgoing<'a> {
    pub fn new(event_type: EventType, timestamp: u32, body: Vec<u8>) -> Outgoing<'a> {
        Outgoing {
            timestamp,
            event_type,
            flags: 0,
            body: body.into(),
            server_id: None,
        }
    }

    /// An event of another binlog, with the flags that it has there.
    pub fn of(event: &Event<'a>) -> Outgoing<'a> {
        Outgoing {
            timestamp: event.header.timestamp,
            event_type: event.header.event_type,
            flags: event.header.flags & !ARTIFICIAL,
            body: Cow::Borrowed(event.body),
            server_id: None,
        }
    }
}

/// An event with its place in a binlog. A large body stays where it is: it is not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    header: [u8; HEADER_BYTES],
    body: Cow<'a, [u8]>,
    checksum: Option<[u8; CHECKSUM_BYTES]>,
}

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

    pub fn next(&self, file: String) -> BinlogWriter {
        BinlogWriter::new(self.server_id, self.checksum, file)
    }

    /// Position of the next event. As in a server's own binlog, positions begin again at zero after
    /// 4 GiB of one transaction.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Gives an event its place; an error if it is larger than an event can be: the place is free
    /// still.
    pub fn place<'a>(&mut self, event: &'a Outgoing<'_>) -> Result<Placed<'a>, EventError> {
        self.advance(event, Cow::Borrowed(&event.body))
    }

    /// The event that tells a reader which binlog it gets. It has no place there.
    pub fn file_name(&self) -> Result<Placed<'static>, EventError> {
        let rotate = Rotate {
            position: u64::from(self.position),
            file: self.file.as_bytes(),
        };
        self.artificial(EventType::ROTATE, rotate.body(), 0)
    }

    pub fn format(
        &mut self,
        server_version: &str,
        timestamp: u32,
    ) -> Result<Placed<'static>, EventError> {
        let description = FormatDescription {
            server_version: server_version.to_owned(),
            checksum: self.checksum,
        };
        let event_type = EventType::FORMAT_DESCRIPTION;
        let event = Outgoing::new(event_type, timestamp, Vec::new());
        self.advance(&event, description.body().into())
    }

    pub fn heartbeat(&self) -> Result<Placed<'static>, EventError> {
        let body = self.file.as_bytes().to_vec();
        self.artificial(EventType::HEARTBEAT, body, self.position)
    }

    /// The event that says that the reader has everything up to where it wanted to stop, with the
    /// newest GTID of each domain.
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

    /// This event with this body, where the next event begins.
    fn advance<'a>(
        &mut self,
        event: &Outgoing<'_>,
        body: Cow<'a, [u8]>,
    ) -> Result<Placed<'a>, EventError> {
        let event_bytes = self.event_bytes(event.event_type, body.len())?;
        self.position = self.position.wrapping_add(event_bytes);
        let header = EventHeader {
            timestamp: event.timestamp,
            event_type: event.event_type,
            server_id: event.server_id.unwrap_or(self.server_id),
            event_bytes,
            end_position: self.position,
            flags: event.flags,
        };
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

    pub fn size(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// Its bytes, one piece after the other: header, body, checksum.
    pub fn pieces(&self) -> [&[u8]; 3] {
        let checksum = self.checksum.as_ref().map_or(&[][..], |sum| sum);
        [&self.header, &self.body, checksum]
    }
}
