//! Entrances for the fuzz targets in `testing/fuzz/`: private decoders, each with a check that must
//! hold for any bytes. Behind the feature `fuzzing`; not part of the crate's interface.

use bytes::Bytes;
use synod_certify::{Class, KeySet};
use synod_consensus::Seqno;

use crate::payload::action::{Action, ActionPiece, Chunk, Part, Piece, split_into_chunks};
use crate::payload::decision::OutcomeDecision;
use crate::payload::discard::Discard;
use crate::payload::view::View;

/// Reserved bytes of actions and chunks, which decoders ignore.
const RESERVED: std::ops::Range<usize> = 2..4;

/// Decodes the payload of an action entry. If that works, encoding it gives the same bytes.
pub fn check_action(payload: &[u8]) {
    if let Ok(piece) = ActionPiece::decode(Bytes::copy_from_slice(payload)) {
        assert_same_encoding(&piece.encode(), payload);
    }
}

pub fn check_chunk(payload: &[u8]) {
    if let Ok(chunk) = Chunk::decode(Bytes::copy_from_slice(payload)) {
        assert_same_encoding(&chunk.encode(), payload);
    }
}

pub fn check_view(payload: &[u8]) {
    if let Ok(view) = View::decode(Seqno(1), Bytes::copy_from_slice(payload)) {
        assert_eq!(view.encode(), payload);
    }
}

pub fn check_decision(payload: &[u8]) {
    if let Ok(decision) = OutcomeDecision::decode(Bytes::copy_from_slice(payload)) {
        assert_eq!(decision.encode(), payload);
    }
}

pub fn check_discard(payload: &[u8]) {
    if let Ok(discard) = Discard::decode(Bytes::copy_from_slice(payload)) {
        assert_eq!(discard.encode(), payload);
    }
}

fn assert_same_encoding(encoded: &[u8], given: &[u8]) {
    let mut given = given.to_vec();
    given[RESERVED].fill(0);
    assert_eq!(encoded, given);
}

pub fn check_splitting(keys: KeySet, data: &[u8], chunk_bytes: usize) {
    let action = Action {
        class: Class::TotalOrder,
        keys,
        last_seen: 7,
        data: Bytes::copy_from_slice(data),
    };
    let (mut keys, mut data, mut chunks) = (Vec::new(), Vec::new(), 0);
    let mut is_whole = false;
    for piece in split_into_chunks(&action, 3, chunk_bytes, 11) {
        assert!(!is_whole, "a piece after the last");
        match piece {
            Piece::Chunk(payload) => {
                let chunk = Chunk::decode(payload).expect("our own chunk");
                assert_eq!((chunk.action_no, chunk.chunk_index), (11, chunks));
                assert!(chunk.bytes.len() <= chunk_bytes);
                chunks += 1;
                match chunk.part {
                    Part::Keys => keys.extend_from_slice(&chunk.bytes),
                    Part::Data => data.extend_from_slice(&chunk.bytes),
                }
            }
            Piece::Last(payload) => {
                let last = ActionPiece::decode(payload).expect("our own action");
                assert!(last.keys.len() + last.data.len() <= chunk_bytes);
                assert_eq!(last.chunks, chunks);
                keys.extend_from_slice(&last.keys);
                data.extend_from_slice(&last.data);
                is_whole = true;
            }
        }
    }
    assert!(is_whole);
    assert_eq!(keys, action.keys.encode());
    assert_eq!(data, action.data);
}
