//! The durable log of one member.
//!
//! Entries, truncations, votes and resets form one ordered stream of records, written in batches:
//! one `write` and one `fdatasync` per batch, whatever gathered since the last (group commit). The
//! stream lives in numbered segment files beside a small control file; `docs/log-format.md` gives
//! every byte and the case analysis of crashes.
//!
//! - [`LogWriter`] is owned by one thread. Nothing is durable before [`LogWriter::sync`] returned,
//!   and after any failed write or sync it answers [`LogError::Poisoned`] for ever.
//! - [`LogReader`] is cheap to clone and works on any thread: newest entries from a bounded cache,
//!   older ones from disk. No lock is held over I/O, so a reader never delays the writer.
//! - [`offline`] reads a directory without changing it.
//!
//! What this crate does not do: decide. What may be appended, truncated or purged is the business of
//! `synod-consensus` and its driver.
#![forbid(unsafe_code)]

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

pub use entry::Entry;
pub use error::LogError;
pub use files::{FaultyFiles, Files, MemoryFiles, RealFiles};
pub use options::{LogOptions, PAYLOAD_BYTES_MAX};
pub use reader::LogReader;
pub use recovery::offline;
pub use recovery::open::{Consent, Identity, Log, Opened, RecoveryReport, TornTail};
pub use recovery::repair::{RepairPlan, RepairReport};
pub use retention::purge::RetentionPoint;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use testing::fuzzing;
pub use writer::LogWriter;
