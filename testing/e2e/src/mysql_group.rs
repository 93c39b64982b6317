//! Servers of MySQL in one group, by the plugin that `scripts/build-mysql-plugin` builds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use synod_local_cluster::wait_for;

use crate::failure::{Failure, Outcome, Why, ensure};
use crate::logger::{self, Logger, quoted};
use crate::mysql_server::{self, MysqlServer};
use crate::place;
use synod_lab::disk::PoweredDisk;

/// Variable with the path of `synod_mysql.so`.
pub const PLUGIN: &str = "SYNOD_E2E_MYSQL_PLUGIN";
/// Variable with the path of one that pauses at steps of a commit.
const PAUSING_PLUGIN: &str = "SYNOD_E2E_MYSQL_PAUSES";
/// UUID of the group.
pub const GROUP: &str = "5e0dc0de-0000-4000-8000-0000000000e2";
/// For what takes seconds, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);
const DISK_BYTES: u64 = 1 << 30;
/// Options of each server, beside those of any server of MySQL in tests.
const OPTIONS: [&str; 9] = [
    "--report-host=127.0.0.1",
    "--log-replica-updates=OFF",
    "--innodb-flush-log-at-trx-commit=1",
    "--sync-binlog=0",
    "--super-read-only=ON",
    "--skip-replica-start=ON",
    "--plugin-load-add=synod_mysql.so",
    "--plugin-load-add=mysql_clone.so",
    // A lock of a test must not hold a server's end up.
    "--lock-wait-timeout=60",
];

/// A group. Its servers are killed when it is dropped.
#[derive(Debug)]
pub struct MysqlGroup {
    pub servers: Vec<MysqlServer>,
}

impl MysqlGroup {
    /// Makes three empty databases, and starts them as a group. Clients' ports begin at `port`,
    /// members' at `port` + 10.
    ///
    /// # Errors
    /// When there is no MySQL or no plugin, or no group has formed.
    pub fn new(name: &str, port: u16) -> Outcome<MysqlGroup> {
        MysqlGroup::form(PLUGIN, name, port, 3, |_| Ok(()))
    }

    /// Makes a group as [`MysqlGroup::new`] does, of servers that pause at a step of a commit where
    /// a file `synod-pause-STEP` in their data directory asks for it.
    pub fn that_pauses(name: &str, port: u16) -> Outcome<MysqlGroup> {
        MysqlGroup::form(PAUSING_PLUGIN, name, port, 3, |_| Ok(()))
    }

    /// Makes a group of two servers and a logger as [`MysqlGroup::new`] does.
    pub fn with_logger(name: &str, port: u16) -> Outcome<(MysqlGroup, Logger)> {
        let group = MysqlGroup::form(PLUGIN, name, port, 2, |_| Ok(()))?;
        let dir = group.data_dir(0).join("../../witness");
        logger::make_dir(&dir, "")?;
        let addresses = [11, 12, 13].map(|at| quoted(&format!("127.0.0.1:{}", port + at)));
        let log_dir = dir.join("log").display().to_string();
        let lines = [
            ("cluster_name", quoted(GROUP)),
            ("name", quoted("witness")),
            ("address", addresses[2].clone()),
            ("peers", format!("[{}]", addresses.join(", "))),
            ("synod.log_dir", quoted(&log_dir)),
            ("synod.listen_addr", addresses[2].clone()),
        ];
        let lines = lines.map(|(key, value)| (key.to_owned(), value));
        let mut logger = Logger::with_lines("logger", dir, lines.into());
        logger.join()?;
        Ok((group, logger))
    }

    /// Makes a group as [`MysqlGroup::new`] does, each server on a disk that can lose its power.
    pub fn on_disks(name: &str, port: u16) -> Outcome<(MysqlGroup, Vec<PoweredDisk>)> {
        MysqlGroup::on_disks_of(name, port, DISK_BYTES)
    }

    /// The same, with disks of so many bytes.
    pub fn on_disks_of(
        name: &str,
        port: u16,
        bytes: u64,
    ) -> Outcome<(MysqlGroup, Vec<PoweredDisk>)> {
        let mut disks = Vec::new();
        let group = MysqlGroup::form(PLUGIN, name, port, 3, |dir| {
            disks.push(PoweredDisk::mount(dir, bytes).why("making a disk")?);
            Ok(())
        })?;
        Ok((group, disks))
    }

    /// `prepare` is called for the directory of each server.
    fn form(
        plugin: &str,
        name: &str,
        port: u16,
        count: u16,
        mut prepare: impl FnMut(&Path) -> Outcome,
    ) -> Outcome<MysqlGroup> {
        let root = mysql_server::installed()?;
        install_plugin(plugin)?;
        let members = [11, 12, 13]
            .map(|at| format!("127.0.0.1:{}", port + at))
            .join(",");
        let mut servers = Vec::new();
        for n in 1..=count {
            let own = [
                format!("--server-id={n}"),
                format!("--synod-name=db{n}"),
                format!("--synod-address=127.0.0.1:{}", port + 10 + n),
                format!("--synod-members={members}"),
                format!("--synod-group={GROUP}"),
            ];
            let options: Vec<&str> = own.iter().map(String::as_str).chain(OPTIONS).collect();
            let name = format!("{name}-{n}");
            prepare(&mysql_server::directory(&root, &name))?;
            servers.push(MysqlServer::installed(
                root.clone(),
                &name,
                port + n,
                &options,
            )?);
        }
        let mut group = MysqlGroup { servers };
        for (at, server) in group.servers.iter_mut().enumerate() {
            server.start(if at == 0 {
                &["--synod-bootstrap=ON"]
            } else {
                &[]
            })?;
        }
        group.await_whole()?;
        Ok(group)
    }

    /// Directory of a server's data and log.
    pub fn data_dir(&self, server: usize) -> PathBuf {
        self.servers[server].file("")
    }

    /// Runs a command of the program `synod` about a server.
    pub fn synod(&self, server: usize, arguments: &[&str]) -> Outcome<Output> {
        let mut command = Command::new(place::program()?);
        command.args(arguments).arg("--dir");
        command
            .arg(self.data_dir(server))
            .output()
            .why("running synod")
    }

    /// Output of a command that succeeds.
    pub fn synod_says(&self, server: usize, arguments: &[&str]) -> Outcome<String> {
        let ran = self.synod(server, arguments)?;
        let [printed, error] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text));
        ensure(ran.status.success(), || {
            format!("synod {arguments:?}: {}\n{printed}\n{error}", ran.status)
        })?;
        Ok(printed.into_owned())
    }

    /// A value of the plugin's status of one server; none: it does not answer.
    pub fn status(&self, server: usize, name: &str) -> Option<String> {
        let sql = format!("SHOW GLOBAL STATUS LIKE 'Synod_{name}'");
        let rows = self.servers[server].rows(&sql).ok()?;
        let value = rows.first()?.split('\t').nth(1)?;
        Some(value.to_owned())
    }

    /// Waits until the plugin of one server says this state.
    pub fn await_state(&self, server: usize, state: &str) -> Outcome {
        let is = || (self.status(server, "state").as_deref() == Some(state)).then_some(());
        wait_for(PATIENCE, is).ok_or_else(|| {
            let (is, why) = (self.status(server, "state"), self.status(server, "problem"));
            let log = self.servers[server].log();
            Failure(format!(
                "db{} is {is:?}, not {state}: {why:?}\n{log}",
                server + 1
            ))
        })
    }

    /// The writer among these servers, and the time until it was there.
    pub fn await_writer(&self, among: &[usize]) -> Outcome<(usize, Duration)> {
        let since = Instant::now();
        let is_writer = |at: &usize| self.status(*at, "state").as_deref() == Some("writer");
        let found = wait_for(PATIENCE, || among.iter().copied().find(is_writer));
        let writer = found.ok_or_else(|| {
            let logs: Vec<String> = among.iter().map(|at| self.servers[*at].log()).collect();
            Failure(format!("no writer among {among:?}:\n{}", logs.join("\n\n")))
        })?;
        Ok((writer, since.elapsed()))
    }

    /// Waits until one server is the writer and the two others follow it; returns the writer.
    pub fn await_whole(&self) -> Outcome<usize> {
        for server in &self.servers {
            server.await_up()?;
        }
        let all: Vec<usize> = (0..self.servers.len()).collect();
        let (writer, _) = self.await_writer(&all)?;
        for replica in all.into_iter().filter(|at| *at != writer) {
            self.await_state(replica, "replica")?;
        }
        Ok(writer)
    }

    /// Waits until all servers have executed what the writer has, and checks that none has more.
    pub fn await_same_position(&self) -> Outcome {
        let mut seen = Vec::new();
        let same = || {
            seen = (self.servers.iter())
                .map(|server| server.rows("SELECT @@global.gtid_executed").ok())
                .collect();
            let is_same = seen[0].is_some() && seen.iter().all(|position| *position == seen[0]);
            is_same.then_some(())
        };
        let is_same = wait_for(PATIENCE, same).is_some();
        ensure(is_same, || {
            let logs: Vec<String> = self.servers.iter().map(MysqlServer::log).collect();
            format!("positions differ: {seen:?}\n{}", logs.join("\n\n"))
        })
    }

    /// Checks that a query has the same answer on all servers, once they have executed the same,
    /// and returns that.
    pub fn same_rows(&self, sql: &str) -> Outcome<Vec<String>> {
        self.await_same_position()?;
        let first = self.servers[0].rows(sql)?;
        for server in &self.servers[1..] {
            let rows = server.rows(sql)?;
            ensure(rows == first, || {
                let differing = first.iter().zip(&rows).find(|(a, b)| a != b);
                let counts = (first.len(), rows.len());
                format!("{sql}: {counts:?} rows, the first that differ: {differing:?}")
            })?;
        }
        Ok(first)
    }
}

/// Puts the plugin in the file that this variable names where servers load it from.
///
/// # Errors
/// When there is no MySQL or no plugin.
pub fn install_plugin(plugin: &str) -> Outcome {
    let file = std::env::var_os(plugin).map(PathBuf::from);
    let file = file.filter(|path| path.is_file());
    let file = file.ok_or_else(|| {
        Failure(format!(
            "no plugin in {plugin}: run scripts/test-mysql-group"
        ))
    })?;
    // By its name, and not over the one that a server has open.
    let part = mysql_server::installed()?.join("usr/lib/mysql/plugin/synod_mysql.part");
    fs::copy(file, &part).why("copying the plugin")?;
    fs::rename(&part, part.with_extension("so")).why("placing the plugin")
}

/// The servers beside this one.
pub fn others(server: usize) -> [usize; 2] {
    [(server + 1) % 3, (server + 2) % 3]
}
