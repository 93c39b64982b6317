//! Resource use of processes and the machine, from `/proc`.

use std::fs;
use std::io;
use std::path::Path;

/// Linux counts processor time in hundredths of a second on all machines that matter here.
const TICKS_PER_SECOND: f64 = 100.0;

/// The place of the sectors written in a line of `/proc/diskstats`, from 0.
const SECTORS_WRITTEN: usize = 9;
const FLUSHES: usize = 18;
/// A sector of `/proc/diskstats`, whatever those of the disk are.
const SECTOR_BYTES: u64 = 512;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ProcessUse {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    /// Number of waits of threads that still exist.
    pub(crate) voluntary_switches: u64,
    /// Number of times that the kernel took the processor from a thread that still exists.
    pub(crate) involuntary_switches: u64,
    pub(crate) resident_bytes: u64,
}

impl ProcessUse {
    pub(crate) fn read(pid: i32) -> io::Result<ProcessUse> {
        let root = format!("/proc/{pid}");
        let root = Path::new(&root);
        let stat = fs::read_to_string(root.join("stat"))?;
        let (user_s, system_s) = processor_time(&stat).unwrap_or_default();
        let mut used = ProcessUse {
            user_s,
            system_s,
            ..ProcessUse::default()
        };
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

    pub(crate) fn processor_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MachineUse {
    pub(super) busy_s: f64,
    /// Processor time that the host of the virtual machine took away, seconds of one core.
    pub(super) stolen_s: f64,
    pub(super) disk_flushes: u64,
    /// Bytes that were written to the disks. What `/proc/PID/io` says would be per process, but it
    /// counts a whole folio of the page cache, up to some megabytes, each time that a byte of it
    /// is written after a sync.
    pub(super) disk_written_bytes: u64,
}

impl MachineUse {
    pub(super) fn read() -> MachineUse {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let disks = fs::read_to_string("/proc/diskstats").unwrap_or_default();
        let (busy_s, stolen_s) = machine_time(&stat).unwrap_or_default();
        MachineUse {
            busy_s,
            stolen_s,
            disk_flushes: sum_of_disks(&disks, FLUSHES),
            disk_written_bytes: sum_of_disks(&disks, SECTORS_WRITTEN) * SECTOR_BYTES,
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

fn sum_of_disks(diskstats: &str, field: usize) -> u64 {
    let of_disk = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let flushes: u64 = fields.get(FLUSHES)?.parse().ok()?;
        let has_sectors_of_its_own = flushes > 0;
        has_sectors_of_its_own.then(|| fields.get(field)?.parse::<u64>().ok())?
    };
    diskstats.lines().filter_map(of_disk).sum()
}

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
    fn fields_of_disks_are_summed_without_those_of_partitions() {
        let disk = "254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 42 17";
        let partition = "254 1 vda1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0 0";
        let stats = format!("{disk}\n{partition}\n{disk}\n8 0 old 1 2 3\n");
        assert_eq!(sum_of_disks(&stats, FLUSHES), 84);
        assert_eq!(sum_of_disks(&stats, SECTORS_WRITTEN), 14);
    }
}
