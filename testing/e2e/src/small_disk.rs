//! A small file system for a test that fills it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Outcome, Why, ensure};
use crate::programs::{output_of, printed};

/// A file system of its own, gone with the value.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of so many bytes.
    pub fn mount(dir: PathBuf, bytes: u64) -> Outcome<SmallDisk> {
        std::fs::create_dir_all(&dir).why("making the mount point")?;
        let options = format!("size={bytes},mode=0777");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&dir)
            .output()
            .why("running mount")?;
        ensure(mounted.status.success(), || {
            let why = String::from_utf8_lossy(&mounted.stderr);
            format!("a small file system needs root: {why}")
        })?;
        Ok(SmallDisk(dir))
    }

    /// Replaces a directory by one with the same files, and so much room beside them.
    pub fn in_place_of(dir: &Path, room_bytes: u64) -> Outcome<SmallDisk> {
        let moved = dir.with_extension("moved");
        let used = printed(Command::new("du").args(["-sb"]).arg(dir))?;
        let used = used.split_whitespace().next().and_then(|n| n.parse().ok());
        let used: u64 = used.ok_or("no number").why("the size of the files")?;
        std::fs::rename(dir, &moved).why("moving the files away")?;
        let disk = SmallDisk::mount(dir.to_owned(), used + room_bytes)?;
        let mut copy = Command::new("cp");
        output_of(copy.arg("-a").arg(moved.join(".")).arg(dir), "cp")?;
        Ok(disk)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Fills it: nothing more can be written until [`SmallDisk::clear`], or until another file
    /// is deleted. Again: takes that room, too.
    pub fn fill(&self) -> Outcome {
        let mut options = std::fs::OpenOptions::new();
        let file = options.create(true).append(true).open(self.filler());
        let mut file = file.why("making the file that fills")?;
        // Ends with the error that is wanted.
        let _ = std::io::copy(&mut std::io::repeat(1), &mut file);
        Ok(())
    }

    /// Gives back what [`SmallDisk::fill`] took.
    pub fn clear(&self) -> Outcome {
        match std::fs::remove_file(self.filler()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.why("removing the file that fills"),
        }
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that is being killed may still have files there.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
