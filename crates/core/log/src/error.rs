//! Errors of a log, in words that an operator can act on: symptom, cause, what to do.
//!
//! Texts name files and numbers, never a setting: hosts spell their settings differently. Damage
//! has a second form without the remedy ([`LogError::damage`]), for a member that repairs itself.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use synod_consensus::{GroupId, LogIndex, Seqno, Term};

/// Any failure of the log. Clones share the underlying I/O error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// Operation that failed.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// Another process has the log open.
    #[error("the log is in use by {}: {} is locked; \
        stop that process or choose another log directory",
        pid.map_or("another process".to_owned(), |pid| format!("process {pid}")), path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The holder, if it left its number.
        pid: Option<u32>,
    },
    /// The disk has no space left.
    #[error("no space for the log in {}: {needed_bytes} bytes are needed; \
        free some space and restart this member", dir.display())]
    NoSpace {
        /// Log directory.
        dir: PathBuf,
        /// Size of what could not be written.
        needed_bytes: u64,
    },
    /// Bytes that were durable have changed or are missing.
    #[error("this member's log is damaged: {} at offset {offset}{}: expected {expected}, \
        found {found}; restore the file from a copy made after this member's last stop, \
        or delete the synod-*.log files in {} to rejoin with a full copy (SST)",
        path.display(), after(*index), parent(path).display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset in it, in bytes.
        offset: u64,
        /// Last good index before the damage, if known.
        index: Option<LogIndex>,
        /// Expected value.
        expected: String,
        /// Found value.
        found: String,
    },
    /// Written by a program that knows another version of the format. Nothing is damaged, and
    /// nothing is changed.
    #[error("{} was written by another version of this program: its {what} has version {found}, \
        this program reads {}. Nothing was changed: start this server with the program version \
        that wrote the file, or a later one", path.display(), versions(known))]
    Version {
        /// The file.
        path: PathBuf,
        /// Subject of the version: the log format, or a part with a version of its own.
        what: &'static str,
        /// The version in the file.
        found: u32,
        /// The versions that this program reads, where the log knows them.
        known: Option<RangeInclusive<u32>>,
    },
    /// The log belongs to another group.
    #[error("the log in {} belongs to group {found}, not to {wanted}; \
        check the address of the group, choose another log directory, \
        or delete the synod-*.log files there to join the other group", dir.display())]
    OtherGroup {
        /// Log directory.
        dir: PathBuf,
        /// Group of the log.
        found: GroupId,
        /// Group asked for.
        wanted: GroupId,
    },
    /// A segment file that belongs to another member's, or group's, log.
    #[error("{} is part of another log: {what} is {found}, expected {expected}; \
        move the file away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Field that differs.
        what: &'static str,
        /// In the control file.
        expected: String,
        /// In the segment.
        found: String,
    },
    /// A write or sync failed earlier; what is on disk is unknown until the log is opened again.
    #[error(
        "the log takes no writes until this member is restarted, \
        because of an earlier error: {first}"
    )]
    Poisoned {
        /// The earlier error.
        first: Arc<LogError>,
    },
    /// Entries from that index are no longer held.
    #[error("the log starts at index {first}: earlier entries are purged")]
    Purged {
        /// First index held.
        first: LogIndex,
    },
    /// Actions from that seqno are no longer held.
    #[error("the log starts at seqno {first}: earlier actions are purged")]
    SeqnoPurged {
        /// First seqno held.
        first: Seqno,
    },
    /// No such entry yet.
    #[error("index {index} is not in the log, which ends at {last}")]
    NotFound {
        /// Index asked for.
        index: LogIndex,
        /// Last index held.
        last: LogIndex,
    },
    /// No such action yet.
    #[error("seqno {seqno} is not in the log, which ends at seqno {last}")]
    SeqnoNotFound {
        /// Seqno asked for.
        seqno: Seqno,
        /// Last seqno held.
        last: Seqno,
    },
    /// Caller's error: an append leaves a gap or overlaps.
    #[error("cannot append index {found}: the next one is {expected}")]
    NotNext {
        /// Next index.
        expected: LogIndex,
        /// Index given.
        found: LogIndex,
    },
    /// Caller's error: term or seqno of an appended entry is below its predecessor's.
    #[error(
        "cannot append index {index}: term {term}, seqno {seqno} \
        after term {last_term}, seqno {last_seqno}"
    )]
    Regresses {
        /// The entry.
        index: LogIndex,
        /// Its term.
        term: Term,
        /// Its seqno.
        seqno: Seqno,
        /// Term before it.
        last_term: Term,
        /// Seqno before it.
        last_seqno: Seqno,
    },
    /// Caller's error: header and payload do not belong together.
    #[error(
        "payload of index {index} does not match its header: \
        {found_len} bytes, crc {found_crc:08x}; \
        the header says {expected_len} bytes, crc {expected_crc:08x}"
    )]
    PayloadMismatch {
        /// The entry.
        index: LogIndex,
        /// Length in the header.
        expected_len: u32,
        /// Length of the payload.
        found_len: u32,
        /// CRC32C in the header.
        expected_crc: u32,
        /// CRC32C of the payload.
        found_crc: u32,
    },
    /// Caller's error: a config entry that could not be read again.
    #[error("config entry {index} cannot be decoded: {reason}")]
    BadConfig {
        /// The entry.
        index: LogIndex,
        /// Why it cannot be decoded.
        reason: String,
    },
    /// Larger than the format allows.
    #[error("index {index} needs {bytes} bytes, {max} are allowed")]
    TooLarge {
        /// The entry, or the base.
        index: LogIndex,
        /// Its size.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// Caller's error: no configuration known for a purge point.
    #[error("cannot purge up to index {index}: the configuration in force there is unknown")]
    NoConfig {
        /// Purge point.
        index: LogIndex,
    },
    /// An option outside its range.
    #[error("log option {name} = {found} is outside {min}..={max}")]
    Option {
        /// Name of the field of [`crate::LogOptions`].
        name: &'static str,
        /// Value given.
        found: u64,
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
}

impl LogError {
    /// The damage and its place, without the remedy; `None` for other errors.
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

    /// Wraps an I/O error; a full disk becomes [`LogError::NoSpace`].
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
