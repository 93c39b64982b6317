//! Checks the owner of a cluster's directory.
//!
//! A cluster's settings name programs, and its directory is where root writes files and gives them
//! away. So what another user has written, or may write, is not opened: in `/tmp` anybody may have
//! prepared a directory with the name that a command takes by default.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{ClusterError, IoContext, Result};

/// Bits of a mode that let the group or all others write.
const OTHERS_WRITE: u32 = 0o022;
const ALL_WRITE: u32 = 0o002;
/// The bit by which entries of a directory are their owners' alone.
const STICKY: u32 = 0o1000;

/// Refuses a file or directory that neither root nor the user of this process owns, that others may
/// write, or whose name others may give to another one.
pub(crate) fn check(path: &Path) -> Result<()> {
    check_for(path, rustix::process::geteuid().as_raw())
}

fn check_for(path: &Path, user: u32) -> Result<()> {
    let found = fs::symlink_metadata(path).context("look at", path)?;
    let reason = if found.uid() != 0 && found.uid() != user {
        format!("it is owned by user {}", found.uid())
    } else if found.mode() & OTHERS_WRITE != 0 {
        format!("others may write it (mode {:o})", found.mode() & 0o7777)
    } else if let Some(parent) = path.parent()
        && may_rename_in(parent)?
    {
        format!(
            "everybody may put another one in its place, in {}",
            parent.display()
        )
    } else {
        return Ok(());
    };
    let path = path.to_owned();
    Err(ClusterError::NotOwn { path, reason })
}

fn may_rename_in(dir: &Path) -> Result<bool> {
    let mode = fs::metadata(dir).context("look at", dir)?.mode();
    Ok(mode & ALL_WRITE != 0 && mode & STICKY == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory of its own; removed at the end.
    struct Dir(std::path::PathBuf);

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn reason(path: &Path, user: u32) -> Option<String> {
        check_for(path, user).err().map(|error| error.to_string())
    }

    #[test]
    fn what_others_own_or_may_write_is_refused_with_the_reason() {
        let name = format!("synod-ownership-{}", std::process::id());
        let outer = Dir(std::env::temp_dir().join(name));
        let inner = outer.0.join("demo-data");
        fs::create_dir_all(&inner).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let own = rustix::process::geteuid().as_raw();
        set(&outer.0, 0o755);
        set(&inner, 0o755);
        assert_eq!(reason(&inner, own), None);
        if own != 0 {
            let other = reason(&inner, own + 1).unwrap();
            assert!(other.contains(&format!("owned by user {own}")), "{other}");
        }
        for mode in [0o775, 0o757] {
            set(&inner, mode);
            let written = reason(&inner, own).unwrap();
            assert!(written.contains(&format!("mode {mode:o}")), "{written}");
        }
        set(&inner, 0o755);
        set(&outer.0, 0o777);
        let replaced = reason(&inner, own).unwrap();
        assert!(replaced.contains("another one in its place"), "{replaced}");
        set(&outer.0, 0o1777);
        assert_eq!(reason(&inner, own), None, "as in /tmp");
    }
}
