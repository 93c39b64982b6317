//! Whether the machine's clock is set by others.

use std::process::Command;

/// Synchronisation as systemd knows it from the kernel; none: no systemd.
pub(super) fn is_synchronised() -> Option<bool> {
    let output = Command::new("timedatectl")
        .args(["show", "--property=NTPSynchronized", "--value"])
        .output()
        .ok()?;
    match String::from_utf8_lossy(&output.stdout).trim() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}
