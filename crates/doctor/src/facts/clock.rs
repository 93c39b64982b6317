//! Whether the machine's clock is set by others.

use std::process::Command;

/// As systemd knows it from the kernel; none: there is no systemd to ask.
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
