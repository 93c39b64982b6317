//! Memory of servers on this machine, from `/proc`.

use std::fs;

pub fn resident_bytes(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    field_bytes(&status, "VmRSS:")
}

/// The most resident memory since [`forget_peak`], bytes.
pub fn peak_bytes(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    field_bytes(&status, "VmHWM:")
}

/// Begins the peak again at what is resident now. Best effort: without the right to do it, the
/// peak is the one since the server's start.
pub fn forget_peak(pid: i32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

fn field_bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(field))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_bytes() {
        let status = "Name:\tmariadbd\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n";
        assert_eq!(field_bytes(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(field_bytes(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(field_bytes(status, "VmSwap:"), None);
    }

    #[test]
    fn own_peak_is_not_below_what_is_resident() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let resident = resident_bytes(pid).unwrap();
        assert!(resident > 100_000 && peak_bytes(pid).unwrap() >= resident / 2);
    }
}
