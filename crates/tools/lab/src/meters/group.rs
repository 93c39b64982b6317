//! The servers that are observed, and connections to them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

use super::error::{MeterError, Result};
use crate::hosts::{self, Host};
use crate::systems::{PASSWORD, System, USER};

/// The database that meters make, fill, and drop at their end.
pub const DATABASE: &str = "synod_lab";

/// An answer that takes longer counts as lost. Longer than any stall worth a figure.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// One statement that changes millions of rows takes minutes.
const GIANT_TIMEOUT: Duration = Duration::from_secs(1800);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Rows that one statement inserts: small enough that filling a table stalls no member.
const ROWS_PER_FILL: u64 = 20_000;

/// Interval of looks whether members have caught up.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    pub host: String,
    pub port: u16,
    /// Account that may do everything.
    pub user: String,
    pub password: String,
    /// Network namespace that its clients connect from. None: this process's own.
    pub namespace: Option<PathBuf>,
    pub pid: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `synod`, `galera`, ...
    pub system: String,
    pub topology: String,
    pub servers: Vec<Server>,
}

/// Values of `SHOW GLOBAL STATUS` by name, in lower case.
pub type Status = BTreeMap<String, String>;

impl Server {
    pub fn connect(&self) -> Result<Conn> {
        self.connect_patiently(ANSWER_TIMEOUT)
    }

    pub fn connect_for_giants(&self) -> Result<Conn> {
        self.connect_patiently(GIANT_TIMEOUT)
    }

    /// Opens a connection on which an answer that takes longer than this counts as lost.
    pub fn connect_patiently(&self, timeout: Duration) -> Result<Conn> {
        let options = OptsBuilder::new()
            .ip_or_hostname(Some(&self.host))
            .tcp_port(self.port)
            .user(Some(&self.user))
            .pass(Some(&self.password))
            .prefer_socket(false)
            .tcp_nodelay(true)
            .tcp_connect_timeout(Some(CONNECT_TIMEOUT))
            .read_timeout(Some(timeout))
            .write_timeout(Some(timeout));
        // The socket stays in the namespace that it was made in.
        let connected = match &self.namespace {
            Some(file) => hosts::in_namespace(file, || Ok(Conn::new(options)))
                .unwrap_or_else(|error| Err(error.into())),
            None => Conn::new(options),
        };
        connected.map_err(|source| MeterError::Connect {
            server: self.name.clone(),
            address: format!("{}:{}", self.host, self.port),
            user: self.user.clone(),
            source: Box::new(source),
        })
    }

    /// Runs statements of the meter itself, which must succeed, on a connection of their own.
    pub fn execute(&self, statements: &[&str]) -> Result<()> {
        let mut connection = self.connect_for_giants()?;
        for statement in statements {
            let done = connection.query_drop(statement);
            done.map_err(|source| self.refused(statement, source))?;
        }
        Ok(())
    }

    pub fn refused(&self, statement: &str, source: mysql::Error) -> MeterError {
        MeterError::Statement {
            server: self.name.clone(),
            statement: statement.chars().take(200).collect(),
            source: Box::new(source),
        }
    }

    pub fn status(&self) -> Result<Status> {
        self.status_by(&mut self.connect()?)
    }

    pub fn status_by(&self, connection: &mut Conn) -> Result<Status> {
        let statement = "SHOW GLOBAL STATUS LIKE 'wsrep%'";
        let rows: Vec<(String, String)> = connection
            .query(statement)
            .map_err(|source| self.refused(statement, source))?;
        let lower = |(name, value): (String, String)| (name.to_lowercase(), value);
        Ok(rows.into_iter().map(lower).collect())
    }
}

/// A number among status variables; none if it is not there.
pub fn number(status: &Status, name: &str) -> Option<i64> {
    status.get(name)?.parse().ok()
}

impl Group {
    /// The servers of a system on this network; their clients are on the hosts beside them, or in
    /// this process's own network.
    pub fn of(system: &System, topology: &str, clients: &[Host]) -> Group {
        let hosts = system.hosts().iter().enumerate();
        let server = |(place, host): (usize, &Host)| {
            let (address, port) = system.address(place);
            Server {
                name: host.name.clone(),
                host: address.to_string(),
                port,
                user: USER.to_owned(),
                password: PASSWORD.to_owned(),
                namespace: clients.get(place).map(Host::namespace_file),
                pid: system.pid(place),
            }
        };
        Group {
            system: system.measured().to_string(),
            topology: topology.to_owned(),
            servers: hosts.map(server).collect(),
        }
    }

    /// The place of the leader in the list; the first where the system has no leader.
    pub fn leader(&self) -> usize {
        let leads = |server: &Server| {
            let status = server.status().ok()?;
            Some(status.get("wsrep_synod_role")? == "leader")
        };
        let found = self.servers.iter().position(|s| leads(s) == Some(true));
        found.unwrap_or(0)
    }

    pub fn make_database(&self) -> Result<MetersDatabase> {
        let drop = format!("DROP DATABASE IF EXISTS {DATABASE}");
        self.servers[0].execute(&[&drop, &format!("CREATE DATABASE {DATABASE}")])?;
        Ok(MetersDatabase {
            server: self.servers[0].clone(),
        })
    }

    /// Makes a table of the meters' database, fills it with rows numbered from 1, and waits until
    /// all servers hold them. `values` is what is selected for the row `seq`.
    pub fn make_table(&self, name: &str, columns: &str, values: &str, rows: u64) -> Result<()> {
        let server = &self.servers[0];
        server.execute(&[&format!("CREATE TABLE {DATABASE}.{name} ({columns})")])?;
        let mut connection = server.connect_for_giants()?;
        let mut first = 1;
        while first <= rows {
            let last = rows.min(first + ROWS_PER_FILL - 1);
            let fill = format!(
                "INSERT INTO {DATABASE}.{name} SELECT {values} \
                 FROM {DATABASE}.seq_{first}_to_{last}"
            );
            let filled = connection.query_drop(&fill);
            filled.map_err(|source| server.refused(&fill, source))?;
            first = last + 1;
        }
        self.await_agreement(server, GIANT_TIMEOUT).map(|_| ())
    }

    /// Waits until all servers have applied what `origin` has now; gives for each server, in their
    /// order, how long that took.
    pub fn await_agreement(&self, origin: &Server, timeout: Duration) -> Result<Vec<Duration>> {
        let begin = Instant::now();
        let target = number(&origin.status()?, "wsrep_last_committed").unwrap_or_default();
        let mut pending = Vec::new();
        for server in &self.servers {
            pending.push((server, server.connect()?, None));
        }
        while pending.iter().any(|(_, _, taken)| taken.is_none()) {
            if begin.elapsed() > timeout {
                let late = pending.iter().find(|(_, _, taken)| taken.is_none());
                let name = late.map_or("", |(server, _, _)| &server.name);
                return Err(MeterError::Timeout {
                    what: format!("waiting until {name} has applied seqno {target}"),
                    seconds: timeout.as_secs(),
                });
            }
            for (server, connection, taken) in &mut pending {
                let status = server.status_by(connection)?;
                if taken.is_none() && number(&status, "wsrep_last_committed") >= Some(target) {
                    *taken = Some(begin.elapsed());
                }
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(pending.into_iter().filter_map(|(_, _, t)| t).collect())
    }
}

#[derive(Debug)]
pub struct MetersDatabase {
    server: Server,
}

impl Drop for MetersDatabase {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {DATABASE}");
        if let Err(error) = self.server.execute(&[&drop]) {
            eprintln!("synod: the database {DATABASE} is left behind: {error}");
        }
    }
}
