//! Removal of purged segments, beside the writer.
//!
//! The control file is replaced before any segment is removed, so a crash in between leaves only
//! leftovers, which the next start removes. Until the control file is replaced, a crash undoes the
//! purge.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::LogError;
use crate::control_keeper::ControlKeeper;
use crate::files::Files;
use crate::format::names::segment_path;

/// Removes segments on threads of their own. Dropping it waits for them.
pub(crate) struct Removals {
    files: Arc<dyn Files>,
    dir: PathBuf,
    control: Arc<ControlKeeper>,
    running: Vec<JoinHandle<()>>,
    failed: Arc<Mutex<Option<LogError>>>,
}

impl Removals {
    pub(crate) fn new(files: Arc<dyn Files>, dir: &Path, control: Arc<ControlKeeper>) -> Removals {
        Removals {
            files,
            dir: dir.to_owned(),
            control,
            running: Vec::new(),
            failed: Arc::default(),
        }
    }

    /// Starts to remove these segments, which the content of the control file names no more.
    pub(crate) fn start(&mut self, numbers: Vec<u64>) {
        let (files, dir) = (self.files.clone(), self.dir.clone());
        let (control, failed) = (self.control.clone(), self.failed.clone());
        let job = move || {
            if let Err(error) = remove(&*files, &dir, &control, &numbers) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
            }
        };
        self.running.retain(|thread| !thread.is_finished());
        match self
            .files
            .run_aside("synod-log-purge", Box::new(job.clone()))
        {
            Ok(thread) => self.running.extend(thread),
            Err(_) => job(),
        }
    }

    /// Waits until everything is removed.
    pub(crate) fn wait(&mut self) {
        for thread in self.running.drain(..) {
            // A panic there leaves segments that the next start removes.
            let _ = thread.join();
        }
    }

    /// Why a removal failed, once.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        let failed = self
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for Removals {
    fn drop(&mut self) {
        self.wait();
    }
}

fn remove(
    files: &dyn Files,
    dir: &Path,
    control: &ControlKeeper,
    numbers: &[u64],
) -> Result<(), LogError> {
    control.write()?;
    for number in numbers {
        let path = segment_path(dir, *number);
        files
            .remove(&path)
            .map_err(|error| LogError::io("remove", &path, 0, error))?;
    }
    files
        .sync_dir(dir)
        .map_err(|error| LogError::io("sync", dir, 0, error))
}
