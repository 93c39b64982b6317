//! Full disks, failing syncs, locked directories, files damaged by hand.
//!
//! Each test makes one thing fail and requires one of two ends: the log continues with everything
//! that was durable, or it refuses with an error that names the file and the remedy, and changes no
//! file.

mod common;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::*;
use synod_consensus::{
    Config, EntryKind, GroupId, LogIndex, Member, MemberId, Role, Seqno, VersionRange,
};
use synod_log::files::{Fault, FaultKind, Op};
use synod_log::{
    Entry, FaultyFiles, Files, Log, LogError, LogOptions, MemoryFiles, RealFiles, offline,
};

fn segment(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("synod-{number:016x}.log"))
}

fn faulty() -> (MemoryFiles, FaultyFiles) {
    let memory = MemoryFiles::new(1);
    (memory.clone(), FaultyFiles::new(Arc::new(memory)))
}

fn once(op: Op, kind: ErrorKind) -> Fault {
    Fault {
        op,
        nth: 1,
        kind: FaultKind::Once(kind),
    }
}

#[test]
fn failed_sync_poisons_every_later_call() {
    let (_, files) = faulty();
    let mut writer = open(&files).writer;
    writer.append(&actions(1, 1, 1, 10)).unwrap();
    files.plan(once(Op::Sync, ErrorKind::Other));
    assert!(matches!(writer.sync(), Err(LogError::Io { .. })));
    let poisoned = |result: Result<(), LogError>| match result {
        Err(LogError::Poisoned { first }) => assert!(matches!(*first, LogError::Io { .. })),
        other => panic!("{other:?}"),
    };
    poisoned(writer.sync());
    poisoned(writer.append(&actions(1, 2, 2, 10)));
    poisoned(writer.truncate(LogIndex(1)));
    poisoned(writer.save_vote(vote(1, 1)));
    poisoned(writer.reset(base(1, 1, 1)));
    poisoned(writer.set_group(GroupId([1; 16])));
    poisoned(writer.write_floor());
    poisoned(writer.purge(LogIndex(1), &no_config).map(drop));
    poisoned(writer.close());
}

#[test]
fn entries_of_a_failed_sync_are_not_called_durable() {
    let (_, files) = faulty();
    let mut opened = open(&files);
    opened.writer.append(&actions(1, 1, 1, 10)).unwrap();
    opened.writer.sync().unwrap();
    opened.writer.append(&actions(1, 2, 2, 10)).unwrap();
    files.plan(once(Op::Sync, ErrorKind::Other));
    assert!(opened.writer.sync().is_err());
    assert_eq!(opened.reader.durable_index(), LogIndex(1));
}

#[test]
fn full_disk_names_directory_and_bytes() {
    for op in [Op::Write, Op::Create] {
        let (_, files) = faulty();
        let mut writer = open(&files).writer;
        files.plan(once(op, ErrorKind::StorageFull));
        writer.append(&actions(1, 1, 1, 100_000)).unwrap();
        match writer.sync() {
            Err(LogError::NoSpace { dir, needed_bytes }) => {
                assert_eq!(dir, Path::new(DIR));
                assert!(needed_bytes >= 100_000);
            }
            other => panic!("{other:?}"),
        }
        // Nothing was written: it may be tried again.
        assert!(writer.needs_space());
        writer.sync().unwrap();
        assert!(!writer.needs_space());
    }
}

#[test]
fn write_into_a_segment_that_finds_no_space_poisons_the_log() {
    let (_, files) = faulty();
    let mut writer = open(&files).writer;
    files.plan(once(Op::Write, ErrorKind::StorageFull));
    writer.append(&actions(1, 1, 1, 100)).unwrap();
    assert!(matches!(writer.sync(), Err(LogError::NoSpace { .. })));
    assert!(!writer.needs_space());
    assert!(matches!(writer.sync(), Err(LogError::Poisoned { .. })));
}

#[test]
fn log_on_a_full_disk_continues_after_a_purge() {
    let files = MemoryFiles::new(1);
    // Four segments and the control file, which needs room for two of it.
    files.set_size(264 << 10);
    let opened = open(&files);
    let (mut writer, reader) = (opened.writer, opened.reader);
    let mut index = 0;
    let refused = loop {
        index += 1;
        writer.append(&actions(1, index, index, 10_000)).unwrap();
        if let Err(error) = writer.sync() {
            break error;
        }
    };
    assert!(matches!(refused, LogError::NoSpace { .. }), "{refused}");
    let kept = reader.durable_index();
    assert!(kept < LogIndex(index) && writer.needs_space());
    writer
        .purge_for_space(LogIndex(8), &no_config)
        .unwrap()
        .unwrap();
    writer.sync().unwrap();
    let first = reader.first_index();
    assert_eq!(reader.durable_index(), LogIndex(index));
    // A truncation that is not durable could be what makes a segment useless.
    writer.truncate(LogIndex(index)).unwrap();
    assert_eq!(
        writer.purge_for_space(LogIndex(index), &no_config).unwrap(),
        None
    );
    drop(writer);
    let again = open(&files.crash(0)).reader;
    assert_eq!(
        (again.first_index(), again.last_index()),
        (first, LogIndex(index))
    );
}

#[test]
fn short_write_is_continued() {
    let (memory, files) = faulty();
    let mut writer = open(&files).writer;
    files.plan(Fault {
        op: Op::Write,
        nth: 1,
        kind: FaultKind::Short(77),
    });
    writer.append(&actions(1, 1, 3, 500)).unwrap();
    writer.sync().unwrap();
    drop(writer);
    assert_eq!(all(&open(&memory.crash(0)).reader), actions(1, 1, 3, 500));
}

#[test]
fn failed_preparation_of_the_spare_is_tried_again_when_needed() {
    let (_, files) = faulty();
    let mut writer = open(&files).writer;
    files.plan(once(Op::Create, ErrorKind::Other));
    for entry in actions(1, 1, 8, 20_000) {
        writer.append(&[entry]).unwrap();
        writer.sync().unwrap();
    }
}

#[test]
fn second_open_is_refused_until_the_first_is_closed() {
    let dir = TempDir::new("locked");
    let files: Arc<dyn Files> = Arc::new(RealFiles);
    let first = Log::open(files.clone(), &dir.0, options()).unwrap();
    match Log::open(files.clone(), &dir.0, options()).map(drop) {
        Err(LogError::Locked { path, pid }) => {
            assert_eq!(path, dir.0.join("synod-lock.log"));
            assert_eq!(pid, Some(std::process::id()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        offline::verify(&dir.0).unwrap().writer,
        Some(std::process::id())
    );
    drop(first);
    Log::open(files, &dir.0, options()).unwrap();
}

#[test]
fn real_files_keep_entries_and_other_files_are_left_alone() {
    let dir = TempDir::new("real");
    let files: Arc<dyn Files> = Arc::new(RealFiles);
    std::fs::write(dir.0.join("ib_logfile0"), "x").unwrap();
    std::fs::write(dir.0.join("mysqld.log"), "x").unwrap();
    let mut opened = Log::open(files.clone(), &dir.0, options()).unwrap();
    assert!(opened.created);
    for entry in actions(1, 1, 40, 9000) {
        opened.writer.append(&[entry]).unwrap();
        opened.writer.sync().unwrap();
    }
    opened
        .writer
        .purge(LogIndex(20), &no_config)
        .unwrap()
        .unwrap();
    let (identity, held) = (opened.identity, all(&opened.reader));
    opened.writer.close().unwrap();
    let opened = Log::open(files, &dir.0, options()).unwrap();
    assert!(!opened.created);
    assert_eq!((opened.identity, all(&opened.reader)), (identity, held));
    let names: Vec<String> = std::fs::read_dir(&dir.0)
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    let ours = |name: &&String| name.starts_with("synod-") && name.ends_with(".log");
    assert_eq!(
        names.iter().filter(|name| !ours(name)).count(),
        2,
        "{names:?}"
    );
}

#[test]
fn damage_below_a_floor_names_the_place_and_changes_nothing() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    for entry in actions(1, 1, 20, 500) {
        opened.writer.append(&[entry]).unwrap();
        opened.writer.sync().unwrap();
    }
    opened.writer.write_floor().unwrap();
    drop(opened);
    let good = files.content(&segment(1)).unwrap();
    // Header page, batch and record headers, payloads; every region of the durable stream.
    for offset in (0..150).chain((4096..4096 + 20 * 664).step_by(37)) {
        let mut bad = good.clone();
        bad[offset] ^= 0x10;
        files.set_content(&segment(1), bad.clone());
        let result = try_open(&files);
        if in_padding(offset) {
            continue;
        }
        match result.map(drop) {
            Err(LogError::Damaged { path, .. } | LogError::Version { path, .. }) => {
                assert_eq!(path, segment(1));
            }
            other => panic!("flip at {offset}: {other:?}"),
        }
        assert_eq!(
            files.content(&segment(1)).unwrap(),
            bad,
            "a damaged log was changed"
        );
        let report = offline::verify_with(&files, Path::new(DIR)).unwrap();
        assert!(!report.is_sound());
    }
}

/// A batch of one 500-byte entry: 80 + 80 + 500, padded to 664.
fn in_padding(offset: usize) -> bool {
    offset >= 4096 && (offset - 4096) % 664 >= 660
}

#[test]
fn lost_write_below_a_floor_is_damage_even_if_it_left_zeros() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    opened.writer.append(&actions(1, 1, 3, 500)).unwrap();
    opened.writer.close().unwrap();
    let mut content = files.content(&segment(1)).unwrap();
    content[4096..].fill(0);
    files.set_content(&segment(1), content);
    match try_open(&files).map(drop) {
        Err(LogError::Damaged { path, offset, .. }) => {
            assert_eq!((path, offset), (segment(1), 4096));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_message_names_the_remedy() {
    let files = MemoryFiles::new(1);
    open(&files).writer.close().unwrap();
    files.set_content(
        &Path::new(DIR).join("synod-control.log"),
        b"rubbish".to_vec(),
    );
    let text = try_open(&files).map(drop).unwrap_err().to_string();
    assert!(
        text.contains("delete the synod-*.log files in data"),
        "{text}"
    );
}

#[test]
fn missing_files_are_refused() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    for entry in actions(1, 1, 30, 9000) {
        opened.writer.append(&[entry]).unwrap();
        opened.writer.sync().unwrap();
    }
    opened.writer.close().unwrap();
    let segments = files.paths().len() - 1;
    let control = Path::new(DIR).join("synod-control.log");
    assert!(segments >= 4);
    for path in [segment(1), segment(2), segment(4), control] {
        let image = files.crash(u64::MAX);
        image.remove(&path).unwrap();
        match try_open(&image).map(drop) {
            Err(LogError::Damaged { path: named, .. }) => assert_eq!(named, path),
            other => panic!("{other:?}"),
        }
    }
}

/// A log whose creation ended after the first segment got its name, before the control file said
/// so.
fn interrupted_at_the_last_step() -> (MemoryFiles, FaultyFiles) {
    let (memory, files) = faulty();
    // Control file, segment, control file again.
    files.plan(Fault {
        nth: 3,
        ..once(Op::Rename, ErrorKind::Other)
    });
    assert!(matches!(try_open(&files), Err(LogError::Io { .. })));
    (memory, files)
}

#[test]
fn log_whose_creation_was_interrupted_at_the_last_step_works() {
    let (_, files) = interrupted_at_the_last_step();
    for index in 1..4 {
        let mut opened = open(&files);
        assert_eq!(opened.reader.last_index(), LogIndex(index - 1));
        opened.writer.append(&actions(1, index, index, 10)).unwrap();
        opened.writer.sync().unwrap();
        opened.writer.close().unwrap();
    }
}

#[test]
fn such_a_log_is_not_created_again_when_its_segments_are_lost() {
    let (_, files) = interrupted_at_the_last_step();
    let mut writer = open(&files).writer;
    writer.append(&actions(1, 1, 1, 10)).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    files.remove(&segment(1)).unwrap();
    assert!(matches!(try_open(&files), Err(LogError::Damaged { .. })));
}

#[test]
fn newest_segment_missing_is_noticed() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    for entry in actions(1, 1, 10, 9000) {
        opened.writer.append(&[entry]).unwrap();
        opened.writer.sync().unwrap();
    }
    drop(opened);
    // The third is ready, and not used.
    assert!(files.content(&segment(4)).is_none());
    for lost in [2, 3] {
        let image = files.crash(u64::MAX);
        image.remove(&segment(lost)).unwrap();
        match try_open(&image).map(drop) {
            Err(LogError::Damaged { path, .. }) => assert_eq!(path, segment(lost)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn segment_of_another_member_is_refused() {
    let (files, other) = (MemoryFiles::new(1), MemoryFiles::new(2));
    open(&files).writer.close().unwrap();
    open(&other).writer.close().unwrap();
    files.set_content(&segment(1), other.content(&segment(1)).unwrap());
    assert!(matches!(
        try_open(&files).map(drop),
        Err(LogError::Foreign { .. })
    ));
}

#[test]
fn another_format_version_is_refused_by_name() {
    let files = MemoryFiles::new(1);
    open(&files).writer.close().unwrap();
    let control = Path::new(DIR).join("synod-control.log");
    for (path, other) in [
        (control.clone(), 9),
        (control, 2),
        (segment(1), 9),
        (segment(1), 2),
    ] {
        let image = files.crash(u64::MAX);
        let mut content = image.content(&path).unwrap();
        content[8] = other;
        image.set_content(&path, content);
        match try_open(&image).map(drop) {
            Err(LogError::Version {
                path: named,
                found,
                known: Some(known),
                ..
            }) => assert_eq!((named, found, known), (path, u32::from(other), 3..=3)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn log_of_another_group_is_refused() {
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    writer.set_group(GroupId([1; 16])).unwrap();
    writer.set_group(GroupId([1; 16])).unwrap();
    assert!(matches!(
        writer.set_group(GroupId([2; 16])),
        Err(LogError::OtherGroup { .. })
    ));
    drop(writer);
    assert_eq!(open(&files.crash(0)).identity.group, GroupId([1; 16]));
}

#[test]
fn entries_that_do_not_follow_are_refused_as_a_whole() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    let gap = [action(1, 1, 1), action(1, 3, 1)];
    assert!(matches!(
        opened.writer.append(&gap),
        Err(LogError::NotNext { .. })
    ));
    let term_back = [action(2, 1, 1), action(1, 2, 1)];
    assert!(matches!(
        opened.writer.append(&term_back),
        Err(LogError::Regresses { .. })
    ));
    let mut wrong = action(1, 1, 1);
    wrong.header.payload_crc ^= 1;
    assert!(matches!(
        opened.writer.append(&[wrong]),
        Err(LogError::PayloadMismatch { .. })
    ));
    let config = entry(1, 1, 0, EntryKind::Config, 3);
    assert!(matches!(
        opened.writer.append(&[config]),
        Err(LogError::BadConfig { .. })
    ));
    assert_eq!(opened.reader.last_index(), LogIndex(0));
    opened.writer.append(&actions(1, 1, 2, 1)).unwrap();
}

#[test]
fn configurations_come_back_and_vanish_with_a_truncation() {
    let files = MemoryFiles::new(1);
    let member = Member {
        role: Role::Voter,
        has_data: true,
        name: "a".into(),
        address: "h:1".into(),
        versions: VersionRange { min: 1, max: 1 },
        certificate: None,
    };
    let config = Config {
        protocol: 1,
        members: [(MemberId(4), member)].into(),
        ..Config::default()
    };
    let config_entry = |index| {
        let header = entry(1, index, 0, EntryKind::Config, 0).header;
        Entry::new(header, config.encode().into()).unwrap()
    };
    let mut opened = open(&files);
    opened
        .writer
        .append(&[config_entry(1), config_entry(2)])
        .unwrap();
    opened.writer.sync().unwrap();
    opened.writer.truncate(LogIndex(2)).unwrap();
    opened.writer.close().unwrap();
    let recovered = open(&files).recovered;
    assert_eq!(recovered.configs.len(), 1);
    assert_eq!(
        (recovered.configs[0].index, &recovered.configs[0].config),
        (LogIndex(1), &config)
    );
}

#[test]
fn vote_survives_the_purge_of_its_segment() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    opened.writer.save_vote(vote(5, 6)).unwrap();
    for entry in actions(5, 1, 30, 9000) {
        opened.writer.append(&[entry]).unwrap();
        opened.writer.sync().unwrap();
    }
    let base = opened
        .writer
        .purge(LogIndex(25), &no_config)
        .unwrap()
        .unwrap();
    assert!(base.last.index.0 > 15 && base.last.index.0 <= 25);
    assert!(files.content(&segment(1)).is_none());
    let read = opened.reader.read(base.last.index, LogIndex(30), 1000);
    assert!(matches!(read, Err(LogError::Purged { first }) if first == base.last.index.next()));
    assert_eq!(
        opened.reader.first_seqno_available(),
        Seqno(base.seqno.0 + 1)
    );
    drop(opened);
    let opened = open(&files.crash(0));
    assert_eq!(
        (opened.recovered.vote, opened.recovered.base),
        (vote(5, 6), base)
    );
}

/// A cleanup job has removed the file, or it cannot be removed: the log does not need it.
#[test]
fn purge_continues_if_a_segment_is_gone_or_cannot_be_removed() {
    let (memory, files) = faulty();
    let mut opened = open(&files);
    for entry in actions(1, 1, 30, 9000) {
        opened.writer.append(&[entry]).unwrap();
        opened.writer.sync().unwrap();
    }
    memory.remove(&segment(1)).unwrap();
    let config = |_| Some(Default::default());
    assert!(
        opened
            .writer
            .purge(LogIndex(10), &config)
            .unwrap()
            .is_some()
    );
    assert!(opened.writer.leftover().is_none(), "it is gone, as wanted");

    files.plan(once(Op::Remove, ErrorKind::PermissionDenied));
    assert!(
        opened
            .writer
            .purge(LogIndex(16), &config)
            .unwrap()
            .is_some()
    );
    let why = opened.writer.leftover().unwrap().to_string();
    assert!(why.contains("cannot remove"), "{why}");
    assert!(opened.writer.leftover().is_none(), "said once");
    let first = || (1..30).find(|n| memory.content(&segment(*n)).is_some());
    let first_left = first();
    assert!(
        opened
            .writer
            .purge(LogIndex(25), &config)
            .unwrap()
            .is_some()
    );
    assert_ne!(first(), first_left, "the next purge tries again");
    opened.writer.append(&actions(1, 31, 31, 10)).unwrap();
    opened.writer.sync().unwrap();
}

#[test]
fn purge_without_a_configuration_removes_nothing() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    opened.writer.append(&actions(1, 1, 30, 9000)).unwrap();
    opened.writer.sync().unwrap();
    let purged = opened.writer.purge(LogIndex(25), &|_| None);
    assert!(matches!(purged, Err(LogError::NoConfig { .. })));
    assert_eq!(opened.reader.first_index(), LogIndex(1));
    opened.writer.sync().unwrap();
}

#[test]
fn retention_goes_by_size_and_age_and_forces_at_twice_the_size() {
    let files = MemoryFiles::new(1);
    let start = files.now();
    let opened = |retain_bytes, hours: u64| {
        let retain_age = Duration::from_secs(3600 * hours);
        let options = LogOptions {
            retain_bytes,
            retain_age,
            ..options()
        };
        Log::open(Arc::new(files.clone()), Path::new(DIR), options).unwrap()
    };
    let mut log = opened(200 << 10, 1000);
    assert_eq!(log.writer.retention_point(LogIndex(1), start), None);
    log.writer.append(&actions(1, 1, 60, 6000)).unwrap();
    log.writer.sync().unwrap();
    assert!(log.writer.size_bytes() > 350 << 10 && log.writer.size_bytes() < 400 << 10);
    let all = LogIndex(61);
    let by_size = log.writer.retention_point(all, start).unwrap();
    assert!(
        !by_size.forced && by_size.up_to.0 >= 20 && by_size.up_to.0 < 40,
        "{by_size:?}"
    );
    assert_eq!(log.writer.retention_point(LogIndex(1), start), None);
    drop(log);
    let log = opened(100 << 10, 1000);
    let forced = log.writer.retention_point(LogIndex(1), start).unwrap();
    assert!(
        forced.forced && forced.up_to.0 < by_size.up_to.0 + 20,
        "{forced:?}"
    );
    drop(log);
    let log = opened(1 << 30, 1);
    assert_eq!(log.writer.retention_point(all, start), None);
    let later: SystemTime = start + Duration::from_secs(7200);
    let by_age = log.writer.retention_point(all, later).unwrap();
    assert!(!by_age.forced && by_age.up_to.0 > 40);
}

#[test]
fn reader_follows_a_rewrite_and_ignores_what_it_read_ahead() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    opened.writer.append(&actions(1, 1, 30, 2000)).unwrap();
    opened.writer.sync().unwrap();
    let reader = opened.reader.clone();
    assert_eq!(
        reader.read(LogIndex(1), LogIndex(30), 2000).unwrap(),
        actions(1, 1, 1, 2000)
    );
    opened.writer.truncate(LogIndex(2)).unwrap();
    assert!(
        reader
            .read(LogIndex(2), LogIndex(30), 2000)
            .unwrap()
            .is_empty()
    );
    opened.writer.append(&actions(2, 2, 30, 2000)).unwrap();
    let unsynced = reader.read(LogIndex(2), LogIndex(4), usize::MAX).unwrap();
    assert_eq!(unsynced, actions(2, 2, 4, 2000));
    opened.writer.sync().unwrap();
    assert_eq!(
        reader.read(LogIndex(2), LogIndex(4), usize::MAX).unwrap(),
        unsynced
    );
    assert_eq!(opened.reader.durable_index(), LogIndex(30));
}

#[test]
fn damage_found_while_reading_is_an_error_that_names_it() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    opened.writer.append(&actions(1, 1, 30, 2000)).unwrap();
    opened.writer.close().unwrap();
    let opened = open(&files);
    let file = files
        .open(&segment(1), synod_log::files::OpenMode::Write)
        .unwrap();
    file.write_at(&[0xff; 8], 4096 + 80 + 80 + 20).unwrap();
    let read = opened.reader.read(LogIndex(1), LogIndex(1), 10);
    assert!(matches!(read, Err(LogError::Damaged { .. })), "{read:?}");
}

#[test]
fn options_out_of_range_are_refused() {
    let files = MemoryFiles::new(1);
    for segment_bytes in [0, 1000, 2 << 30] {
        let options = LogOptions {
            segment_bytes,
            ..options()
        };
        let opened = Log::open(Arc::new(files.clone()), Path::new(DIR), options).map(drop);
        assert!(matches!(
            opened,
            Err(LogError::Option {
                name: "segment_bytes",
                ..
            })
        ));
    }
}

#[test]
fn unusable_directory_is_named() {
    let files: Arc<dyn Files> = Arc::new(RealFiles);
    let error = Log::open(files, Path::new("/proc/none/log"), options())
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains("/proc/none/log"), "{error}");
}

#[test]
fn dump_shows_every_record_in_text_and_json() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    opened.writer.append(&actions(1, 1, 2, 10)).unwrap();
    opened.writer.truncate(LogIndex(2)).unwrap();
    opened.writer.save_vote(vote(3, 4)).unwrap();
    opened.writer.sync().unwrap();
    opened.writer.reset(base(3, 9, 9)).unwrap();
    opened.writer.close().unwrap();
    for (json, wanted) in [
        (
            false,
            [
                "entry 1@1 Action",
                "truncate from 2",
                "term 3 vote for",
                "reset to 9@3",
            ],
        ),
        (
            true,
            [
                "\"type\":\"entry\"",
                "\"from\":2",
                "\"type\":\"vote\"",
                "\"type\":\"reset\"",
            ],
        ),
    ] {
        let mut out = Vec::new();
        offline::dump_with(&files, Path::new(DIR), &mut out, json).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in wanted {
            assert!(text.contains(line), "{line} not in:\n{text}");
        }
    }
}

/// A directory that is removed at the end.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let path = std::env::temp_dir().join(format!("synod-log-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
