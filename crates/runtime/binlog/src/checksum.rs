//! Checksums of events: none, or CRC32 in the four bytes after an event's own.

pub const CHECKSUM_BYTES: usize = 4;

/// Kind of checksum at the end of events.
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
