//! Configurations that the writer cannot read.

use super::*;
use crate::{Log, MemoryFiles};
use bytes::Bytes;
use std::path::Path;
use synod_consensus::{EntryHeader, Seqno, Term};

#[test]
fn configuration_of_a_later_program_is_no_damage() {
    let files = MemoryFiles::new(1);
    let open = |consent: &mut dyn FnMut(&crate::RepairPlan) -> bool| {
        let (files, options) = (Arc::new(files.clone()), LogOptions::default());
        Log::open_or_repair(files, Path::new("log"), options, consent)
    };
    let mut writer = open(&mut |_| true).unwrap().writer;
    let header = EntryHeader {
        depends_on: Seqno(0),
        ..EntryHeader::bare(Term(1), LogIndex(1), Seqno(0), EntryKind::Config)
    };
    // Written as a later program does, with an encoding that this one refuses to append.
    let entry = Entry::new(header, Bytes::from_static(&[99, 0, 0, 0, 0])).unwrap();
    assert!(writer.append(std::slice::from_ref(&entry)).is_err());
    let bytes = crate::format::record::entry_record_bytes(entry.payload.len());
    writer.pending.push(PendingRecord {
        record: Record::Entry(entry),
        bytes,
        tip: None,
    });
    writer.sync().unwrap();
    writer.write_floor().unwrap();
    drop(writer);
    let image = files.content(&segment_path(Path::new("log"), 1));
    let mut asked = false;
    let refused = open(&mut |_| {
        asked = true;
        true
    });
    let Err(LogError::Version { what, found, .. }) = refused.map(drop) else {
        panic!("it is neither cut nor repaired");
    };
    assert_eq!((what, found, asked), ("configuration", 99, false));
    assert_eq!(files.content(&segment_path(Path::new("log"), 1)), image);
}
