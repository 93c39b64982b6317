//! The change to the next segment: what it costs the writer, and what a crash around it leaves.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::*;
use synod_consensus::{ConfigAt, LogIndex};
use synod_log::files::Op;
use synod_log::{FaultyFiles, LogError, MemoryFiles};

fn segment(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("synod-{number:016x}.log"))
}

/// A log of 15 entries over two segments, and a third one that is ready.
fn with_ready_segment() -> MemoryFiles {
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    for entry in actions(1, 1, 10, 9000) {
        writer.append(&[entry]).unwrap();
        writer.sync().unwrap();
    }
    files
}

#[test]
fn change_of_the_segment_costs_the_writer_one_write_and_one_sync() {
    let memory = MemoryFiles::new(1);
    let files = FaultyFiles::new(Arc::new(memory.clone()));
    let mut writer = open(&files).writer;
    files.take_changes();
    let config = |_: LogIndex| Some(ConfigAt::default());
    for entry in actions(1, 1, 200, 9000) {
        let index = entry.header.index;
        writer.append(&[entry]).unwrap();
        writer.sync().unwrap();
        assert_eq!(files.take_changes(), [Op::Write, Op::Sync], "at {index}");
        writer.purge(LogIndex(index.0 / 2), &config).unwrap();
        assert_eq!(files.take_changes(), [], "purge at {index}");
    }
    let gone = (1..10).filter(|number| memory.content(&segment(*number)).is_none());
    assert_eq!(gone.count(), 9, "the purge removes files beside the writer");
}

#[test]
fn segment_that_was_not_used_is_made_again() {
    let files = with_ready_segment();
    assert!(files.content(&segment(3)).is_some());
    for seed in [0, 1, u64::MAX] {
        let image = files.crash(seed);
        let mut opened = open(&image);
        assert!(image.content(&segment(3)).is_none(), "removed by the start");
        opened.writer.append(&actions(1, 11, 30, 9000)).unwrap();
        opened.writer.sync().unwrap();
        drop(opened);
        assert_eq!(all(&open(&image.crash(0)).reader), actions(1, 1, 30, 9000));
    }
}

#[test]
fn first_batch_of_a_segment_that_a_crash_tears_is_cut_whole() {
    let files = with_ready_segment();
    let ready = files.content(&segment(3)).unwrap();
    let mut writer = open(&files).writer;
    // Fills the second segment, and is torn in the third.
    writer.append(&actions(1, 11, 13, 9000)).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let image = files.content(&segment(3)).unwrap();
    let used = image.iter().rposition(|byte| *byte != 0).unwrap();
    let expected = all(&open(&files.crash(u64::MAX)).reader);
    assert_eq!(expected, actions(1, 1, 13, 9000));
    for kept in (512..used).step_by(512) {
        // The sectors before `kept` are lost, the header's among them. The header that a crash
        // leaves then is the open one of this very segment.
        let torn = files.crash(u64::MAX);
        let mut content = image.clone();
        content[..kept].fill(0);
        let mut header = ready[..512].to_vec();
        header[24..32].copy_from_slice(&image[24..32]);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[8..12]), &header[16..160]);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
        content[..512].copy_from_slice(&header);
        torn.set_content(&segment(3), content);
        let found = all(&open(&torn).reader);
        assert!(found.len() < 13 && expected.starts_with(&found), "{kept}");
    }
}

#[test]
fn complete_header_that_is_lost_is_damage() {
    let files = with_ready_segment();
    let open_header = files.content(&segment(3)).unwrap()[..4096].to_vec();
    // The same segment is used: no start comes between.
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    for entry in actions(1, 1, 15, 9000) {
        writer.append(&[entry]).unwrap();
        writer.sync().unwrap();
    }
    drop(writer);
    files.harm(&segment(3), 0, &open_header);
    match try_open(&files).map(drop) {
        Err(LogError::Damaged { path, .. }) => assert_eq!(path, segment(3)),
        other => panic!("{other:?}"),
    }
}
