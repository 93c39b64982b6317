//! Frames with right checksums around any body, which a fuzzer cannot make.

use bytes::Bytes;
use synod_wire::{Frame, FrameDecoder, OUR_VERSIONS, PeerMessage};

/// A frame as it travels; see `docs/wire-protocol.md`.
///
/// # Panics
/// If the body has 4 GiB or more.
pub fn frame_bytes(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![b'S', b'y', kind, flags];
    let len = u32::try_from(body.len()).expect("a short body");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
    let header_crc = crc32c::crc32c(&out);
    out.extend_from_slice(&header_crc.to_le_bytes());
    out.extend_from_slice(body);
    out
}

/// The one frame that these bytes are.
///
/// # Panics
/// If they are not exactly one frame.
pub fn parse(bytes: &[u8]) -> Frame {
    let mut decoder = FrameDecoder::new(u32::MAX);
    decoder.feed(bytes);
    let frame = decoder.next_frame().expect("no damage");
    assert!(!decoder.is_inside_frame(), "bytes behind the frame");
    frame.expect("a whole frame")
}

/// The kind and the encoded body of a message, in the newest version.
///
/// # Panics
/// If it cannot be sent.
pub fn message_frame(message: &PeerMessage) -> Frame {
    let mut segments: Vec<Bytes> = Vec::new();
    let newest = OUR_VERSIONS.max;
    message
        .encode(newest, &mut segments)
        .expect("a good message");
    parse(&segments.concat())
}
