//! The control file: one that can be read is written as the same bytes. A log beside any control
//! file is opened or refused, not changed.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use synod_fuzz::log_directory::{DIR, control_path};
use synod_fuzz::split_byte;
use synod_log::{Log, LogOptions, MemoryFiles, fuzzing};

fuzz_target!(|input: &[u8]| {
    let (mode, bytes) = split_byte(input);
    let mut bytes = bytes.to_vec();
    if mode & 1 == 0 {
        fuzzing::seal_control(&mut bytes);
    }
    fuzzing::check_control(&bytes);
    let files = MemoryFiles::new(7);
    files.set_content(&control_path(), bytes.clone());
    let options = LogOptions {
        segment_bytes: 64 << 10,
        ..LogOptions::default()
    };
    if Log::open(Arc::new(files.clone()), Path::new(DIR), options).is_err() {
        assert_eq!(files.content(&control_path()), Some(bytes));
        assert_eq!(files.paths().len(), 1);
    }
});
