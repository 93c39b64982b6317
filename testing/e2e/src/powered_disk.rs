//! A disk that can lose its power: what was not synced is lost, as when the machine's plug is
//! pulled. A process that is killed loses nothing of what it gave to the operating system.
//!
//! The disk is a file with an ext4 file system, mounted by a loop device. `ext4`'s own shutdown
//! stops the file system without writing anything more, its journal included, while processes still
//! use it; the test then kills them. The file system is mounted again from what the file holds.
//! Options of the mount keep ext4 from syncing by itself what a program forgot to sync.
//!
//! What was given to the disk past the page cache, and not synced, is kept: a real disk's own cache
//! may lose that, too.
//!
//! Each loss of power proves itself: a file that was synced just before must be there afterwards,
//! and one that was not synced must not.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use synod_local_cluster::wait_for;

use crate::failure::{Failure, Outcome, Why, ensure};
use crate::mounts;
use crate::programs::output_of;

/// Time for which a killed process may keep files of a disk open, and a loop device its file.
const PATIENCE: Duration = Duration::from_secs(30);
/// A long interval of commits, and no sync by a rename.
const OPTIONS: &str = "loop,noauto_da_alloc,commit=300";
const SCRIPT: &str = include_str!("powered_disk/lose_power.py");
/// Synced just before the power goes.
const SYNCED: &str = "witness-synced";
/// Written just before the power goes, and not synced.
const UNSYNCED: &str = "witness-unsynced";

/// A mounted disk. Unmounted when dropped; its file is kept for the reader of a failed test.
#[derive(Debug)]
pub struct PoweredDisk {
    image: PathBuf,
    dir: PathBuf,
}

impl PoweredDisk {
    /// Mounts an empty one of so many bytes at this directory, in place of one of an earlier run.
    ///
    /// # Errors
    /// When this user may not mount, there is no loop device, or the file system cannot be made.
    pub fn mount(dir: &Path, bytes: u64) -> Outcome<PoweredDisk> {
        mounts::unmount_below(dir)?;
        fs::create_dir_all(dir).why("making the mount point")?;
        let disk = PoweredDisk {
            image: dir.with_extension("img"),
            dir: dir.to_owned(),
        };
        disk.make(bytes)?;
        disk.attach()
            .why("a disk that can lose its power needs root")?;
        // Some programs take every directory for one of theirs.
        fs::remove_dir(dir.join("lost+found")).why("emptying the disk")?;
        Ok(disk)
    }

    /// Mount point.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Takes the power of these disks, all at once: from now on what is not synced is lost, and
    /// every call on a file of them fails.
    pub fn lose_power(disks: &[&PoweredDisk]) -> Outcome {
        for disk in disks {
            disk.write_synced().why("writing a witness")?;
        }
        let mut lose = Command::new("python3");
        lose.args(["-c", SCRIPT, UNSYNCED]);
        lose.args(disks.iter().map(|disk| &disk.dir));
        output_of(&mut lose, "taking the power of disks").map(|_| ())
    }

    /// Gives the power back: mounts what is on the disk. No process uses the disk any more.
    ///
    /// # Errors
    /// When a process does, or the disk does not hold just what was synced.
    pub fn regain_power(&self) -> Outcome {
        until_it_works(|| {
            let mut umount = Command::new("umount");
            output_of(umount.arg(&self.dir), "unmounting a disk without power")
        })?;
        until_it_works(|| self.attach())?;
        self.check_witnesses()
    }

    /// Unmounts it, and removes its file. A disk of a failed test is dropped instead.
    pub fn remove(self) -> Outcome {
        fs::remove_file(&self.image).why("removing a disk")
    }

    fn make(&self, bytes: u64) -> Outcome {
        if self.image.exists() {
            fs::remove_file(&self.image).why("removing the disk of an earlier run")?;
        }
        let file = File::create(&self.image).why("making a disk")?;
        file.set_len(bytes).why("making a disk")?;
        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-m", "0"]).arg(&self.image);
        output_of(&mut mkfs, "mkfs.ext4").map(|_| ())
    }

    fn attach(&self) -> Outcome {
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", OPTIONS]);
        mount.arg(&self.image).arg(&self.dir);
        output_of(&mut mount, "mounting a disk").map(|_| ())
    }

    fn write_synced(&self) -> std::io::Result<()> {
        let mut file = File::create(self.dir.join(SYNCED))?;
        file.write_all(SYNCED.as_bytes())?;
        file.sync_all()?;
        File::open(&self.dir)?.sync_all()
    }

    /// Otherwise the test would show nothing, or blame a program for what the disk has done.
    fn check_witnesses(&self) -> Outcome {
        let (synced, unsynced) = (self.dir.join(SYNCED), self.dir.join(UNSYNCED));
        let kept = fs::read_to_string(&synced).why("the disk has lost a synced file")?;
        ensure(kept == SYNCED, || {
            format!("the disk has lost what was synced: '{kept}' is left")
        })?;
        fs::remove_file(synced).why("removing a witness")?;
        match fs::read(&unsynced) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            read => {
                let read = read.why("what was not synced")?;
                ensure(read.is_empty(), || {
                    "the disk has kept what was not synced: no power was lost".to_owned()
                })?;
            }
        }
        fs::remove_file(unsynced).why("removing a witness")
    }
}

impl Drop for PoweredDisk {
    fn drop(&mut self) {
        if let Err(failure) = mounts::unmount_below(&self.dir) {
            eprintln!("{failure}");
        }
    }
}

fn until_it_works<T>(attempt: impl Fn() -> Outcome<T>) -> Outcome<T> {
    let mut last = Err(Failure("not tried".to_owned()));
    wait_for(PATIENCE, || {
        last = attempt();
        last.is_ok().then_some(())
    });
    last
}
