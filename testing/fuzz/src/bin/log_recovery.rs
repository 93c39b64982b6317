//! A log directory whose files are the input. It is refused and stays as it was, or it is a good
//! log.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use synod_consensus::{EntryHeader, EntryId, EntryKind, LogIndex, Seqno, Term};
use synod_fuzz::log_directory::{DIR, expand};
use synod_log::{Entry, Log, LogError, LogOptions, LogReader, MemoryFiles, Opened, offline};

fuzz_target!(|input: &[u8]| {
    let files = expand(input);
    let before = contents(&files);
    let verified = offline::verify_with(&files, Path::new(DIR)).expect("memory can be read");
    match open(&files) {
        Err(error) => {
            assert!(!verified.is_sound(), "sound, but: {error}");
            assert!(!matches!(error, LogError::Io { .. }), "{error}");
            assert_eq!(
                contents(&files),
                before,
                "a log that is refused is not changed"
            );
        }
        Ok(opened) => {
            assert!(verified.is_sound(), "opened, but: {verified}");
            check_opened(&files, opened);
        }
    }
});

fn open(files: &MemoryFiles) -> Result<Opened, LogError> {
    let options = LogOptions {
        segment_bytes: 64 << 10,
        cache_bytes: 64 << 10,
        tail_headers_max: 5,
        ..LogOptions::default()
    };
    Log::open(Arc::new(files.clone()), Path::new(DIR), options)
}

fn contents(files: &MemoryFiles) -> Vec<Option<Vec<u8>>> {
    let paths = files.paths();
    paths.iter().map(|path| files.content(path)).collect()
}

fn check_opened(files: &MemoryFiles, opened: Opened) {
    let recovered = opened.recovered.clone();
    let headers = read_all(&opened.reader);
    let last = headers.last().map_or(recovered.base.last, EntryHeader::id);
    assert_eq!(opened.reader.last_index(), last.index);
    let tail = &headers[headers.len().saturating_sub(recovered.tail.len())..];
    assert_eq!(tail, recovered.tail);
    drop(opened);

    // A torn tail that was cut stays cut: the second start finds a clean end.
    let again = open(&files.crash(0)).expect("a log that was opened can be opened again");
    assert_eq!(again.recovered, recovered);
    assert_eq!(again.report.cut, None);
    let seqno = headers
        .last()
        .map_or(recovered.base.seqno, |header| header.seqno);
    check_going_on(files, last, seqno);
}

/// Everything that can be read, in order from the base on.
fn read_all(reader: &LogReader) -> Vec<EntryHeader> {
    let mut headers: Vec<EntryHeader> = Vec::new();
    let mut next = reader.first_index();
    while next <= reader.last_index() {
        let entries = reader.read(next, reader.last_index(), 1 << 16);
        let entries = entries.expect("what recovery has seen can be read");
        assert!(!entries.is_empty());
        for entry in entries {
            assert_eq!(entry.header.index, next);
            next = next.next();
            headers.push(entry.header);
        }
    }
    headers
}

/// One more entry can be written, and survives.
fn check_going_on(files: &MemoryFiles, last: EntryId, seqno: Seqno) {
    if last.index == LogIndex(u64::MAX) {
        return;
    }
    let mut opened = open(files).expect("a log that was opened can be opened again");
    let header = EntryHeader {
        // Follows whatever terms the segments' headers claim.
        term: Term(u64::MAX),
        index: last.index.next(),
        seqno,
        kind: EntryKind::NoOp,
        origin: Default::default(),
        depends_on: seqno,
        payload_len: 0,
        payload_crc: 0,
    };
    let entry = Entry::new(header, Bytes::from_static(b"one more")).expect("a small entry");
    opened
        .writer
        .append(std::slice::from_ref(&entry))
        .expect("an entry that follows");
    opened.writer.sync().expect("memory can be synced");
    drop(opened);
    let survivor = open(&files.crash(0)).expect("a log just written can be opened");
    let read = survivor.reader.read(header.index, header.index, 1 << 16);
    assert_eq!(read.expect("the last entry"), [entry]);
}
