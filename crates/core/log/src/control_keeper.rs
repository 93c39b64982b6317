//! The control file of an open log, shared by the writer and the threads that work beside it.
//!
//! What the file is to say is kept in memory. Each replacement writes all of it as it is then, one
//! replacement at a time. So a change that is made in memory before a replacement is ordered never
//! gets lost behind another.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::LogError;
use crate::files::Files;
use crate::format::control::Control;

/// Keeps the content of the control file, and replaces the file.
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

    /// Replaces the file; durable on return.
    pub(crate) fn write(&self) -> Result<(), LogError> {
        self.replace(|_| {})
    }

    /// Replaces the file with this change, which counts only if that succeeds.
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
