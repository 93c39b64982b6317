//! An event's bytes: checked, without checksum, and changed where a filter must.

use bytes::Bytes;
use synod_binlog::checksum::{CHECKSUM_BYTES, without_crc32};
use synod_binlog::header::HEADER_BYTES;
use synod_binlog::{Checksum, EventError, EventHeader, EventType};

use crate::error::Corruption;

/// Offset of the size in a header.
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

    /// An event with the header of this one, but for its type, and with another body.
    pub(crate) fn replaced(&self, event_type: EventType, body: &[u8]) -> RawEvent {
        RawEvent::made(
            EventHeader {
                event_type,
                ..self.header
            },
            body,
        )
    }

    /// An event with this header, but for its size.
    pub(crate) fn made(header: EventHeader, body: &[u8]) -> RawEvent {
        let header = EventHeader {
            // Bodies that are made here are little larger than those that they replace, at most.
            event_bytes: (HEADER_BYTES + body.len()) as u32,
            ..header
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        header.write(&mut bytes);
        bytes.extend_from_slice(body);
        RawEvent {
            header,
            bytes: bytes.into(),
        }
    }

    /// An event for tests, with this body.
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

    /// Bytes after the header.
    pub(crate) fn body(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }
}

/// Bytes of the event without its checksum.
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

#[cfg(test)]
mod tests {
    use super::*;
    use synod_binlog::checksum::crc32;

    fn event(event_type: EventType, body: &[u8], checksum: Checksum) -> Vec<u8> {
        let header = EventHeader {
            timestamp: 1,
            event_type,
            server_id: 2,
            event_bytes: (HEADER_BYTES + body.len() + checksum.bytes()) as u32,
            end_position: 100,
            flags: 0,
        };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        bytes.extend_from_slice(body);
        if checksum == Checksum::Crc32 {
            let sum = crc32(&[&bytes]);
            bytes.extend_from_slice(&sum);
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
}
