//! Helpers that the tests of the log share.
#![allow(dead_code, unreachable_pub)]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use synod_consensus::{
    ConfigAt, EntryHeader, EntryId, EntryKind, HardState, LogBase, LogIndex, MemberId, Origin,
    Seqno, SessionId, Term,
};
use synod_log::{Entry, Files, Log, LogError, LogOptions, LogReader, Opened};

pub const DIR: &str = "data";

pub fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 64 << 10,
        cache_bytes: 4 << 10,
        tail_headers_max: 5,
        ..LogOptions::default()
    }
}

pub fn try_open(files: &(impl Files + Clone + 'static)) -> Result<Opened, LogError> {
    Log::open(Arc::new(files.clone()), Path::new(DIR), options())
}

pub fn open(files: &(impl Files + Clone + 'static)) -> Opened {
    try_open(files).unwrap()
}

/// An entry whose content depends on its term and index.
pub fn entry(term: u64, index: u64, seqno: i64, kind: EntryKind, bytes: usize) -> Entry {
    let header = EntryHeader {
        origin: Origin::new(MemberId(1), SessionId(2), index),
        depends_on: Seqno(-1),
        ..EntryHeader::bare(Term(term), LogIndex(index), Seqno(seqno), kind)
    };
    let payload: Vec<u8> = (0..bytes)
        .map(|i| (i as u64 * 7 + index + term * 31) as u8)
        .collect();
    Entry::new(header, Bytes::from(payload)).unwrap()
}

/// An ordered entry whose seqno is its index.
pub fn action(term: u64, index: u64, bytes: usize) -> Entry {
    entry(term, index, index as i64, EntryKind::Action, bytes)
}

pub fn actions(term: u64, from: u64, to: u64, bytes: usize) -> Vec<Entry> {
    (from..=to)
        .map(|index| action(term, index, bytes))
        .collect()
}

pub fn vote(term: u64, member: u64) -> HardState {
    HardState::new(Term(term), Some(MemberId(member)))
}

pub fn base(term: u64, index: u64, seqno: i64) -> LogBase {
    LogBase {
        last: EntryId::new(Term(term), LogIndex(index)),
        seqno: Seqno(seqno),
        config: ConfigAt::default(),
    }
}

pub fn no_config(_: LogIndex) -> Option<ConfigAt> {
    Some(ConfigAt::default())
}

pub fn all(reader: &LogReader) -> Vec<Entry> {
    reader
        .read(reader.first_index(), LogIndex(u64::MAX), usize::MAX)
        .unwrap()
}
