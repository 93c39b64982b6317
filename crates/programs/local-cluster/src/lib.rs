//! A cluster of MariaDB servers on this machine, all in one directory: what `synod demo` runs, and
//! what the end-to-end tests and measurements run.
//!
//! ```text
//! let mut cluster = Cluster::create(settings)?;       // or Cluster::open(dir)?
//! let _lock = ClusterLock::take(&cluster.settings().dir)?;
//! cluster.up(&|node, text| println!("node{node}: {text}"))?;
//! let rows = cluster.query(1, "SELECT 1", timeout)?;
//! cluster.kill(2)?;
//! ```
//!
//! A cluster outlives the process that made it: its state is in the directory and in the list of
//! processes, and every command looks there. A *node* here is one server with its directory and
//! ports.
//!
//! ```text
//! DIR/cluster.json          settings, see [`Settings`]
//! DIR/.lock                 held by the command that changes the cluster
//! DIR/formed                exists once the accounts exist: no bootstrap from then on
//! DIR/lib/                  copy of the provider, only if servers cannot read the original
//! DIR/sst/                  key and certificate of full copies, if they are encrypted
//! DIR/nodeN/my.cnf          generated at every start
//! DIR/nodeN/synod.secret    group secret, if the members have one; generated at every start
//! DIR/nodeN/data/           database and durable log; `wipe` deletes it
//! DIR/nodeN/tmp/            temporary files
//! DIR/nodeN/error.log       of the server
//! DIR/nodeN/install.log     of `mariadb-install-db`
//! DIR/nodeN/recover.log     of the last `mariadbd --wsrep-recover`
//! ```
//!
//! Nodes run on the loopback address, or each on a host of its own ([`NodeHost`]: network
//! namespaces, for the lab). They are a group, or each a server of its own ([`Replication`]).
//!
//! Rules:
//!
//! - Nothing outside the directory is written.
//! - A bootstrap happens exactly once in the life of the cluster: when no node has data. (With
//!   Galera's library also after every full stop; the tests run against both libraries.)
//! - Only servers of this cluster are signalled: see `process.rs`.
//! - Every wait is for a condition, and has a limit.
#![forbid(unsafe_code)]

mod client;
mod cnf;
mod error;
pub mod error_log;
mod files;
mod galera;
mod lifecycle;
mod lock;
mod ownership;
pub mod ports;
mod process;
mod recover;
mod settings;
mod status;
mod user;
mod wait;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

pub use client::Format;
pub use error::{ClusterError, Lines, Result};
pub use files::{NodeFiles, SstFiles};
pub use lifecycle::Started;
pub use lock::ClusterLock;
pub use process::{find_program, is_alive};
pub use settings::{
    NODES_MAX, NodeHost, NodeOverrides, Replication, Settings, SstMethod, random_hex,
};
pub use status::NodeStatus;
pub use user::ServerUser;
pub use wait::wait_for;

use error::IoContext;

/// Takes progress: the number of the node, and a short text for people.
pub type Progress<'a> = &'a dyn Fn(u8, &str);

#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    user: ServerUser,
    /// Servers that this process started, by node; kept to learn how they ended.
    children: BTreeMap<u8, Child>,
    /// Size of each node's error log when it was last started.
    log_starts: BTreeMap<u8, u64>,
}

impl Cluster {
    /// Makes the directory of a new cluster, without any node yet. An error if it holds other
    /// things or is another user's, or servers could not reach it.
    pub fn create(mut settings: Settings) -> Result<Cluster> {
        settings.check()?;
        let user = ServerUser::find()?;
        let existed = settings.dir.exists();
        if existed && holds_other_files(&settings.dir)? {
            return Err(ClusterError::ForeignDirectory { dir: settings.dir });
        }
        fs::create_dir_all(&settings.dir).context("create", &settings.dir)?;
        settings.dir = fs::canonicalize(&settings.dir).context("find", &settings.dir)?;
        if !existed {
            close_to_others(&settings.dir)?;
        }
        ownership::check(&settings.dir)?;
        if let Err(error) = user.check_reach(&settings.dir) {
            if !existed {
                // Best effort: a second error, about an empty directory, would help no reader.
                let _ = fs::remove_dir(&settings.dir);
            }
            return Err(error);
        }
        settings.save()?;
        Ok(Cluster::with(settings, user))
    }

    pub fn open(dir: &Path) -> Result<Cluster> {
        Ok(Cluster::with(Settings::load(dir)?, ServerUser::find()?))
    }

    fn with(settings: Settings, user: ServerUser) -> Cluster {
        Cluster {
            settings,
            user,
            children: BTreeMap::new(),
            log_starts: BTreeMap::new(),
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings, to change them in memory: they take effect at each node's next start.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    pub fn user(&self) -> &ServerUser {
        &self.user
    }

    pub fn nodes(&self) -> std::ops::RangeInclusive<u8> {
        1..=self.settings.nodes
    }

    pub fn files(&self, node: u8) -> NodeFiles {
        NodeFiles::of(&self.settings.dir, node)
    }

    pub fn pid(&self, node: u8) -> Option<i32> {
        process::server_pid(&self.files(node).cnf)
    }

    pub fn running_count(&self) -> usize {
        self.nodes()
            .filter(|node| self.pid(*node).is_some())
            .count()
    }

    /// Asks one node for its status. Never fails.
    pub fn node_status(&self, node: u8) -> NodeStatus {
        NodeStatus::ask(&self.settings, &self.user.admin, node)
    }

    /// Asks every node for its status. Never fails.
    pub fn status(&self) -> Vec<NodeStatus> {
        self.nodes().map(|node| self.node_status(node)).collect()
    }

    pub fn query(&self, node: u8, sql: &str, timeout: Duration) -> Result<Vec<Vec<String>>> {
        let files = self.running_files(node)?;
        client::query(self.target(node, &files), sql, timeout)
    }

    /// The client program, ready to run `sql` on a node with the caller's standard streams.
    pub fn sql_command(
        &self,
        node: u8,
        sql: &str,
        format: Format,
        timeout: Duration,
    ) -> Result<Command> {
        let files = self.running_files(node)?;
        client::command(self.target(node, &files), sql, timeout, format)
    }

    /// The lines of a node's error log that matter, since its last start by this process.
    pub fn log_tail(&self, node: u8) -> Lines {
        error_log::lines_that_matter(&self.files(node).error_log, self.log_start(node))
    }

    /// A node's error log since its last start by this process (of a long one, only the end).
    pub fn log_text(&self, node: u8) -> String {
        error_log::text_since(&self.files(node).error_log, self.log_start(node))
    }

    fn log_start(&self, node: u8) -> u64 {
        self.log_starts.get(&node).copied().unwrap_or(0)
    }

    fn target<'a>(&'a self, node: u8, files: &'a NodeFiles) -> client::Target<'a> {
        client::Target {
            node,
            socket: &files.socket,
            admin: &self.user.admin,
        }
    }

    fn running_files(&self, node: u8) -> Result<NodeFiles> {
        self.check_node(node)?;
        let files = self.files(node);
        match process::server_pid(&files.cnf) {
            Some(_) => Ok(files),
            None => Err(ClusterError::NotRunning { node }),
        }
    }

    fn check_node(&self, node: u8) -> Result<()> {
        if self.nodes().contains(&node) {
            return Ok(());
        }
        Err(ClusterError::NoSuchNode {
            node,
            nodes: self.settings.nodes,
        })
    }
}

/// Whatever this process's mask lets the group write.
fn close_to_others(dir: &Path) -> Result<()> {
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir, mode).context("close", dir)
}

/// Whether the directory has entries other than a cluster's lock.
fn holds_other_files(dir: &Path) -> Result<bool> {
    let entries = fs::read_dir(dir).context("read", dir)?;
    Ok(entries.flatten().any(|entry| entry.file_name() != ".lock"))
}
