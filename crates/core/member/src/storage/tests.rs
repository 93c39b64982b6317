//! Jobs, syncs and purges on files in memory.

use super::*;
use crate::deliver::tests::Sink;
use bytes::Bytes;
use std::path::Path;
use synod_consensus::{EntryHeader, Term};
use synod_log::{Log, LogOptions, MemoryFiles};

/// A new log of these files, and what its storage shares.
fn opened(files: Arc<MemoryFiles>, options: LogOptions) -> (Storage, Arc<Shared>) {
    let opened = Log::open(files, Path::new("log"), options).unwrap();
    let shared = Arc::new(Shared::new(LogIndex(0), Seqno(0), || ()));
    let host = Arc::new(Sink::default());
    let storage = Storage::new(opened.writer, opened.reader, host, shared.clone());
    (storage, shared)
}

#[test]
fn full_log_keeps_what_too_few_databases_have_flushed() {
    let files = MemoryFiles::new(1);
    let options = LogOptions {
        segment_bytes: 64 << 10,
        retain_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let opened = Log::open(Arc::new(files), Path::new("log"), options).unwrap();
    let mut writer = opened.writer;
    writer.set_group(GroupId([1; 16])).unwrap();
    let payload = Bytes::from(vec![7; 1000]);
    let entry = |index: u64| Entry {
        header: EntryHeader {
            payload_len: payload.len() as u32,
            payload_crc: crc32c::crc32c(&payload),
            ..EntryHeader::bare(
                Term(1),
                LogIndex(index),
                Seqno(index as i64),
                EntryKind::Action,
            )
        },
        payload: payload.clone(),
    };
    for index in 1..=500 {
        writer.append(&[entry(index)]).unwrap();
        writer.sync().unwrap();
    }
    let shared = Arc::new(Shared::new(LogIndex(0), Seqno(0), || ()));
    let host = Arc::new(Sink::default());
    let mut storage = Storage::new(writer, opened.reader, host, shared.clone());
    let mut purge = |purge_limit| {
        let job = PurgeJob {
            keep_from: LogIndex(0),
            keep_after: None,
            purge_limit: LogIndex(purge_limit),
            compares_after: None,
            configs: vec![ConfigAt::default()],
        };
        let base = storage.write(Job::Purge(job), SystemTime::now());
        base.unwrap().map_or(0, |base| base.last.index.0)
    };
    let purged = purge(130);
    assert!((1..=130).contains(&purged), "{purged}");
    let purged = purge(250);
    assert!((131..=250).contains(&purged), "{purged}");
}

#[test]
fn log_is_purged_as_its_host_wants_of_what_is_not_needed() {
    let options = LogOptions {
        segment_bytes: 256 << 10,
        ..LogOptions::default()
    };
    let (mut storage, shared) = opened(Arc::new(MemoryFiles::new(1)), options);
    let now = SystemTime::now();
    for index in 1..=50 {
        storage.write(large_append(index), now).unwrap();
        storage.sync().unwrap();
    }
    let mut purge = |keep_after| {
        let job = PurgeJob {
            keep_from: LogIndex(49),
            keep_after,
            purge_limit: LogIndex(50),
            compares_after: None,
            configs: vec![ConfigAt::default()],
        };
        let base = storage.write(Job::Purge(job), now).unwrap();
        base.map_or(0, |base| base.last.index.0)
    };
    assert_eq!(purge(None), 0, "it is small");
    shared.purge_up_to(Seqno(30));
    let purged = purge(Some(Seqno(20)));
    assert!(
        (10..20).contains(&purged),
        "a reader needs the rest: {purged}"
    );
    let purged = purge(None);
    assert!((20..=30).contains(&purged), "{purged}");
    assert_eq!(purge(None), 0, "done");
    shared.purge_up_to(Seqno(90));
    assert_eq!(purge(None), 0, "no such action yet");
}

#[test]
fn log_that_members_need_grows_as_long_as_its_disk_has_room() {
    let files = MemoryFiles::new(1);
    files.set_size(4 << 20);
    let options = LogOptions {
        segment_bytes: 64 << 10,
        retain_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let (mut storage, shared) = opened(Arc::new(files.clone()), options);
    let mut first_purge = None;
    for index in 1..=90 {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(index);
        storage.write(large_append(index), now).unwrap();
        storage.sync().unwrap();
        // A member needs everything.
        let job = PurgeJob {
            keep_from: LogIndex(0),
            keep_after: None,
            purge_limit: LogIndex(index),
            compares_after: None,
            configs: vec![ConfigAt::default()],
        };
        let base = storage.write(Job::Purge(job), now).unwrap();
        first_purge = first_purge.or(base.map(|_| shared.status().log_bytes));
    }
    // Without its disk the log would have ended at 128 KiB.
    let largest = first_purge.expect("a quarter of the disk stays free");
    assert!((2_800_000..=3 << 20).contains(&largest), "{largest}");
    assert!(!shared.is_log_full());
    // Others have taken the space since.
    files.set_size(3 << 20);
    let job = PurgeJob {
        keep_from: LogIndex(0),
        keep_after: None,
        purge_limit: LogIndex(90),
        compares_after: None,
        configs: vec![ConfigAt::default()],
    };
    storage.write(Job::Purge(job), SystemTime::now()).unwrap();
    let smaller = shared.status().log_bytes;
    assert!(smaller < largest - (600 << 10), "{smaller}");
}

/// A job that appends one action of 50,000 bytes.
fn large_append(index: u64) -> Job {
    append_of(EntryKind::Action, index, index as i64)
}

fn append_of(kind: EntryKind, index: u64, seqno: i64) -> Job {
    let header = EntryHeader::bare(Term(1), LogIndex(index), Seqno(seqno), kind);
    let entry = Entry::new(header, Bytes::from(vec![7; 50_000])).unwrap();
    Job::Append {
        ticket: WriteTicket(index),
        era: 0,
        entries: vec![entry],
    }
}

#[test]
fn full_disk_stops_the_log_only_when_nothing_can_be_purged() {
    let files = MemoryFiles::new(1);
    let options = LogOptions {
        segment_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let opened = Log::open(Arc::new(files.clone()), Path::new("log"), options).unwrap();
    // Other files have taken the space since.
    files.set_size(400 << 10);
    let shared = Arc::new(Shared::new(LogIndex(0), Seqno(0), || ()));
    let host = Arc::new(Sink::default());
    let mut storage = Storage::new(opened.writer, opened.reader, host, shared);
    let mut base = LogBase::default();
    for index in 1..=30 {
        storage
            .write(large_append(index), SystemTime::now())
            .unwrap();
        storage.sync().unwrap();
        base = storage.take_purged().unwrap_or(base);
        let job = PurgeJob {
            keep_from: LogIndex(1),
            keep_after: None,
            purge_limit: LogIndex(index.saturating_sub(3)),
            compares_after: None,
            configs: vec![ConfigAt::default()],
        };
        storage.write(Job::Purge(job), SystemTime::now()).unwrap();
    }
    assert!((20..=27).contains(&base.last.index.0), "{base:?}");
    // From now on nothing may be purged.
    let failed = (31..=40).find_map(|index| {
        let written = storage.write(large_append(index), SystemTime::now());
        written.and_then(|_| storage.sync()).err()
    });
    assert!(
        matches!(failed, Some(LogError::NoSpace { .. })),
        "{failed:?}"
    );
}

#[test]
fn decision_that_comes_next_is_not_purged_before_it_is_delivered() {
    let options = LogOptions {
        segment_bytes: 64 << 10,
        retain_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let (mut storage, shared) = opened(Arc::new(MemoryFiles::new(1)), options);
    // Five actions, the decision about the last one, and chunks of an action that never ends.
    for index in 1..=30 {
        let job = match index {
            ..=5 => large_append(index),
            6 => append_of(EntryKind::Decision, index, 5),
            _ => append_of(EntryKind::Chunk, index, 5),
        };
        storage.write(job, SystemTime::now()).unwrap();
        storage.sync().unwrap();
    }
    let mut purge = |applied| {
        let job = PurgeJob {
            keep_from: LogIndex(1),
            keep_after: None,
            purge_limit: LogIndex(30),
            compares_after: applied,
            configs: vec![ConfigAt::default()],
        };
        let base = storage.write(Job::Purge(job), SystemTime::now()).unwrap();
        base.map_or(0, |base| base.last.index.0)
    };
    assert_eq!(purge(Some(Seqno(5))), 5);
    assert_eq!(purge(Some(Seqno(5))), 0, "the base is at the action now");
    shared.delivered.store(6, Ordering::Release);
    assert!(purge(Some(Seqno(5))) > 20);
}

#[test]
fn size_of_the_log_is_known_before_the_first_write() {
    let files = MemoryFiles::new(1);
    let mut options = LogOptions {
        segment_bytes: 256 << 10,
        retain_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let open = |options| Log::open(Arc::new(files.clone()), Path::new("log"), options).unwrap();
    let storage = |opened: synod_log::Opened| {
        let shared = Arc::new(Shared::new(LogIndex(0), Seqno(0), || ()));
        let host = Arc::new(Sink::default());
        let storage = Storage::new(opened.writer, opened.reader, host, shared.clone());
        (storage, shared)
    };
    let mut writer = open(options.clone()).writer;
    while writer.size_bytes() < 5 * options.segment_bytes {
        let vote = HardState::new(Term(1), None);
        (0..500).for_each(|_| writer.save_vote(vote).unwrap());
        writer.sync().unwrap();
    }
    let bytes = writer.size_bytes();
    drop(writer);
    let (_, shared) = storage(open(options.clone()));
    assert_eq!(shared.status().log_bytes, bytes);
    assert!(shared.is_log_full());
    options.retain_bytes = 1 << 30;
    let (_, shared) = storage(open(options));
    assert!(!shared.is_log_full());
}
