//! The disk of the log: free space, and how long it needs to make data durable.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const WRITES_MAX: usize = 100;

const MEASURED_MAX: Duration = Duration::from_secs(3);

/// Bytes per write: a small commit.
const WRITE_BYTES: usize = 4096;

#[derive(Clone, Debug)]
pub struct DiskFacts {
    pub directory: PathBuf,
    /// Times of `fdatasync` after a small write, sorted.
    pub sync_times: Vec<Duration>,
    pub free_bytes: u64,
    pub total_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write to {}: {source}", directory.display())]
pub struct DiskError {
    pub directory: PathBuf,
    pub source: io::Error,
}

impl DiskFacts {
    /// The time that this share of the syncs did not exceed. Panics without measurements.
    pub fn sync_quantile(&self, share: f64) -> Duration {
        let last = self.sync_times.len() - 1;
        self.sync_times[(last as f64 * share).round() as usize]
    }
}

/// Removes the file whatever happens.
struct Scratch {
    path: PathBuf,
    file: File,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing else can be done; the name says whose it is.
        let _ = std::fs::remove_file(&self.path);
    }
}

pub(super) fn measure(directory: &Path) -> Result<DiskFacts, DiskError> {
    look(directory).map_err(|source| DiskError {
        directory: directory.to_owned(),
        source,
    })
}

fn look(directory: &Path) -> io::Result<DiskFacts> {
    let space = rustix::fs::statvfs(directory)?;
    let path = directory.join(format!("synod-doctor-{}.tmp", std::process::id()));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    let mut scratch = Scratch { path, file };
    let begun = Instant::now();
    let mut sync_times = Vec::new();
    while sync_times.is_empty() || (sync_times.len() < WRITES_MAX && begun.elapsed() < MEASURED_MAX)
    {
        let before = Instant::now();
        scratch.file.write_all(&[0x5a; WRITE_BYTES])?;
        scratch.file.sync_data()?;
        sync_times.push(before.elapsed());
    }
    sync_times.sort();
    Ok(DiskFacts {
        directory: directory.to_owned(),
        sync_times,
        free_bytes: space.f_bavail * space.f_frsize,
        total_bytes: space.f_blocks * space.f_frsize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_is_measured_and_nothing_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let facts = measure(directory.path()).unwrap();
        assert!(!facts.sync_times.is_empty() && facts.total_bytes >= facts.free_bytes);
        assert!(facts.sync_quantile(0.5) <= facts.sync_quantile(1.0));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let missing = measure(&directory.path().join("missing")).unwrap_err();
        assert!(
            missing.to_string().contains("missing: No such file"),
            "{missing}"
        );
    }
}
