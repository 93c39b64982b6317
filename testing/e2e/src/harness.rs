//! One cluster per test program, used by its scenarios one after the other.
//!
//! A scenario begins with all nodes synced. A cluster that a failed scenario left beyond repair is
//! replaced. Every wait has a bound, and servers end with the test program.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};
use synod_lab::disk::mounts;
use synod_local_cluster::ports::Ports;
use synod_local_cluster::{Cluster, Settings, wait_for};

use crate::failure::{Failure, Outcome, Why, ensure};
use crate::leftovers;
use crate::place;
use crate::ports;
use crate::programs::new_group_secret;

/// Account of the tests' clients on every node.
pub const USER: &str = "e2e";
pub const PASSWORD: &str = "e2e";

/// Bound for statements of the harness itself.
const SQL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for a line of an error log.
const LINE_TIMEOUT: Duration = Duration::from_secs(60);
/// Ports of a cluster.
const PORTS: u16 = 400;

/// A running cluster that dies with this process, and is killed when dropped.
#[derive(Debug)]
pub struct TestCluster {
    cluster: Cluster,
}

impl TestCluster {
    /// Makes a cluster of three nodes and starts it. What an earlier run left under the same
    /// name is removed first.
    pub fn fresh(name: &str, base_port: u16) -> Outcome<TestCluster> {
        let mut cluster = TestCluster::empty(name, base_port, 3)?;
        cluster
            .up(&|node, what| eprintln!("  node{node}: {what}"))
            .why("starting the cluster")?;
        cluster.create_account()?;
        Ok(cluster)
    }

    /// Starts a group whose members have a new secret, with the account of the tests' clients. The
    /// secret is for members that the test adds.
    pub fn with_secret(name: &str, base_port: u16, nodes: u8) -> Outcome<(TestCluster, String)> {
        let secret = new_group_secret()?;
        let mut cluster = TestCluster::empty(name, base_port, nodes)?;
        cluster.settings_mut().group_secret = Some(secret.trim().to_owned());
        cluster.up(&|_, _| ()).why("starting the servers")?;
        cluster.create_account()?;
        Ok((cluster, secret))
    }

    /// Makes the directory of a cluster, without starting any node.
    pub fn empty(name: &str, base_port: u16, nodes: u8) -> Outcome<TestCluster> {
        TestCluster::with_provider(name, base_port, nodes, place::provider()?)
    }

    /// The same with a certain library.
    pub fn with_provider(
        name: &str,
        base_port: u16,
        nodes: u8,
        provider: std::path::PathBuf,
    ) -> Outcome<TestCluster> {
        ports::ensure_for_listening(base_port, PORTS)?;
        let dir = place::cluster_dir(name)?;
        mounts::unmount_below(&dir).why("unmounting what is left")?;
        if let Ok(mut old) = Cluster::open(&dir) {
            old.destroy()
                .why("removing the cluster of an earlier run")?;
        }
        if let Some(parent) = dir.parent() {
            leftovers::remove(parent)?;
        }
        let mut settings = Settings::new(dir, provider).why("settings")?;
        settings.cluster_name = format!("synod-e2e-{name}");
        settings.base_port = base_port;
        settings.nodes = nodes;
        settings.die_with_parent = true;
        let cluster = Cluster::create(settings).why("creating the cluster")?;
        leftovers::claim(&cluster.settings().dir)?;
        Ok(TestCluster { cluster })
    }

    /// The account of the tests' clients.
    pub fn create_account(&self) -> Outcome {
        self.create_account_on(1)
    }

    /// The same on another node: of a group of its own, for instance.
    pub fn create_account_on(&self, node: u8) -> Outcome {
        let sql = format!(
            "CREATE OR REPLACE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';
             GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;
             CREATE DATABASE IF NOT EXISTS e2e_data; CREATE DATABASE IF NOT EXISTS sbtest;"
        );
        self.query(node, &sql, SQL_TIMEOUT)
            .why("creating the tests' account")?;
        Ok(())
    }

    /// SQL port of a node.
    pub fn port(&self, node: u8) -> u16 {
        Ports::of(self.settings().base_port, node).sql
    }

    /// A client connection to a node.
    pub fn connect(&self, node: u8) -> Outcome<Conn> {
        Conn::new(client_options(self.port(node))).why(format_args!("connecting to node{node}"))
    }

    /// Runs one statement that must succeed, on a new connection.
    ///
    /// # Errors
    /// With the statement in the text.
    pub fn execute(&self, node: u8, sql: &str) -> Outcome {
        self.connect(node)?
            .query_drop(sql)
            .why(format_args!("node{node}: {sql}"))
    }

    /// The first column of a query's rows, as text.
    ///
    /// # Errors
    /// With the statement in the text.
    pub fn rows(&self, node: u8, sql: &str) -> Outcome<Vec<String>> {
        let rows = self
            .query(node, sql, SQL_TIMEOUT)
            .why(format_args!("node{node}: {sql}"))?;
        Ok(rows.into_iter().map(|row| row.join("\t")).collect())
    }

    /// Value of a node's `wsrep_synod_NAME`; empty, if it has no such variable.
    pub fn synod_status(&self, node: u8, name: &str) -> Outcome<String> {
        let rows = self.rows(node, &format!("SHOW STATUS LIKE 'wsrep_synod_{name}'"))?;
        let row = rows.first().and_then(|row| row.split_once('\t'));
        Ok(row.map_or("", |(_, value)| value).to_owned())
    }

    /// Waits until the error log of a node has this text.
    pub fn await_line(&self, node: u8, text: &str) -> Outcome {
        let said = wait_for(LINE_TIMEOUT, || {
            self.log_text(node).contains(text).then_some(())
        });
        ensure(said.is_some(), || {
            let tail = self.log_tail(node);
            format!("node{node} does not say '{text}':\n{tail}")
        })
    }

    /// The node that leads; node 1 where the library reports no roles.
    pub fn leader(&self) -> u8 {
        let is_leader = |node: &u8| self.node_status(*node).role.as_deref() == Some("leader");
        self.nodes().find(is_leader).unwrap_or(1)
    }

    /// The last node that does not lead.
    pub fn follower(&self) -> u8 {
        let leader = self.leader();
        self.nodes().rev().find(|node| *node != leader).unwrap_or(3)
    }

    /// All nodes but one.
    pub fn others(&self, node: u8) -> Vec<u8> {
        self.nodes().filter(|other| *other != node).collect()
    }

    /// Status and the error logs' lines that matter, for the reader of a failed test.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for node in self.nodes() {
            let status = self.node_status(node);
            text += &format!("node{node}: {status:?}\n");
            let log = self.files(node).error_log;
            let tail = self.log_tail(node);
            text += &format!("  {} says:\n{tail}\n", log.display());
        }
        text
    }
}

/// Options of a client to a port on this machine; every wait has a bound.
pub fn client_options(port: u16) -> Opts {
    OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(port)
        .user(Some(USER))
        .pass(Some(PASSWORD))
        .prefer_socket(false)
        .tcp_nodelay(true)
        .tcp_connect_timeout(Some(Duration::from_secs(2)))
        .read_timeout(Some(Duration::from_secs(20)))
        .write_timeout(Some(Duration::from_secs(20)))
        .into()
}

impl Deref for TestCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl DerefMut for TestCluster {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if let Err(error) = self.cluster.kill_all() {
            eprintln!("could not end the servers of the test: {error}");
        }
    }
}

/// The cluster of a test program: made by the first scenario, repaired before each other one.
#[derive(Debug)]
pub struct Shared {
    name: &'static str,
    base_port: u16,
    cluster: Mutex<Option<TestCluster>>,
}

impl Shared {
    /// A cluster yet to be made.
    pub const fn new(name: &'static str, base_port: u16) -> Shared {
        Shared {
            name,
            base_port,
            cluster: Mutex::new(None),
        }
    }

    /// Runs a scenario with all nodes synced at its beginning.
    ///
    /// # Panics
    /// When the scenario fails, after printing what the servers said.
    pub fn scenario(&self, name: &str, body: impl FnOnce(&mut TestCluster) -> Outcome) {
        let mut slot = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = Instant::now();
        let mut cluster = match self.ready(slot.take()) {
            Ok(cluster) => cluster,
            Err(Failure(why)) => panic!("{name}: {why}"),
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&mut cluster)))
            .unwrap_or_else(|panic| Err(Failure(panic_text(panic.as_ref()))));
        if let Err(Failure(why)) = outcome {
            let servers = cluster.describe();
            *slot = Some(cluster);
            drop(slot);
            panic!("{name}: {why}\n{servers}");
        }
        *slot = Some(cluster);
        eprintln!("  {name}: {:.1} s", begin.elapsed().as_secs_f32());
    }

    fn ready(&self, existing: Option<TestCluster>) -> Outcome<TestCluster> {
        let Some(mut cluster) = existing else {
            return TestCluster::fresh(self.name, self.base_port);
        };
        let synced = |cluster: &TestCluster| cluster.status().iter().all(|node| node.is_synced());
        if synced(&cluster) || (cluster.up(&|_, _| ()).is_ok() && synced(&cluster)) {
            return Ok(cluster);
        }
        // A failed scenario left the cluster beyond repair; the next scenario gets a new one.
        drop(cluster);
        TestCluster::fresh(self.name, self.base_port)
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a text".into())
}
