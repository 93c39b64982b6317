//! Frames that were altered or shortened on the way are errors, never other messages.

use bytes::Bytes;
use proptest::prelude::*;
use synod_consensus::{EntryKind, MemberId, Origin, SessionId, Term};
use synod_wire::{FrameDecoder, FrameError, FrameReader, PeerMessage, Propose, StreamError};

use crate::messages::frame_bytes;
use crate::strategies::peer_message;

fn first_error(bytes: &[u8]) -> Result<(), FrameError> {
    let mut decoder = FrameDecoder::new(1 << 20);
    decoder.feed(bytes);
    decoder.next_frame().map(|_| ())
}

fn sample() -> Vec<u8> {
    frame_bytes(&PeerMessage::Propose(Propose {
        tag: Term(1),
        origin: Origin::new(MemberId(2), SessionId(3), 4),
        kind: EntryKind::Action,
        oldest_outstanding: 4,
        payload: Bytes::from_static(b"some rows"),
    }))
}

#[test]
fn every_change_of_one_byte_is_noticed() {
    let good = sample();
    assert_eq!(first_error(&good), Ok(()));
    for at in 0..good.len() {
        for flip in 1..=255u8 {
            let mut bad = good.clone();
            bad[at] ^= flip;
            assert!(
                first_error(&bad).is_err(),
                "byte {at} changed by {flip:#04x}"
            );
        }
    }
}

#[test]
fn every_truncation_is_noticed_at_the_end_of_the_stream() {
    let good = sample();
    for len in 1..good.len() {
        let mut reader = FrameReader::new(&good[..len], 1 << 20);
        assert!(
            matches!(reader.read_frame(), Err(StreamError::EndedInside)),
            "{len} bytes"
        );
    }
    let mut reader = FrameReader::new(&good[..0], 1 << 20);
    assert!(matches!(reader.read_frame(), Ok(None)));
}

proptest! {
    #[test]
    fn change_of_one_byte_of_any_message_is_noticed(
        message in peer_message(),
        at in any::<proptest::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let mut bytes = frame_bytes(&message);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(first_error(&bytes).is_err());
    }

    #[test]
    fn random_bytes_are_no_frame(bytes in proptest::collection::vec(any::<u8>(), 16..200)) {
        prop_assert!(first_error(&bytes).is_err());
    }
}
