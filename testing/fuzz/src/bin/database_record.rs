//! The record of a member about its database: one that can be read is kept as the same bytes, one
//! that is refused is not changed, and a new reason is read as it was written.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use synod_fuzz::log_directory::DIR;
use synod_fuzz::split_byte;
use synod_log::{DatabaseRecord, DatabaseRecordFile, MemoryFiles, database_record_path, fuzzing};

fuzz_target!(|input: &[u8]| {
    let (mode, bytes) = split_byte(input);
    let text = String::from_utf8_lossy(bytes);
    let content = if mode & 1 == 0 {
        fuzzing::seal_database_record(&text)
    } else {
        bytes.to_vec()
    };
    let path = database_record_path(Path::new(DIR));
    let files = MemoryFiles::new(7);
    files.set_content(&path, content.clone());
    let Ok((file, record)) = DatabaseRecordFile::open(&files, Path::new(DIR)) else {
        assert_eq!(files.content(&path), Some(content));
        return;
    };
    let kept = files.content(&path).expect("it was opened");
    if record == DatabaseRecord::default() {
        // Of one that was being made, nothing is kept.
        assert!(content == kept || content.len() < kept.len());
    } else {
        // Of a longer file, what is behind the record is not touched.
        assert_eq!(content, kept);
    }
    let _ = record.defects();
    let marked = DatabaseRecord {
        unusable: Some(text.chars().rev().collect()),
        ..record
    };
    file.write(&marked).expect("memory has room");
    let (_, again) = DatabaseRecordFile::open(&files, Path::new(DIR)).expect("it was written");
    let reason = marked
        .unusable
        .clone()
        .unwrap_or_default()
        .replace(['\n', '\r'], " ");
    let read = again.unusable.clone().expect("it was written");
    assert!(reason.starts_with(&read) && (read == reason || read.len() > 100));
    assert_eq!(
        DatabaseRecord {
            unusable: marked.unusable.clone(),
            ..again
        },
        marked
    );
});
