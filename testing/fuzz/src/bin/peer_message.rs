//! Messages between members: one that can be read is written as the same bytes, but for the field
//! of a heartbeat's reply that is ignored.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use synod_consensus::Body;
use synod_fuzz::frames::message_frame;
use synod_fuzz::split_byte;
use synod_wire::{Frame, OUR_VERSIONS, PeerMessage};

fuzz_target!(|input: &[u8]| {
    let (kind, body) = split_byte(input);
    let frame = Frame {
        kind,
        body: Bytes::copy_from_slice(body),
    };
    let Ok(message) = PeerMessage::decode(OUR_VERSIONS.max, frame.clone()) else {
        return;
    };
    assert_eq!(message_frame(&message), as_we_write(frame, &message));
    let _ = message.lane();
});

/// The frame of a message that was read, with zero in the eight bytes without meaning at the end of
/// a heartbeat's reply.
fn as_we_write(frame: Frame, message: &PeerMessage) -> Frame {
    let PeerMessage::Consensus(consensus) = message else {
        return frame;
    };
    if !matches!(consensus.body, Body::HeartbeatReply { .. }) {
        return frame;
    }
    let mut body = frame.body.to_vec();
    let reserved = body.len() - size_of::<u64>();
    body[reserved..].fill(0);
    Frame {
        body: Bytes::from(body),
        ..frame
    }
}
