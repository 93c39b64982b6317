//! Files in memory that remember what a power cut would leave. For tests and the simulator only.
//!
//! Each file keeps two contents: what a reader sees now, and what was synced.
//! [`MemoryFiles::crash`] makes the image that a power cut would leave between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::files::{File, FileLock, Files, LockError, OpenMode, Space};

/// Smallest unit a disk writes as a whole.
const SECTOR: usize = 512;

/// Files in memory.
///
/// Writes and name changes are visible at once and durable after the matching sync.
/// [`MemoryFiles::crash`] makes the image a power cut would leave: everything synced, and of the
/// rest a seeded choice. Names change in order, as on a journalling file system; sectors reach the
/// disk in any order or not at all. Everything is deterministic: random numbers come from the seed,
/// and the clock stands still.
#[derive(Clone)]
pub struct MemoryFiles {
    disk: Arc<Mutex<Disk>>,
}

struct Disk {
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    name_changes: Vec<(PathBuf, Option<usize>)>,
    inodes: Vec<Inode>,
    locks: BTreeSet<PathBuf>,
    random: u64,
    now: SystemTime,
    /// Bytes that fit; none: there is no bound.
    size: Option<u64>,
}

#[derive(Clone, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    changes: Vec<Change>,
    /// Ranges written, oldest first.
    written: Vec<Range<u64>>,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

struct MemoryFile {
    disk: Arc<Mutex<Disk>>,
    inode: usize,
    writable: bool,
}

struct MemoryLock {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
}

impl FileLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        locked(&self.disk).locks.remove(&self.path);
    }
}

fn locked(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryFiles {
    /// An empty disk; `seed` feeds [`Files::random_u64`].
    pub fn new(seed: u64) -> MemoryFiles {
        let disk = Disk {
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            inodes: Vec::new(),
            locks: BTreeSet::new(),
            random: seed,
            now: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            size: None,
        };
        MemoryFiles {
            disk: Arc::new(Mutex::new(disk)),
        }
    }

    /// The disk after a power cut at this moment; this disk itself is unchanged. Seed zero loses
    /// everything that was not synced, `u64::MAX` keeps everything; others choose sector by sector.
    pub fn crash(&self, seed: u64) -> MemoryFiles {
        let disk = locked(&self.disk);
        let mut chance = Chance {
            state: seed,
            fixed: fixed_choice(seed),
        };
        let mut names = disk.durable_names.clone();
        let kept = chance.below(disk.name_changes.len() + 1);
        for (path, inode) in disk.name_changes.iter().take(kept) {
            apply_name(&mut names, path, *inode);
        }
        let inodes = disk
            .inodes
            .iter()
            .map(|inode| inode.after_crash(&mut chance))
            .collect();
        let image = Disk {
            durable_names: names.clone(),
            names,
            name_changes: Vec::new(),
            inodes,
            locks: BTreeSet::new(),
            random: disk.random.wrapping_add(seed).wrapping_add(1),
            now: disk.now,
            size: disk.size,
        };
        MemoryFiles {
            disk: Arc::new(Mutex::new(image)),
        }
    }

    pub fn set_size(&self, bytes: u64) {
        locked(&self.disk).size = Some(bytes);
    }

    /// Marks all bytes as clean, as an operating system does when a sync fails. Bytes that were not
    /// synced can still be read, but no later sync writes them; only writing them again does.
    pub fn lose_unsynced_silently(&self) {
        for inode in &mut locked(&self.disk).inodes {
            inode.changes.clear();
        }
    }

    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = locked(&self.disk);
        disk.names
            .get(path)
            .map(|inode| disk.inodes[*inode].now.clone())
    }

    /// Replaces (durably) the content of a file, to damage it by hand.
    pub fn set_content(&self, path: &Path, content: Vec<u8>) {
        let mut disk = locked(&self.disk);
        let inode = disk.inodes.len();
        disk.inodes.push(Inode {
            now: content.clone(),
            durable: content,
            changes: Vec::new(),
            written: Vec::new(),
        });
        disk.names.insert(path.to_owned(), inode);
        disk.durable_names.insert(path.to_owned(), inode);
    }

    /// Ranges written to a file, oldest first.
    pub fn writes(&self, path: &Path) -> Vec<Range<u64>> {
        let disk = locked(&self.disk);
        let inode = disk.names.get(path).map(|inode| &disk.inodes[*inode]);
        inode.map_or(Vec::new(), |inode| inode.written.clone())
    }

    /// Changes bytes on the disk itself, also for files that are open: what a disk does when it
    /// loses bits or misdirects a write. Bytes beyond the file's end are ignored.
    pub fn harm(&self, path: &Path, offset: u64, bytes: &[u8]) {
        let mut disk = locked(&self.disk);
        let Some(inode) = disk.names.get(path).copied() else {
            return;
        };
        let inode = &mut disk.inodes[inode];
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        for content in [&mut inode.now, &mut inode.durable] {
            if let Some(place) = content.get_mut(offset..) {
                let len = place.len().min(bytes.len());
                place[..len].copy_from_slice(&bytes[..len]);
            }
        }
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        locked(&self.disk).names.keys().cloned().collect()
    }
}

fn fixed_choice(seed: u64) -> Option<bool> {
    match seed {
        0 => Some(false),
        u64::MAX => Some(true),
        _ => None,
    }
}

fn apply_name(names: &mut BTreeMap<PathBuf, usize>, path: &Path, inode: Option<usize>) {
    match inode {
        Some(inode) => names.insert(path.to_owned(), inode),
        None => names.remove(path),
    };
}

struct Chance {
    state: u64,
    fixed: Option<bool>,
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Chance {
    fn keep(&mut self) -> bool {
        self.fixed
            .unwrap_or_else(|| splitmix(&mut self.state) & 1 == 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        match self.fixed {
            Some(true) => bound - 1,
            Some(false) => 0,
            None => (splitmix(&mut self.state) % bound as u64) as usize, // below a usize
        }
    }
}

impl Inode {
    fn after_crash(&self, chance: &mut Chance) -> Inode {
        let mut content = self.durable.clone();
        for change in &self.changes {
            match change {
                Change::Write { offset, bytes } => tear(&mut content, *offset, bytes, chance),
                Change::SetLen(len) if chance.keep() => content.resize(*len, 0),
                Change::SetLen(_) => {}
            }
        }
        Inode {
            now: content.clone(),
            durable: content,
            changes: Vec::new(),
            written: self.written.clone(),
        }
    }
}

fn tear(content: &mut Vec<u8>, offset: usize, bytes: &[u8], chance: &mut Chance) {
    let mut at = 0;
    while at < bytes.len() {
        let end = (at + SECTOR - (offset + at) % SECTOR).min(bytes.len());
        if chance.keep() {
            write_into(content, offset + at, &bytes[at..end]);
        }
        at = end;
    }
}

fn write_into(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

impl Disk {
    fn set_name(&mut self, path: &Path, inode: Option<usize>) {
        apply_name(&mut self.names, path, inode);
        self.name_changes.push((path.to_owned(), inode));
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names
            .get(path)
            .copied()
            .ok_or(io::ErrorKind::NotFound.into())
    }
}

impl Files for MemoryFiles {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn space(&self, _dir: &Path) -> io::Result<Option<Space>> {
        let disk = locked(&self.disk);
        Ok(disk.size.map(|total| Space {
            total,
            free: total.saturating_sub(disk.used()),
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let disk = locked(&self.disk);
        let inside = disk.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside
            .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
            .collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut disk = locked(&self.disk);
        let inode = match (disk.find(path), mode) {
            (Ok(inode), OpenMode::Read | OpenMode::Write) => inode,
            (Ok(inode), OpenMode::Create) => {
                disk.inodes[inode].set_len(0);
                inode
            }
            (Err(error), OpenMode::Read | OpenMode::Write) => return Err(error),
            (Err(_), OpenMode::Create) => {
                disk.inodes.push(Inode::default());
                let inode = disk.inodes.len() - 1;
                disk.set_name(path, Some(inode));
                inode
            }
        };
        let writable = mode != OpenMode::Read;
        Ok(Arc::new(MemoryFile {
            disk: self.disk.clone(),
            inode,
            writable,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = locked(&self.disk);
        let inode = disk.find(from)?;
        // The new name first: a crash between the two may show both, never neither.
        disk.set_name(to, Some(inode));
        disk.set_name(from, None);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = locked(&self.disk);
        disk.find(path)?;
        disk.set_name(path, None);
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut disk = locked(&self.disk);
        disk.durable_names = disk.names.clone();
        disk.name_changes.clear();
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        if !locked(&self.disk).locks.insert(path.to_owned()) {
            return Err(LockError::Held { pid: None });
        }
        Ok(Box::new(MemoryLock {
            disk: self.disk.clone(),
            path: path.to_owned(),
        }))
    }

    fn random_u64(&self) -> io::Result<u64> {
        Ok(splitmix(&mut locked(&self.disk).random))
    }

    fn now(&self) -> SystemTime {
        locked(&self.disk).now
    }

    fn rest(&self, _time: Duration) {}

    fn run_aside(
        &self,
        _name: &str,
        job: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        job();
        Ok(None)
    }
}

impl Disk {
    fn used(&self) -> u64 {
        let inodes: BTreeSet<usize> = self.names.values().copied().collect();
        let bytes = inodes.iter().map(|inode| self.inodes[*inode].now.len());
        bytes.map(|len| len as u64).sum() // usize is at most 64 bits
    }

    fn check_room(&self, inode: usize, len: u64) -> io::Result<()> {
        let grows = len.saturating_sub(self.inodes[inode].now.len() as u64);
        match self.size {
            Some(size) if grows > 0 && self.used().saturating_add(grows) > size => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }
}

impl Inode {
    fn set_len(&mut self, len: usize) {
        self.now.resize(len, 0);
        self.changes.push(Change::SetLen(len));
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::Write { offset, bytes } => write_into(&mut self.durable, offset, &bytes),
                Change::SetLen(len) => self.durable.resize(len, 0),
            }
        }
    }
}

fn position(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = locked(&self.disk);
        let content = disk.inodes[self.inode]
            .now
            .get(position(offset)?..)
            .unwrap_or_default();
        let len = content.len().min(buf.len());
        buf[..len].copy_from_slice(&content[..len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let written = offset..offset.saturating_add(bytes.len() as u64); // usize is at most 64 bits
        let offset = position(offset)?;
        let mut disk = locked(&self.disk);
        disk.check_room(self.inode, written.end)?;
        let inode = &mut disk.inodes[self.inode];
        inode.written.push(written);
        write_into(&mut inode.now, offset, bytes);
        inode.changes.push(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
        Ok(bytes.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = position(len)?;
        locked(&self.disk).inodes[self.inode].set_len(len);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(locked(&self.disk).inodes[self.inode].now.len() as u64) // usize is at most 64 bits
    }

    fn sync_data(&self) -> io::Result<()> {
        locked(&self.disk).inodes[self.inode].sync();
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_cut_keeps_synced_bytes_and_names_only() {
        let files = MemoryFiles::new(1);
        let path = Path::new("d/f");
        let file = files.open(path, OpenMode::Create).unwrap();
        file.write_at(b"synced", 0).unwrap();
        file.sync_data().unwrap();
        assert!(files.crash(0).content(path).is_none());
        files.sync_dir(Path::new("d")).unwrap();
        file.write_at(b"later!", 6).unwrap();
        assert_eq!(files.crash(0).content(path).unwrap(), b"synced");
        assert_eq!(
            files.crash(u64::MAX).content(path).unwrap(),
            b"syncedlater!"
        );
        assert_eq!(files.content(path).unwrap(), b"syncedlater!");
    }

    #[test]
    fn harm_is_seen_through_open_files_and_outlives_a_power_cut() {
        let files = MemoryFiles::new(1);
        let path = Path::new("d/f");
        let file = files.open(path, OpenMode::Create).unwrap();
        files.sync_dir(Path::new("d")).unwrap();
        file.write_at(b"0123", 0).unwrap();
        file.write_at(b"4567", 4).unwrap();
        file.sync_data().unwrap();
        assert_eq!(files.writes(path), [0..4, 4..8]);
        files.harm(path, 6, b"xyz");
        let mut read = [0; 8];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), 8);
        assert_eq!(&read, b"012345xy");
        assert_eq!(files.crash(0).content(path).unwrap(), b"012345xy");
        assert_eq!(files.crash(0).writes(path), [0..4, 4..8]);
    }

    #[test]
    fn sectors_of_an_unsynced_write_survive_one_by_one() {
        let files = MemoryFiles::new(1);
        let file = files.open(Path::new("f"), OpenMode::Create).unwrap();
        files.sync_dir(Path::new("")).unwrap();
        file.write_at(&[1; 4 * SECTOR], 100).unwrap();
        let mixed = (1..50).any(|seed| {
            let image = files.crash(seed).content(Path::new("f")).unwrap();
            let ones = image.iter().filter(|byte| **byte == 1).count();
            ones > 0 && ones < 4 * SECTOR
        });
        assert!(mixed);
    }
}
