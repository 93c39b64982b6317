//! The systems that are measured, each with real servers on the hosts of a lab. A [`System`] is
//! made once, and then started and stopped for each of its turns, so that a system that waits for
//! its turn uses neither processor nor disk. Each server is configured as a careful user would set
//! it, so that acknowledged transactions survive what its manual says they survive.

pub mod agent;
pub mod configuration;
mod failing;
pub mod kind;
mod logger;
mod mysql;
mod process;
mod replicas;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use synod_local_cluster::ports::Ports;
use synod_local_cluster::{Cluster, wait_for};

use crate::error::{IoContext, LabError, Result};
use crate::hosts::{Host, Hosts};
use agent::{Agent, Order};
use kind::{MeasuredSystem, SystemKind};
use logger::Logger;
use mysql::MysqlServers;
pub(crate) use mysql::mysqld;

/// Account of clients, from any host of the lab.
pub const USER: &str = "lab";
/// Its password: no program outside the lab can reach the servers, but for those of `--hosts`.
pub const PASSWORD: &str = "lab";
pub const DATABASE: &str = "sbtest";

const SQL_TIMEOUT: Duration = Duration::from_secs(30);

/// Dropping large tables takes seconds.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(120);

/// Leadership is handed over within some election timeouts.
const LEADER_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Setup {
    pub data: PathBuf,
    /// First of 400 ports. Hosts have their own, so it need not be free outside.
    pub base_port: u16,
    pub synod: PathBuf,
    /// Another version of it. None: there is none to upgrade to.
    pub next_synod: Option<PathBuf>,
    pub galera: PathBuf,
    pub mysql: PathBuf,
    /// This program, which emulates the network, too. `synod` is beside it.
    pub program: PathBuf,
    /// Lines for the configuration of every server of every system.
    pub extra_lines: Vec<String>,
}

#[derive(Debug)]
pub struct System {
    measured: MeasuredSystem,
    servers: Servers,
    hosts: Vec<Host>,
    logger: Option<Logger>,
    base_port: u16,
    /// Whether it has run before: its replicas begin at an empty log then.
    was_up: bool,
}

#[derive(Debug)]
enum Servers {
    Mariadb(Box<Cluster>),
    Mysql(MysqlServers),
    /// Each on a machine of its own.
    Remote(Vec<Arc<Agent>>),
}

impl Setup {
    /// The program `synod`, which is beside this one.
    fn synod_program(&self) -> PathBuf {
        self.program.with_file_name("synod")
    }
}

impl System {
    pub fn create(measured: MeasuredSystem, setup: &Setup, hosts: &Hosts) -> Result<System> {
        System::create_in(measured, setup, hosts, &mut |_| Ok(()))
    }

    /// Like [`System::create`]; `prepare` gets each directory before anything is in it.
    pub fn create_in(
        measured: MeasuredSystem,
        setup: &Setup,
        hosts: &Hosts,
        prepare: &mut dyn FnMut(&Path) -> Result<()>,
    ) -> Result<System> {
        let mut hosts = hosts.servers.clone();
        if !measured.kind.replicates() {
            hosts.truncate(1);
        }
        let beside = (measured.has_logger).then(|| hosts.pop()).flatten();
        let mut logger = None;
        let servers = if measured.kind.is_mysql() {
            let dir = setup.data.join(measured.to_string());
            hosts
                .iter()
                .try_for_each(|host| prepare(&dir.join(&host.name)))?;
            Servers::Mysql(MysqlServers::create(measured, setup, &hosts)?)
        } else {
            let settings = configuration::settings(measured, setup, &hosts)?;
            let cluster = Cluster::create(settings)?;
            let mut dirs = cluster.nodes().map(|node| cluster.files(node).root);
            dirs.try_for_each(|dir| prepare(&dir))?;
            if let Some(host) = beside {
                logger = Some(Logger::create(host, setup, cluster.settings(), prepare)?);
            }
            Servers::Mariadb(Box::new(cluster))
        };
        Ok(System {
            measured,
            servers,
            hosts,
            logger,
            base_port: setup.base_port,
            was_up: false,
        })
    }

    /// Prepares a system on other machines, with disks of so many bytes.
    pub fn create_remote(
        measured: MeasuredSystem,
        setup: &Setup,
        agents: &[Arc<Agent>],
        disk_bytes: u64,
    ) -> Result<System> {
        let hosts: Vec<Host> = agents.iter().map(|agent| agent.host.clone()).collect();
        let mut settings = configuration::settings(measured, setup, &hosts)?;
        let own = settings.hosts.values_mut();
        own.for_each(|host| host.enter.clear());
        for agent in agents {
            agent.order(&Order::Prepare(Box::new(settings.clone()), disk_bytes))?;
        }
        Ok(System {
            measured,
            servers: Servers::Remote(agents.to_vec()),
            hosts,
            logger: None,
            base_port: setup.base_port,
            was_up: false,
        })
    }

    pub fn measured(&self) -> MeasuredSystem {
        self.measured
    }

    pub fn kind(&self) -> SystemKind {
        self.measured.kind
    }

    /// The hosts of its servers. Servers are numbered as in this list, from 0.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Number of servers, and of the logger: it comes after them.
    pub fn members(&self) -> usize {
        self.hosts.len() + usize::from(self.logger.is_some())
    }

    /// `db1` and so on; `logger`.
    pub fn name(&self, member: usize) -> String {
        let host = self.hosts.get(member);
        host.map_or(logger::NAME, |host| &host.name).to_owned()
    }

    /// Starts all servers, makes the account at the first start, and waits until the first server
    /// leads.
    pub fn up(&mut self) -> Result<()> {
        match &mut self.servers {
            Servers::Mysql(servers) => return servers.up(),
            Servers::Remote(_) => self.found_group()?,
            Servers::Mariadb(cluster) => {
                cluster.up(&|_, _| ())?;
                if let Some(logger) = &mut self.logger {
                    logger.start()?;
                    logger.await_present(&cluster.files(node(0)).data)?;
                }
            }
        }
        if !self.was_up {
            let own_databases = if self.kind().is_group() {
                1
            } else {
                self.hosts.len()
            };
            (0..own_databases).try_for_each(|server| self.create_account(server))?;
        }
        if self.kind().has_replicas() {
            if !self.was_up {
                replicas::forget_own_history(self)?;
            }
            replicas::connect(self, self.measured.encrypted)?;
            if self.kind() == SystemKind::SemiSync {
                replicas::wait_for_replicas(self)?;
            }
        }
        self.was_up = true;
        self.await_leader()
    }

    pub fn down(&mut self) -> Result<()> {
        match &mut self.servers {
            Servers::Mysql(servers) => servers.down(),
            Servers::Remote(_) => (0..self.hosts.len()).try_for_each(|server| self.stop(server)),
            Servers::Mariadb(cluster) => {
                cluster.down(&|_, _| ())?;
                if let Some(logger) = &mut self.logger {
                    logger.process.stop();
                }
                Ok(())
            }
        }
    }

    pub fn address(&self, server: usize) -> (IpAddr, u16) {
        let port = Ports::of(self.base_port, node(server)).sql;
        (self.hosts[server].address.into(), port)
    }

    pub fn settings(&self) -> Result<String> {
        match &self.servers {
            Servers::Mysql(servers) => Ok(servers.settings()),
            Servers::Remote(agents) => {
                Ok(agents[0].order(&Order::Configuration)?.concat().concat())
            }
            Servers::Mariadb(cluster) => {
                let path = cluster.files(node(0)).cnf;
                std::fs::read_to_string(&path).context("read", path)
            }
        }
    }

    pub fn pid(&self, server: usize) -> Option<i32> {
        if server == self.hosts.len() {
            return self.logger.as_ref()?.process.pid();
        }
        match &self.servers {
            Servers::Mysql(servers) => servers.pid(server),
            Servers::Remote(_) => None,
            Servers::Mariadb(cluster) => cluster.pid(node(server)),
        }
    }

    pub fn query(&self, server: usize, sql: &str) -> Result<Vec<Vec<String>>> {
        self.query_within(server, sql, SQL_TIMEOUT)
    }

    fn query_within(&self, server: usize, sql: &str, limit: Duration) -> Result<Vec<Vec<String>>> {
        match &self.servers {
            Servers::Mysql(servers) => servers.query(server, sql, limit),
            Servers::Remote(agents) => agents[server].order(&Order::Query(sql.to_owned(), limit)),
            Servers::Mariadb(cluster) => Ok(cluster.query(node(server), sql, limit)?),
        }
    }

    /// The value of a status variable; none if the server has no such.
    pub fn status_value(&self, server: usize, name: &str) -> Option<String> {
        let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        let rows = self.query(server, &sql).ok()?;
        rows.into_iter().next()?.into_iter().nth(1)
    }

    /// `leader`, `follower`, `primary`, `replica`, `alone`, or `member` where all are equal.
    pub fn role(&self, server: usize) -> String {
        match self.kind() {
            SystemKind::Synod => self
                .status_value(server, "wsrep_synod_role")
                .unwrap_or_else(|| "unknown".into()),
            SystemKind::Galera { .. } => "member".into(),
            SystemKind::Standalone => "alone".into(),
            _ if server == 0 => "primary".into(),
            _ => "replica".into(),
        }
    }

    pub fn empty_database(&self) -> Result<()> {
        let sql = format!("DROP DATABASE IF EXISTS {DATABASE}; CREATE DATABASE {DATABASE}");
        self.query_within(0, &sql, EMPTY_TIMEOUT).map(|_| ())
    }

    fn create_account(&self, server: usize) -> Result<()> {
        let sql = format!(
            "CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';
             GRANT ALL ON *.* TO '{USER}'@'%';
             CREATE DATABASE IF NOT EXISTS {DATABASE};"
        );
        self.query(server, &sql).map(|_| ())
    }

    /// The first server has the highest weight, and the others hand over to it.
    fn await_leader(&self) -> Result<()> {
        if self.kind() != SystemKind::Synod {
            return Ok(());
        }
        let mut last = String::new();
        let leads = wait_for(LEADER_TIMEOUT, || {
            last = self.role(0);
            (last == "leader").then_some(())
        });
        leads.ok_or(LabError::Timeout {
            what: format!("{} to become the leader", self.hosts[0].name),
            seconds: LEADER_TIMEOUT.as_secs(),
            now: last,
        })
    }
}

fn node(server: usize) -> u8 {
    u8::try_from(server + 1).unwrap_or(u8::MAX)
}
