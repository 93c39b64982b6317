//! Clusters that earlier test programs have left: kept for the reader of a failed test until the
//! next program begins, then removed. All of them together would fill a small disk.

use std::fs;
use std::path::Path;

use synod_lab::disk::mounts;
use synod_local_cluster::Cluster;

use crate::failure::{Outcome, Why};

/// In the directory of a cluster: the process that uses it.
const USER: &str = "used-by";
/// Keeps everything, if it is set.
const KEEP: &str = "SYNOD_E2E_KEEP";

/// Says that this process uses the cluster in a directory.
pub(crate) fn claim(dir: &Path) -> Outcome {
    let path = dir.join(USER);
    fs::write(&path, std::process::id().to_string()).why(format_args!("writing {}", path.display()))
}

/// Removes the clusters in this directory whose process has ended.
pub(crate) fn remove(parent: &Path) -> Outcome {
    if std::env::var_os(KEEP).is_some() {
        return Ok(());
    }
    let entries = fs::read_dir(parent).why(format_args!("reading {}", parent.display()))?;
    for dir in entries.flatten().map(|entry| entry.path()) {
        if has_ended(&dir)
            && let Ok(mut cluster) = Cluster::open(&dir)
        {
            mounts::unmount_below(&dir).why("unmounting what is left")?;
            let what = format!("removing {}", dir.display());
            cluster.destroy().why(what)?;
        }
    }
    Ok(())
}

/// Whether a process has used this directory, and has ended.
fn has_ended(dir: &Path) -> bool {
    let process = fs::read_to_string(dir.join(USER)).ok();
    let process: Option<u32> = process.and_then(|id| id.trim().parse().ok());
    process.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_ended_processes_are_left_over() {
        let dir = std::env::temp_dir().join(format!("synod-leftovers-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        assert!(!has_ended(&dir), "no process has claimed it");
        claim(&dir).unwrap();
        assert!(!has_ended(&dir), "this process runs");
        // Above the largest process id.
        fs::write(dir.join(USER), "4194305").unwrap();
        assert!(has_ended(&dir));
        fs::remove_dir_all(dir).unwrap();
    }
}
