//! Removal of purged segments, beside the writer.
//!
//! The control file is replaced before any segment is removed, so a crash in between leaves only
//! leftovers, which the next start removes. Until the control file is replaced, a crash undoes the
//! purge.
//!
//! Once it is replaced, the segments are no part of the log. Whatever becomes of their files then,
//! the log is whole: one that is gone already is what was wanted, and one that cannot be removed is
//! a leftover, too.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    results: Arc<Mutex<Results>>,
}

/// Results of removals that are not told yet.
#[derive(Default)]
struct Results {
    /// Why the control file could not be replaced: the log cannot continue.
    failed: Option<LogError>,
    /// Segments whose files are still there. The next removal tries again.
    leftovers: Vec<u64>,
    /// Why they are, until that is taken.
    why: Option<LogError>,
}

impl Removals {
    pub(crate) fn new(files: Arc<dyn Files>, dir: &Path, control: Arc<ControlKeeper>) -> Removals {
        Removals {
            files,
            dir: dir.to_owned(),
            control,
            running: Vec::new(),
            results: Arc::default(),
        }
    }

    /// Starts to remove these segments, which the content of the control file names no more.
    pub(crate) fn start(&mut self, numbers: Vec<u64>) {
        let (files, dir) = (self.files.clone(), self.dir.clone());
        let (control, results) = (self.control.clone(), self.results.clone());
        let job = move || {
            if let Err(error) = control.write() {
                locked(&results).failed.get_or_insert(error);
                return;
            }
            let leftovers = std::mem::take(&mut locked(&results).leftovers);
            let all = leftovers.into_iter().chain(numbers.iter().copied());
            let (leftovers, why) = remove(&*files, &dir, all);
            let mut results = locked(&results);
            results.leftovers.extend(leftovers);
            if let Some(why) = why {
                results.why.get_or_insert(why);
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

    /// Why the control file could not be replaced, once.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        locked(&self.results).failed.take().map_or(Ok(()), Err)
    }

    /// Why files of purged segments are still there, once.
    pub(crate) fn leftover(&self) -> Option<LogError> {
        locked(&self.results).why.take()
    }
}

fn locked(results: &Mutex<Results>) -> MutexGuard<'_, Results> {
    results.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Removals {
    fn drop(&mut self) {
        self.wait();
    }
}

/// Removes the files of these segments: those that are still there, and why.
fn remove(
    files: &dyn Files,
    dir: &Path,
    numbers: impl Iterator<Item = u64>,
) -> (Vec<u64>, Option<LogError>) {
    let (mut leftovers, mut why) = (Vec::new(), None);
    for number in numbers {
        let path = segment_path(dir, number);
        match files.remove(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                leftovers.push(number);
                why.get_or_insert(LogError::io("remove", &path, 0, error));
            }
        }
    }
    if let Err(error) = files.sync_dir(dir) {
        why.get_or_insert(LogError::io("sync", dir, 0, error));
    }
    (leftovers, why)
}
