//! A server on another machine. This program runs there as an agent, by SSH, and carries out
//! orders: a line each, answered by a line. A shell around it removes all that was made, whatever
//! ends it.
//!
//! ```text
//! DIR/synod-lab-NAME-HOST/    program, libraries, data; the disk of the data is a file in it
//! table inet synod_lab        of nftables: packets that are lost
//! ```

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use synod_local_cluster::{Cluster, ServerUser, Settings};

use super::{Setup, node};
use crate::bench::machine;
use crate::disk::{DiskChange, PoweredDisk};
use crate::error::{IoContext, LabError, Result};
use crate::hosts::Host;
use crate::results::Machine;
use crate::{interrupt, tools};

const NEXT_LIBRARY: &str = "next-libsynod.so";
const READY: &str = "ready: ";

/// Longest time without an order: the lab is gone, and the network did not say so. A trial asks
/// more often.
const SILENCE_MAX: Duration = Duration::from_secs(900);

/// Needs PROGRAM:PACKAGE, takes the files, runs the agent. Standard input has the files, then the
/// orders.
const SCRIPT: &str = r#"
PATH=$PATH:/usr/sbin:/sbin
missing=
for need in mariadbd:mariadb-server mariadb:mariadb-client rsync:rsync socat:socat python3:python3 \
    mkfs.ext4:e2fsprogs nft:nftables fsfreeze:util-linux losetup:mount setpriv:util-linux \
    pkill:procps; do
    command -v "${need%:*}" >/dev/null || missing="$missing ${need#*:}"
done
[ -z "$missing" ] || { echo "packages are missing: 'apt-get install$missing' there"; exit; }
said=$(mkdir "$dir" 2>&1) || { echo "$said: no other lab of this --name may run there; remove it"; exit; }
remove() {
    nft delete table inet synod_lab
    for disk in "$dir"/data/*/; do fsfreeze -u "$disk"; done
    pkill -KILL -f "$dir/data/"
    for disk in "$dir"/data/*/; do umount -l "$disk"; done
    rm -rf --one-file-system "$dir"
}
trap 'remove 2>/dev/null' EXIT
trap exit HUP INT TERM
chmod 755 "$dir"
for file in $files; do
    head -c "${file%:*}" >"$dir/${file#*:}"
done
chmod 755 "$dir"/*
"$dir/synod-lab" agent $number "$dir"
"#;

/// Agents of this process: an interrupt ends them.
static STARTED: Mutex<Vec<Started>> = Mutex::new(Vec::new());

struct Started {
    /// Process id of `ssh`.
    ssh: u32,
    name: String,
    dir: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Make the server with these settings, without starting it, on a disk of so many bytes.
    Prepare(Box<Settings>, u64),
    /// Start it; true: it founds the group.
    Start(bool),
    Kill,
    Stop,
    /// Stop its process, or let it continue.
    Pause(bool),
    /// Whether it runs: a row if it does.
    IsRunning,
    Query(String, Duration),
    Configuration,
    /// Show the lines of its error log that matter.
    Log,
    /// Load the next library from the next start on.
    TakeNextLibrary,
    Disk(DiskChange),
    /// Lose all packets to these addresses; true: those from there, too.
    Cut(Vec<IpAddr>, bool),
    /// Lose none.
    Reconnect,
}

type Rows = Vec<Vec<String>>;

#[derive(Debug)]
pub struct Agent {
    pub host: Host,
    /// Its machine, and its version of MariaDB.
    pub about: String,
    process: Child,
    lines: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
}

impl Agent {
    /// Brings program and libraries to a host, and starts the agent there; SSH knows its `name`.
    pub fn start(name: &str, number: usize, setup: &Setup) -> Result<Agent> {
        let failed = |said: String| LabError::Host {
            host: name.to_owned(),
            said,
        };
        let host = Host {
            name: name.rsplit('@').next().unwrap_or(name).to_owned(),
            address: address(name)?,
            namespace: String::new(),
        };
        if UdpSocket::bind((host.address, 0)).is_ok() {
            let said = "it is this machine, which clients need to reach all that is cut off";
            return Err(failed(said.into()));
        }
        let dir = PathBuf::from(format!("{}-{}", setup.data.display(), host.name));
        let next = setup.next_synod.iter().map(|path| (path, NEXT_LIBRARY));
        let files = [(&setup.program, "synod-lab"), (&setup.synod, "libsynod.so")];
        let files: Vec<_> = files.into_iter().chain(next).collect();
        let mut process = ssh(name, &script(&dir, number, &files)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start", "ssh")?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed("ssh has no pipes".into()));
        };
        started().push(Started {
            ssh: process.id(),
            name: name.to_owned(),
            dir,
        });
        let lines = Mutex::new((input, BufReader::new(output).lines()));
        let mut agent = Agent {
            host,
            about: String::new(),
            process,
            lines,
        };
        let lines = agent.lines.get_mut();
        let (input, answers) = lines.unwrap_or_else(PoisonError::into_inner);
        for (file, _) in files {
            let mut content = File::open(file).context("read", file)?;
            if io::copy(&mut content, input).is_err() {
                break; // its answer says why
            }
        }
        let answer = answers.next().and_then(io::Result::ok).ok_or_else(|| {
            failed(format!(
                "no agent starts there, see above: 'ssh {name} true' has to work for root without \
                 a password, and a program of this machine to run there"
            ))
        })?;
        let about = answer.strip_prefix(READY).map(str::to_owned);
        agent.about = about.ok_or_else(|| failed(answer))?;
        Ok(agent)
    }

    pub fn order(&self, order: &Order) -> Result<Rows> {
        let failed = |said: String| LabError::Host {
            host: self.host.name.clone(),
            said,
        };
        let lost = || {
            interrupt::wait_if_interrupted();
            failed("the connection to it is lost; it removes what the lab made there".into())
        };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let text = serde_json::to_string(order).map_err(|error| failed(error.to_string()))?;
        writeln!(lines.0, "{text}").map_err(|_| lost())?;
        let answer = lines.1.next().and_then(io::Result::ok).ok_or_else(lost)?;
        let answer: std::result::Result<Rows, String> =
            serde_json::from_str(&answer).map_err(|error| failed(error.to_string()))?;
        answer.map_err(failed)
    }

    pub fn order_all(agents: &[&Agent], order: &Order) -> Result<()> {
        std::thread::scope(|scope| {
            let begin = |agent| scope.spawn(move || Agent::order(agent, order));
            let all: Vec<_> = agents.iter().copied().map(begin).collect();
            let mut ends = all.into_iter().map(|one| one.join());
            ends.try_for_each(|end| {
                end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    .map(drop)
            })
        })
    }

    pub fn of<'a>(agents: &'a [Arc<Agent>], servers: &[usize]) -> Vec<&'a Agent> {
        servers.iter().map(|at| agents[*at].as_ref()).collect()
    }
}

impl Drop for Agent {
    /// The agent ends when its input ends.
    fn drop(&mut self) {
        let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(lines.0); // what is no order is the end
        let _ = self.process.wait();
        started().retain(|one| one.ssh != self.process.id());
    }
}

fn started() -> MutexGuard<'static, Vec<Started>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the agents that this process has started, and waits until all that they made is removed.
pub(crate) fn end_all() -> Result<()> {
    let started = started();
    for pid in started
        .iter()
        .filter_map(|one| Pid::from_raw(one.ssh.cast_signed()))
    {
        let _ = kill_process(pid, Signal::TERM); // it may have ended by itself
    }
    started.iter().try_for_each(|one| {
        let dir = one.dir.display();
        let wait = format!(
            "for _ in $(seq 90); do [ -e '{dir}' ] || exit 0; sleep 1; done; ls -d '{dir}'; exit 1"
        );
        tools::output_of(&mut ssh(&one.name, &wait)).map(drop)
    })
}

fn ssh(host: &str, script: &str) -> Command {
    let mut command = Command::new("ssh");
    command.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
    command.args(["-o", "ServerAliveInterval=10", host, script]);
    command.process_group(0); // Ctrl-C is for this process, which waits for all to be removed
    command
}

fn script(dir: &Path, number: usize, files: &[(&PathBuf, &str)]) -> Result<String> {
    let size = |(file, name): &(&PathBuf, &str)| {
        let bytes = fs::metadata(file).context("read", *file)?.len();
        Ok(format!("{bytes}:{name}"))
    };
    let files = files
        .iter()
        .map(size)
        .collect::<Result<Vec<_>>>()?
        .join(" ");
    let dir = dir.display();
    Ok(format!(
        "dir='{dir}' number={number} files='{files}'{SCRIPT}"
    ))
}

/// The address that SSH takes for this name.
fn address(name: &str) -> Result<Ipv4Addr> {
    let settings = tools::output_of(Command::new("ssh").args(["-G", name]))?;
    let mut lines = settings.lines();
    let host = lines
        .find_map(|line| line.strip_prefix("hostname "))
        .unwrap_or(name);
    let addresses = (host, 22).to_socket_addrs().context("find", host)?;
    let mut addresses = addresses.filter_map(|address| match address {
        SocketAddr::V4(address) => Some(*address.ip()),
        SocketAddr::V6(_) => None,
    });
    addresses.next().ok_or_else(|| LabError::Host {
        host: name.to_owned(),
        said: "it has no IPv4 address".into(),
    })
}

/// Carries out orders until there are no more.
pub fn serve(number: usize, dir: &Path) -> Result<()> {
    let mut stdout = io::stdout();
    if !rustix::process::geteuid().is_root() {
        let _ = writeln!(stdout, "the lab has to be root there: 'root@HOST'");
        return Ok(());
    }
    let mut member = Member {
        dir: dir.to_owned(),
        node: node(number),
        made: None,
    };
    let (sender, orders) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = io::stdin().lines().map_while(io::Result::ok);
        let mut orders = lines.map_while(|line| serde_json::from_str(&line).ok());
        while orders
            .next()
            .is_some_and(|order| sender.send(order).is_ok())
        {}
    });
    let mut answer = format!("{READY}{}", about(dir));
    while writeln!(stdout, "{answer}").is_ok() {
        let Ok(order) = orders.recv_timeout(SILENCE_MAX) else {
            break;
        };
        let done = member.obey(order).map_err(|error| error.to_string());
        answer = serde_json::to_string(&done).unwrap_or_default();
    }
    Ok(())
}

fn about(dir: &Path) -> String {
    let Machine {
        cores,
        memory_bytes,
        kernel,
        fsync_us,
        ..
    } = machine::machine(Some(dir));
    let server = machine::versions(None)
        .remove("mariadbd")
        .unwrap_or_default();
    let memory_mib = memory_bytes >> 20;
    format!("{kernel}, {cores} cores, {memory_mib} MiB, a sync takes {fsync_us} µs; {server}")
}

struct Member {
    dir: PathBuf,
    node: u8,
    made: Option<(Cluster, PoweredDisk)>,
}

impl Member {
    fn obey(&mut self, order: Order) -> Result<Rows> {
        let node = self.node;
        let order = match order {
            Order::Prepare(settings, bytes) => return self.prepare(*settings, bytes),
            order => order,
        };
        let Some((cluster, disk)) = &mut self.made else {
            return Ok(Vec::new()); // there is nothing yet
        };
        match order {
            Order::Prepare(..) => {}
            Order::Start(founds_group) => cluster.spawn(node, founds_group)?,
            Order::Kill => drop(cluster.kill(node)?),
            Order::Stop => drop(cluster.stop(node)?),
            Order::Pause(is_begin) => {
                let signal = if is_begin { Signal::STOP } else { Signal::CONT };
                if let Some(pid) = cluster.pid(node).and_then(Pid::from_raw) {
                    let _ = kill_process(pid, signal); // it may have ended by itself
                }
            }
            Order::IsRunning => {
                let is_running = cluster.ended(node).is_none();
                return Ok(vec![Vec::new(); usize::from(is_running)]);
            }
            Order::Query(sql, limit) => return Ok(cluster.query(node, &sql, limit)?),
            Order::Configuration => {
                let path = cluster.files(node).cnf;
                return Ok(vec![vec![fs::read_to_string(&path).context("read", path)?]]);
            }
            Order::Log => return Ok(vec![cluster.log_tail(node).0]),
            Order::TakeNextLibrary => {
                let own = cluster.settings_mut().overrides.entry(node).or_default();
                own.provider = Some(self.dir.join(NEXT_LIBRARY));
            }
            Order::Disk(change) => PoweredDisk::change(&[disk], change)?,
            Order::Cut(addresses, is_both) => {
                reconnect();
                tools::output_of(Command::new("nft").arg(table(&addresses, is_both)))?;
            }
            Order::Reconnect => reconnect(),
        }
        Ok(Vec::new())
    }

    fn prepare(&mut self, mut settings: Settings, bytes: u64) -> Result<Rows> {
        self.remove_server();
        settings.dir = self.dir.join("data");
        if settings.dir.exists() {
            fs::remove_dir_all(&settings.dir).context("remove", &settings.dir)?;
        }
        settings.provider = self.dir.join("libsynod.so");
        let cluster = Cluster::create(settings)?;
        let root = cluster.files(self.node).root;
        let disk = PoweredDisk::mount(&root, bytes)?;
        ServerUser::find()?.give(&root)?;
        self.made = Some((cluster, disk));
        Ok(Vec::new())
    }

    fn remove_server(&mut self) {
        reconnect();
        if let Some((mut cluster, disk)) = self.made.take() {
            let _ = disk.thaw(); // a process whose write hangs does not end
            if let Err(error) = cluster.kill(self.node) {
                // The connection may be gone.
                let _ = writeln!(io::stderr(), "synod-lab: {error}");
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.remove_server();
    }
}

/// Rules of nftables that lose packets.
fn table(addresses: &[IpAddr], is_both: bool) -> String {
    let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let list = list.join(", ");
    let chain = |hook: &str, device: &str, end: &str| {
        let rule = format!("{device} != \"lo\" ip {end} {{ {list} }} drop");
        format!("chain {hook} {{ type filter hook {hook} priority 0; {rule}; }};")
    };
    let mut chains = chain("output", "oifname", "daddr");
    if is_both {
        chains += &chain("input", "iifname", "saddr");
    }
    format!("table inet synod_lab {{ {chains} }}")
}

fn reconnect() {
    let mut nft = Command::new("nft");
    let _ = tools::output_of(nft.arg("delete table inet synod_lab")); // it need not be there
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the script of a host here, on this input; gives what it answers.
    fn run(dir: &Path, program: &Path, path: &str) -> String {
        let text = script(dir, 1, &[(&program.to_owned(), "synod-lab")]).unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &text]).env("PATH", path);
        tools::output_with(&mut shell, File::open(program).unwrap().into()).unwrap()
    }

    #[test]
    fn host_takes_the_program_runs_it_and_keeps_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        // Whatever this machine lacks is there.
        let programs = temporary.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for name in [
            "mariadbd",
            "mariadb",
            "rsync",
            "socat",
            "python3",
            "mkfs.ext4",
            "nft",
        ]
        .iter()
        .chain(&["fsfreeze", "losetup", "setpriv", "pkill", "umount"])
        {
            std::os::unix::fs::symlink("/bin/true", programs.join(name)).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", programs.display());
        let (dir, program) = (
            temporary.path().join("lab"),
            temporary.path().join("program"),
        );
        let text = "#!/bin/sh\necho \"$@\"; mkdir -p $3/data/node1; wc -c <$0\n";
        fs::write(&program, text).unwrap();
        let answer = run(&dir, &program, &path);
        let (arguments, bytes) = answer.split_once('\n').unwrap();
        assert_eq!(arguments, format!("agent 1 {}", dir.display()));
        assert_eq!(bytes.trim(), text.len().to_string());
        assert!(!dir.exists());
        // What another lab made stays.
        fs::create_dir(&dir).unwrap();
        let answer = run(&dir, &program, &path);
        assert!(answer.contains("remove it") && dir.exists(), "{answer}");
    }

    #[test]
    fn host_that_lacks_packages_names_them_and_takes_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("lab");
        let text = script(&dir, 1, &[])
            .unwrap()
            .replace("nft:nftables", "no-such:no-package");
        let answer = tools::output_of(Command::new("/bin/sh").args(["-c", &text])).unwrap();
        assert!(answer.contains("no-package") && !dir.exists(), "{answer}");
    }

    #[test]
    fn cut_in_one_direction_loses_no_packet_from_the_others() {
        let addresses = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let (one, both) = (table(&addresses, false), table(&addresses, true));
        assert!(
            one.contains("ip daddr { 10.0.0.1, 10.0.0.2 } drop"),
            "{one}"
        );
        assert!(!one.contains("input") && both.contains("ip saddr { 10.0.0.1, 10.0.0.2 }"));
    }
}
