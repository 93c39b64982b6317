//! The state that the writer and all readers share.
//!
//! One lock guards it. It is held for look-ups and bookkeeping only, never over I/O. Lock order: a
//! reader may take the lock of its read-ahead while it holds this one; never the other way round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_consensus::{EntryId, LogBase, LogIndex, Seqno};

use crate::LogError;
use crate::files::File;
use crate::format::names::segment_path;
use crate::format::record::Mismatch;
use crate::format::version::LogFormat;
use crate::retention::cache::Cache;
use crate::retention::index::StreamIndex;
use crate::retention::summaries::Summaries;

/// An open segment. The file stays readable after a purge removed its name.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) id: u64,
    pub(crate) file: Arc<dyn File>,
    /// File size in bytes.
    pub(crate) size: u64,
    /// End of what was written of the stream.
    pub(crate) end: u64,
    /// Creation time, in milliseconds since 1970.
    pub(crate) created_ms: u64,
}

/// Position of an entry, with its seqno.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tip {
    pub(crate) id: EntryId,
    pub(crate) seqno: Seqno,
}

pub(crate) struct State {
    /// The format in which the log is written; never newer than that of the control file.
    pub(crate) format: LogFormat,
    pub(crate) base: LogBase,
    /// Last entry appended, written or not.
    pub(crate) last: Tip,
    /// Last entry covered by a sync.
    pub(crate) durable: LogIndex,
    pub(crate) cache: Cache,
    /// Entries written, synced or not.
    pub(crate) index: StreamIndex,
    /// All entries, written or not.
    pub(crate) summaries: Summaries,
    /// Segments by number; the last one is being written.
    pub(crate) segments: BTreeMap<u64, Segment>,
    /// Grows whenever entries are truncated: entries read before may be outdated.
    pub(crate) generation: u64,
}

pub(crate) struct Shared {
    dir: PathBuf,
    state: Mutex<State>,
}

impl Shared {
    pub(crate) fn new(dir: &Path, state: State) -> Shared {
        Shared {
            dir: dir.to_owned(),
            state: Mutex::new(state),
        }
    }

    /// Takes the lock. A holder that panicked leaves consistent data: every critical section
    /// computes first and assigns last, and the writer poisons itself on failure.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The error for bytes that changed after they were durable.
    pub(crate) fn damaged(
        &self,
        segment: u64,
        offset: u64,
        index: LogIndex,
        mismatch: Mismatch,
    ) -> LogError {
        LogError::Damaged {
            path: segment_path(&self.dir, segment),
            offset,
            index: Some(index),
            expected: mismatch.expected,
            found: mismatch.found,
        }
    }
}
