//! Input from an upstream of a relay: the greeting, errors, and the events of its binlog, with and
//! without a filter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod_fuzz::split_byte;

fuzz_target!(|input: &[u8]| {
    let (which, bytes) = split_byte(input);
    match which {
        0 => synod_upstream::fuzzing::check_answers(bytes),
        1 => synod_upstream::fuzzing::check_events(bytes, "shop.*"),
        _ => synod_upstream::fuzzing::check_events(bytes, ""),
    }
});
