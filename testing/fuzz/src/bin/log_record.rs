//! Records, batch headers and segment headers of the log.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod_fuzz::split_byte;
use synod_log::fuzzing;

const SEGMENT_ID: u64 = 0x1234_5678_9abc_def0;
const OFFSET: u64 = 4096;

fuzz_target!(|input: &[u8]| {
    let (mode, bytes) = split_byte(input);
    let mut bytes = bytes.to_vec();
    let sealed = mode & 4 == 0;
    match mode & 3 {
        0 | 1 => {
            if sealed {
                let _ = fuzzing::seal_record(&mut bytes, SEGMENT_ID, OFFSET);
            }
            fuzzing::check_record(&bytes, SEGMENT_ID, OFFSET);
            fuzzing::check_batch_header(&bytes, SEGMENT_ID, OFFSET);
        }
        _ => {
            if sealed {
                fuzzing::seal_segment_header(&mut bytes);
            }
            fuzzing::check_segment_header(&bytes);
        }
    }
});
