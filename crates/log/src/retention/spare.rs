//! Segment files made ahead of need.
//!
//! A new file is filled with zeros and synced before it is used, so that a sync on the commit path
//! never has to write file-system metadata, and space for a segment is certain before its first
//! record (see `docs/decisions/003-segment-preallocation.md`). That happens beside the writer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use crate::LogError;
use crate::files::{File, Files, OpenMode, write_all_at};
use crate::format::segment::spare_path;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// How much may wait in the page cache: syncs on the commit path share the disk with us.
const SYNC_EVERY_BYTES: u64 = 4 << 20;

/// Makes the next segment's file.
pub(crate) struct SpareMaker {
    files: Arc<dyn Files>,
    dir: PathBuf,
    making: Option<Making>,
}

struct Making {
    size: u64,
    made: Receiver<io::Result<Arc<dyn File>>>,
    thread: Option<JoinHandle<()>>,
}

impl SpareMaker {
    pub(crate) fn new(files: Arc<dyn Files>, dir: &Path) -> SpareMaker {
        SpareMaker {
            files,
            dir: dir.to_owned(),
            making: None,
        }
    }

    /// Starts making a file of this size, unless one is being made or ready. A failure shows when the
    /// file is taken.
    pub(crate) fn start(&mut self, size: u64) {
        if self.making.is_some() {
            return;
        }
        let (send, made) = channel();
        let (files, path) = (self.files.clone(), spare_path(&self.dir));
        let job = Box::new(move || {
            // The receiver is gone only if the writer is.
            let _ = send.send(make(&*files, &path, size));
        });
        // Without a thread, the file is made when it is taken.
        if let Ok(thread) = self.files.run_aside("synod-log-spare", job) {
            self.making = Some(Making { size, made, thread });
        }
    }

    /// A blank file of this size under the spare's name, content and size durable.
    pub(crate) fn take(&mut self, size: u64) -> Result<Arc<dyn File>, LogError> {
        let ready = self.making.take().and_then(|making| making.finish(size));
        match ready {
            Some(file) => Ok(file),
            None => make_spare(&*self.files, &self.dir, size),
        }
    }
}

/// Makes a blank file of this size under the spare's name, content and size durable.
pub(crate) fn make_spare(
    files: &dyn Files,
    dir: &Path,
    size: u64,
) -> Result<Arc<dyn File>, LogError> {
    let path = spare_path(dir);
    make(files, &path, size).map_err(|error| LogError::io("allocate", &path, size, error))
}

impl Making {
    /// Waits; answers the file if it was made and has this size.
    fn finish(self, size: u64) -> Option<Arc<dyn File>> {
        let made = self.made.recv();
        if let Some(thread) = self.thread {
            // A panic there shows as a file that was not made.
            let _ = thread.join();
        }
        made.ok()?.ok().filter(|_| self.size == size)
    }
}

impl Drop for SpareMaker {
    fn drop(&mut self) {
        if let Some(making) = self.making.take() {
            making.finish(0);
        }
    }
}

fn make(files: &dyn Files, path: &Path, size: u64) -> io::Result<Arc<dyn File>> {
    let file = files.open(path, OpenMode::Create)?;
    zero(&*file, 0, size)?;
    file.sync_all()?;
    Ok(file)
}

/// Writes zeros to a range, syncing now and then.
pub(crate) fn zero(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at)
            .unwrap_or(usize::MAX)
            .min(ZEROS.len());
        write_all_at(file, &ZEROS[..len], at)?;
        let next = at + len as u64; // below `to`
        if at / SYNC_EVERY_BYTES != next / SYNC_EVERY_BYTES {
            file.sync_data()?;
        }
        at = next;
    }
    Ok(())
}
