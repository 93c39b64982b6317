//! Servers of MySQL: Synod's plugin, Group Replication, and MySQL's semi-synchronous replication.
//!
//! Debian 12 has no MySQL. `scripts/mysql-root` makes a directory with the one of Debian's unstable
//! suite, whose own loader runs it here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row, Value};
use synod_local_cluster::ports::Ports;
use synod_local_cluster::{ServerUser, random_hex, wait_for};

use super::configuration::group_secret;
use super::kind::{MeasuredSystem, MgrSettings, SystemKind};
use super::process::{Process, STOP_TIMEOUT};
use super::{DATABASE, PASSWORD, SQL_TIMEOUT, Setup, USER, node};
use crate::error::{IoContext, LabError, Result};
use crate::hosts::Host;
use crate::tools;

/// A server makes its files, or is up, or has joined its group.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Settings of every server: all syncs on; otherwise as those of MariaDB's servers.
const EVERYWHERE: [&str; 13] = [
    "innodb_flush_log_at_trx_commit=1",
    "sync_binlog=1",
    "gtid_mode=ON",
    "enforce_gtid_consistency=ON",
    "innodb_buffer_pool_size=512M",
    "innodb_redo_log_capacity=384M",
    "innodb_stats_persistent=OFF",
    "max_connections=1000",
    "thread_cache_size=300",
    "skip_name_resolve=ON",
    "skip_replica_start=ON",
    "mysqlx=OFF",
    "secure_file_priv=NULL",
];

const GROUP: [&str; 5] = [
    "plugin_load_add=group_replication.so",
    "group_replication_start_on_boot=OFF",
    "group_replication_single_primary_mode=ON",
    "group_replication_recovery_get_public_key=ON",
    "group_replication_autorejoin_tries=3",
];

/// Override what is for the first start only: replicas connect by themselves, and the primary waits
/// for them.
const RECONNECTS: [&str; 2] = [
    "--skip_replica_start=OFF",
    "--rpl_semi_sync_source_enabled=ON",
];

/// Override the option of [`GROUP`]: a server that returns joins by itself, and takes no write
/// before it is a primary. These are what MySQL's own tool for clusters sets.
const RETURNS: [&str; 2] = [
    "--group_replication_start_on_boot=ON",
    "--super_read_only=ON",
];

/// The plugin of `scripts/build-mysql-plugin`, and the settings that it asks for: a transaction is
/// on the disks of a majority before the server commits it.
const PLUGIN: [&str; 4] = [
    "plugin_load_add=synod_mysql.so",
    "log_replica_updates=OFF",
    "sync_binlog=0",
    "super_read_only=ON",
];

/// A transaction is stored by a replica before others see it. The time is long, so that no
/// transaction is acknowledged without.
const SEMI_SYNC: [&str; 4] = [
    "plugin_load_add=semisync_source.so",
    "plugin_load_add=semisync_replica.so",
    "rpl_semi_sync_source_timeout=60000",
    "rpl_semi_sync_replica_enabled=ON",
];

#[derive(Debug)]
pub(super) struct MysqlServers {
    measured: MeasuredSystem,
    root: PathBuf,
    user: ServerUser,
    servers: Vec<Server>,
    are_formed: bool,
}

#[derive(Debug)]
struct Server {
    host: Host,
    dir: PathBuf,
    port: u16,
    options: Vec<String>,
    process: Process,
}

pub(super) fn check(kind: SystemKind, setup: &Setup) -> Result<()> {
    let missing = |name: &'static str, path: &Path, reason: &str| LabError::BadArgument {
        name,
        value: path.display().to_string(),
        reason: reason.into(),
    };
    if !setup.mysql.join("usr/sbin/mysqld").is_file() {
        let reason = "there is no usr/sbin/mysqld in it; run 'scripts/mysql-root'";
        return Err(missing("--mysql", &setup.mysql, reason));
    }
    if kind == SystemKind::SynodMysql && !plugin(setup).is_file() {
        let reason = "there is no synod_mysql.so beside it; run 'scripts/build-mysql-plugin'";
        return Err(missing("--synod", &setup.synod, reason));
    }
    Ok(())
}

/// The plugin, which is beside the library of MariaDB's servers.
fn plugin(setup: &Setup) -> PathBuf {
    setup.synod.with_file_name("synod_mysql.so")
}

/// Places the plugin where servers look for it, and not over one that a server has open.
fn install_plugin(setup: &Setup) -> Result<()> {
    let part = setup.mysql.join("usr/lib/mysql/plugin/synod_mysql.part");
    fs::copy(plugin(setup), &part).context("copy the plugin to", &part)?;
    fs::rename(&part, part.with_extension("so")).context("rename", &part)
}

/// The program in that directory, run by its own loader.
pub(crate) fn mysqld(root: &Path) -> Command {
    let mut command = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
    command
        .arg("--library-path")
        .arg(root.join("usr/lib/x86_64-linux-gnu"))
        .arg(root.join("usr/sbin/mysqld"));
    command
}

impl MysqlServers {
    pub(super) fn create(
        measured: MeasuredSystem,
        setup: &Setup,
        hosts: &[Host],
    ) -> Result<MysqlServers> {
        let user = ServerUser::find()?;
        let dir = setup.data.join(measured.to_string());
        fs::create_dir_all(&dir).context("create", &dir)?;
        let group = format!(
            "{}-0000-4000-8000-{}",
            &random_hex(4)?[..8],
            &random_hex(6)?[..12]
        );
        let mut servers = Vec::new();
        for (number, host) in hosts.iter().enumerate() {
            let dir = dir.join(&host.name);
            for path in [dir.clone(), dir.join("tmp")] {
                fs::create_dir_all(&path).context("create", &path)?;
                user.give(&path)?;
            }
            let port = Ports::of(setup.base_port, node(number)).sql;
            let mut options = own_options(number, host, &dir, port);
            options.extend(shared_options(measured, setup, hosts, number, &group)?);
            servers.push(Server {
                host: host.clone(),
                dir,
                port,
                options,
                process: Process::default(),
            });
        }
        if measured.kind == SystemKind::SynodMysql {
            install_plugin(setup)?;
        }
        let servers = MysqlServers {
            measured,
            root: setup.mysql.clone(),
            user,
            servers,
            are_formed: false,
        };
        for server in &servers.servers {
            let mut command = servers.program(server);
            command.arg("--initialize-insecure");
            command.arg(format!("--datadir={}", server.dir.join("data").display()));
            tools::output_of(command.arg("--secure_file_priv=NULL"))?;
        }
        Ok(servers)
    }

    /// The server's program on its host, as the user of servers. The change of the user comes
    /// first: it would make the system forget that the program ends with this one.
    fn program(&self, server: &Server) -> Command {
        let enter = server.host.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).arg("setpriv");
        command.args(self.user.setpriv_arguments());
        command.args(["--pdeathsig", "KILL"]);
        let mysqld = mysqld(&self.root);
        command.arg(mysqld.get_program()).args(mysqld.get_args());
        command.arg("--no-defaults");
        for (option, dir) in [
            ("basedir", "usr"),
            ("plugin_dir", "usr/lib/mysql/plugin"),
            ("lc_messages_dir", "usr/share/mysql"),
            ("character_sets_dir", "usr/share/mysql/charsets"),
        ] {
            command.arg(format!("--{option}={}", self.root.join(dir).display()));
        }
        command
    }

    pub(super) fn up(&mut self) -> Result<()> {
        for number in 0..self.servers.len() {
            self.start(number)?;
        }
        for number in 0..self.servers.len() {
            self.await_row(number, "SELECT 1", "1", "to answer")?;
        }
        let account = format!(
            "CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON *.* TO '{USER}'@'%'"
        );
        let is_synod = self.measured.kind == SystemKind::SynodMysql;
        if !self.are_formed && !is_synod {
            // Each has the account from itself: replicas need it before they receive anything.
            let account = format!("SET sql_log_bin = 0; {account}; SET sql_log_bin = 1");
            self.query_all(0..self.servers.len(), &account)?;
        }
        match self.measured.kind {
            SystemKind::SynodMysql => self.await_writer()?,
            SystemKind::Mgr(_) => self.begin_group()?,
            _ => self.connect_replicas()?,
        }
        if !self.are_formed && is_synod {
            self.query(0, &account, SQL_TIMEOUT)?;
        }
        if !self.are_formed {
            let sql = format!("CREATE DATABASE IF NOT EXISTS {DATABASE}");
            self.query(0, &sql, SQL_TIMEOUT)?;
        }
        self.are_formed = true;
        Ok(())
    }

    fn start(&mut self, number: usize) -> Result<()> {
        let server = &self.servers[number];
        let mut command = self.program(server);
        command.args(&server.options);
        if self.measured.kind == SystemKind::SynodMysql && number == 0 && !self.are_formed {
            command.arg("--synod_bootstrap=ON");
        }
        let process = &mut self.servers[number].process;
        process.start(&mut command, Stdio::null()) // it has an error log
    }

    /// Starts a server that has ended; it joins its group by itself, which is the default of
    /// Group Replication, or replicates again.
    pub(super) fn start_again(&mut self, number: usize) -> Result<()> {
        let returns = match self.measured.kind {
            SystemKind::Mgr(_) => &RETURNS[..],
            SystemKind::MysqlSemiSync if number == 0 => &RECONNECTS[..],
            SystemKind::MysqlSemiSync => &RECONNECTS[..1],
            _ => &[],
        };
        let options = &mut self.servers[number].options;
        let own = options.len();
        options.extend(returns.iter().map(|option| (*option).to_owned()));
        let started = self.start(number);
        self.servers[number].options.truncate(own);
        started
    }

    pub(super) fn process(&mut self, number: usize) -> &mut Process {
        &mut self.servers[number].process
    }

    /// The first server has the highest weight, and the others hand over to it.
    fn await_writer(&self) -> Result<()> {
        let state = "SELECT VARIABLE_VALUE FROM performance_schema.global_status
             WHERE VARIABLE_NAME = 'Synod_state'";
        for number in 1..self.servers.len() {
            self.await_row(number, state, "replica", "to follow the writer")?;
        }
        self.await_row(0, state, "writer", "to become the writer")
    }

    /// The first server begins the group again after each full stop: nothing else does.
    fn begin_group(&self) -> Result<()> {
        if !self.are_formed {
            let recovery = format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_USER = '{USER}',
                 SOURCE_PASSWORD = '{PASSWORD}' FOR CHANNEL 'group_replication_recovery'"
            );
            self.query_all(0..self.servers.len(), &recovery)?;
        }
        let bootstrap = "SET GLOBAL group_replication_bootstrap_group = ON;
             START GROUP_REPLICATION; SET GLOBAL group_replication_bootstrap_group = OFF";
        self.query(0, bootstrap, START_TIMEOUT)?;
        for number in 1..self.servers.len() {
            self.query(number, "START GROUP_REPLICATION", START_TIMEOUT)?;
        }
        let online = "SELECT COUNT(*) FROM performance_schema.replication_group_members
             WHERE MEMBER_STATE = 'ONLINE'";
        let all = self.servers.len().to_string();
        self.await_row(0, online, &all, "and all others to be ONLINE")
    }

    /// The primary's part of semi-synchronous replication is switched on when its replicas are
    /// connected: before that, the first statement would wait for them.
    fn connect_replicas(&self) -> Result<()> {
        let primary = &self.servers[0];
        let ssl = u8::from(self.measured.encrypted);
        let connect = format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {},
               SOURCE_USER = '{USER}', SOURCE_PASSWORD = '{PASSWORD}', SOURCE_AUTO_POSITION = 1,
               SOURCE_CONNECT_RETRY = 1, SOURCE_SSL = {ssl}, GET_SOURCE_PUBLIC_KEY = 1;
             START REPLICA",
            primary.host.address, primary.port
        );
        self.query_all(1..self.servers.len(), &connect)?;
        let receives = "SELECT SERVICE_STATE FROM performance_schema.replication_connection_status";
        for number in 1..self.servers.len() {
            self.await_row(number, receives, "ON", "to receive")?;
        }
        let on = "SET GLOBAL rpl_semi_sync_source_enabled = ON";
        self.query(0, on, SQL_TIMEOUT)?;
        let clients = "SELECT VARIABLE_VALUE FROM performance_schema.global_status
             WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_clients'";
        let all = (self.servers.len() - 1).to_string();
        self.await_row(0, clients, &all, "to count its replicas")
    }

    /// Stops all servers, the primary last: an orderly shutdown.
    pub(super) fn down(&mut self) -> Result<()> {
        (0..self.servers.len())
            .rev()
            .try_for_each(|number| self.stop(number))
    }

    pub(super) fn stop(&mut self, number: usize) -> Result<()> {
        let server = &mut self.servers[number];
        match server.process.stop() {
            true => Ok(()),
            false => Err(LabError::Timeout {
                what: format!("{} to end", server.host.name),
                seconds: STOP_TIMEOUT.as_secs(),
                now: end_of_log(server),
            }),
        }
    }

    pub(super) fn settings(&self) -> String {
        self.servers[0].options.join("\n")
    }

    pub(super) fn pid(&self, number: usize) -> Option<i32> {
        self.servers[number].process.pid()
    }

    fn query_all(&self, numbers: std::ops::Range<usize>, sql: &str) -> Result<()> {
        numbers
            .into_iter()
            .try_for_each(|number| self.query(number, sql, SQL_TIMEOUT).map(|_| ()))
    }

    pub(super) fn query(
        &self,
        number: usize,
        sql: &str,
        limit: Duration,
    ) -> Result<Vec<Vec<String>>> {
        let server = &self.servers[number];
        let options = OptsBuilder::new()
            .socket(Some(socket(&server.dir).display().to_string()))
            .user(Some("root"))
            .read_timeout(Some(limit))
            .write_timeout(Some(limit));
        let failed = |error: mysql::Error| LabError::Failed {
            command: sql.to_owned(),
            status: server.host.name.clone(),
            said: error.to_string(),
        };
        let mut connection = Conn::new(options).map_err(failed)?;
        let mut result = connection.query_iter(sql).map_err(failed)?;
        let mut rows = Vec::new();
        while let Some(set) = result.iter() {
            for row in set {
                rows.push(text_of(row.map_err(failed)?));
            }
        }
        Ok(rows)
    }

    /// Waits until a query's first value is this one.
    fn await_row(&self, number: usize, sql: &str, wanted: &str, what: &str) -> Result<()> {
        let server = &self.servers[number];
        let mut last = String::new();
        let found = wait_for(START_TIMEOUT, || {
            last = match self.query(number, sql, SQL_TIMEOUT) {
                Ok(rows) => rows.concat().first().cloned().unwrap_or_default(),
                Err(error) => error.to_string(),
            };
            (last == wanted).then_some(())
        });
        found.ok_or_else(|| LabError::Timeout {
            what: format!("{} {what}", server.host.name),
            seconds: START_TIMEOUT.as_secs(),
            now: format!("{last}\n{}", end_of_log(server)),
        })
    }
}

fn own_options(number: usize, host: &Host, dir: &Path, port: u16) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    vec![
        format!("--datadir={}", file("data")),
        format!("--tmpdir={}", file("tmp")),
        format!("--socket={}", socket(dir).display()),
        format!("--pid_file={}", file("pid")),
        format!("--log_error={}", file("error.log")),
        format!("--server_id={}", number + 1),
        format!("--port={port}"),
        format!("--bind_address={}", host.address),
        format!("--report_host={}", host.address),
    ]
}

fn shared_options(
    measured: MeasuredSystem,
    setup: &Setup,
    hosts: &[Host],
    number: usize,
    group: &str,
) -> Result<Vec<String>> {
    let host = &hosts[number];
    let port = Ports::of(setup.base_port, 1).group;
    let members = hosts.iter().map(|host| format!("{}:{port}", host.address));
    let members = members.collect::<Vec<_>>().join(",");
    let mut options: Vec<String> = Vec::new();
    let mut add = |lines: &[&str]| options.extend(lines.iter().map(|line| format!("--{line}")));
    add(&EVERYWHERE);
    if measured.kind == SystemKind::SynodMysql {
        add(&PLUGIN);
        let weight = if number == 0 { 100 } else { 50 };
        let clear = match measured.encrypted {
            true => format!("synod.secret_file={}", group_secret(setup)?.display()),
            // The hosts have addresses that are no loopback ones, so clear must be asked for.
            false => "synod.insecure=yes".to_owned(),
        };
        let provider = format!("synod.leader_handover=yes;synod.leader_weight={weight};{clear}");
        for (name, value) in [
            ("group", group),
            ("name", &host.name),
            ("address", &format!("{}:{port}", host.address)),
            ("members", &members),
            ("options", &provider),
        ] {
            add(&[&format!("synod_{name}={value}")]);
        }
    } else if let SystemKind::Mgr(settings) = measured.kind {
        add(&GROUP);
        let (mode, recovery) = match measured.encrypted {
            true => ("REQUIRED", "ON"),
            false => ("DISABLED", "OFF"),
        };
        for (name, value) in [
            ("group_name", group),
            ("local_address", &format!("{}:{port}", host.address)),
            ("group_seeds", &members),
            ("ssl_mode", mode),
            ("recovery_use_ssl", recovery),
        ] {
            add(&[&format!("group_replication_{name}={value}")]);
        }
        match settings {
            MgrSettings::Default => {}
            MgrSettings::After => add(&["group_replication_consistency=AFTER"]),
            MgrSettings::SingleLeader => add(&["group_replication_paxos_single_leader=ON"]),
        }
    } else {
        add(&SEMI_SYNC);
        if number > 0 {
            add(&["read_only=ON"]); // for accounts without SUPER
        }
    }
    for line in &setup.extra_lines {
        let words: Vec<&str> = line.split('=').map(str::trim).collect();
        add(&[&words.join("=")]);
    }
    Ok(options)
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("socket")
}

fn end_of_log(server: &Server) -> String {
    let path = server.dir.join("error.log");
    let log = fs::read_to_string(path).unwrap_or_default();
    tools::end_of(log.trim()).to_owned()
}

fn text_of(row: Row) -> Vec<String> {
    let text = |value| match value {
        Value::NULL => "NULL".to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => other.as_sql(true),
    };
    row.unwrap().into_iter().map(text).collect()
}
