//! Limits and memory of the server's machine, from `/proc`, `/sys` and systemd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Facts of the machine; none where unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    pub open_files: Option<u64>,
    /// systemd's limit for the server's start; none also without a limit.
    pub start_limit: Option<Duration>,
    /// systemd's limit for the server's stop; none also without a limit.
    pub stop_limit: Option<Duration>,
    /// Whether systemd listens in the server's place from the boot on; none also if systemd does
    /// not run.
    pub listens_from_boot: Option<bool>,
    /// Memory available to the server, in bytes: the limit of its control group, or the machine's.
    pub memory_bytes: Option<u64>,
    /// Kernel's swappiness (0 to 200), on a machine with swap space.
    pub swappiness: Option<u64>,
    /// Huge pages without being asked: the kernel's word for it.
    pub huge_pages: Option<String>,
}

/// Whether a server that gives this name of its machine runs here.
pub(super) fn is_this(hostname: &str) -> bool {
    rustix::system::uname().nodename().to_str() == Ok(hostname)
}

impl MachineFacts {
    pub(super) fn gather(pid_file: &str) -> MachineFacts {
        let pid = read(Path::new(pid_file));
        let process = pid.map(|pid| PathBuf::from(format!("/proc/{}", pid.trim())));
        let process = process.filter(|process| process.is_dir());
        let of_process = |file: &str| read(&process.as_ref()?.join(file));
        let memory = read(Path::new("/proc/meminfo")).unwrap_or_default();
        let swap = meminfo_bytes(&memory, "SwapTotal").unwrap_or(0);
        let group = of_process("cgroup").and_then(|text| memory_limit(&text));
        let total = meminfo_bytes(&memory, "MemTotal");
        MachineFacts {
            open_files: of_process("limits").and_then(|text| open_files(&text)),
            start_limit: service_time("TimeoutStartUSec"),
            stop_limit: service_time("TimeoutStopUSec"),
            listens_from_boot: listens_from_boot(),
            memory_bytes: group.into_iter().chain(total).min(),
            swappiness: read(Path::new("/proc/sys/vm/swappiness"))
                .filter(|_| swap > 0)
                .and_then(|text| text.trim().parse().ok()),
            huge_pages: read(Path::new("/sys/kernel/mm/transparent_hugepage/enabled"))
                .and_then(|text| chosen_word(&text)),
        }
    }
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

fn open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" {
        Some(u64::MAX)
    } else {
        soft.parse().ok()
    }
}

/// The limit of the process's control group or of one around it, whichever is the lowest.
fn memory_limit(cgroup: &str) -> Option<u64> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join(path);
    let groups = group
        .ancestors()
        .take_while(|group| group.starts_with(root));
    let limits = groups.filter_map(|group| read(&group.join("memory.max"))?.trim().parse().ok());
    limits.min()
}

fn chosen_word(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn service_time(property: &str) -> Option<Duration> {
    let output = Command::new("systemctl")
        .args(["show", "mariadb", "--property", property, "--value"])
        .output()
        .ok()?;
    systemd_time(String::from_utf8_lossy(&output.stdout).trim())
}

/// Whether the socket unit of the server is enabled.
fn listens_from_boot() -> Option<bool> {
    // As sd_booted(3): a container without systemd may have its unit files all the same.
    if !Path::new("/run/systemd/system").is_dir() {
        return None;
    }
    let output = Command::new("systemctl")
        .args(["is-enabled", "mariadb.socket"])
        .output()
        .ok()?;
    Some(is_enabled(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Meaning of systemd's state of a unit; an empty text: no such unit.
fn is_enabled(state: &str) -> bool {
    matches!(state, "enabled" | "enabled-runtime")
}

/// A time as systemd shows it: `15min`, `1min 30s`, `infinity`.
fn systemd_time(text: &str) -> Option<Duration> {
    let parts = text.split_whitespace().map(|part| {
        let end = part.find(|char: char| !char.is_ascii_digit())?;
        let (number, unit) = part.split_at(end);
        let number: u64 = number.parse().ok()?;
        let seconds = match unit {
            "d" => 86_400,
            "h" => 3_600,
            "min" => 60,
            "s" => 1,
            "ms" => return Some(Duration::from_millis(number)),
            _ => return None,
        };
        Some(Duration::from_secs(number.saturating_mul(seconds)))
    });
    let times: Option<Vec<Duration>> = parts.collect();
    times
        .filter(|times| !times.is_empty())
        .map(|times| times.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_understood() {
        let memory = "MemTotal:       24000000 kB\nSwapTotal:             0 kB\n";
        assert_eq!(meminfo_bytes(memory, "MemTotal"), Some(24_000_000 * 1024));
        assert_eq!(meminfo_bytes(memory, "SwapTotal"), Some(0));
        let limits = "Max processes   10  20  processes\nMax open files            32768      32768      files\n";
        assert_eq!(open_files(limits), Some(32768));
        assert_eq!(
            open_files("Max open files   unlimited unlimited files"),
            Some(u64::MAX)
        );
        assert_eq!(
            chosen_word("always [madvise] never\n").as_deref(),
            Some("madvise")
        );
        assert_eq!(chosen_word(""), None);
    }

    #[test]
    fn times_of_systemd_are_understood() {
        let times = [
            ("15min", Some(900)),
            ("1min 30s", Some(90)),
            ("1d 2h", Some(93_600)),
            ("infinity", None),
            ("", None),
        ];
        for (text, seconds) in times {
            assert_eq!(
                systemd_time(text),
                seconds.map(Duration::from_secs),
                "{text}"
            );
        }
    }
}
