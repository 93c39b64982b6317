//! Whether a file that holds a secret is closed to all but its owner and its group.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;

/// Permission bits of owner, group and others.
const PERMISSIONS: u32 = 0o7777;
/// Permission bits of users who are neither the owner nor of the file's group.
const OTHERS: u32 = 0o007;

/// The mode of a file that every user of the machine may read or change; none: it is closed.
pub fn mode_open_to_all(file: &Metadata) -> Option<u32> {
    let mode = file.permissions().mode() & PERMISSIONS;
    (mode & OTHERS != 0).then_some(mode)
}
