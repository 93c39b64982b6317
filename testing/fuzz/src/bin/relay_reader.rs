//! Input from readers of a relay: packets, the answer to the greeting, statements.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod_fuzz::split_byte;

fuzz_target!(|input: &[u8]| {
    let (which, bytes) = split_byte(input);
    match which {
        0 => synod_relay::fuzzing::check_packets(bytes),
        1 => synod_relay::fuzzing::check_credentials(bytes),
        _ => synod_relay::fuzzing::check_statement(bytes),
    }
});
