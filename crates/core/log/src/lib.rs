//! The durable log of one member.
//!
//! DESIGN.md beside the crate has the way of an entry, `docs/log-format.md` every byte and the case
//! analysis of crashes.
//!
//! # Rules
//!
//! - *Durable* means: [`LogWriter::sync`] has returned. Nothing appended is durable before that.
//! - After a failed write or sync the writer answers [`LogError::Poisoned`] until the log is opened
//!   again, because the page cache may show what the disk does not have.
//! - Bytes that were durable and have changed are *damaged*. They are never cut: the log refuses to
//!   open, or is repaired from other members ([`Log::open_or_repair`]). Bytes above everything
//!   known durable are a *torn tail*, which the next start cuts.
//! - A [`LogReader`] verifies every entry that it reads from disk. It is cheap to clone and works
//!   on any thread; no lock is held over I/O, so a reader never delays the writer.
//!
//! # The loop of the writer's thread
//!
//! ```
//! use std::{path::Path, sync::Arc};
//! use bytes::Bytes;
//! use synod_consensus::{EntryHeader, EntryKind, HardState, LogIndex, Origin, Seqno, Term};
//! use synod_log::{Entry, Log, LogError, LogOptions, MemoryFiles};
//!
//! # fn main() -> Result<(), LogError> {
//! let files = Arc::new(MemoryFiles::new(1)); // a node takes `RealFiles`
//! let log = Log::open(files, Path::new("log"), LogOptions::default())?;
//! let (mut writer, reader) = (log.writer, log.reader);
//!
//! // The core asks for effects; the thread performs them in order and syncs once.
//! let header = EntryHeader {
//!     term: Term(1), index: LogIndex(1), seqno: Seqno(1), kind: EntryKind::Action,
//!     origin: Origin::default(), depends_on: Seqno(0), payload_len: 0, payload_crc: 0,
//! };
//! writer.save_vote(HardState { term: Term(1), voted_for: None })?;
//! writer.append(&[Entry::new(header, Bytes::from_static(b"action"))?])?;
//! assert_eq!(reader.last_index(), LogIndex(1)); // readable, not durable
//! assert_eq!(reader.durable_index(), LogIndex(0));
//!
//! writer.sync()?; // one write, one fdatasync
//! assert_eq!(reader.durable_index(), LogIndex(1));
//! // Only now the core is told that index 1 is persisted, and only then it acknowledges it.
//! # writer.close()
//! # }
//! ```
//!
//! # Rooms
//!
//! `format` knows the bytes, `recovery` turns files into an open log (and [`offline`] reads them
//! without changing them), `retention` finds entries and removes old ones, [`files`] is the only
//! contact with the operating system. `testing` holds disks in memory for tests and the simulator.
#![forbid(unsafe_code)]

mod database_lack;
mod database_record;
mod entry;
mod error;
pub mod files;
mod format;
mod options;
mod reader;
mod recovery;
mod retention;
mod shared;
mod testing;
mod writer;

pub use database_lack::{DatabaseLack, shows_other_data};
pub use database_record::{
    Behind, DatabaseRecord, DatabaseRecordError, DatabaseRecordFile, DoubtfulStreams,
    ExecutingStatement, SETTLED_MAX, STREAMS_MAX, StoppedMember, database_record_path,
};
pub use entry::Entry;
pub use error::LogError;
#[cfg(unix)]
pub use files::RealFiles;
pub use files::{FaultyFiles, Files, MemoryFiles, Space, replace_file};
pub use format::control::Identity;
pub use format::version::LogFormat;
pub use options::{LogOptions, PAYLOAD_BYTES_MAX, SEGMENT_BYTES_MAX};
pub use reader::LogReader;
pub use recovery::offline;
pub use recovery::open::{Consent, Log, Opened, RecoveryReport, TornTail};
pub use recovery::repair::{RepairPlan, RepairReport};
pub use retention::purge::RetentionPoint;
pub use retention::summaries::EntrySummary;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use testing::fuzzing;
pub use writer::LogWriter;
