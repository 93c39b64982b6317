//! Starting and ending nodes.
//!
//! ```text
//!   no data anywhere ── up ──> node 1 bootstraps ──> accounts ──> others join by a full copy (SST)
//!   some have data ──── up ──> all of these start together, then the others join
//! ```
//!
//! Nodes with data start together, because a majority is needed before any of them becomes
//! synced. The bootstrap option is given only where no node has data (and, with Galera's
//! library, after every full stop).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::error::{ClusterError, IoContext, Result};
use crate::ports::Ports;
use crate::process::{self, find_program};
use crate::settings::SstMethod;
use crate::{Cluster, NodeStatus, Progress, cnf, error_log, files, galera, recover, wait};

/// Shutdown writes dirty pages (128 MiB at most) and leaves the group.
const STOP_TIMEOUT: Duration = Duration::from_secs(90);
/// A node without a majority cannot become synced: for this time it is checked not to end.
const SETTLE_TIME: Duration = Duration::from_secs(2);
const SQL_TIMEOUT: Duration = Duration::from_secs(30);
/// Created when the accounts exist: from then on the cluster is started without bootstrap.
const FORMED_FILE: &str = "formed";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// The server was running already, with this process id.
    Already(i32),
    Synced,
    /// Its server runs, but too few run for a majority; it becomes synced when more are started.
    AwaitingMajority {
        running: usize,
        needed: usize,
    },
}

impl Cluster {
    /// Starts every node that does not run, and waits until all are synced. On a cluster
    /// without data, creates it.
    pub fn up(&mut self, progress: Progress<'_>) -> Result<()> {
        for (node, pid) in self
            .nodes()
            .filter_map(|node| Some((node, self.pid(node)?)))
        {
            progress(node, &format!("is already running (pid {pid})"));
        }
        self.check_programs()?;
        if !self.is_formed() {
            self.form(progress)?;
        }
        let down: Vec<u8> = self
            .nodes()
            .filter(|node| self.pid(*node).is_none())
            .collect();
        for node in &down {
            self.check_ports(*node)?;
        }
        let (with_data, without): (Vec<u8>, Vec<u8>) = down
            .into_iter()
            .partition(|node| self.files(*node).has_data());
        self.start_together(&with_data, progress)?;
        for node in without {
            progress(node, "joining by a full copy of the data");
            self.spawn(node, false)?;
            self.await_synced(&[node], progress)?;
        }
        let running: Vec<u8> = self.nodes().collect();
        self.await_synced(&running, &|_, _| ())
    }

    /// Starts one node without bootstrap.
    pub fn start(&mut self, node: u8, progress: Progress<'_>) -> Result<Started> {
        self.check_node(node)?;
        if let Some(pid) = self.pid(node) {
            return Ok(Started::Already(pid));
        }
        if !self.is_formed() {
            return Err(ClusterError::NoCluster {
                dir: self.settings.dir.clone(),
            });
        }
        self.check_programs()?;
        let how = if self.files(node).has_data() {
            "starting"
        } else {
            "joining by a full copy of the data"
        };
        progress(node, how);
        let alone = self.running_count() == 0;
        if alone && self.settings.is_galera() {
            galera::mark_safe_to_bootstrap(&self.files(node))?;
        }
        self.spawn(node, alone && self.settings.is_galera())?;
        let (running, needed) = (self.running_count(), self.majority());
        if running >= needed || self.settings.is_galera() {
            self.await_synced(&[node], progress)?;
            return Ok(Started::Synced);
        }
        let ended = wait::wait_for(SETTLE_TIME, || self.ended(node));
        match ended {
            Some(status) => Err(self.exited(node, &status)),
            None => Ok(Started::AwaitingMajority { running, needed }),
        }
    }

    pub fn stop(&mut self, node: u8) -> Result<bool> {
        self.check_node(node)?;
        let Some(pid) = self.pid(node) else {
            return Ok(false);
        };
        if !process::terminate(pid, STOP_TIMEOUT)? {
            return Err(self.timed_out(node, "stopped", STOP_TIMEOUT, "still running".into()));
        }
        self.reap(node);
        Ok(true)
    }

    /// SIGKILL to a node's server. Gives the process id it had; none when it did not run.
    pub fn kill(&mut self, node: u8) -> Result<Option<i32>> {
        self.check_node(node)?;
        let Some(pid) = self.pid(node) else {
            return Ok(None);
        };
        process::kill(&[pid])?;
        self.reap(node);
        Ok(Some(pid))
    }

    /// Deletes a stopped node's data, so that its next start must be a full copy.
    pub fn wipe(&mut self, node: u8) -> Result<()> {
        self.check_node(node)?;
        match self.pid(node) {
            Some(pid) => Err(ClusterError::Running { node, pid }),
            None => self.files(node).wipe(),
        }
    }

    /// Shuts all nodes down, the last one first. When one does not end in time, the others stay.
    pub fn down(&mut self, progress: Progress<'_>) -> Result<()> {
        for node in self.nodes().rev() {
            if self.pid(node).is_some() {
                progress(node, "shutting down");
                self.stop(node)?;
            }
        }
        Ok(())
    }

    pub fn destroy(&mut self) -> Result<()> {
        self.kill_all()?;
        fs::remove_dir_all(&self.settings.dir).context("remove", &self.settings.dir)
    }

    pub fn kill_all(&mut self) -> Result<()> {
        let pids: Vec<i32> = self.nodes().filter_map(|node| self.pid(node)).collect();
        process::kill(&pids)?;
        for node in self.nodes() {
            self.reap(node);
        }
        Ok(())
    }

    /// Starts a node's server and returns at once. `bootstrap` makes it found a new group.
    pub fn spawn(&mut self, node: u8, bootstrap: bool) -> Result<()> {
        self.check_node(node)?;
        let position = self.prepare(node, bootstrap)?;
        let files = self.files(node);
        let program = find_program("mariadbd", "mariadb-server")?;
        let log = fs::OpenOptions::new().append(true).open(&files.error_log);
        let log = log.context("open", &files.error_log)?;
        let both = log.try_clone().context("open", &files.error_log)?;
        let mut command = process::node_command(&self.settings, node, &self.user, &program);
        let founds_group = bootstrap && self.settings.is_group();
        command
            .arg(format!("--defaults-file={}", files.cnf.display()))
            .args(founds_group.then_some("--wsrep-new-cluster"))
            .args(position.map(|position| format!("--wsrep-start-position={position}")))
            .env("PATH", process::search_path())
            .env("TMPDIR", &files.tmp)
            .envs(self.environment(node))
            .current_dir(&files.root)
            .stdin(Stdio::null())
            .stdout(Stdio::from(both))
            .stderr(Stdio::from(log))
            .process_group(0);
        self.log_starts
            .insert(node, error_log::end(&files.error_log));
        let child = process::spawn(command, self.settings.die_with_parent)?;
        self.children.insert(node, child);
        Ok(())
    }

    /// The variables that only this node's server gets.
    fn environment(&self, node: u8) -> impl Iterator<Item = (&String, &String)> {
        let own = self.settings.overrides.get(&node);
        own.into_iter().flat_map(|own| &own.environment)
    }

    /// Waits until all of these nodes are synced. An error when one ends early, is out of its group
    /// for good, or is not synced in time.
    pub fn await_synced(&mut self, nodes: &[u8], progress: Progress<'_>) -> Result<()> {
        let timeout = self.settings.start_timeout;
        let begin = Instant::now();
        let mut open: Vec<u8> = nodes.to_vec();
        while let Some(node) = open.first().copied() {
            let mut last = String::new();
            let left = timeout.saturating_sub(begin.elapsed());
            let outcome = wait::wait_for(left, || {
                // A node that ended may be the reason why the first one waits.
                for waiting in &open {
                    if let Some(status) = self.ended(*waiting) {
                        return Some(Err(self.exited(*waiting, &status)));
                    }
                }
                let status = self.node_status(node);
                if status.waits_for_person() {
                    return Some(Err(self.left(node, status)));
                }
                last = status.member_state.clone();
                self.is_ready(node, &status).then_some(Ok(()))
            });
            outcome.unwrap_or_else(|| Err(self.timed_out(node, "synced", timeout, last)))?;
            progress(node, "is synced");
            open.remove(0);
        }
        Ok(())
    }

    /// Whether clients may use the node: as a full member, or as a server of its own.
    fn is_ready(&self, node: u8, status: &NodeStatus) -> bool {
        if self.settings.is_group() {
            status.is_synced()
        } else {
            status.pid.is_some() && self.query(node, "SELECT 1", SQL_TIMEOUT).is_ok()
        }
    }

    /// End of a node's server; none while it runs. A server started by an earlier process leaves no
    /// exit status, only its absence.
    pub fn ended(&mut self, node: u8) -> Option<String> {
        let status = match self.children.get_mut(&node) {
            Some(child) => child.try_wait().ok().flatten().map(describe),
            None => self
                .pid(node)
                .is_none()
                .then(|| "it is not running".to_owned()),
        };
        if status.is_some() {
            self.children.remove(&node);
        }
        status
    }

    fn majority(&self) -> usize {
        usize::from(self.settings.nodes) / 2 + 1
    }

    /// A host of its own has no other program on it.
    fn check_ports(&self, node: u8) -> Result<()> {
        if self.settings.hosts.contains_key(&node) {
            return Ok(());
        }
        let ran_before = self.files(node).data.exists();
        Ports::of(self.settings.base_port, node).check_free(node, ran_before)
    }

    fn formed_file(&self) -> PathBuf {
        self.settings.dir.join(FORMED_FILE)
    }

    fn is_formed(&self) -> bool {
        self.formed_file().exists() && self.nodes().any(|node| self.files(node).has_data())
    }

    /// Creates the group with node 1 alone, or all servers of their own. What an interrupted
    /// attempt left is removed.
    fn form(&mut self, progress: Progress<'_>) -> Result<()> {
        self.kill_all()?;
        for node in self.nodes() {
            self.wipe(node)?;
            self.check_ports(node)?;
        }
        let alone = [1];
        let all: Vec<u8> = self.nodes().collect();
        let (first, how): (&[u8], _) = if self.settings.is_group() {
            (
                &alone,
                "creating an empty database, starting as the first member",
            )
        } else {
            (&all, "creating an empty database, starting")
        };
        for node in first {
            progress(*node, how);
            self.spawn(*node, true)?;
        }
        self.await_synced(first, progress)?;
        for node in first {
            self.create_accounts(*node)?;
        }
        fs::write(self.formed_file(), "").context("create", self.formed_file())
    }

    /// Creates the account for full copies, and one for experiments. The latter may use its own
    /// database only, because every user of this machine knows its password.
    fn create_accounts(&self, node: u8) -> Result<()> {
        let sst = cnf::SST_USER;
        let password = &self.settings.sst_password;
        let sql = format!(
            "CREATE DATABASE IF NOT EXISTS demo;
             CREATE TABLE IF NOT EXISTS demo.notes
               (id INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(200),
                written TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
             CREATE OR REPLACE USER '{sst}'@'localhost' IDENTIFIED BY '{password}';
             GRANT RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR, REPLICA MONITOR ON *.*
               TO '{sst}'@'localhost';
             CREATE OR REPLACE USER 'demo'@'127.0.0.1' IDENTIFIED BY 'demo';
             CREATE OR REPLACE USER 'demo'@'localhost' IDENTIFIED BY 'demo';
             GRANT ALL ON demo.* TO 'demo'@'127.0.0.1', 'demo'@'localhost';"
        );
        self.query(node, &sql, SQL_TIMEOUT).map(|_| ())
    }

    fn start_together(&mut self, nodes: &[u8], progress: Progress<'_>) -> Result<()> {
        let mut rest = nodes.to_vec();
        if self.settings.is_galera() && self.running_count() == 0 && !rest.is_empty() {
            let first = self.furthest(&rest)?;
            progress(
                first,
                "starting (bootstrap: with Galera's library, after a full stop)",
            );
            galera::mark_safe_to_bootstrap(&self.files(first))?;
            self.spawn(first, true)?;
            self.await_synced(&[first], progress)?;
            rest.retain(|node| *node != first);
        }
        for node in &rest {
            progress(*node, "starting");
            self.spawn(*node, false)?;
        }
        self.await_synced(&rest, progress)
    }

    fn furthest(&self, nodes: &[u8]) -> Result<u8> {
        let mut best = (-2, 1);
        for node in nodes {
            let position = recover::recovered_position(&self.settings, *node, &self.user)?;
            best = best.max((galera::seqno_of(position.as_deref()), *node));
        }
        Ok(best.1)
    }

    fn write_configuration(&self, node: u8, provider: &Path) -> Result<()> {
        let files = self.files(node);
        if let Some(secret) = &self.settings.group_secret {
            files::write_private(&files.secret, format!("{secret}\n"), Some(&self.user))?;
        }
        let text = cnf::render(&self.settings, node, provider);
        files::write_private(&files.cnf, text, Some(&self.user))
    }

    /// Everything before the server's start; gives its start position.
    fn prepare(&self, node: u8, bootstrap: bool) -> Result<Option<String>> {
        self.check_ports(node)?;
        let files = self.files(node);
        files.create(&self.user)?;
        let provider = self.readable_provider(node)?;
        if self.settings.encrypts_copies {
            // The donor's script reads its own file, and must encrypt as the joiner does.
            for other in self.nodes().filter(|other| self.files(*other).cnf.exists()) {
                self.write_configuration(other, &self.readable_provider(other)?)?;
            }
        }
        self.write_configuration(node, &provider)?;
        if !files.error_log.exists() {
            fs::write(&files.error_log, "").context("create", &files.error_log)?;
            self.user.give(&files.error_log)?;
        }
        if files.has_data() {
            if !self.settings.recovers || !self.settings.is_group() {
                return Ok(None);
            }
            return recover::recovered_position(&self.settings, node, &self.user);
        }
        if bootstrap {
            recover::install_database(&self.settings, node, &self.user)?;
        }
        Ok(None)
    }

    /// A node's provider, or a copy of it where servers can read it: the original may lie below a
    /// closed home directory.
    fn readable_provider(&self, node: u8) -> Result<PathBuf> {
        let own = self.settings.overrides.get(&node);
        let own = own.and_then(|own| own.provider.as_ref());
        let original = own.unwrap_or(&self.settings.provider);
        if !self.settings.is_group() {
            return Ok(original.clone()); // no server loads it
        }
        if !original.is_file() {
            return Err(ClusterError::ProviderMissing {
                path: original.clone(),
            });
        }
        if self.user.can_read(original) {
            return Ok(original.clone());
        }
        let mut dir = self.settings.dir.join("lib");
        if own.is_some() {
            dir.push(format!("node{node}"));
        }
        fs::create_dir_all(&dir).context("create", &dir)?;
        let name = original.file_name().unwrap_or_default();
        let (copy, new) = (dir.join(name), dir.join("provider.new"));
        fs::copy(original, &new).context("copy to", &new)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).context("open up", &new)?;
        fs::rename(&new, &copy).context("replace", &copy)?;
        Ok(copy)
    }

    fn check_programs(&self) -> Result<()> {
        let mut needed = vec![
            ("mariadbd", "mariadb-server"),
            ("mariadb-install-db", "mariadb-server"),
            ("mariadb", "mariadb-client"),
            ("socat", "socat"),
            ("rsync", "rsync"),
        ];
        if self.settings.sst_method == SstMethod::Mariabackup {
            needed.push(("mariadb-backup", "mariadb-backup"));
        }
        for (program, package) in needed {
            find_program(program, package)?;
        }
        Ok(())
    }

    /// Collects the exit status of a server that this process started.
    fn reap(&mut self, node: u8) {
        if let Some(mut child) = self.children.remove(&node) {
            let _ = child.wait(); // the process is known to have ended
        }
    }

    fn exited(&self, node: u8, status: &str) -> ClusterError {
        let log = self.files(node).error_log;
        ClusterError::Exited {
            node,
            status: status.to_owned(),
            log,
            tail: self.log_tail(node),
        }
    }

    fn left(&self, node: u8, status: NodeStatus) -> ClusterError {
        let log = self.files(node).error_log;
        ClusterError::Left {
            node,
            why: status.trouble.unwrap_or(status.member_state),
            log,
            tail: self.log_tail(node),
        }
    }

    fn timed_out(
        &self,
        node: u8,
        waiting_for: &'static str,
        waited: Duration,
        now: String,
    ) -> ClusterError {
        let log = self.files(node).error_log;
        ClusterError::Timeout {
            node,
            waiting_for,
            waited,
            now,
            log,
            tail: self.log_tail(node),
        }
    }
}

fn describe(status: ExitStatus) -> String {
    status.to_string()
}
