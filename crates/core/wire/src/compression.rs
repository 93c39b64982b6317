//! Compressed bodies of frames, for links that are slower than the processor.
//!
//! ```text
//!  0              4
//!  +--------------+--------- ... ---------+
//!  | plain length |       LZ4 block       |     flag 0x01 in the frame's header
//!  +--------------+--------- ... ---------+
//! ```
//!
//! The frame's length and checksum are those of the compressed body, so damage is noticed before
//! anything is decompressed. The plain length is compared with the connection's limit, and with
//! what a block of that size can hold at most, before memory is taken. Whether a body is
//! compressed is the sender's choice for each frame; a receiver takes both.

use bytes::Bytes;

use crate::error::FrameError;
use crate::frame;
use crate::version::VERSION_3;

/// The flag of a frame whose body is compressed.
pub(crate) const COMPRESSED: u8 = 0x01;
/// Bytes of the plain length before the block.
const LENGTH_BYTES: usize = 4;
/// Smaller bodies are sent as they are: they fit one packet with their header. Bytes.
const BODY_BYTES_MIN: usize = 1024;
/// A byte of an LZ4 block stands for at most this many plain ones.
const EXPANSION_MAX: usize = 255;
/// A compressed body has at most this many 16ths of the plain one's bytes, or is not worth it.
const WORTH_16THS: usize = 15;

/// Whether connections of this version carry compressed bodies.
pub fn has_compression(version: u16) -> bool {
    version >= VERSION_3
}

/// The frame of `kind` around this body, compressed. `None` if that would save too little.
pub(crate) fn compressed_frame(kind: u8, body: &[u8]) -> Option<Bytes> {
    if body.len() < BODY_BYTES_MIN {
        return None;
    }
    let plain_len = u32::try_from(body.len()).ok()?;
    let block_at = frame::HEADER_LEN + LENGTH_BYTES;
    let mut bytes = vec![0; block_at + lz4_flex::block::get_maximum_output_size(body.len())];
    let block_len = lz4_flex::block::compress_into(body, &mut bytes[block_at..]).ok()?;
    let len = LENGTH_BYTES + block_len;
    if len > body.len() / 16 * WORTH_16THS {
        return None;
    }
    bytes.truncate(frame::HEADER_LEN + len);
    let (header, rest) = bytes.split_at_mut(frame::HEADER_LEN);
    rest[..LENGTH_BYTES].copy_from_slice(&plain_len.to_le_bytes());
    // Shorter than the plain length, which fits.
    let len = len as u32;
    header.copy_from_slice(&frame::header(
        kind,
        COMPRESSED,
        len,
        std::iter::once(&*rest),
    ));
    Some(bytes.into())
}

/// The plain body of a compressed one, of at most `max` bytes.
pub(crate) fn decompress(kind: u8, body: &[u8], max: u32) -> Result<Bytes, FrameError> {
    let not_compressed = FrameError::NotCompressed { kind };
    let (plain_len, block) = body.split_first_chunk().ok_or(not_compressed)?;
    let len = u32::from_le_bytes(*plain_len);
    if len > max {
        return Err(FrameError::TooLarge { kind, len, max });
    }
    if len as usize > block.len().saturating_mul(EXPANSION_MAX) {
        return Err(not_compressed);
    }
    let plain = lz4_flex::block::decompress(block, len as usize).map_err(|_| not_compressed)?;
    if plain.len() != len as usize {
        return Err(not_compressed);
    }
    Ok(plain.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameDecoder;

    const KIND: u8 = 17;
    const MAX: u32 = 1 << 20;

    fn text(bytes: usize) -> Vec<u8> {
        b"INSERT INTO accounts VALUES (4711, 'one of many', 100.00);"
            .iter()
            .copied()
            .cycle()
            .take(bytes)
            .collect()
    }

    /// Bytes that no compressor makes shorter.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..bytes).map(next).collect()
    }

    fn decoder() -> FrameDecoder {
        let mut decoder = FrameDecoder::new(MAX);
        decoder.take_compressed();
        decoder
    }

    #[test]
    fn body_comes_back_as_it_was() {
        for bytes in [BODY_BYTES_MIN, 70_000, MAX as usize] {
            let body = text(bytes);
            let sent = compressed_frame(KIND, &body).unwrap();
            assert!(sent.len() < bytes / 4, "{bytes} became {}", sent.len());
            let mut decoder = decoder();
            decoder.feed(&sent);
            let frame = decoder.next_frame().unwrap().unwrap();
            assert_eq!((frame.kind, &frame.body[..]), (KIND, &body[..]));
        }
    }

    #[test]
    fn what_saves_too_little_is_not_compressed() {
        assert_eq!(compressed_frame(KIND, &noise(50_000)), None);
        assert_eq!(compressed_frame(KIND, &text(BODY_BYTES_MIN - 1)), None);
    }

    #[test]
    fn connection_of_an_older_version_refuses_it() {
        let mut decoder = FrameDecoder::new(MAX);
        decoder.feed(&compressed_frame(KIND, &text(5_000)).unwrap());
        let flags = COMPRESSED;
        let refused = FrameError::UnknownFlags { kind: KIND, flags };
        assert_eq!(decoder.next_frame(), Err(refused));
    }

    #[test]
    fn plain_length_is_compared_before_memory_is_taken() {
        let block = [0; 20];
        let claims = |len: u32| [&len.to_le_bytes()[..], &block].concat();
        let (kind, max, len) = (KIND, MAX, MAX + 1);
        let too_large = FrameError::TooLarge { kind, len, max };
        assert_eq!(decompress(KIND, &claims(MAX + 1), MAX), Err(too_large));
        // A block of 20 bytes holds no megabyte.
        let not_compressed = FrameError::NotCompressed { kind };
        assert_eq!(decompress(KIND, &claims(MAX), MAX), Err(not_compressed));
    }

    #[test]
    fn what_is_no_block_is_an_error() {
        let not_compressed = Err(FrameError::NotCompressed { kind: KIND });
        assert_eq!(decompress(KIND, &[1, 0], MAX), not_compressed);
        let mut body = compressed_frame(KIND, &text(5_000)).unwrap().to_vec();
        body.drain(..frame::HEADER_LEN);
        let whole = decompress(KIND, &body, MAX).unwrap();
        assert_eq!(whole.len(), 5_000);
        body[0] = body[0].wrapping_add(1);
        assert_eq!(decompress(KIND, &body, MAX), not_compressed, "wrong length");
        body.truncate(12);
        assert_eq!(decompress(KIND, &body, MAX), not_compressed, "cut off");
    }
}
