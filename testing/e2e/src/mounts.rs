//! Mounted file systems of tests: what a test program that was killed has left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Outcome, Why};
use crate::programs::output_of;

/// Unmounts every file system at or below this directory, so that the directory can be removed.
pub fn unmount_below(dir: &Path) -> Outcome {
    // As the kernel names it; a directory that does not exist has none below it.
    let Ok(dir) = fs::canonicalize(dir) else {
        return Ok(());
    };
    let table = fs::read_to_string("/proc/self/mountinfo").why("the mounted file systems")?;
    // The last one first: it may lie in another one.
    let below = paths(&table)
        .into_iter()
        .filter(|path| path.starts_with(&dir));
    for path in below.rev() {
        // Lazily: a process that is being killed may still have files there.
        let mut umount = Command::new("umount");
        output_of(umount.arg("--lazy").arg(path), "unmounting")?;
    }
    Ok(())
}

/// Mount points, from the kernel's list.
fn paths(table: &str) -> Vec<PathBuf> {
    let fields = table.lines().filter_map(|line| line.split(' ').nth(4));
    fields
        .map(|field| field.replace("\\040", " ").into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_mounts_are_read_from_the_kernels_list() {
        let table = "22 1 254:0 / / rw - ext4 /dev/root rw\n\
                     31 22 7:0 / /var/tmp/a\\040b/log rw,relatime - ext4 /dev/loop0 rw\n";
        assert_eq!(
            paths(table),
            [Path::new("/"), Path::new("/var/tmp/a b/log")]
        );
    }
}
