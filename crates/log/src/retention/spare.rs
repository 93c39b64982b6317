//! Segment files made ahead of need.
//!
//! A new file is filled with zeros and synced before it is used, so that a sync on the commit path
//! never has to write file-system metadata, and space for a segment is certain before its first
//! record (see `docs/decisions/003-segment-preallocation.md`). A thread of its own does that,
//! beside the writer. The file gets a segment's name only with [`install_segment`], after its
//! header is durable.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use crate::LogError;
use crate::files::{File, Files, OpenMode, write_all_at};
use crate::format::names::{segment_path, spare_path};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::shared::Segment;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// Most bytes that wait in the page cache: syncs on the commit path share the disk.
const SYNC_EVERY_BYTES: u64 = 4 << 20;

/// Makes the next segment's file ahead of need, at most one at a time.
pub(crate) struct SpareMaker {
    files: Arc<dyn Files>,
    dir: PathBuf,
    making: Option<SpareJob>,
}

struct SpareJob {
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

    /// Starts making a file of this size, unless one is ready or under way. [`SpareMaker::take`]
    /// reports a failure.
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
            self.making = Some(SpareJob { size, made, thread });
        }
    }

    /// A blank file of this size under the spare's name, content and size durable.
    pub(crate) fn take(&mut self, size: u64) -> Result<Arc<dyn File>, LogError> {
        let ready = self.making.take().and_then(|making| making.finish(size));
        match ready {
            Some(file) => Ok(file),
            None => make_spare(&*self.files, &self.dir, size).inspect_err(|_| {
                // The space that a part of it takes is needed for the control file when the log is
                // purged. If it cannot be removed, that fails, too.
                let _ = self.files.remove(&spare_path(&self.dir));
            }),
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

/// Gives a blank file (under the spare's name) a header and then its name in the log. Durable on
/// return.
pub(crate) fn install_segment(
    files: &dyn Files,
    dir: &Path,
    file: Arc<dyn File>,
    header: &SegmentHeader,
) -> Result<Segment, LogError> {
    let path = segment_path(dir, header.number);
    let installed = (|| {
        write_all_at(&*file, &header.encode(), 0)?;
        file.sync_all()?;
        files.rename(&spare_path(dir), &path)?;
        files.sync_dir(dir)
    })();
    installed.map_err(|error| LogError::io("create", &path, header.size, error))?;
    Ok(Segment {
        number: header.number,
        id: header.id,
        file,
        size: header.size,
        end: SEGMENT_HEADER_BYTES,
        created_ms: header.created_ms,
    })
}

impl SpareJob {
    /// Waits for the file; `None` if it was not made or has another size.
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

/// Writes zeros to a range, and syncs every [`SYNC_EVERY_BYTES`].
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
