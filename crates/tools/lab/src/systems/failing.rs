//! Servers that fail and return, for the certificate: what a supervisor does by itself
//! ([`System::start`]), and what the manual of a system asks a person to do ([`System::by_hand`]).

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use synod_local_cluster::wait_for;

use super::agent::{Agent, Order};
use super::kind::SystemKind;
use super::logger::Logger;
use super::{Servers, System, node, replicas};
use crate::error::{LabError, Result};

/// A server that takes longer to answer is no member that clients could use.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

/// Group Replication gives up within 40 s what it does in a group without a majority.
const STOP_TIMEOUT: Duration = Duration::from_secs(90);

/// A full copy of a small database takes seconds.
const JOIN_TIMEOUT: Duration = Duration::from_secs(240);

const ROLE: &str = "SELECT MEMBER_ROLE FROM performance_schema.replication_group_members
     WHERE MEMBER_ID = @@server_uuid AND MEMBER_STATE = 'ONLINE'";
const ONLINE: &str = "SELECT COUNT(*) FROM performance_schema.replication_group_members
     WHERE MEMBER_STATE = 'ONLINE'";
/// A replica that neither receives nor applies has no row.
const REPLICATES: &str = "SELECT c.SERVICE_STATE, a.SERVICE_STATE
     FROM performance_schema.replication_connection_status c
     JOIN performance_schema.replication_applier_status a USING (CHANNEL_NAME)
     WHERE c.CHANNEL_NAME = ''";
const LEADER_WEIGHT: &str = "SET GLOBAL wsrep_provider_options = 'synod.leader_weight=";

impl System {
    /// The logger, if this number is its own.
    fn logger(&mut self, member: usize) -> Option<&mut Logger> {
        self.logger.as_mut().filter(|_| member == self.hosts.len())
    }

    /// Starts a member that has ended, as a supervisor does, and does not wait for it.
    pub fn start(&mut self, server: usize) -> Result<()> {
        if let Some(logger) = self.logger(server) {
            return logger.start();
        }
        match &mut self.servers {
            Servers::Mysql(servers) => servers.start_again(server),
            Servers::Remote(agents) => agents[server].order(&Order::Start(false)).map(drop),
            Servers::Mariadb(cluster) => {
                if server == 0 && self.measured.kind == SystemKind::SemiSync {
                    replicas::wait_from_the_start(cluster);
                }
                Ok(cluster.spawn(node(server), false)?)
            }
        }
    }

    pub fn kill(&mut self, servers: &[usize]) -> Result<()> {
        if let Servers::Remote(agents) = &self.servers {
            return Agent::order_all(&Agent::of(agents, servers), &Order::Kill);
        }
        self.signal(servers, Signal::KILL)?;
        servers.iter().try_for_each(|server| {
            if let Some(logger) = self.logger(*server) {
                logger.process.kill();
                return Ok(());
            }
            match &mut self.servers {
                Servers::Mysql(mysql) => mysql.process(*server).kill(),
                Servers::Remote(_) => {} // see above
                Servers::Mariadb(cluster) => cluster.kill(node(*server)).map(|_| ())?,
            }
            Ok(())
        })
    }

    pub fn signal(&self, servers: &[usize], signal: Signal) -> Result<()> {
        if let Servers::Remote(agents) = &self.servers {
            let pause = Order::Pause(signal == Signal::STOP);
            return Agent::order_all(&Agent::of(agents, servers), &pause);
        }
        let pids = servers.iter().filter_map(|server| self.pid(*server));
        for pid in pids.filter_map(Pid::from_raw) {
            let _ = kill_process(pid, signal); // it may have ended by itself
        }
        Ok(())
    }

    pub fn stop(&mut self, server: usize) -> Result<()> {
        if let Some(logger) = self.logger(server) {
            logger.process.stop();
            return Ok(());
        }
        match &mut self.servers {
            Servers::Mysql(servers) => servers.stop(server),
            Servers::Remote(agents) => agents[server].order(&Order::Stop).map(drop),
            Servers::Mariadb(cluster) => Ok(cluster.stop(node(server)).map(|_| ())?),
        }
    }

    /// Sets the library that a server loads from its next start on. A logger has none.
    pub fn give_library(&mut self, server: usize, library: Option<&Path>) -> Result<()> {
        match &mut self.servers {
            Servers::Mysql(_) => {}
            Servers::Remote(agents) => drop(agents[server].order(&Order::TakeNextLibrary)?),
            Servers::Mariadb(cluster) => {
                let overrides = &mut cluster.settings_mut().overrides;
                if let Some(own) = overrides.get_mut(&node(server)) {
                    own.provider = library.map(Path::to_owned);
                }
            }
        }
        Ok(())
    }

    pub fn is_running(&mut self, server: usize) -> bool {
        if let Some(logger) = self.logger(server) {
            return logger.process.is_running();
        }
        match &mut self.servers {
            Servers::Mysql(servers) => servers.process(server).is_running(),
            Servers::Remote(agents) => agents[server]
                .order(&Order::IsRunning)
                .is_ok_and(|rows| !rows.is_empty()),
            Servers::Mariadb(cluster) => cluster.ended(node(server)).is_none(),
        }
    }

    /// Whether all members are in one group, or all replicas replicate.
    pub fn is_whole(&self) -> bool {
        let (mut servers, count) = (0..self.hosts.len(), self.hosts.len());
        let replicas = (count - 1).to_string();
        let has_logger = self.logger.is_none() || self.is_member(count);
        has_logger
            && servers.all(|server| {
                let sees_all = match self.kind() {
                    SystemKind::SynodMysql | SystemKind::Mgr(_) => {
                        let online = self.look(server, ONLINE);
                        online.is_some_and(|row| row == [count.to_string()])
                    }
                    SystemKind::SemiSync if server == 0 => {
                        self.has(0, "Rpl_semi_sync_master_clients", &replicas)
                    }
                    SystemKind::MysqlSemiSync if server == 0 => {
                        self.has(0, "Rpl_semi_sync_source_clients", &replicas)
                    }
                    SystemKind::SemiSync | SystemKind::MysqlSemiSync => true,
                    _ => self.has(server, "wsrep_cluster_size", &count.to_string()),
                };
                sees_all && self.is_member(server)
            })
    }

    /// Whether a server takes part, with whichever others.
    fn is_member(&self, server: usize) -> bool {
        if let (Some(logger), Servers::Mariadb(cluster)) = (&self.logger, &self.servers)
            && server == self.hosts.len()
        {
            let mut nodes = cluster.nodes();
            return nodes.any(|node| logger.is_present(&cluster.files(node).data));
        }
        let has = |name: &str, value: &str| self.has(server, name, value);
        match self.kind() {
            SystemKind::SynodMysql | SystemKind::Mgr(_) => self.look(server, ROLE).is_some(),
            SystemKind::SemiSync | SystemKind::MysqlSemiSync if server == 0 => {
                self.look(server, "SELECT 1").is_some()
            }
            SystemKind::SemiSync => has("Slave_running", "ON"),
            SystemKind::MysqlSemiSync => {
                let states = self.look(server, REPLICATES);
                states.is_some_and(|states| states == ["ON", "ON"])
            }
            _ => {
                has("wsrep_local_state_comment", "Synced")
                    && has("wsrep_ready", "ON")
                    && has("wsrep_cluster_status", "Primary")
            }
        }
    }

    fn has(&self, server: usize, status: &str, value: &str) -> bool {
        let row = self.look(server, &format!("SHOW GLOBAL STATUS LIKE '{status}'"));
        row.is_some_and(|row| row.last().is_some_and(|found| found == value))
    }

    /// The server that leads, or takes the writes; the first where all are equal, or none takes
    /// over from it by itself. None: there is none at present.
    pub fn leader(&self) -> Option<usize> {
        let mut servers = 0..self.hosts.len();
        match self.kind() {
            SystemKind::Synod => servers.find(|at| self.has(*at, "wsrep_synod_role", "leader")),
            SystemKind::SynodMysql | SystemKind::Mgr(_) => servers.find(|at| {
                let role = self.look(*at, ROLE);
                role.is_some_and(|row| row == ["PRIMARY"])
            }),
            _ => Some(0),
        }
    }

    /// Whether one server leads, and another one takes over from it by itself.
    pub fn has_leader(&self) -> bool {
        let kind = self.kind();
        matches!(
            kind,
            SystemKind::Synod | SystemKind::SynodMysql | SystemKind::Mgr(_)
        )
    }

    /// Takes the last server, which has ended, out of the system for good; gives its number.
    pub fn lose_the_last(&mut self) -> usize {
        self.hosts.pop();
        if let Servers::Mariadb(cluster) = &mut self.servers {
            cluster.settings_mut().nodes -= 1;
        }
        self.hosts.len()
    }

    /// The first server founds the group; the others join one after the other, by full copies.
    pub(super) fn found_group(&mut self) -> Result<()> {
        let Servers::Remote(agents) = &self.servers else {
            return Ok(());
        };
        for (server, agent) in agents.clone().iter().enumerate() {
            agent.order(&Order::Start(server == 0))?;
            wait_for(JOIN_TIMEOUT, || {
                (self.is_member(server) || !self.is_running(server)).then_some(())
            });
            if !self.is_member(server) {
                let log = agent.order(&Order::Log)?.concat().join("\n");
                let said = format!("its server does not join; 'mariadbd' says there:\n{log}");
                let host = self.name(server);
                return Err(LabError::Host { host, said });
            }
        }
        Ok(())
    }

    /// Moves leadership from one server to another, by the system's own means.
    pub fn hand_over(&self, from: usize, to: usize) -> Result<()> {
        if self.kind() == SystemKind::Synod {
            // Not only the leader's: the first server has the weight of `to` from its start.
            for other in (0..self.hosts.len()).filter(|other| *other != to) {
                self.query(other, &format!("{LEADER_WEIGHT}50'"))?;
            }
            return self.query(to, &format!("{LEADER_WEIGHT}100'")).map(|_| ());
        }
        let uuid = self.query(to, "SELECT @@server_uuid")?.concat().concat();
        let sql = format!("SELECT group_replication_set_as_primary('{uuid}')");
        self.query_within(from, &sql, STOP_TIMEOUT).map(|_| ())
    }

    /// Does what the manual asks of a person when a system has not come back by itself; gives that
    /// in words. All servers run, or have ended, and the network is whole. None: all that is left
    /// is to wait for servers that catch up.
    pub fn by_hand(&mut self) -> Result<Option<String>> {
        let mut steps = Vec::new();
        match self.kind() {
            SystemKind::Galera { .. } => steps.extend(self.bootstrap_galera()?),
            SystemKind::Mgr(_) => return self.bootstrap_group(),
            _ => {}
        }
        if !steps.is_empty() {
            return Ok(Some(steps.concat()));
        }
        for server in 0..self.members() {
            if !self.is_member(server) {
                self.kill(&[server])?;
                self.start(server)?;
                steps.push(format!("restart of {}", self.name(server)));
            }
        }
        Ok((!steps.is_empty()).then(|| steps.join(", ")))
    }

    /// A group without a primary component: `pc.bootstrap` on a server that runs, or a new cluster
    /// at the server that got furthest.
    fn bootstrap_galera(&mut self) -> Result<Option<String>> {
        let servers = 0..self.hosts.len();
        let status = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_status'";
        let says: Vec<_> = servers.clone().map(|at| self.look(at, status)).collect();
        let is = |at: &usize, word: &str| {
            let row = says[*at].as_ref();
            row.is_some_and(|row| row.iter().any(|value| value == word))
        };
        if servers.clone().any(|at| is(&at, "Primary")) {
            return Ok(None);
        }
        if let Some(first) = servers.clone().find(|at| is(at, "non-Primary")) {
            let sql = "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'";
            self.query(first, sql)?;
            return Ok(Some("pc.bootstrap=YES".into()));
        }
        self.kill(&servers.collect::<Vec<_>>())?;
        if let Servers::Mariadb(cluster) = &mut self.servers {
            cluster.up(&|_, _| ())?;
        }
        let step = "galera_new_cluster at the server that got furthest, start of the others";
        Ok(Some(step.into()))
    }

    /// A new group at the server that got furthest if none has a primary; servers that are out of
    /// the group join.
    fn bootstrap_group(&mut self) -> Result<Option<String>> {
        let primary = self.leader();
        let mut members = Vec::new();
        if let Some(primary) = primary {
            let list = "SELECT MEMBER_HOST FROM performance_schema.replication_group_members
                 WHERE MEMBER_STATE IN ('ONLINE', 'RECOVERING')";
            let rows = self.query(primary, list)?.concat();
            let place = |name: String| {
                let is_it = |host: &crate::hosts::Host| host.address.to_string() == name;
                self.hosts.iter().position(is_it)
            };
            members.extend(rows.into_iter().filter_map(place));
        }
        let mut outside: Vec<usize> = (0..self.hosts.len()).collect();
        outside.retain(|server| !members.contains(server));
        if outside.is_empty() {
            return Ok(None);
        }
        for server in &outside {
            self.query_within(*server, "STOP GROUP_REPLICATION", STOP_TIMEOUT)?;
        }
        let mut step = String::from("STOP and START GROUP_REPLICATION");
        if primary.is_none() {
            let first = self.furthest(&outside)?;
            let bootstrap = "SET GLOBAL group_replication_bootstrap_group = ON;
                 START GROUP_REPLICATION; SET GLOBAL group_replication_bootstrap_group = OFF";
            self.query_within(first, bootstrap, STOP_TIMEOUT)?;
            outside.retain(|server| *server != first);
            step += ", group_replication_bootstrap_group at the server that got furthest";
        }
        for server in outside {
            self.query_within(server, "START GROUP_REPLICATION", STOP_TIMEOUT)?;
        }
        Ok(Some(step))
    }

    /// The server that lacks no transaction which another one has.
    fn furthest(&self, servers: &[usize]) -> Result<usize> {
        let executed = |server: &usize| {
            let rows = self.query(*server, "SELECT @@global.gtid_executed")?;
            Ok((*server, rows.concat().concat().replace('\n', "")))
        };
        let all: Vec<(usize, String)> = servers.iter().map(executed).collect::<Result<_>>()?;
        let has_all = |server: usize| {
            let has = |(_, other): &(usize, String)| {
                let sql = format!("SELECT GTID_SUBSET('{other}', @@global.gtid_executed)");
                self.look(server, &sql).is_some_and(|row| row == ["1"])
            };
            all.iter().all(has)
        };
        let found = servers.iter().copied().find(|server| has_all(*server));
        found.ok_or_else(|| LabError::Failed {
            command: "comparing gtid_executed".into(),
            status: "no server has all".into(),
            said: format!("{all:?}"),
        })
    }

    /// The first row of an answer, if there is one at once.
    fn look(&self, server: usize, sql: &str) -> Option<Vec<String>> {
        let rows = self.query_within(server, sql, LOOK_TIMEOUT).ok()?;
        rows.into_iter().next()
    }
}
