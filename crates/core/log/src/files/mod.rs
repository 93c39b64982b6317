//! The file operations the log needs, as one small trait. `RealFiles` is the operating system.
//! [`MemoryFiles`] and [`FaultyFiles`] are for tests and the simulator: the first can lose power,
//! the second fails chosen operations of either. Only here the crate meets a disk, a clock or
//! randomness. So a test that replaces it decides everything.

#[cfg(unix)]
mod real;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

#[cfg(unix)]
pub use real::RealFiles;

pub use crate::testing::{Fault, FaultKind, FaultyFiles, MemoryFiles, Op};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Used bytes, and those still available to this process.
    pub total: u64,
    pub free: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    Read,
    Write,
    /// For reading and writing; emptied if it exists.
    Create,
}

/// A held lock; dropping it releases the lock.
pub trait FileLock: Send + Sync {}

#[derive(Debug)]
pub enum LockError {
    Held {
        /// The holder's process number, if it left one.
        pid: Option<u32>,
    },
    Io(io::Error),
}

pub trait Files: Send + Sync {
    /// Makes the directory and its parents unless it exists. Durable on return.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// The space of the file system that holds a directory; `None` if it has no bound.
    fn space(&self, dir: &Path) -> io::Result<Option<Space>>;
    /// Names of the plain files in a directory, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Opens a file (closed on exec).
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Renames, replacing the target. Durable after [`Files::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on a file (created if missing) without waiting.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError>;
    /// A random number; the only source of randomness in this crate.
    fn random_u64(&self) -> io::Result<u64>;
    /// Wall-clock time; the only clock in this crate, used for retention by age.
    fn now(&self) -> SystemTime;
    /// Waits, so that others have the disk. Deterministic files return at once.
    fn rest(&self, time: Duration);
    /// Runs a job beside the caller, which joins the handle; deterministic files run it at once.
    fn run_aside(
        &self,
        name: &str,
        job: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>>;
}

pub trait File: Send + Sync {
    /// Reads up to `buf.len()` bytes; zero at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes up to `bytes.len()` bytes and says how many. Extends the file as needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Shortens or extends (with zeros) to this size.
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes the content durable (fdatasync).
    fn sync_data(&self) -> io::Result<()>;
    /// Makes content and metadata durable (fsync).
    fn sync_all(&self) -> io::Result<()>;
}

pub(crate) fn write_all_at(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64; // usize is at most 64 bits
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Replaces a file as a whole, by way of `new` beside it: after a crash there is the old one or the
/// new one. Durable on return.
pub fn replace_file(files: &dyn Files, new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = files.open(new, OpenMode::Create)?;
    write_all_at(&*file, bytes, 0)?;
    file.sync_all()?;
    files.rename(new, path)?;
    // The rename itself is durable only with its directory.
    files.sync_dir(path.parent().unwrap_or(path))
}

/// Fills the buffer as far as the file reaches; answers how far.
pub(crate) fn read_full_at(file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The number of Linux for "I/O error": the disk cannot read a sector.
pub(crate) const EIO: i32 = 5;
/// Unreadable places are skipped in pieces of this size.
const PAGE_BYTES: usize = 4096;

fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(EIO)
}

/// [`read_full_at`], with pages that the disk cannot read filled with ones: bytes that are neither
/// a record nor blank.
pub(crate) fn read_what_can_be(file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    match read_full_at(file, buf, offset) {
        Err(error) if is_unreadable(&error) => {}
        other => return other,
    }
    let mut done = 0;
    while done < buf.len() {
        let at = offset + done as u64; // usize is at most 64 bits
        let page_left = PAGE_BYTES - (at % PAGE_BYTES as u64) as usize; // below a page
        let len = page_left.min(buf.len() - done);
        let piece = &mut buf[done..done + len];
        match read_full_at(file, piece, at) {
            Ok(read) if read < len => return Ok(done + read),
            Ok(_) => {}
            Err(error) if is_unreadable(&error) => piece.fill(0xff),
            Err(error) => return Err(error),
        }
        done += len;
    }
    Ok(done)
}
