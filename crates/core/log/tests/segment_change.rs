//! The change to the next segment: what it costs the writer, and what a crash around it leaves.

mod common;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use common::*;
use synod_consensus::{ConfigAt, LogIndex};
use synod_log::files::{File, FileLock, LockError, OpenMode};
use synod_log::{Files, Log, LogError, MemoryFiles, Space};

/// Notes the operations that change a disk, unless a thread beside the writer makes them.
#[derive(Clone)]
struct Watched {
    inner: MemoryFiles,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    aside: AtomicBool,
    operations: Mutex<Vec<&'static str>>,
}

struct WatchedFile {
    inner: Arc<dyn File>,
    seen: Arc<Seen>,
}

impl Seen {
    fn note(&self, operation: &'static str) {
        if !self.aside.load(Ordering::Relaxed) {
            self.operations.lock().unwrap().push(operation);
        }
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.operations.lock().unwrap())
    }
}

impl Files for Watched {
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
        self.seen.note("open");
        Ok(Arc::new(WatchedFile {
            inner: self.inner.open(path, mode)?,
            seen: self.seen.clone(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.seen.note("rename");
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.seen.note("remove");
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.seen.note("sync of the directory");
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
        self.seen.aside.store(true, Ordering::Relaxed);
        let done = self.inner.run_aside(name, job);
        self.seen.aside.store(false, Ordering::Relaxed);
        done
    }
}

impl File for WatchedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.seen.note("write");
        self.inner.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.seen.note("sync");
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.seen.note("sync");
        self.inner.sync_all()
    }
}

fn segment(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("synod-{number:016x}.log"))
}

/// A log of 15 entries over two segments, and a third one that is ready.
fn with_ready_segment() -> MemoryFiles {
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    for entry in actions(1, 1, 10, 9000) {
        writer.append(&[entry]).unwrap();
        writer.sync().unwrap();
    }
    files
}

#[test]
fn change_of_the_segment_costs_the_writer_one_write_and_one_sync() {
    let seen = Arc::new(Seen::default());
    let files = Watched {
        inner: MemoryFiles::new(1),
        seen: seen.clone(),
    };
    let mut writer = open(&files).writer;
    seen.take();
    let config = |_: LogIndex| Some(ConfigAt::default());
    for entry in actions(1, 1, 200, 9000) {
        let index = entry.header.index;
        writer.append(&[entry]).unwrap();
        writer.sync().unwrap();
        assert_eq!(seen.take(), ["write", "sync"], "at {index}");
        writer.purge(LogIndex(index.0 / 2), &config).unwrap();
        assert_eq!(seen.take(), [""; 0], "purge at {index}");
    }
    let gone = (1..10).filter(|number| files.inner.content(&segment(*number)).is_none());
    assert_eq!(gone.count(), 9, "the purge removes files beside the writer");
}

#[test]
fn segment_that_was_not_used_is_made_again() {
    let files = with_ready_segment();
    assert!(files.content(&segment(3)).is_some());
    for seed in [0, 1, u64::MAX] {
        let image = files.crash(seed);
        let mut opened = open(&image);
        assert!(image.content(&segment(3)).is_none(), "removed by the start");
        opened.writer.append(&actions(1, 11, 30, 9000)).unwrap();
        opened.writer.sync().unwrap();
        drop(opened);
        assert_eq!(all(&open(&image.crash(0)).reader), actions(1, 1, 30, 9000));
    }
}

#[test]
fn first_batch_of_a_segment_that_a_crash_tears_is_cut_whole() {
    let files = with_ready_segment();
    let ready = files.content(&segment(3)).unwrap();
    let mut writer = open(&files).writer;
    // Fills the second segment, and is torn in the third.
    writer.append(&actions(1, 11, 13, 9000)).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let image = files.content(&segment(3)).unwrap();
    let used = image.iter().rposition(|byte| *byte != 0).unwrap();
    let expected = all(&open(&files.crash(u64::MAX)).reader);
    assert_eq!(expected, actions(1, 1, 13, 9000));
    for kept in (512..used).step_by(512) {
        // The sectors before `kept` are lost, the header's among them. The header that a crash
        // leaves then is the open one of this very segment.
        let torn = files.crash(u64::MAX);
        let mut content = image.clone();
        content[..kept].fill(0);
        let mut header = ready[..512].to_vec();
        header[24..32].copy_from_slice(&image[24..32]);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[8..12]), &header[16..160]);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
        content[..512].copy_from_slice(&header);
        torn.set_content(&segment(3), content);
        let found = all(&open(&torn).reader);
        assert!(found.len() < 13 && expected.starts_with(&found), "{kept}");
    }
}

#[test]
fn complete_header_that_is_lost_is_damage() {
    let files = with_ready_segment();
    let open_header = files.content(&segment(3)).unwrap()[..4096].to_vec();
    // The same segment is used: no start comes between.
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    for entry in actions(1, 1, 15, 9000) {
        writer.append(&[entry]).unwrap();
        writer.sync().unwrap();
    }
    drop(writer);
    files.harm(&segment(3), 0, &open_header);
    match try_open(&files).map(drop) {
        Err(LogError::Damaged { path, .. }) => assert_eq!(path, segment(3)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn log_of_format_2_is_read_and_continued() {
    let files = with_ready_segment();
    // A log of format 2 has no segment that was made ahead, its control file does not name one, and
    // its checksums do not cover the version.
    open(&files).writer.close().unwrap();
    for number in [1, 2] {
        let mut content = files.content(&segment(number)).unwrap();
        content[8] = 2;
        let crc = crc32c::crc32c(&content[16..160]);
        content[12..16].copy_from_slice(&crc.to_le_bytes());
        files.set_content(&segment(number), content);
    }
    let path = Path::new(DIR).join("synod-control.log");
    let mut control = files.content(&path).unwrap();
    control[8] = 2;
    control.drain(68..76);
    let len = control.len() as u32 - 20;
    control[16..20].copy_from_slice(&len.to_le_bytes());
    let crc = crc32c::crc32c(&control[16..]);
    control[12..16].copy_from_slice(&crc.to_le_bytes());
    files.set_content(&path, control);
    let mut opened = Log::open(Arc::new(files.clone()), Path::new(DIR), options()).unwrap();
    opened.writer.append(&actions(1, 11, 30, 9000)).unwrap();
    opened.writer.sync().unwrap();
    opened.writer.close().unwrap();
    assert_eq!(all(&open(&files).reader), actions(1, 1, 30, 9000));
}
