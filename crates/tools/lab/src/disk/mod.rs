//! A disk that can fail. Without power, what was not synced is lost, as when the machine's plug is
//! pulled: a process that is killed loses nothing of what it gave to the operating system. Frozen,
//! every write hangs; filled, it has no block left. The certificate and end-to-end tests use it.
//!
//! The disk is a file with an ext4 file system, mounted by a loop device. `ext4`'s own shutdown
//! stops the file system without writing anything more, its journal included, while processes still
//! use it; the test then kills them. The file system is mounted again from what the file holds.
//! Options of the mount keep ext4 from syncing by itself what a program forgot to sync.
//!
//! Bytes given to the disk past the page cache, and not synced, are kept: a real disk's own cache
//! may lose these, too.
//!
//! Each loss of power proves itself: a file that was synced just before must be there afterwards,
//! and one that was not synced must not.

pub mod mounts;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use synod_local_cluster::wait_for;

use crate::error::{IoContext, LabError, Result};
use crate::tools::output_of;

/// Time for which a killed process may keep files of a disk open, and a loop device its file.
const PATIENCE: Duration = Duration::from_secs(30);
/// A long interval of commits, and no sync by a rename.
const OPTIONS: &str = "loop,noauto_da_alloc,commit=300";
const SCRIPT: &str = include_str!("lose_power.py");
/// Synced just before the power goes.
const SYNCED: &str = "witness-synced";
/// Written just before the power goes, and not synced.
const UNSYNCED: &str = "witness-unsynced";
/// Takes all free blocks of a full disk.
const FILLER: &str = "filler";

/// A change of a disk, or the end of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskChange {
    Freeze,
    Thaw,
    Fill,
    Empty,
    LosePower,
    RegainPower,
}

/// A mounted disk. Unmounted when dropped; its file is kept for the reader of a failed test.
#[derive(Debug)]
pub struct PoweredDisk {
    image: PathBuf,
    dir: PathBuf,
}

impl PoweredDisk {
    /// Mounts an empty one of so many bytes at this directory, in place of one of an earlier run.
    /// Fails when this user may not mount, there is no loop device, or the file system cannot be
    /// made.
    pub fn mount(dir: &Path, bytes: u64) -> Result<PoweredDisk> {
        mounts::unmount_below(dir)?;
        fs::create_dir_all(dir).context("create", dir)?;
        let disk = PoweredDisk {
            image: dir.with_extension("img"),
            dir: dir.to_owned(),
        };
        disk.make(bytes)?;
        disk.attach()?;
        // Some programs take every directory for one of theirs.
        let found = dir.join("lost+found");
        fs::remove_dir(&found).context("remove", found)?;
        Ok(disk)
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    pub fn change(disks: &[&PoweredDisk], change: DiskChange) -> Result<()> {
        let mut disks_of = disks.iter().copied();
        match change {
            DiskChange::Freeze => disks_of.try_for_each(PoweredDisk::freeze),
            DiskChange::Thaw => disks_of.try_for_each(PoweredDisk::thaw),
            DiskChange::Fill => disks_of.try_for_each(PoweredDisk::fill),
            DiskChange::Empty => disks_of.try_for_each(PoweredDisk::empty),
            DiskChange::LosePower => PoweredDisk::lose_power(disks),
            DiskChange::RegainPower => disks_of.try_for_each(PoweredDisk::regain_power),
        }
    }

    /// Takes the power of these disks, all at once: from now on what is not synced is lost, and
    /// every call on a file of them fails.
    pub fn lose_power(disks: &[&PoweredDisk]) -> Result<()> {
        for disk in disks {
            disk.write_synced()
                .context("write a witness to", &disk.dir)?;
        }
        let mut lose = Command::new("python3");
        lose.args(["-c", SCRIPT, UNSYNCED]);
        lose.args(disks.iter().map(|disk| &disk.dir));
        output_of(&mut lose).map(|_| ())
    }

    /// Gives the power back: mounts what is on the disk. No process uses the disk any more. Fails
    /// when a process does, or the disk does not hold just what was synced.
    pub fn regain_power(&self) -> Result<()> {
        until_it_works(|| {
            let mut umount = Command::new("umount");
            output_of(umount.arg(&self.dir))
        })?;
        // While anything holds the old file system, a mount gives that one again, which only fails:
        // a mount namespace that another program made meanwhile does.
        until_it_works(|| self.is_free())?;
        self.attach()?;
        self.check_witnesses()
    }

    /// Lets every write hang from now on, after what was written so far is on the disk.
    pub fn freeze(&self) -> Result<()> {
        self.fsfreeze("-f")
    }

    /// Ends [`PoweredDisk::freeze`].
    pub fn thaw(&self) -> Result<()> {
        self.fsfreeze("-u")
    }

    fn fsfreeze(&self, how: &str) -> Result<()> {
        output_of(Command::new("fsfreeze").arg(how).arg(&self.dir)).map(|_| ())
    }

    pub fn fill(&self) -> Result<()> {
        let path = self.dir.join(FILLER);
        let file = File::create(&path).context("create", &path)?;
        let mut at = 0;
        // What the file system needs for the file's own map is not known: pieces become smaller.
        for bytes in [1 << 28, 1 << 24, 1 << 20, 1 << 12] {
            let mode = rustix::fs::FallocateFlags::empty();
            while rustix::fs::fallocate(&file, mode, at, bytes).is_ok() {
                at += bytes;
            }
        }
        Ok(())
    }

    pub fn empty(&self) -> Result<()> {
        let path = self.dir.join(FILLER);
        fs::remove_file(&path).context("remove", path)
    }

    /// Unmounts it, and removes its file. A disk of a failed test is dropped instead.
    pub fn remove(self) -> Result<()> {
        fs::remove_file(&self.image).context("remove", &self.image)
    }

    fn make(&self, bytes: u64) -> Result<()> {
        if self.image.exists() {
            fs::remove_file(&self.image).context("remove", &self.image)?;
        }
        let file = File::create(&self.image).context("create", &self.image)?;
        file.set_len(bytes).context("create", &self.image)?;
        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-m", "0"]).arg(&self.image);
        output_of(&mut mkfs).map(|_| ())
    }

    fn attach(&self) -> Result<()> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", OPTIONS]);
        mount.arg(&self.image).arg(&self.dir);
        output_of(&mut mount).map(|_| ())
    }

    fn is_free(&self) -> Result<()> {
        let held = output_of(Command::new("losetup").arg("-j").arg(&self.image))?;
        match held.is_empty() {
            true => Ok(()),
            false => Err(self.failed(format!("it is still in use: {held}"))),
        }
    }

    fn write_synced(&self) -> std::io::Result<()> {
        let mut file = File::create(self.dir.join(SYNCED))?;
        file.write_all(SYNCED.as_bytes())?;
        file.sync_all()?;
        File::open(&self.dir)?.sync_all()
    }

    /// Otherwise the test would show nothing, or blame a program for what the disk has done.
    fn check_witnesses(&self) -> Result<()> {
        let (synced, unsynced) = (self.dir.join(SYNCED), self.dir.join(UNSYNCED));
        let kept = fs::read_to_string(&synced).context("read what was synced:", &synced)?;
        if kept != SYNCED {
            return Err(self.failed(format!("it lost what was synced: '{kept}' is left")));
        }
        fs::remove_file(&synced).context("remove", synced)?;
        let kept = match fs::read(&unsynced) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            read => read.context("read", &unsynced)?,
        };
        if !kept.is_empty() {
            return Err(self.failed("it kept what was not synced: no power was lost".into()));
        }
        fs::remove_file(&unsynced).context("remove", unsynced)
    }

    fn failed(&self, said: String) -> LabError {
        LabError::Disk {
            disk: self.dir.clone(),
            said,
        }
    }
}

impl Drop for PoweredDisk {
    fn drop(&mut self) {
        let _ = self.thaw(); // most are not frozen
        if let Err(failure) = mounts::unmount_below(&self.dir) {
            eprintln!("{failure}");
        }
    }
}

fn until_it_works<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    let mut last = attempt();
    wait_for(PATIENCE, || {
        if last.is_err() {
            last = attempt();
        }
        last.is_ok().then_some(())
    });
    last
}
