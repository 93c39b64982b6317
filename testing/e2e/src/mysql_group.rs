//! Three servers of MySQL in one group, by the plugin that `scripts/build-mysql-plugin` builds.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use synod_local_cluster::wait_for;

use crate::failure::{Failure, Outcome, Why, ensure};
use crate::mysql_server::{self, MysqlServer};
use crate::powered_disk::PoweredDisk;

/// Variable with the path of `synod_mysql.so`.
const PLUGIN: &str = "SYNOD_E2E_MYSQL_PLUGIN";
/// UUID of the group.
pub const GROUP: &str = "5e0dc0de-0000-4000-8000-0000000000e2";
/// For what takes seconds, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);
const DISK_BYTES: u64 = 1 << 30;
/// Options of each server, beside those of any server of MySQL in tests.
const OPTIONS: [&str; 8] = [
    "--report-host=127.0.0.1",
    "--log-replica-updates=OFF",
    "--innodb-flush-log-at-trx-commit=1",
    "--sync-binlog=0",
    "--super-read-only=ON",
    "--skip-replica-start=ON",
    "--plugin-load-add=synod_mysql.so",
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
        MysqlGroup::form(name, port, |_| Ok(()))
    }

    /// Makes a group as [`MysqlGroup::new`] does, each server on a disk that can lose its power.
    pub fn on_disks(name: &str, port: u16) -> Outcome<(MysqlGroup, Vec<PoweredDisk>)> {
        let mut disks = Vec::new();
        let group = MysqlGroup::form(name, port, |dir| {
            disks.push(PoweredDisk::mount(dir, DISK_BYTES)?);
            Ok(())
        })?;
        Ok((group, disks))
    }

    /// `prepare` is called for the directory of each server.
    fn form(
        name: &str,
        port: u16,
        mut prepare: impl FnMut(&Path) -> Outcome,
    ) -> Outcome<MysqlGroup> {
        let root = mysql_server::installed()?;
        install_plugin()?;
        let members = [11, 12, 13]
            .map(|at| format!("127.0.0.1:{}", port + at))
            .join(",");
        let mut servers = Vec::new();
        for n in 1..=3 {
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
        let (writer, _) = self.await_writer(&[0, 1, 2])?;
        for replica in others(writer) {
            self.await_state(replica, "replica")?;
        }
        Ok(writer)
    }

    /// Waits until all servers have executed what the writer has, and checks that none has more.
    pub fn await_same_position(&self) -> Outcome {
        let mut seen = Vec::new();
        let same = || {
            seen = (0..3)
                .map(|at| self.servers[at].rows("SELECT @@global.gtid_executed").ok())
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

/// Puts the plugin where servers load it from.
///
/// # Errors
/// When there is no MySQL or no plugin.
pub fn install_plugin() -> Outcome {
    let plugin = std::env::var_os(PLUGIN).map(PathBuf::from);
    let plugin = plugin.filter(|path| path.is_file());
    let plugin = plugin.ok_or_else(|| {
        Failure(format!(
            "no plugin in {PLUGIN}: run scripts/test-mysql-group"
        ))
    })?;
    // By its name, and not over the one that a server has open.
    let part = mysql_server::installed()?.join("usr/lib/mysql/plugin/synod_mysql.part");
    fs::copy(plugin, &part).why("copying the plugin")?;
    fs::rename(&part, part.with_extension("so")).why("placing the plugin")
}

/// The servers beside this one.
pub fn others(server: usize) -> [usize; 2] {
    [(server + 1) % 3, (server + 2) % 3]
}
