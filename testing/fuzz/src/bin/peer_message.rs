//! Messages between members: one that can be read is written as the same bytes.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
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
    assert_eq!(message_frame(&message), frame);
    let _ = message.lane();
});
