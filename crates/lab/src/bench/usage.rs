//! What processes have used so far, from `/proc`.

use std::fs;
use std::io;
use std::path::Path;

/// Linux counts processor time in hundredths of a second on all machines that matter here.
const TICKS_PER_SECOND: f64 = 100.0;

/// What one process has used since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ProcessUse {
    /// Processor time in its own code, seconds of one core.
    pub(super) user_s: f64,
    /// Processor time in the kernel, seconds of one core.
    pub(super) system_s: f64,
    /// Bytes that it had written to disks.
    pub(super) written_bytes: u64,
    /// How often a thread that still exists waited.
    pub(super) voluntary_switches: u64,
    /// How often the kernel took the processor from a thread that still exists.
    pub(super) involuntary_switches: u64,
    /// Resident memory, bytes.
    pub(super) resident_bytes: u64,
}

impl ProcessUse {
    /// Reads a process.
    pub(super) fn read(pid: i32) -> io::Result<ProcessUse> {
        let root = format!("/proc/{pid}");
        let root = Path::new(&root);
        let stat = fs::read_to_string(root.join("stat"))?;
        let (user_s, system_s) = processor_time(&stat).unwrap_or_default();
        let mut used = ProcessUse {
            user_s,
            system_s,
            ..ProcessUse::default()
        };
        let io = fs::read_to_string(root.join("io")).unwrap_or_default();
        used.written_bytes = number_after(&io, "write_bytes:").unwrap_or_default();
        let status = fs::read_to_string(root.join("status"))?;
        used.resident_bytes = number_after(&status, "VmRSS:").unwrap_or_default() * 1024;
        for thread in fs::read_dir(root.join("task"))?.flatten() {
            // A thread may end while this reads.
            let text = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let number = |name| number_after(&text, name).unwrap_or_default();
            used.voluntary_switches += number("\nvoluntary_ctxt_switches:");
            used.involuntary_switches += number("nonvoluntary_ctxt_switches:");
        }
        Ok(used)
    }

    /// Processor time, user and system, seconds of one core.
    pub(super) fn processor_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// What the whole machine has used since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MachineUse {
    /// Processor time of all programs and the kernel, seconds of one core.
    pub(super) busy_s: f64,
    /// Processor time that the host of the virtual machine took away, seconds of one core.
    pub(super) stolen_s: f64,
    /// Flush requests that the disks completed.
    pub(super) disk_flushes: u64,
}

impl MachineUse {
    /// Reads the machine.
    pub(super) fn read() -> MachineUse {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let disks = fs::read_to_string("/proc/diskstats").unwrap_or_default();
        let (busy_s, stolen_s) = machine_time(&stat).unwrap_or_default();
        MachineUse {
            busy_s,
            stolen_s,
            disk_flushes: flushes(&disks),
        }
    }
}

/// Fields 14 and 15 of `/proc/PID/stat`: user and system time.
fn processor_time(stat: &str) -> Option<(f64, f64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    Some((seconds()?, seconds()?))
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, ...
fn machine_time(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .filter_map(|text| text.parse().ok())
        .collect();
    let [user, nice, system, _, _, irq, softirq, steal] = ticks.get(..8)?.try_into().ok()?;
    let busy: f64 = [user, nice, system, irq, softirq].iter().sum();
    Some((busy / TICKS_PER_SECOND, steal / TICKS_PER_SECOND))
}

/// Flushes of all whole disks in `/proc/diskstats`: field 19. A partition has none of its own.
fn flushes(diskstats: &str) -> u64 {
    let flushes = |line: &str| line.split_whitespace().nth(18)?.parse::<u64>().ok();
    diskstats.lines().filter_map(flushes).sum()
}

/// The number after the first place of a name.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(name)?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_can_be_read() {
        let used = ProcessUse::read(std::process::id() as i32).unwrap();
        assert!(used.resident_bytes > 100_000 && used.processor_s() >= 0.0);
        assert!(used.voluntary_switches + used.involuntary_switches > 0);
    }

    #[test]
    fn times_are_read_as_seconds() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0";
        assert_eq!(processor_time(stat), Some((2.5, 0.5)));
        let machine = "cpu  100 200 300 9999 9999 100 100 700 0 0\ncpu0 1";
        assert_eq!(machine_time(machine), Some((8.0, 7.0)));
    }

    #[test]
    fn flushes_of_disks_are_summed() {
        let line = "254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 42 17";
        assert_eq!(flushes(&format!("{line}\n{line}\n8 0 old 1 2 3\n")), 84);
    }
}
