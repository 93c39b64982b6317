//! The state that the writer, the threads beside it, and all readers share. One lock guards the
//! readers' state. It is held for look-ups and bookkeeping only, never over I/O. Lock order: a
//! reader may take the lock of its read-ahead while it holds this one; never the other way round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_consensus::{EntryId, LogBase, LogIndex, Seqno};

use crate::LogError;
use crate::files::{File, Files};
use crate::format::control::Control;
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
    pub(crate) size: u64,
    /// End of what was written of the stream.
    pub(crate) end: u64,
    /// Creation time, in milliseconds since 1970.
    pub(crate) created_ms: u64,
}

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
    pub(crate) durable: LogIndex,
    pub(crate) cache: Cache,
    pub(crate) index: StreamIndex,
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

    /// A holder that panicked leaves consistent data: every critical section computes first and
    /// assigns last, and the writer poisons itself on failure.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

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

/// The control file of an open log, shared by the writer and the threads that work beside it. The
/// file's content is kept in memory. Each replacement writes all of it as it is then, one
/// replacement at a time. So a change that is made in memory before a replacement is ordered never
/// gets lost behind another.
pub(crate) struct ControlKeeper {
    files: Arc<dyn Files>,
    dir: PathBuf,
    /// Never locked over I/O.
    values: Mutex<Control>,
    /// Locked while the file is replaced; taken before `values`.
    replacing: Mutex<()>,
}

impl ControlKeeper {
    pub(crate) fn new(files: Arc<dyn Files>, dir: &Path, control: Control) -> ControlKeeper {
        ControlKeeper {
            files,
            dir: dir.to_owned(),
            values: Mutex::new(control),
            replacing: Mutex::new(()),
        }
    }

    /// Locks the values for the control file. Any of them may be on disk at any time from now on.
    pub(crate) fn values(&self) -> MutexGuard<'_, Control> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> Result<(), LogError> {
        self.replace(|_| {})
    }

    pub(crate) fn replace(&self, change: impl Fn(&mut Control)) -> Result<(), LogError> {
        let _one = self
            .replacing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut next = self.values().clone();
        change(&mut next);
        next.write(&*self.files, &self.dir)?;
        change(&mut self.values());
        Ok(())
    }
}
