//! The operating system's files. Positioned reads and writes, `fdatasync` for content, `fsync` for
//! a new file and for a directory, and `flock` for the lock file, which a crash of the process
//! releases.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;

use super::{File, FileLock, Files, LockError, OpenMode, Space};

/// Only the server's user, and its group, may read write sets.
const MODE: u32 = 0o640;

/// The operating system. The standard library opens everything close-on-exec.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

struct RealFile(fs::File);

struct RealLock {
    // Never read: the lock lasts as long as the description is open.
    _file: fs::File,
}

impl FileLock for RealLock {}

impl Files for RealFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let missing = dir.ancestors().take_while(|dir| !dir.exists());
        let parents: Vec<_> = missing.filter_map(Path::parent).collect();
        fs::create_dir_all(dir)?;
        // POSIX does not promise that a new name is durable with what is synced below it.
        for parent in parents.into_iter().rev() {
            let parent = if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            };
            self.sync_dir(parent)?;
        }
        Ok(())
    }

    fn space(&self, dir: &Path) -> io::Result<Option<Space>> {
        let found = statvfs(dir)?;
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        let usable = used.saturating_add(found.f_bavail);
        Ok(Some(Space {
            // As 'df' counts: what is reserved for others is not part of it.
            total: usable.saturating_mul(found.f_frsize),
            free: found.f_bavail.saturating_mul(found.f_frsize),
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in fs::read_dir(dir)? {
            let item = item?;
            if item.file_type()?.is_file() {
                // Names that are not UTF-8 are not ours.
                names.extend(item.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).mode(MODE);
        match mode {
            OpenMode::Read => {}
            OpenMode::Write => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create(true).truncate(true);
            }
        }
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        let mut options = fs::OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE);
        let mut file = options.open(path).map_err(LockError::Io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(LockError::Held {
                    pid: read_pid(&mut file),
                });
            }
            Err(errno) => return Err(LockError::Io(errno.into())),
        }
        // Only for people: the lock itself is what counts, so nothing is synced.
        file.set_len(0).map_err(LockError::Io)?;
        file.write_all(format!("{}\n", std::process::id()).as_bytes())
            .map_err(LockError::Io)?;
        Ok(Box::new(RealLock { _file: file }))
    }

    fn random_u64(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn rest(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn run_aside(
        &self,
        name: &str,
        job: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        // The signal mask is inherited from the caller.
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(job)
            .map(Some)
    }
}

fn read_pid(file: &mut fs::File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}
