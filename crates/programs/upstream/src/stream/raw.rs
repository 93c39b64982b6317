//! An event's bytes: checked, without checksum, and changed where that must be.
//!
//! A TIMESTAMP column with neither NULL nor DEFAULT means what the session's
//! `explicit_defaults_for_timestamp` says. Newer versions of MariaDB write it as a bit of a
//! statement's flags, and take it from there if the format that a binlog begins with names such a
//! version. Readers of relays are told so in any case. So a statement of an older upstream gets the
//! bit here: its variable is the whole server's.

use std::str::FromStr;

use bytes::Bytes;
use synod_binlog::bodies::Query;
use synod_binlog::event::{CHECKSUM_BYTES, HEADER_BYTES, without_crc32};
use synod_binlog::{Checksum, EventError, EventHeader, EventType};

use crate::error::Corruption;

const SIZE_AT: usize = 9;

/// An event whose bytes are those that its header says, without a checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawEvent {
    pub(crate) header: EventHeader,
    pub(crate) bytes: Bytes,
}

impl RawEvent {
    /// Takes what follows the first `skipped` bytes of a packet. Checks the checksum, takes it off,
    /// and has the header say so.
    pub(crate) fn of_packet(
        mut packet: Vec<u8>,
        skipped: usize,
        checksum: Checksum,
    ) -> Result<RawEvent, Corruption> {
        let event = packet.get(skipped..).unwrap_or_default();
        let mut header = EventHeader::parse(event)?;
        let found = event.len();
        if header.event_bytes as usize != found {
            let event_bytes = header.event_bytes;
            return Err(Corruption::Size { event_bytes, found });
        }
        let kept = kept_bytes(&header, event, checksum)?;
        // No more than the size, which has 32 bits.
        header.event_bytes = kept as u32;
        packet.truncate(skipped + kept);
        put_size(&mut packet, skipped, header.event_bytes);
        Ok(RawEvent {
            header,
            bytes: Bytes::from(packet).slice(skipped..),
        })
    }

    pub(crate) fn replaced(&self, event_type: EventType, body: &[u8]) -> RawEvent {
        RawEvent::made(
            EventHeader {
                event_type,
                ..self.header
            },
            body,
        )
    }

    pub(crate) fn made(header: EventHeader, body: &[u8]) -> RawEvent {
        let (header, bytes) = header.with_body(body);
        RawEvent {
            header,
            bytes: bytes.into(),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_test(event_type: EventType, body: &[u8]) -> RawEvent {
        let header = EventHeader {
            timestamp: 1,
            event_type,
            server_id: 2,
            event_bytes: 0,
            end_position: 100,
            flags: 0,
        };
        RawEvent::made(header, body)
    }

    pub(crate) fn event_type(&self) -> EventType {
        self.header.event_type
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }
}

fn kept_bytes(header: &EventHeader, event: &[u8], checksum: Checksum) -> Result<usize, Corruption> {
    let event_type = header.event_type;
    let damaged = EventError::Checksum { event_type };
    let kept = if event_type == EventType::FORMAT_DESCRIPTION {
        // It has room for a checksum in any case; the upstream changes it for each reader.
        event.len().checked_sub(CHECKSUM_BYTES)
    } else {
        match checksum {
            Checksum::None => Some(event.len()),
            Checksum::Crc32 => without_crc32(event).map(<[u8]>::len),
        }
    };
    let kept = kept.filter(|kept| *kept >= HEADER_BYTES);
    kept.ok_or(Corruption::Event(damaged))
}

fn put_size(packet: &mut [u8], begin: usize, size: u32) {
    let places = packet.iter_mut().skip(begin + SIZE_AT);
    for (place, byte) in places.zip(size.to_le_bytes()) {
        *place = byte;
    }
}

/// The first versions that write the bit, of each series that has older ones.
const WRITTEN_SINCE: [[u32; 3]; 5] = [[10, 5, 17], [10, 6, 9], [10, 7, 5], [10, 8, 4], [10, 9, 2]];
/// The status variable with the flags comes first; the bit is in the last one of its four bytes.
const FLAGS: u8 = 0;
const FLAGS_BYTES: usize = 4;
const BIT: u8 = 1;

/// Whether a server of MariaDB with this version writes the bit.
pub(crate) fn writes_explicit_defaults(version: &str) -> bool {
    let numbers = version.trim_start_matches("5.5.5-").split(['.', '-']);
    let mut numbers = numbers.map(|number| u32::from_str(number).unwrap_or_default());
    let mut next = || numbers.next().unwrap_or_default();
    let version = [next(), next(), next()];
    let series = WRITTEN_SINCE
        .iter()
        .find(|first| first[..2] == version[..2]);
    series.map_or(version >= [10, 10, 0], |first| version >= *first)
}

/// A statement that says what its server had; another event as it is.
pub(crate) fn with_explicit_defaults(
    event: RawEvent,
    are_set: bool,
) -> Result<RawEvent, EventError> {
    if !event.event_type().is_query() {
        return Ok(event);
    }
    let query = Query::parse(event.body())?;
    let mut status = query.status.to_vec();
    set_explicit_defaults(&mut status, are_set);
    let told = Query {
        status: &status,
        ..query
    };
    Ok(event.replaced(event.event_type(), &told.body()?))
}

pub(crate) fn set_explicit_defaults(status: &mut [u8], is_explicit: bool) {
    if let Some((&mut FLAGS, after)) = status.split_first_mut()
        && let Some(byte) = after.get_mut(FLAGS_BYTES - 1)
    {
        *byte = match is_explicit {
            true => *byte | BIT,
            false => *byte & !BIT,
        };
    }
}

#[cfg(test)]
mod tests {
    use synod_binlog::bodies::FormatDescription;
    use synod_binlog::event::crc32;
    use synod_binlog::gtid::{DDL, GtidEvent, STANDALONE};
    use synod_binlog::{Checksum, EventType};

    use super::*;
    use crate::config::Filter;
    use crate::position::Incoming;
    use crate::stream::Decoder;

    fn event(event_type: EventType, body: &[u8], checksum: Checksum) -> Vec<u8> {
        let mut header = RawEvent::for_test(event_type, body).header;
        header.event_bytes += checksum.bytes() as u32;
        let mut bytes = [&header.bytes(), body].concat();
        if checksum == Checksum::Crc32 {
            bytes.extend_from_slice(&crc32(&[&bytes]));
        }
        bytes
    }

    #[test]
    fn checksum_is_checked_and_taken_off() {
        for (skipped, checksum) in [(1, Checksum::None), (3, Checksum::Crc32)] {
            let mut packet = vec![0xef; skipped];
            packet.extend(event(EventType::XID, b"12345678", checksum));
            let raw = RawEvent::of_packet(packet.clone(), skipped, checksum).unwrap();
            let plain = event(EventType::XID, b"12345678", Checksum::None);
            assert_eq!(raw.bytes, plain);
            assert_eq!((raw.body(), raw.header.event_bytes), (&b"12345678"[..], 27));
            packet.pop();
            let cut = RawEvent::of_packet(packet, skipped, checksum);
            assert!(matches!(cut, Err(Corruption::Size { .. })));
        }
    }

    #[test]
    fn damaged_event_is_refused() {
        let mut packet = event(EventType::XID, b"12345678", Checksum::Crc32);
        packet[HEADER_BYTES] ^= 1;
        let damaged = RawEvent::of_packet(packet, 0, Checksum::Crc32);
        let expected = EventError::Checksum {
            event_type: EventType::XID,
        };
        assert_eq!(damaged, Err(Corruption::Event(expected)));
        let short = event(EventType::FORMAT_DESCRIPTION, b"1", Checksum::None);
        assert!(RawEvent::of_packet(short, 0, Checksum::None).is_err());
        assert!(RawEvent::of_packet(vec![0; 3], 9, Checksum::None).is_err());
    }

    #[test]
    fn body_is_replaced_with_the_size() {
        let packet = event(EventType::XID, b"12345678", Checksum::None);
        let raw = RawEvent::of_packet(packet, 0, Checksum::None).unwrap();
        let other = raw.replaced(EventType::QUERY, b"1");
        assert_eq!(other.bytes, event(EventType::QUERY, b"1", Checksum::None));
    }

    /// The flags of a statement that comes from a server of this version.
    fn flags_of(version: &str, are_set: bool) -> Vec<u8> {
        let format = FormatDescription {
            server_version: version.to_owned(),
            checksum: Checksum::None,
        };
        let beginning = GtidEvent {
            sequence: 1,
            domain: 0,
            flags: STANDALONE | DDL,
        };
        let statement =
            b"\0\0\0\0\0\0\0\0\x01\0\0\x05\0\0\0\0\0\x04d\0CREATE TABLE t (a TIMESTAMP)";
        let decoder = Decoder::new(Filter::default(), 1 << 20, Checksum::None, None);
        let mut decoder = decoder.with_explicit_defaults(are_set);
        for (event_type, body) in [
            (EventType::FORMAT_DESCRIPTION, format.body()),
            (EventType::GTID, beginning.body()),
            (EventType::QUERY, statement.to_vec()),
        ] {
            let event = RawEvent::for_test(event_type, &body);
            decoder.take([&[0], &*event.bytes].concat(), 1).unwrap();
        }
        let Some(Incoming::Part(part)) = decoder.give() else {
            panic!("a statement");
        };
        let body = part.events[1].slice(synod_binlog::event::HEADER_BYTES..);
        Query::parse(&body).unwrap().status[1..].to_vec()
    }

    #[test]
    fn statement_of_an_older_server_gets_what_that_has() {
        assert_eq!(flags_of("10.4.34-MariaDB-log", true), [0, 0, 0, 5]);
        assert_eq!(flags_of("10.4.34-MariaDB-log", false), [0, 0, 0, 4]);
        // It would have written it.
        assert_eq!(flags_of("10.11.19-MariaDB-log", true), [0, 0, 0, 4]);
    }

    #[test]
    fn versions_that_write_the_bit_are_known() {
        for version in [
            "10.5.17-MariaDB",
            "10.11.2-MariaDB-log",
            "11.8.3",
            "5.5.5-10.9.2",
        ] {
            assert!(writes_explicit_defaults(version), "{version}");
        }
        for version in [
            "10.5.16-MariaDB",
            "10.4.99",
            "10.9.1-MariaDB",
            "5.5.5-10.6.8",
            "",
        ] {
            assert!(!writes_explicit_defaults(version), "{version}");
        }
    }

    #[test]
    fn bit_is_set_in_the_flags_alone() {
        let mut status = *b"\x00\x01\x02\x03\x04\x01\x20";
        set_explicit_defaults(&mut status, true);
        assert_eq!(&status, b"\x00\x01\x02\x03\x05\x01\x20");
        set_explicit_defaults(&mut status, false);
        assert_eq!(&status, b"\x00\x01\x02\x03\x04\x01\x20");
        let mut without = *b"\x01\x20\x00\xa0\x45";
        set_explicit_defaults(&mut without, true);
        assert_eq!(&without, b"\x01\x20\x00\xa0\x45");
    }
}
