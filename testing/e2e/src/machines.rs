//! The machines of a migration, and the commands of `docs/operating/migration*.md` on them: servers
//! with Galera's library, which may change it, or servers of a new group.
//!
//! Substituted are only what a single machine does not have:
//!
//! | the page | here |
//! |---|---|
//! | the machine `db1`, `db2`, ... | node 1, 2, ... of the test's cluster, or of a second one |
//! | `/var/lib/mysql`, `/etc/synod`, `/etc/mysql/mariadb.conf.d` | directories of that node |
//! | `synod ...` finds the machine's only server | `--dir` with that node's directory |
//! | `mariadb -e "SQL"`, `mariadb-dump`, `mariadb < FILE` | the same to that node |
//! | `MASTER_HOST='db1'` | the port of that node |
//! | `/root`, the database `shop` | a directory that all machines share, the database of the test |
//! | `POSITION` | what the last `SELECT @@gtid_binlog_pos` has shown |
//! | `systemctl` and `galera_new_cluster` | that node's server is started, stopped or looked at |
//!
//! Other commands are run by the shell as they stand there. A program that is not in the list of
//! this module fails the test. The file `90-synod.cnf` is that of the page, with the library, the
//! secret and the ports of the test.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use synod_local_cluster::ports::Ports;
use synod_local_cluster::{Replication, SstMethod, wait_for};

use crate::drill::{Page, Step};
use crate::failure::{Failure, Outcome, Why, ensure};
use crate::harness::TestCluster;
use crate::programs::{new_group_secret, printed, signal};
use crate::{logger, place};

/// Galera's library, of the package `galera-4`.
pub const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";
/// Migrations on the servers where they are.
pub const IN_PLACE: Page = Page("migration.md");
/// Migrations to new servers, by MariaDB's own replication.
pub const LIVE: Page = Page("migration-live.md");
/// The same by way of relays.
pub const RELAYED: Page = Page("migration-relays.md");
/// The file that makes a server a member of a group; the cluster of a test generates it.
const GROUP_FILE: &str = "/60-synod.cnf";
/// The file that changes the library.
const FILE: &str = "90-synod.cnf";
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const SQL_TIMEOUT: Duration = Duration::from_secs(10);
/// Programs that the shell runs.
const SHELL_PROGRAMS: [&str; 5] = ["cp", "grep", "rm", "sed", "sh"];
/// Outputs that must be equal on all machines before a drill may continue.
const COMPARED: [&str; 2] = ["wsrep_last_committed", "grep "];

/// Machines with their servers.
#[derive(Debug)]
pub struct Machines {
    pub cluster: TestCluster,
    /// The number of the first machine.
    first: u8,
    /// Last output of each machine, by compared command.
    shown: BTreeMap<String, BTreeMap<u8, String>>,
}

impl Machines {
    /// Servers with Galera's library, none of them started, that are prepared as the page says.
    pub fn prepared(name: &str, base_port: u16, count: u8) -> Outcome<Machines> {
        let cluster = TestCluster::with_provider(name, base_port, count, GALERA.into())?;
        let mut machines = Machines {
            cluster,
            first: 1,
            shown: BTreeMap::new(),
        };
        let library = machines.install_library()?;
        let secret = new_group_secret()?;
        for node in machines.cluster.nodes() {
            machines.prepare(node, &library, &secret)?;
        }
        Ok(machines)
    }

    /// Servers of a new group of Synod's, with the machines numbered from `first` on. None is
    /// started.
    pub fn of_new_group(name: &str, base_port: u16, count: u8, first: u8) -> Outcome<Machines> {
        let mut cluster = TestCluster::empty(name, base_port, count)?;
        let secret = new_group_secret()?;
        let settings = cluster.settings_mut();
        settings.group_secret = Some(secret.trim().to_owned());
        for node in 1..=count {
            let own = settings.overrides.entry(node).or_default();
            let name = first + node - 1;
            own.extra_lines.push(format!("wsrep_node_name = db{name}"));
        }
        Ok(Machines {
            cluster,
            first,
            shown: BTreeMap::new(),
        })
    }

    /// [`Machines::of_new_group`], with a server outside of the group on the first machine, which
    /// takes writes.
    pub fn with_one_server(name: &str, base_port: u16, count: u8) -> Outcome<Machines> {
        let mut machines = Machines::of_new_group(name, base_port, count, 1)?;
        let settings = machines.cluster.settings_mut();
        settings.sst_method = SstMethod::Mariabackup;
        settings.replication = Replication::Own;
        settings.nodes = 1;
        // The lines of a group.
        let overrides = std::mem::take(&mut settings.overrides);
        machines.cluster.up(&|_, _| ()).why("starting the server")?;
        machines.cluster.create_account()?;
        let settings = machines.cluster.settings_mut();
        settings.overrides = overrides;
        settings.nodes = count;
        Ok(machines)
    }

    /// Servers without a group, which take writes. None is started.
    pub fn without_group(name: &str, base_port: u16, count: u8) -> Outcome<Machines> {
        let mut cluster = TestCluster::empty(name, base_port, count)?;
        cluster.settings_mut().replication = Replication::Own;
        Ok(Machines {
            cluster,
            first: 1,
            shown: BTreeMap::new(),
        })
    }

    /// Adds lines to the configuration of a machine: those that a page shows below this one.
    pub fn configure(&mut self, machine: u8, page: Page, first_line: &str) -> Outcome {
        let lines = page.file(first_line)?;
        let node = machine + 1 - self.first;
        let settings = self.cluster.settings_mut();
        let own = settings.overrides.entry(node).or_default();
        own.extra_lines.extend(lines.lines().map(str::to_owned));
        Ok(())
    }

    /// Whether this machine is one of these.
    pub fn has(&self, machine: &str) -> bool {
        self.node_of(machine).is_ok()
    }

    fn node_of(&self, machine: &str) -> Outcome<u8> {
        let number = machine
            .strip_prefix("db")
            .and_then(|text| text.parse().ok());
        let node = number.and_then(|number: u8| (number + 1).checked_sub(self.first));
        let node = node.filter(|node| self.cluster.nodes().contains(node));
        node.ok_or_else(|| Failure(format!("no machine '{machine}'")))
    }

    /// A copy of the library that servers can read.
    fn install_library(&self) -> Outcome<PathBuf> {
        let path = self.cluster.settings().dir.join("libsynod.so");
        fs::copy(place::provider()?, &path).why("copying the library")?;
        fs::set_permissions(&path, Permissions::from_mode(0o644)).why("opening it up")?;
        Ok(path)
    }

    fn prepare(&mut self, node: u8, library: &Path, secret: &str) -> Outcome {
        let directories = self.directories(node);
        for directory in [&directories.read, &directories.kept] {
            fs::create_dir_all(directory).why("directories for configuration")?;
        }
        let user = self.cluster.user();
        let root = self.cluster.files(node).root;
        user.give(&root).why("the node's directory")?;
        let path = directories.kept.join("group.secret");
        logger::write_private(&path, secret)?;
        user.give(&path).why("the secret")?;
        let Ports { group, .. } = Ports::of(self.cluster.settings().base_port, node);
        let here = format!("base_port={group}; gmcast.listen_addr=tcp://127.0.0.1:{group}; ");
        let text = IN_PLACE
            .file("[mariadbd]")?
            .replace("/usr/lib/libsynod.so", &library.display().to_string())
            .replace("/etc/mysql/synod.secret", &path.display().to_string())
            .replace("synod.secret_file=", &format!("{here}synod.secret_file="));
        fs::write(directories.kept.join(FILE), text).why(FILE)?;
        let own = self
            .cluster
            .settings_mut()
            .overrides
            .entry(node)
            .or_default();
        own.extra_lines.push(format!("wsrep_node_name = db{node}"));
        own.extra_lines
            .push(format!("!includedir {}", directories.read.display()));
        Ok(())
    }

    fn directories(&self, node: u8) -> Directories {
        let root = self.cluster.files(node).root;
        Directories {
            read: root.join("mariadb.conf.d"),
            kept: root.join("synod"),
        }
    }

    /// Puts the file that changes the library where the server reads it.
    pub fn change_library(&self, node: u8) -> Outcome {
        let directories = self.directories(node);
        let copied = fs::copy(directories.kept.join(FILE), directories.read.join(FILE));
        copied.why(FILE).map(|_| ())
    }

    /// Does what a step of the page says, until it shows what the page says.
    pub fn perform(&mut self, step: &Step) -> Outcome {
        let node = self.node_of(&step.machine)?;
        let words: Vec<&str> = step.command.split_whitespace().collect();
        match words.as_slice() {
            ["galera_new_cluster"] => self.start(node, true),
            ["systemctl", "start" | "restart", "mariadb"] => self.start(node, false),
            ["cp", from, _] if from.ends_with(GROUP_FILE) => {
                self.cluster.settings_mut().replication = Replication::Group;
                Ok(())
            }
            ["systemctl", "stop", "mariadb"] => {
                self.cluster.stop(node).why("stopping it").map(|_| ())
            }
            ["systemctl", "stop", "--no-block", "mariadb"] => signal(&self.cluster, node, "-TERM"),
            ["systemctl", "is-active", "mariadb"] => self.await_end(node),
            _ => self.await_output(node, step),
        }
    }

    fn start(&mut self, node: u8, begins: bool) -> Outcome {
        self.cluster.spawn(node, begins).why("starting it")?;
        let synced = self.cluster.await_synced(&[node], &|_, _| ());
        synced.why("starting it")
    }

    fn await_end(&mut self, node: u8) -> Outcome {
        let ended = wait_for(PATIENCE, || self.cluster.ended(node));
        ensure(ended.is_some(), || "it does not end".to_owned())
    }

    /// Repeats a command until it succeeds, shows what the page says, and, if that is to be
    /// compared, the same on all machines that have shown it.
    fn await_output(&mut self, node: u8, step: &Step) -> Outcome {
        let mut last = String::new();
        let is_shown = wait_for(PATIENCE, || match self.output(node, &step.command) {
            Ok(output) if step.missing_in(&output).is_none() => Some(output),
            Ok(other) | Err(Failure(other)) => {
                last = other;
                None
            }
        });
        let Some(output) = is_shown else {
            return Err(Failure(format!(
                "it does not show {:?}, but:\n{last}",
                step.shows
            )));
        };
        if COMPARED.iter().any(|what| step.command.contains(what)) {
            let all = self.shown.entry(step.command.clone()).or_default();
            all.insert(node, output);
        }
        Ok(())
    }

    /// Checks that all machines have shown the same where the page has them compared. A person
    /// would repeat the command, as the page says; these clients have been stopped before.
    pub fn check_compared(&mut self) -> Outcome {
        let shown = std::mem::take(&mut self.shown);
        ensure(shown.len() == COMPARED.len(), || {
            format!("the page has other things compared: {shown:?}")
        })?;
        for (command, outputs) in shown {
            let mut all = outputs.values();
            let first = all.next();
            ensure(all.all(|other| Some(other) == first), || {
                format!("{command} shows {outputs:?}")
            })?;
        }
        Ok(())
    }

    /// Output of a command on a machine.
    pub fn show(&self, machine: &str, command: &str) -> Outcome<String> {
        self.output(self.node_of(machine)?, command)
    }

    fn output(&self, node: u8, command: &str) -> Outcome<String> {
        if let Some(sql) = command.strip_prefix("mariadb -e ") {
            let sql = sql.trim_matches('"');
            let rows = self.cluster.query(node, sql, SQL_TIMEOUT).why(sql)?;
            let lines = rows.iter().map(|row| row.join(" "));
            return Ok(lines.collect::<Vec<_>>().join("\n"));
        }
        if let Some(arguments) = command.strip_prefix("synod ") {
            let mut synod = Command::new(place::program()?);
            synod.args(arguments.split_whitespace());
            return printed(synod.arg("--dir").arg(self.cluster.files(node).data));
        }
        if let Some((client @ ("mariadb" | "mariadb-dump"), rest)) = command.split_once(' ') {
            let socket = self.cluster.files(node).socket;
            let admin = &self.cluster.user().admin;
            let place = format!("--socket={} --user={admin}", socket.display());
            return shell(&format!("{client} --no-defaults {place} {rest}"));
        }
        let program = command.split_whitespace().next().unwrap_or_default();
        ensure(SHELL_PROGRAMS.contains(&program), || {
            format!("this test does not know the command {command:?}")
        })?;
        let directories = self.directories(node);
        let data = self.cluster.files(node).data;
        let here = command
            .replace("/var/lib/mysql", &data.display().to_string())
            .replace("/etc/synod", &directories.kept.display().to_string())
            .replace(
                "/etc/mysql/mariadb.conf.d",
                &directories.read.display().to_string(),
            );
        shell(&here)
    }
}

fn shell(command: &str) -> Outcome<String> {
    printed(Command::new("sh").args(["-c", command]))
}

/// Directories of a machine.
struct Directories {
    /// Directory of the files that its server reads.
    read: PathBuf,
    kept: PathBuf,
}
