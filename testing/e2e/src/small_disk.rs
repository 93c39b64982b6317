//! A small file system for a test that fills it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Outcome, Why, ensure};

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
