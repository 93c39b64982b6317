//! Processor time and memory of a server, from `/proc`.
//!
//! Tests compare both with bounds; the numbers are those of the whole process.

use std::fs;

use crate::failure::{Failure, Outcome, Why};

/// Linux counts processor time in hundredths of a second on all machines that matter here.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time a process has used so far, in seconds of one core.
pub fn cpu_seconds(pid: i32) -> Outcome<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).why(&path)?;
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok());
    // Fields 14 and 15 of the whole line: user and system time.
    match (ticks(11), ticks(12)) {
        (Some(user), Some(system)) => Ok((user + system) / TICKS_PER_SECOND),
        _ => Err(Failure(format!("{path}: not understood: {stat}"))),
    }
}

/// Resident memory of a process, in bytes.
pub fn resident_bytes(pid: i32) -> Outcome<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).why(&path)?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| Failure(format!("{path}: no VmRSS")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn own_process_can_be_measured() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(super::cpu_seconds(pid).unwrap() >= 0.0);
        assert!(super::resident_bytes(pid).unwrap() > 100_000);
    }
}
