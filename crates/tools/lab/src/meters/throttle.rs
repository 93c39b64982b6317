//! Limits a server of this machine to a share of one core.
//!
//! The limit is a control group of the kernel, of version 2 or 1, whichever has the controller of
//! processor time; without control groups the process is stopped and continued ten times a second.
//!
//! A shell, the *guard*, removes the limit when its standard input ends, which this process holds
//! open. So the server gets its processors back however this process ends, `kill -9` included.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::error::{IoContext, Result};

/// Length of a period in which the share is given, microseconds.
const PERIOD_US: u32 = 100_000;

const CGROUPS: &str = "/sys/fs/cgroup";

#[derive(Debug)]
pub struct Throttle {
    guard: Child,
    /// `cgroup v2`, `cgroup v1` or `stop and continue`.
    pub means: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Means {
    /// A new group below this folder; then the process goes back to the folder it is in.
    Group {
        version: u8,
        parent: PathBuf,
        own: PathBuf,
    },
    Signals,
}

impl Throttle {
    /// Slows the process down to a share (0 to 1) of one core.
    pub fn start(pid: i32, share: f64) -> Result<Throttle> {
        // At least a millisecond in each period: the kernel takes no less.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let quota_us = (share.clamp(0.01, 1.0) * f64::from(PERIOD_US)) as u32;
        let means = find(pid);
        let script = script(&means, pid, quota_us);
        let mut guard = Command::new("sh");
        guard
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0); // Ctrl-C must not end it before it has done its work
        let guard = guard.spawn().context("start", "sh")?;
        let throttle = Throttle {
            guard,
            means: match means {
                Means::Group { version: 2, .. } => "cgroup v2",
                Means::Group { .. } => "cgroup v1",
                Means::Signals => "stop and continue",
            },
        };
        throttle.check(&means, pid)?;
        Ok(throttle)
    }

    /// Waits, for a bounded time, until the process is in its group.
    fn check(&self, means: &Means, pid: i32) -> Result<()> {
        let Means::Group { parent, .. } = means else {
            return Ok(());
        };
        let processes = group_of(parent, pid).join("cgroup.procs");
        let is_there = || {
            let text = fs::read_to_string(&processes).ok()?;
            text.lines()
                .any(|line| line == pid.to_string())
                .then_some(())
        };
        let timeout = std::time::Duration::from_secs(5);
        let moved = synod_local_cluster::wait_for(timeout, is_there);
        moved
            .ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))
            .context("move the server into", processes.display())
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait(); // it only waits for its input
    }
}

fn group_of(parent: &Path, pid: i32) -> PathBuf {
    parent.join(format!("synod-lab-{pid}"))
}

fn find(pid: i32) -> Means {
    let memberships = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let root = Path::new(CGROUPS);
    let controllers = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
    if controllers.split_whitespace().any(|name| name == "cpu")
        && let Some(path) = path_of(&memberships, "")
    {
        return Means::Group {
            version: 2,
            parent: root.to_owned(),
            own: root.join(path),
        };
    }
    let parent = root.join("cpu");
    match path_of(&memberships, "cpu") {
        Some(path) if parent.join("cpu.cfs_quota_us").exists() || parent.join("tasks").exists() => {
            Means::Group {
                version: 1,
                own: parent.join(path),
                parent,
            }
        }
        _ => Means::Signals,
    }
}

/// The path of a process's group for a controller (empty: of version 2), from its
/// `/proc/PID/cgroup`, without the slash at its beginning.
fn path_of<'a>(memberships: &'a str, controller: &str) -> Option<&'a str> {
    memberships.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = names.split(',').any(|name| name == controller);
        is_it.then(|| path.trim_start_matches('/'))
    })
}

/// Shell script of the guard: slows the server down, waits for the end of its input, and undoes it.
fn script(means: &Means, pid: i32, quota_us: u32) -> String {
    match means {
        Means::Group {
            version,
            parent,
            own,
        } => {
            let (group, own) = (group_of(parent, pid), own.display());
            let group = group.display();
            let limit = if *version == 2 {
                format!("echo '{quota_us} {PERIOD_US}' > {group}/cpu.max")
            } else {
                format!(
                    "echo {PERIOD_US} > {group}/cpu.cfs_period_us; \
                     echo {quota_us} > {group}/cpu.cfs_quota_us"
                )
            };
            format!(
                "mkdir {group}; {limit}; echo {pid} > {group}/cgroup.procs; cat > /dev/null; \
                 echo {pid} > {own}/cgroup.procs; rmdir {group}"
            )
        }
        Means::Signals => {
            let run = f64::from(quota_us) / 1e6;
            let pause = f64::from(PERIOD_US) / 1e6 - run;
            format!(
                "(while kill -STOP {pid}; do sleep {pause:.3}; kill -CONT {pid}; \
                 sleep {run:.3}; done) & loop=$!; cat > /dev/null; \
                 kill $loop; wait $loop; kill -CONT {pid}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn group_of_a_process_is_found_by_its_controller() {
        let text = "9:memory:/m\n3:cpu,cpuacct:/system/db\n0::/user\n";
        assert_eq!(path_of(text, "cpu"), Some("system/db"));
        assert_eq!(path_of(text, "cpuacct"), Some("system/db"));
        assert_eq!(path_of(text, ""), Some("user"));
        assert_eq!(path_of(text, "freezer"), None);
    }

    /// By signals, which work everywhere and need no rights.
    #[test]
    fn process_runs_again_when_the_throttle_is_gone() {
        let mut busy = Command::new("sh");
        let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = i32::try_from(busy.id()).unwrap();
        let mut guard = Command::new("sh");
        let mut guard = guard
            .args(["-c", &script(&Means::Signals, pid, 10_000)])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let state = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let rest = stat.rsplit_once(") ").unwrap().1.to_owned();
            rest.chars().next().unwrap()
        };
        let wait_for = |wanted: char| {
            let begin = Instant::now();
            while state() != wanted {
                assert!(begin.elapsed() < Duration::from_secs(20), "never {wanted}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        wait_for('T');
        drop(guard.stdin.take());
        guard.wait().unwrap();
        wait_for('R');
        busy.kill().unwrap();
        busy.wait().unwrap();
    }
}
