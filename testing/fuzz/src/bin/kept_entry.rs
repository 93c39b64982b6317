//! Entries of a relay group, as a relay reads them from its log.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| synod_relay::fuzzing::check_entry(input));
