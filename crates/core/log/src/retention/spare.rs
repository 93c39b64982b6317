//! Segments made ahead of need. A new file is filled with zeros and synced before it is used, so
//! that a sync on the commit path never has to write file-system metadata, and space for a segment
//! is certain before its first record (decision 002). It then gets an open header and its name in
//! the log, and the control file names it. A thread of its own does all that beside the writer, at
//! a pace that leaves the disk to the writer. So the writer needs nothing but the write of its
//! first batch, which completes the header.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::LogError;
use crate::files::{File, Files, OpenMode, write_all_at};
use crate::format::names::{segment_path, spare_path};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::shared::{ControlKeeper, Segment};

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// Most bytes that wait in the page cache at recovery.
const SYNC_EVERY_BYTES: u64 = 4 << 20;
/// The same beside the writer: its syncs share the disk.
const PIECE_BYTES: u64 = 1 << 20;
/// After each piece the disk is left alone for this many times as long as the piece took ...
const REST_FACTOR: u32 = 3;
/// ... and for this long at most.
const REST_MAX: Duration = Duration::from_millis(200);

/// Makes the next segment ahead of need, at most one at a time. Dropping it stops and waits.
pub(crate) struct SegmentMaker {
    files: Arc<dyn Files>,
    dir: PathBuf,
    control: Arc<ControlKeeper>,
    making: Option<Making>,
}

pub(crate) struct ReadySegment {
    pub(crate) file: Arc<dyn File>,
    /// Durable in the file, and open.
    pub(crate) header: SegmentHeader,
}

struct Making {
    size: u64,
    pace: Arc<Pace>,
    made: Receiver<Result<ReadySegment, LogError>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Pace {
    hurry: AtomicBool,
    stop: AtomicBool,
}

impl SegmentMaker {
    pub(crate) fn new(
        files: Arc<dyn Files>,
        dir: &Path,
        control: Arc<ControlKeeper>,
    ) -> SegmentMaker {
        SegmentMaker {
            files,
            dir: dir.to_owned(),
            control,
            making: None,
        }
    }

    /// Does nothing while one is ready or under way. `header` is open; its id is drawn.
    /// [`SegmentMaker::take`] reports a failure.
    pub(crate) fn start(&mut self, header: SegmentHeader) {
        if self.making.is_some() {
            return;
        }
        let (send, made) = channel();
        let (size, pace) = (header.size, Arc::new(Pace::default()));
        let (files, dir) = (self.files.clone(), self.dir.clone());
        let (control, its_pace) = (self.control.clone(), pace.clone());
        let job = Box::new(move || {
            // The receiver is gone only if the writer is.
            let _ = send.send(make_ready(&*files, &dir, &control, header, &its_pace));
        });
        // Without a thread, the segment is made when it is taken.
        if let Ok(thread) = self.files.run_aside("synod-log-spare", job) {
            self.making = Some(Making {
                size,
                pace,
                made,
                thread,
            });
        }
    }

    pub(crate) fn hurry(&self) {
        if let Some(making) = &self.making {
            making.pace.hurry.store(true, Ordering::Relaxed);
        }
    }

    /// A segment of at least the size in this header. Made now, unless it is ready.
    pub(crate) fn take(&mut self, header: SegmentHeader) -> Result<ReadySegment, LogError> {
        let ready = self.making.take().and_then(|making| {
            let fits = making.size >= header.size;
            making.finish(fits).filter(|_| fits)
        });
        match ready {
            Some(ready) => Ok(ready),
            None => {
                let pace = Pace::default();
                pace.hurry.store(true, Ordering::Relaxed);
                make_ready(&*self.files, &self.dir, &self.control, header, &pace)
            }
        }
    }
}

impl Drop for SegmentMaker {
    fn drop(&mut self) {
        if let Some(making) = self.making.take() {
            making.finish(false);
        }
    }
}

impl Making {
    /// Waits for the segment, or stops making it; `None` if it was not made.
    fn finish(self, wanted: bool) -> Option<ReadySegment> {
        let urgent = if wanted {
            &self.pace.hurry
        } else {
            &self.pace.stop
        };
        urgent.store(true, Ordering::Relaxed);
        let made = self.made.recv();
        if let Some(thread) = self.thread {
            // A panic there shows as a segment that was not made.
            let _ = thread.join();
        }
        made.ok()?.ok()
    }
}

impl Pace {
    fn check(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    }

    /// Leaves the disk alone after a piece of work that took this long.
    fn rest(&self, files: &dyn Files, worked: Duration) {
        if !self.hurry.load(Ordering::Relaxed) {
            files.rest(worked.saturating_mul(REST_FACTOR).min(REST_MAX));
        }
    }
}

/// Durable on return, also in the control file, so that a start notices if the file is lost.
fn make_ready(
    files: &dyn Files,
    dir: &Path,
    control: &ControlKeeper,
    mut header: SegmentHeader,
    pace: &Pace,
) -> Result<ReadySegment, LogError> {
    let number = header.number;
    let (spare, path) = (spare_path(dir), segment_path(dir, number));
    let made = (|| {
        header.id = files.random_u64()?;
        let file = files.open(&spare, OpenMode::Create)?;
        fill(files, &*file, header.size, pace)?;
        write_all_at(&*file, &header.encode(), 0)?;
        file.sync_all()?;
        files.rename(&spare, &path)?;
        files.sync_dir(dir)?;
        Ok(file)
    })();
    let made = made.map_err(|error| LogError::io("allocate", &path, header.size, error));
    let named = made.and_then(|file| {
        control.replace(|control| control.newest_segment = number)?;
        Ok(file)
    });
    match named {
        Ok(file) => Ok(ReadySegment { file, header }),
        Err(error) => {
            // Its space is needed for the control file when the log is purged. If it cannot be
            // removed, that fails, too.
            let _ = files.remove(&spare);
            let unnamed = control.values().newest_segment < number;
            if unnamed && matches!(error, LogError::NoSpace { .. }) {
                let _ = files.remove(&path);
            }
            Err(error)
        }
    }
}

/// Makes a segment at once: a blank file under the spare's name, whose content and size are
/// durable; then a complete header, and its name in the log. Durable on return.
pub(crate) fn create_segment(
    files: &dyn Files,
    dir: &Path,
    header: &SegmentHeader,
) -> Result<(), LogError> {
    let (spare, path) = (spare_path(dir), segment_path(dir, header.number));
    let made = (|| {
        let file = files.open(&spare, OpenMode::Create)?;
        zero(&*file, 0, header.size)?;
        file.sync_all()?;
        Ok(file)
    })();
    let file = made.map_err(|error| LogError::io("allocate", &spare, header.size, error))?;
    let installed = (|| {
        write_all_at(&*file, &header.encode(), 0)?;
        file.sync_all()?;
        files.rename(&spare, &path)?;
        files.sync_dir(dir)
    })();
    installed.map_err(|error| LogError::io("create", &path, header.size, error))
}

fn fill(files: &dyn Files, file: &dyn File, size: u64, pace: &Pace) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        pace.check()?;
        let began = files.now();
        let next = (at + PIECE_BYTES).min(size);
        write_zeros(file, at, next)?;
        file.sync_data()?;
        let worked = files.now().duration_since(began).unwrap_or_default();
        pace.rest(files, worked);
        at = next;
    }
    Ok(())
}

/// Writes zeros to a range, and syncs every [`SYNC_EVERY_BYTES`].
pub(crate) fn zero(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let next = (at + SYNC_EVERY_BYTES).min(to);
        write_zeros(file, at, next)?;
        file.sync_data()?;
        at = next;
    }
    Ok(())
}

fn write_zeros(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at)
            .unwrap_or(usize::MAX)
            .min(ZEROS.len());
        write_all_at(file, &ZEROS[..len], at)?;
        at += len as u64; // below `to`
    }
    Ok(())
}

impl Segment {
    pub(crate) fn new(header: &SegmentHeader, file: Arc<dyn File>) -> Segment {
        Segment {
            number: header.number,
            id: header.id,
            file,
            size: header.size,
            end: SEGMENT_HEADER_BYTES,
            created_ms: header.created_ms,
        }
    }
}
