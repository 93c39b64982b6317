//! The event that every binlog begins with: which format the others have.
//!
//! ```text
//! version u16 | server_version 50 bytes | created u32 | header_bytes u8
//!     | bytes of the fixed part of each type, u8 each | checksum u8
//! ```
//! Four bytes of a checksum follow in any case; they count only if events have checksums.

use crate::checksum::{CHECKSUM_BYTES, Checksum};
use crate::event::EventError;
use crate::fields::Fields;
use crate::header::{EventType, HEADER_BYTES};

const BINLOG_VERSION: u16 = 4;
const SERVER_VERSION_BYTES: usize = 50;
/// Types that are described, beginning with 1: all of MariaDB 10.2 to 11.4.
const TYPES: usize = 171;

/// Body of the first event of a binlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatDescription {
    /// Version of the server, by which readers tell what to expect. At most 50 bytes.
    pub server_version: String,
    /// Time at which the server began the binlog at its start, in seconds since 1970. Zero to a
    /// reader that comes again: at any other number it drops its temporary tables.
    pub created: u32,
    /// Checksum at the end of the events after it.
    pub checksum: Checksum,
}

impl FormatDescription {
    /// Reads the body of the event, as it is without a checksum at its end.
    ///
    /// # Errors
    /// If the bytes are not the body of such an event, or events have headers that are not known
    /// here.
    pub fn parse(body: &[u8]) -> Result<FormatDescription, EventError> {
        let mut fields = Fields::of(EventType::FORMAT_DESCRIPTION, body);
        if fields.u16()? != BINLOG_VERSION {
            return Err(fields.malformed("its version is not 4"));
        }
        let version = fields.bytes(SERVER_VERSION_BYTES)?;
        let end = version.iter().position(|byte| *byte == 0);
        let version = version.get(..end.unwrap_or(SERVER_VERSION_BYTES));
        let created = fields.u32()?;
        if usize::from(fields.u8()?) != HEADER_BYTES {
            return Err(fields.malformed("its events have headers of another size than 19 bytes"));
        }
        let checksum = match fields.rest().last() {
            Some(1) => Checksum::Crc32,
            Some(_) | None => Checksum::None,
        };
        Ok(FormatDescription {
            server_version: String::from_utf8_lossy(version.unwrap_or_default()).into_owned(),
            created,
            checksum,
        })
    }

    /// The body of the event. Where events have no checksums, four zero bytes stand in its place:
    /// this event has room for one in any case.
    pub fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&BINLOG_VERSION.to_le_bytes());
        let mut version = self.server_version.as_bytes().to_vec();
        version.resize(SERVER_VERSION_BYTES, 0);
        out.extend_from_slice(&version);
        out.extend_from_slice(&self.created.to_le_bytes());
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
