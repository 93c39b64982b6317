//! Wraps other files and fails chosen operations. For tests and the simulator only.
//!
//! A [`Fault`] names an operation and counts: the n-th one from now fails. Sectors can be made
//! unreadable until [`FaultyFiles::heal`].

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use crate::files::{EIO, File, FileLock, Files, LockError, OpenMode, Space};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// [`Files::open`] with [`OpenMode::Create`].
    Create,
    Write,
    Read,
    SetLen,
    Sync,
    SyncDir,
    Rename,
    Remove,
    /// Any of these that changes something.
    Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    Once(io::ErrorKind),
    /// With this error, and so do all later ones of the kind.
    Always(io::ErrorKind),
    /// A write stores at most this many bytes and says so.
    Short(usize),
}

#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub op: Op,
    /// Counted since the fault was planned: 1 is the next such operation.
    pub nth: u64,
    pub kind: FaultKind,
}

#[derive(Clone)]
pub struct FaultyFiles {
    inner: Arc<dyn Files>,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Plan(Mutex<State>);

#[derive(Default)]
struct State {
    faults: Vec<(Fault, u64)>,
    unreadable: Vec<(PathBuf, Range<u64>)>,
    changes: u64,
    reads: u64,
    /// Changes that the caller's thread has made since it asked for them; none: it never has.
    seen: Option<Vec<Op>>,
    runs_aside: bool,
}

struct FaultyFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    plan: Arc<Plan>,
}

impl FaultyFiles {
    pub fn new(inner: Arc<dyn Files>) -> FaultyFiles {
        FaultyFiles {
            inner,
            plan: Arc::default(),
        }
    }

    pub fn plan(&self, fault: Fault) {
        self.plan.state().faults.push((fault, 0));
    }

    /// Sectors of a file that the disk cannot read: reads that touch them fail with an I/O error.
    pub fn unreadable(&self, path: &Path, bytes: Range<u64>) {
        let entry = (path.to_owned(), bytes);
        self.plan.state().unreadable.push(entry);
    }

    pub fn heal(&self) {
        let mut state = self.plan.state();
        state.faults.clear();
        state.unreadable.clear();
    }

    pub fn reads(&self) -> u64 {
        self.plan.state().reads
    }

    pub fn changes(&self) -> u64 {
        self.plan.state().changes
    }

    /// Changing operations since the last call, but for those of jobs beside the writer.
    pub fn take_changes(&self) -> Vec<Op> {
        self.plan
            .state()
            .seen
            .replace(Vec::new())
            .unwrap_or_default()
    }
}

impl Plan {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_readable(&self, path: &Path, offset: u64, len: usize) -> io::Result<()> {
        let end = offset.saturating_add(len as u64); // usize is at most 64 bits
        let touches = |range: &Range<u64>| range.start < end && offset < range.end;
        let state = self.state();
        let mut unreadable = state.unreadable.iter();
        if unreadable.any(|(file, range)| file == path && touches(range)) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }

    fn pass(&self, op: Op) -> io::Result<usize> {
        let mut state = self.state();
        if op == Op::Read {
            state.reads += 1;
        } else {
            state.changes += 1;
            if !state.runs_aside
                && let Some(seen) = &mut state.seen
            {
                seen.push(op);
            }
        }
        for (fault, count) in &mut state.faults {
            if fault.op != op && (fault.op != Op::Change || op == Op::Read) {
                continue;
            }
            *count += 1;
            match fault.kind {
                FaultKind::Once(kind) if *count == fault.nth => return Err(kind.into()),
                FaultKind::Always(kind) if *count >= fault.nth => return Err(kind.into()),
                FaultKind::Short(bytes) if *count == fault.nth => return Ok(bytes),
                FaultKind::Once(_) | FaultKind::Always(_) | FaultKind::Short(_) => {}
            }
        }
        Ok(usize::MAX)
    }
}

impl Files for FaultyFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<Option<Space>> {
        self.inner.space(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if mode == OpenMode::Create {
            self.plan.pass(Op::Create)?;
        }
        let inner = self.inner.open(path, mode)?;
        Ok(Arc::new(FaultyFile {
            inner,
            path: path.to_owned(),
            plan: self.plan.clone(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.pass(Op::Rename)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.plan.pass(Op::Remove)?;
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.plan.pass(Op::SyncDir)?;
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        self.inner.lock(path)
    }

    fn random_u64(&self) -> io::Result<u64> {
        self.inner.random_u64()
    }

    fn now(&self) -> SystemTime {
        self.inner.now()
    }

    fn rest(&self, time: Duration) {
        self.inner.rest(time);
    }

    fn run_aside(
        &self,
        name: &str,
        job: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        self.plan.state().runs_aside = true;
        let done = self.inner.run_aside(name, job);
        self.plan.state().runs_aside = false;
        done
    }
}

impl File for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.plan.pass(Op::Read)?;
        self.plan.check_readable(&self.path, offset, buf.len())?;
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let allowed = self.plan.pass(Op::Write)?;
        self.inner
            .write_at(&bytes[..bytes.len().min(allowed)], offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.plan.pass(Op::SetLen)?;
        self.inner.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.plan.pass(Op::Sync)?;
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.plan.pass(Op::Sync)?;
        self.inner.sync_all()
    }
}
