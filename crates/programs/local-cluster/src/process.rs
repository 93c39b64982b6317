//! Finding, starting and ending the processes of a node.
//!
//! A node's server is recognised by its command line: a `mariadbd` whose `--defaults-file` is the
//! one in the node's directory. No pid file is trusted, for it may be older than a reboot, and
//! the server writes its own late. Nothing else is ever signalled.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{ClusterError, IoContext, Result};
use crate::settings::Settings;
use crate::user::ServerUser;
use crate::wait::wait_for;

/// Time limit for a process to end after SIGKILL; longer means that it hangs in the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
struct ProcessInfo {
    parent: i32,
    /// Start time, in ticks since the machine started. It distinguishes processes that had one id.
    started: u64,
    arguments: Vec<String>,
}

/// Finds a program in `PATH` and in the system directories that plain users lack there.
pub fn find_program(program: &'static str, package: &'static str) -> Result<PathBuf> {
    let path = search_path();
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
        .ok_or(ClusterError::ProgramMissing { program, package })
}

/// `PATH` with the system directories appended; the copy scripts need them as well.
pub(crate) fn search_path() -> String {
    let own = std::env::var("PATH").unwrap_or_default();
    format!("{own}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

pub(crate) fn server_pid(cnf: &Path) -> Option<i32> {
    let wanted = format!("--defaults-file={}", cnf.display());
    let servers: BTreeMap<i32, ProcessInfo> = processes()
        .into_iter()
        .filter(|(_, process)| is_server(&process.arguments, &wanted))
        .collect();
    // A child between fork and exec still shows its parent's command line.
    let first = servers
        .iter()
        .find(|(_, process)| !servers.contains_key(&process.parent));
    first.map(|(pid, _)| *pid)
}

fn is_server(arguments: &[String], defaults_file: &str) -> bool {
    let program = arguments.first().map(Path::new).and_then(Path::file_name);
    program.is_some_and(|name| name == "mariadbd")
        && arguments.iter().any(|argument| argument == defaults_file)
        && !arguments
            .iter()
            .any(|argument| argument == "--wsrep-recover")
}

/// Asks the server to shut down, and waits until it has. False when `timeout` passed before.
pub(crate) fn terminate(pid: i32, timeout: Duration) -> Result<bool> {
    signal(pid, Signal::TERM)?;
    Ok(wait_for(timeout, || (!is_alive(pid)).then_some(())).is_some())
}

/// Sends SIGKILL to the servers, all at once, then to the copy scripts that they leave (which would
/// keep ports that the next start needs). Returns when all have ended.
pub(crate) fn kill(servers: &[i32]) -> Result<()> {
    let snapshot = processes();
    let children: BTreeMap<i32, u64> = servers
        .iter()
        .flat_map(|pid| descendants(&snapshot, *pid))
        .collect();
    for pid in servers {
        signal(*pid, Signal::KILL)?;
    }
    for (child, started) in &children {
        if read_process(*child).is_some_and(|process| process.started == *started) {
            signal(*child, Signal::KILL)?;
        }
    }
    let mut targets = servers.iter().chain(children.keys());
    let ended = wait_for(KILL_TIMEOUT, || {
        targets.clone().all(|pid| !is_alive(*pid)).then_some(())
    });
    if ended.is_some() {
        return Ok(());
    }
    let pid = targets
        .find(|pid| is_alive(**pid))
        .copied()
        .unwrap_or_default();
    Err(std::io::Error::from(std::io::ErrorKind::TimedOut)).context("end", format!("/proc/{pid}"))
}

/// All children, grandchildren and so on of `root`, with their start times.
fn descendants(all: &BTreeMap<i32, ProcessInfo>, root: i32) -> BTreeMap<i32, u64> {
    let mut found = BTreeMap::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for (pid, process) in all.iter().filter(|(_, process)| process.parent == parent) {
            if found.insert(*pid, process.started).is_none() {
                open.push(*pid);
            }
        }
    }
    found
}

fn signal(pid: i32, signal: Signal) -> Result<()> {
    let Some(target) = Pid::from_raw(pid) else {
        return Ok(());
    };
    match kill_process(target, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(e) => Err(std::io::Error::from(e)).context("signal", format!("/proc/{pid}")),
    }
}

/// Whether the process runs (a zombie does not).
pub fn is_alive(pid: i32) -> bool {
    read_process(pid).is_some()
}

fn processes() -> BTreeMap<i32, ProcessInfo> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, read_process(pid)?)))
        .collect()
}

/// Reads `/proc/PID`; none for zombies, kernel threads and processes that do not exist.
fn read_process(pid: i32) -> Option<ProcessInfo> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?; // field 22 of the whole line
    let raw = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let arguments = raw
        .split(|byte| *byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    Some(ProcessInfo {
        parent,
        started,
        arguments,
    })
}

/// Starts a process. With `die_with_parent`, the kernel kills it when this process ends, however
/// that happens.
pub(crate) fn spawn(command: Command, die_with_parent: bool) -> Result<Child> {
    let program = PathBuf::from(command.get_program());
    let child = if die_with_parent {
        spawn_bound(command)
    } else {
        { command }.spawn()
    };
    child.context("start", program)
}

/// Parent death signals come when the *thread* that started the child ends, so one thread that
/// never ends starts them all. `setpriv` (util-linux) sets the signal.
fn spawn_bound(command: Command) -> std::io::Result<Child> {
    type Request = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (requests, receiver) = channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, reply) in receiver {
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(requests)
    });
    let (reply, answer) = channel();
    let gone = || std::io::Error::other("the thread that starts processes is gone");
    spawner
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, reply))
        .map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// A command for `program`, wrapped so that a parent death signal kills it when asked for.
pub(crate) fn command(program: &Path, die_with_parent: bool) -> Command {
    if !die_with_parent {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// A command for a program of node `node`, run as `user`, on the node's host if it has one.
pub(crate) fn node_command(
    settings: &Settings,
    node: u8,
    user: &ServerUser,
    program: &Path,
) -> Command {
    let host = settings.hosts.get(&node);
    let Some((first, rest)) = host.and_then(|host| host.enter.split_first()) else {
        let mut command = command(program, settings.die_with_parent);
        user.apply(&mut command);
        return command;
    };
    // Only root enters a host, so the user changes after that; a change would undo the signal.
    let mut command = Command::new(first);
    command
        .args(rest)
        .arg("setpriv")
        .args(user.setpriv_arguments());
    if settings.die_with_parent {
        command.args(["--pdeathsig", "KILL"]);
    }
    command.arg(program);
    command
}

/// Runs a command without input to its end; none when it had to be killed after `timeout`.
pub(crate) fn run_bounded(mut command: Command, timeout: Duration) -> Result<Option<ExitStatus>> {
    let program = PathBuf::from(command.get_program());
    command.stdin(Stdio::null());
    let mut child = spawn(command, false)?;
    let ended = wait_for(timeout, || child.try_wait().transpose());
    match ended {
        Some(status) => status.map(Some).context("wait for", program),
        None => {
            child.kill().context("end", &program)?;
            child.wait().context("wait for", program)?;
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_the_server_with_this_configuration_is_recognised() {
        let wanted = "--defaults-file=/d/node1/my.cnf";
        assert!(is_server(
            &arguments(&format!("/usr/sbin/mariadbd {wanted}")),
            wanted
        ));
        for other in [
            "/usr/sbin/mariadbd --defaults-file=/d/node11/my.cnf".to_owned(),
            format!("/usr/sbin/mariadbd {wanted} --wsrep-recover"),
            format!("bash /usr/bin/wsrep_sst_rsync --mysqld-args {wanted}"),
            "/usr/sbin/mariadbd".to_owned(),
        ] {
            assert!(!is_server(&arguments(&other), wanted), "{other}");
        }
    }

    #[test]
    fn own_process_is_alive_and_ended_child_is_not() {
        assert!(is_alive(i32::try_from(std::process::id()).unwrap()));
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(wait_for(Duration::from_secs(10), || (!is_alive(pid)).then_some(())).is_some());
        child.wait().unwrap();
    }

    #[test]
    fn kill_ends_the_process_and_its_children() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600 & wait"])
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let grandchildren = || descendants(&processes(), pid);
        let ready = wait_for(Duration::from_secs(10), || {
            (!grandchildren().is_empty()).then_some(())
        });
        assert!(ready.is_some());
        let grandchild = *grandchildren().keys().next().unwrap();
        kill(&[pid]).unwrap();
        assert!(!is_alive(pid) && !is_alive(grandchild));
        child.wait().unwrap();
    }

    #[test]
    fn command_that_does_not_end_is_killed() {
        let mut command = Command::new("sleep");
        command.arg("600");
        assert!(
            run_bounded(command, Duration::from_millis(50))
                .unwrap()
                .is_none()
        );
    }
}
