//! Facts about the machine, the programs and the date, for the results.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::results::Machine;
use crate::tools;

const SYNCS: u64 = 50;

/// The machine, with the speed of the disk below `data`, if servers keep their data there.
pub(crate) fn machine(data: Option<&Path>) -> Machine {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map(|(_, value)| value.trim().to_owned())
    };
    let kibibytes =
        field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok());
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    Machine {
        processor: field(&processors, "model name").unwrap_or_default(),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_bytes: kibibytes.unwrap_or(0u64) * 1024,
        kernel: format!("Linux {}", release.trim()),
        fsync_us: data
            .and_then(|data| sync_time(data).ok())
            .map_or(0, |time| {
                u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
            }),
    }
}

/// The median time of a sync after a write of 4 KiB into a file whose blocks exist.
fn sync_time(dir: &Path) -> io::Result<Duration> {
    let path = dir.join("sync-time");
    let file = File::create(&path)?;
    let block = [0u8; 4096];
    for at in 0..SYNCS {
        file.write_all_at(&block, at * 4096)?;
    }
    file.sync_all()?;
    let mut times = Vec::new();
    for at in 0..SYNCS {
        file.write_all_at(&block, at * 4096)?;
        let begin = Instant::now();
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    fs::remove_file(&path)?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Versions of the programs that take part, as they tell them: MySQL's, too, if it is measured.
pub(crate) fn versions(mysql: Option<Command>) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    let told = mysql.and_then(|mut mysqld| tools::output_of(mysqld.arg("--version")).ok());
    if let Some(text) = told {
        versions.insert("mysqld".into(), text.trim().to_owned());
    }
    versions.insert("synod-lab".into(), env!("CARGO_PKG_VERSION").into());
    for program in ["mariadbd", "sysbench"] {
        let Ok(path) = synod_local_cluster::find_program(program, program) else {
            continue;
        };
        if let Ok(text) = tools::output_of(Command::new(path).arg("--version")) {
            versions.insert(program.into(), text.trim().to_owned());
        }
    }
    versions
}

/// The time now: UTC, as `2026-11-22T23:45:00Z`.
pub(crate) fn date() -> String {
    let text = tools::output_of(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]));
    text.map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_cores_memory_and_a_disk_that_syncs() {
        let machine = machine(Some(&std::env::temp_dir()));
        assert!(machine.kernel.len() > "Linux ".len() && machine.cores > 0);
        assert!(machine.memory_bytes > 1_000_000 && machine.fsync_us > 0);
    }

    #[test]
    fn date_has_its_form() {
        let date = date();
        assert!(date.len() == 20 && date.ends_with('Z'), "{date}");
    }
}
