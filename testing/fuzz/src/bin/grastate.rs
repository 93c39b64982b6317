//! `grastate.dat`, which operators edit.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    synod::fuzzing::check_grastate(&String::from_utf8_lossy(input));
});
