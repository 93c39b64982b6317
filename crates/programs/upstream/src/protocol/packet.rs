//! Packets: three bytes of length, one that counts them, then the payload.
//!
//! A payload of the greatest length is continued by the next packet. The side that serves readers,
//! `crates/programs/relay/src/protocol/packet.rs`, has the other half of this: it takes small
//! packets and sends large ones.

use std::io::{self, Read};

/// Payload of a packet that another one continues.
const PART_BYTES: usize = 0xff_ffff;
/// Room that is made for a packet's bytes before they are there.
const FIRST_ROOM: usize = 64 << 10;

/// A payload, and the number of its last packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) payload: Vec<u8>,
    pub(crate) number: u8,
}

/// Why there is no packet.
#[derive(Debug)]
pub(crate) enum PacketError {
    /// The connection has ended, or is silent.
    Io(io::Error),
    /// The payload exceeds the limit.
    TooLarge,
}

impl From<io::Error> for PacketError {
    fn from(error: io::Error) -> PacketError {
        PacketError::Io(error)
    }
}

/// Takes a packet with those that continue it.
///
/// # Errors
/// The connection has ended, or the payload has more than `bytes_max` bytes.
pub(crate) fn read(from: &mut impl Read, bytes_max: usize) -> Result<Packet, PacketError> {
    let mut payload = Vec::new();
    loop {
        let mut header = [0; 4];
        from.read_exact(&mut header)?;
        let [a, b, c, number] = header;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if payload.len() + length > bytes_max {
            return Err(PacketError::TooLarge);
        }
        read_payload(from, length, &mut payload)?;
        if length < PART_BYTES {
            return Ok(Packet { payload, number });
        }
    }
}

/// Adds the next bytes to `payload`, which grows with what arrives: a length alone takes little
/// memory.
fn read_payload(from: &mut impl Read, length: usize, payload: &mut Vec<u8>) -> io::Result<()> {
    let end = payload.len() + length;
    payload.reserve_exact(length.min(FIRST_ROOM));
    while payload.len() < end {
        let begin = payload.len();
        payload.resize(end.min(begin + FIRST_ROOM), 0);
        if let Some(room) = payload.get_mut(begin..) {
            from.read_exact(room)?;
        }
    }
    Ok(())
}

/// A small packet's bytes.
pub(crate) fn small(number: u8, payload: &[u8]) -> Vec<u8> {
    debug_assert!(payload.len() < PART_BYTES, "statements are small");
    let [a, b, c, ..] = (payload.len() as u32).to_le_bytes();
    [&[a, b, c, number], payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_they_were_written() {
        for payload in [&b""[..], b"x", &[1; 1000]] {
            let bytes = small(7, payload);
            let packet = read(&mut &bytes[..], 1000).unwrap();
            assert_eq!((&*packet.payload, packet.number), (payload, 7));
            let cut = &bytes[..bytes.len() - 1];
            assert!(matches!(read(&mut &*cut, 1000), Err(PacketError::Io(_))));
        }
    }

    #[test]
    fn large_payload_is_put_together_and_bounded() {
        let mut bytes = vec![0xff, 0xff, 0xff, 3];
        bytes.resize(4 + PART_BYTES, 1);
        bytes.extend_from_slice(&[1, 0, 0, 4, 2]);
        let packet = read(&mut &bytes[..], 32 << 20).unwrap();
        assert_eq!((packet.payload.len(), packet.number), (PART_BYTES + 1, 4));
        assert_eq!(packet.payload.last(), Some(&2));
        let refused = read(&mut &bytes[..], PART_BYTES);
        assert!(matches!(refused, Err(PacketError::TooLarge)));
    }
}
