//! Frames: length, kind and checksums around every message.
//!
//! ```text
//!  0      2     3      4        8           12            16
//!  +------+-----+------+--------+-----------+-------------+------ ... ------+
//!  | "Sy" |kind |flags | length | body crc  | header crc  |      body       |
//!  +------+-----+------+--------+-----------+-------------+------ ... ------+
//! ```
//!
//! Numbers are little-endian, checksums CRC32C. The header's checksum covers the twelve bytes
//! before it, and so the body's checksum too: a length is not believed before the header has proved
//! itself, and a whole frame is accepted or refused, never altered. Any error is final: after it
//! the start of the next frame is unknown, so the connection has to be closed.

use std::iter::once;

use bytes::{Buf, Bytes, BytesMut};

use crate::error::FrameError;
use crate::message::Lane;

pub(crate) const HEADER_LEN: usize = 16;
/// Largest body on the control lane, in bytes.
pub const CONTROL_FRAME_MAX: u32 = 256 * 1024;
/// Largest body on the bulk lane unless configured otherwise, in bytes.
pub const BULK_FRAME_MAX_DEFAULT: u32 = 80 * 1024 * 1024;

const MARK: [u8; 2] = *b"Sy";
/// Memory taken for a body before any of it has arrived, at most. Bytes.
const FIRST_RESERVE: usize = 64 * 1024;
/// The flag of a frame whose body is compressed: the plain length (u32), then an LZ4 block. The
/// frame's length and checksum are those of the compressed body, so damage is noticed before
/// anything is decompressed.
const COMPRESSED: u8 = 0x01;
const LENGTH_BYTES: usize = 4;
/// Smaller bodies are sent as they are: they fit one packet with their header. Bytes.
const BODY_BYTES_MIN: usize = 1024;
/// A byte of an LZ4 block stands for at most this many plain ones.
const EXPANSION_MAX: usize = 255;
/// A compressed body has at most this many 16ths of the plain one's bytes, or is not worth it.
const WORTH_16THS: usize = 15;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Number of the body's message type; see `docs/wire-protocol.md`.
    pub kind: u8,
    pub body: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// On the control lane, in bytes.
    pub control: u32,
    /// On the bulk lane, in bytes.
    pub bulk: u32,
}

impl FrameLimits {
    pub fn of(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Control => self.control,
            Lane::Bulk => self.bulk,
        }
    }
}

impl Default for FrameLimits {
    fn default() -> FrameLimits {
        FrameLimits {
            control: CONTROL_FRAME_MAX,
            bulk: BULK_FRAME_MAX_DEFAULT,
        }
    }
}

/// The header of a frame around body segments of this total length.
pub(crate) fn header<'a>(
    kind: u8,
    flags: u8,
    len: u32,
    segments: impl Iterator<Item = &'a [u8]>,
) -> [u8; HEADER_LEN] {
    let body_crc = segments.fold(0, crc32c::crc32c_append);
    let mut header = [0; HEADER_LEN];
    header[..2].copy_from_slice(&MARK);
    header[2] = kind;
    header[3] = flags;
    header[4..8].copy_from_slice(&len.to_le_bytes());
    header[8..12].copy_from_slice(&body_crc.to_le_bytes());
    let header_crc = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&header_crc.to_le_bytes());
    header
}

#[derive(Clone, Copy, Debug)]
struct Header {
    kind: u8,
    is_compressed: bool,
    len: u32,
    body_crc: u32,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_LEN], known_flags: u8, max: u32) -> Result<Header, FrameError> {
        let [m0, m1, kind, flags, rest @ ..] = *bytes;
        if [m0, m1] != MARK {
            return Err(FrameError::NotAFrame { found: [m0, m1] });
        }
        let [l0, l1, l2, l3, b0, b1, b2, b3, h0, h1, h2, h3] = rest;
        let found = u32::from_le_bytes([h0, h1, h2, h3]);
        let expected = crc32c::crc32c(&bytes[..12]);
        if found != expected {
            return Err(FrameError::HeaderDamaged { expected, found });
        }
        if flags & !known_flags != 0 {
            return Err(FrameError::UnknownFlags { kind, flags });
        }
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        if len > max {
            return Err(FrameError::TooLarge { kind, len, max });
        }
        Ok(Header {
            kind,
            is_compressed: flags & COMPRESSED != 0,
            len,
            body_crc: u32::from_le_bytes([b0, b1, b2, b3]),
        })
    }
}

/// Splits a stream of bytes into frames, in whatever portions the bytes arrive.
///
/// Memory: at most one frame under construction (never more than twice what has arrived of it, plus
/// 64 KiB, nor more than its length) and the bytes fed but not yet asked for; while a compressed
/// body is taken apart, the plain one beside it.
#[derive(Debug)]
pub struct FrameDecoder {
    max: u32,
    /// Flags that a frame may have.
    known_flags: u8,
    state: State,
    /// Bytes that were fed and are not yet decoded.
    pending: BytesMut,
}

#[derive(Debug)]
enum State {
    Header {
        bytes: [u8; HEADER_LEN],
        have: usize,
    },
    Body {
        header: Header,
        body: Vec<u8>,
    },
    Failed(FrameError),
}

impl State {
    const START: State = State::Header {
        bytes: [0; HEADER_LEN],
        have: 0,
    };
}

impl FrameDecoder {
    pub fn new(max: u32) -> FrameDecoder {
        FrameDecoder {
            max,
            known_flags: 0,
            state: State::START,
            pending: BytesMut::new(),
        }
    }

    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    /// Another limit from the next frame on (after the handshake).
    pub fn set_max(&mut self, max: u32) {
        self.max = max;
    }

    /// Takes compressed bodies, too, from the next frame on (after a handshake that agreed on a
    /// version that has them). The limit holds for the plain body as well.
    pub fn take_compressed(&mut self) {
        self.known_flags = COMPRESSED;
    }

    /// Takes bytes that have arrived. Call [`FrameDecoder::next_frame`] until it gives no frame
    /// before feeding more.
    pub fn feed(&mut self, input: &[u8]) {
        self.pending.extend_from_slice(input);
    }

    /// The next whole frame of what was fed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let pending = std::mem::take(&mut self.pending);
        let mut input = &pending[..];
        let result = self.advance(&mut input);
        let consumed = pending.len() - input.len();
        self.pending = pending;
        self.pending.advance(consumed);
        result
    }

    /// Consumes input up to the end of the next frame. `None`: all consumed, more needed.
    pub(crate) fn advance(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        let result = self.step(input);
        if let Err(error) = &result {
            self.state = State::Failed(*error);
        }
        result
    }

    pub fn is_inside_frame(&self) -> bool {
        match &self.state {
            State::Header { have, .. } => *have > 0 || !self.pending.is_empty(),
            State::Body { .. } | State::Failed(_) => true,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let body = match &self.state {
            State::Body { body, .. } => body.capacity(),
            State::Header { .. } | State::Failed(_) => 0,
        };
        body + self.pending.capacity()
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        loop {
            match &mut self.state {
                State::Failed(error) => return Err(*error),
                State::Header { bytes, have } => {
                    *have += move_bytes(input, &mut bytes[*have..]);
                    if *have < HEADER_LEN {
                        return Ok(None);
                    }
                    let header = Header::parse(bytes, self.known_flags, self.max)?;
                    let body = Vec::with_capacity(FIRST_RESERVE.min(header.len as usize));
                    self.state = State::Body { header, body };
                }
                State::Body { header, body } => {
                    let len = header.len as usize;
                    let chunk = input.len().min(len - body.len());
                    grow(body, chunk, len);
                    body.extend_from_slice(&input[..chunk]);
                    *input = &input[chunk..];
                    if body.len() < len {
                        return Ok(None);
                    }
                    let (header, body) = (*header, std::mem::take(body));
                    self.state = State::START;
                    return take_body(header, body.into(), self.max).map(Some);
                }
            }
        }
    }
}

/// At least doubles the room, so that growing costs linear time; never more than the body needs.
fn grow(body: &mut Vec<u8>, chunk: usize, len: usize) {
    let needed = body.len() + chunk;
    if needed > body.capacity() {
        let capacity = needed.max(body.capacity() * 2).min(len);
        body.reserve_exact(capacity - body.len());
    }
}

/// The frame, once the checksum of its body has proved itself.
fn take_body(header: Header, body: Bytes, max: u32) -> Result<Frame, FrameError> {
    let expected = crc32c::crc32c(&body);
    if expected != header.body_crc {
        let (kind, found) = (header.kind, header.body_crc);
        return Err(FrameError::BodyDamaged {
            kind,
            expected,
            found,
        });
    }
    let kind = header.kind;
    let body = if header.is_compressed {
        decompress(kind, &body, max)?
    } else {
        body
    };
    Ok(Frame { kind, body })
}

fn move_bytes(input: &mut &[u8], target: &mut [u8]) -> usize {
    let len = input.len().min(target.len());
    target[..len].copy_from_slice(&input[..len]);
    *input = &input[len..];
    len
}

/// The frame of `kind` around this body, compressed. `None` if that would save too little. Whether
/// a body is compressed is the sender's choice for each frame; a receiver takes both.
pub(crate) fn compressed_frame(kind: u8, body: &[u8]) -> Option<Bytes> {
    if body.len() < BODY_BYTES_MIN {
        return None;
    }
    let plain_len = u32::try_from(body.len()).ok()?;
    let block_at = HEADER_LEN + LENGTH_BYTES;
    let mut bytes = vec![0; block_at + lz4_flex::block::get_maximum_output_size(body.len())];
    let block_len = lz4_flex::block::compress_into(body, &mut bytes[block_at..]).ok()?;
    let len = LENGTH_BYTES + block_len;
    if len > body.len() / 16 * WORTH_16THS {
        return None;
    }
    bytes.truncate(HEADER_LEN + len);
    let (head, rest) = bytes.split_at_mut(HEADER_LEN);
    rest[..LENGTH_BYTES].copy_from_slice(&plain_len.to_le_bytes());
    // Shorter than the plain length, which fits.
    let len = len as u32;
    head.copy_from_slice(&header(kind, COMPRESSED, len, once(&*rest)));
    Some(bytes.into())
}

/// The plain body of a compressed one, of at most `max` bytes. The plain length is compared with
/// that, and with what a block of that size can hold at most, before memory is taken.
fn decompress(kind: u8, body: &[u8], max: u32) -> Result<Bytes, FrameError> {
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
    fn compressed_body_is_refused_before_the_handshake_has_ended() {
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
        body.drain(..HEADER_LEN);
        let whole = decompress(KIND, &body, MAX).unwrap();
        assert_eq!(whole.len(), 5_000);
        body[0] = body[0].wrapping_add(1);
        assert_eq!(decompress(KIND, &body, MAX), not_compressed, "wrong length");
        body.truncate(12);
        assert_eq!(decompress(KIND, &body, MAX), not_compressed, "cut off");
    }
}
