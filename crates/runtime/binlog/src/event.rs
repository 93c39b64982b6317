//! Events one after the other, as a write set or a binlog has them.

use crate::checksum::{CHECKSUM_BYTES, Checksum, without_crc32};
use crate::format_description::FormatDescription;
use crate::header::{EventHeader, EventType, HEADER_BYTES};

/// Why bytes are no events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// An event ends before its fields do.
    #[error(
        "an event of type {} is damaged: {wanted} more bytes are expected, {found} are there",
        event_type.0
    )]
    Short {
        event_type: EventType,
        /// Bytes that the next field takes.
        wanted: usize,
        /// Bytes that are left.
        found: usize,
    },
    /// The size in an event's header cannot be.
    #[error(
        "an event of type {} is damaged: its header gives it {event_bytes} bytes, with {found} \
         there",
        event_type.0
    )]
    Size {
        event_type: EventType,
        /// The size by its header.
        event_bytes: u32,
        /// Bytes from its beginning on.
        found: usize,
    },
    /// Its checksum is not that of its bytes.
    #[error("an event of type {} is damaged: its checksum is that of other bytes", event_type.0)]
    Checksum { event_type: EventType },
    /// A field has a value that it cannot have.
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
    /// The events in these bytes.
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
