//! Payloads of entries: actions, chunks, discards, views, decisions, write sets; and the splitting
//! into chunks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod_certify::{KeySet, KeyType};
use synod_fuzz::{split_byte, split_part};

fuzz_target!(|input: &[u8]| {
    let (which, payload) = split_byte(input);
    match which {
        0 => synod_member::fuzzing::check_action(payload),
        1 => synod_member::fuzzing::check_chunk(payload),
        2 => synod_member::fuzzing::check_view(payload),
        3 => synod::fuzzing::check_write_set(payload),
        4 => synod_member::fuzzing::check_discard(payload),
        5 => synod_member::fuzzing::check_decision(payload),
        _ => check_cutting(payload),
    }
});

fn check_cutting(input: &[u8]) {
    let (chunk_bytes, rest) = split_byte(input);
    let (parts, data) = split_part(rest);
    let mut keys = KeySet::new();
    for part in parts.chunks(3) {
        keys.append(&[b"db", part], KeyType::Exclusive);
    }
    synod_member::fuzzing::check_splitting(keys, data, usize::from(chunk_bytes) + 2);
}
