//! Errors of a log, in words that an operator can act on: symptom, cause, what to do. Texts name
//! files and numbers, never a setting: hosts spell their settings differently. Damage has a second
//! form without the remedy ([`LogError::damage`]), for a member that repairs itself.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use synod_consensus::{GroupId, LogIndex, Seqno, Term};

/// Clones share the underlying I/O error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: Arc<io::Error>,
    },
    #[error("the log is in use by {}: {} is locked; \
        stop that process or choose another log directory",
        pid.map_or("another process".to_owned(), |pid| format!("process {pid}")), path.display())]
    Locked { path: PathBuf, pid: Option<u32> },
    #[error("no space for the log in {}: {needed_bytes} bytes are needed; \
        free some space and restart this member", dir.display())]
    NoSpace { dir: PathBuf, needed_bytes: u64 },
    /// Bytes that were durable have changed or are missing.
    #[error("this member's log is damaged: {} at offset {offset}{}: expected {expected}, \
        found {found}; restore the file from a copy made after this member's last stop, \
        or delete the synod-*.log files in {} to rejoin with a full copy (SST)",
        path.display(), after(*index), parent(path).display())]
    Damaged {
        path: PathBuf,
        offset: u64,
        index: Option<LogIndex>,
        expected: String,
        found: String,
    },
    /// Written by a program that knows another version of the format. Nothing is damaged, and
    /// nothing is changed.
    #[error("{} was written by another version of this program: its {what} has version {found}, \
        this program reads {}. Nothing was changed: start this server with the program version \
        that wrote the file, or a later one", path.display(), versions(known))]
    Version {
        path: PathBuf,
        /// Subject of the version: the log format, or a part with a version of its own.
        what: &'static str,
        found: u32,
        /// The versions that this program reads, where the log knows them.
        known: Option<RangeInclusive<u32>>,
    },
    #[error("the log in {} belongs to group {found}, not to {wanted}; \
        check the address of the group, choose another log directory, \
        or delete the synod-*.log files there to join the other group", dir.display())]
    OtherGroup {
        dir: PathBuf,
        found: GroupId,
        wanted: GroupId,
    },
    #[error("{} is part of another log: {what} is {found}, expected {expected}; \
        move the file away", path.display())]
    Foreign {
        path: PathBuf,
        what: &'static str,
        expected: String,
        found: String,
    },
    /// A write or sync failed earlier; what is on disk is unknown until the log is opened again.
    #[error(
        "the log takes no writes until this member is restarted, \
        because of an earlier error: {first}"
    )]
    Poisoned { first: Arc<LogError> },
    #[error("the log starts at index {first}: earlier entries are purged")]
    Purged { first: LogIndex },
    #[error("the log starts at seqno {first}: earlier actions are purged")]
    SeqnoPurged { first: Seqno },
    #[error("index {index} is not in the log, which ends at {last}")]
    NotFound { index: LogIndex, last: LogIndex },
    #[error("seqno {seqno} is not in the log, which ends at seqno {last}")]
    SeqnoNotFound { seqno: Seqno, last: Seqno },
    #[error("cannot append index {found}: the next one is {expected}")]
    NotNext { expected: LogIndex, found: LogIndex },
    #[error(
        "cannot append index {index}: term {term}, seqno {seqno} \
        after term {last_term}, seqno {last_seqno}"
    )]
    Regresses {
        index: LogIndex,
        term: Term,
        seqno: Seqno,
        last_term: Term,
        last_seqno: Seqno,
    },
    #[error(
        "payload of index {index} does not match its header: \
        {found_len} bytes, crc {found_crc:08x}; \
        the header says {expected_len} bytes, crc {expected_crc:08x}"
    )]
    PayloadMismatch {
        index: LogIndex,
        expected_len: u32,
        found_len: u32,
        expected_crc: u32,
        found_crc: u32,
    },
    #[error("config entry {index} cannot be decoded: {reason}")]
    BadConfig { index: LogIndex, reason: String },
    #[error("index {index} needs {bytes} bytes, {max} are allowed")]
    TooLarge {
        index: LogIndex,
        bytes: u64,
        max: u64,
    },
    #[error("cannot purge up to index {index}: the configuration in force there is unknown")]
    NoConfig { index: LogIndex },
    #[error("log option {name} = {found} is outside {min}..={max}")]
    Option {
        name: &'static str,
        found: u64,
        min: u64,
        max: u64,
    },
}

impl LogError {
    /// Leaves out the remedy; `None` if nothing is damaged.
    pub fn damage(&self) -> Option<String> {
        let LogError::Damaged {
            path,
            offset,
            index,
            expected,
            found,
        } = self
        else {
            return None;
        };
        Some(format!(
            "{} at offset {offset}{}: expected {expected}, found {found}",
            path.display(),
            after(*index)
        ))
    }

    /// A full disk becomes [`LogError::NoSpace`].
    pub(crate) fn io(
        doing: &'static str,
        path: &Path,
        needed_bytes: u64,
        source: io::Error,
    ) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            return LogError::NoSpace {
                dir: parent(path).to_owned(),
                needed_bytes,
            };
        }
        LogError::Io {
            doing,
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }
}

fn versions(known: &Option<RangeInclusive<u32>>) -> String {
    match known {
        None => "earlier ones only".to_owned(),
        Some(known) if known.start() == known.end() => known.start().to_string(),
        Some(known) => format!("{} to {}", known.start(), known.end()),
    }
}

fn after(index: Option<LogIndex>) -> String {
    index.map_or(String::new(), |index| format!(" (after index {index})"))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}
