//! One command at a time changes a cluster.
//!
//! The lock is an `flock` on a file in the directory, so the system releases it when the command's
//! process ends, in whatever way. Commands that only read do not take it.

use std::fs::{File, OpenOptions};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::{ClusterError, IoContext, Result};

/// Held while a command changes a cluster; released when dropped, also by death.
#[derive(Debug)]
pub struct ClusterLock {
    _file: File,
}

impl ClusterLock {
    /// Takes the lock of the cluster in `dir`, which must exist.
    pub fn take(dir: &Path) -> Result<ClusterLock> {
        let path = dir.join(".lock");
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.context("open", &path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(ClusterLock { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(ClusterError::Locked {
                dir: dir.to_owned(),
            }),
            Err(e) => Err(std::io::Error::from(e)).context("lock", path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_taker_is_refused_until_the_first_lets_go() {
        let dir = std::env::temp_dir().join(format!("synod-lock-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let first = ClusterLock::take(&dir).unwrap();
        assert!(matches!(
            ClusterLock::take(&dir),
            Err(ClusterError::Locked { .. })
        ));
        drop(first);
        ClusterLock::take(&dir).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
