//! Mounted file systems: what a program that was killed has left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{IoContext, Result};
use crate::tools::output_of;

/// Unmounts every file system at or below this directory, so that the directory can be removed.
pub fn unmount_below(dir: &Path) -> Result<()> {
    // The last one first: it may lie in another one.
    for path in below(dir)?.iter().rev() {
        // Lazily: a process that is being killed may still have files there.
        output_of(Command::new("umount").arg("--lazy").arg(path))?;
    }
    Ok(())
}

/// Lets writes on from every file system at or below this directory: a process whose write hangs
/// cannot be killed, and what is unmounted while it is frozen stays so.
pub fn thaw_below(dir: &Path) -> Result<()> {
    for path in below(dir)? {
        let _ = output_of(Command::new("fsfreeze").arg("-u").arg(path)); // most are not frozen
    }
    Ok(())
}

fn below(dir: &Path) -> Result<Vec<PathBuf>> {
    // As the kernel names it; a directory that does not exist has none below it.
    let Ok(dir) = fs::canonicalize(dir) else {
        return Ok(Vec::new());
    };
    let list = "/proc/self/mountinfo";
    let table = fs::read_to_string(list).context("read", list)?;
    let mut all = paths(&table);
    all.retain(|path| path.starts_with(&dir));
    Ok(all)
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
