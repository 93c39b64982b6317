//! Starts a node for a new connection and waits until the group has it.
//!
//! Called by `connect`, under the provider's lock `changing`. What the options say becomes the
//! node's configuration here.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use synod_node::{GroupId, LiveSetting, Node, NodeConfig, NodeStatus, StartMode};

use super::{FIRST_SERIAL, Provider};
use crate::api::LogLevel;
use crate::connection::Connection;
use crate::connection::joiner::DonorPreference;
use crate::connection::session::{Server, State};
use crate::options::{ClusterUrl, HostFacts, key};

impl Provider {
    fn node_config(&self, name: &str, url: &ClusterUrl) -> NodeConfig {
        let options = self.options();
        options.node_config(HostFacts {
            name: self.args.node_name.clone(),
            cluster_name: name.to_owned(),
            address: options.own_address(&self.args.node_incoming).to_string(),
            incoming: self.args.node_incoming.clone(),
            seeds: url.peers.iter().map(ToString::to_string).collect(),
            log_dir: options.log_dir(Path::new(&self.args.data_dir)),
            has_data: true,
            database: self.position.current(),
            flush_period: self.flush_period,
        })
    }

    /// Starts a node and waits until the group has it.
    pub(super) fn connect_node(
        &self,
        name: &str,
        url: &ClusterUrl,
        donor: &str,
        bootstrap: bool,
    ) -> Result<Arc<Connection>, String> {
        self.close_last()?;
        self.check_exposure()?;
        if bootstrap {
            self.position.check_begin().map_err(|e| e.to_string())?;
        }
        let config = self.node_config(name, url);
        let mode = match (bootstrap, self.position.takes_group_over()) {
            (true, true) => StartMode::TakeOver,
            (true, false) => StartMode::Bootstrap,
            (false, _) => StartMode::Join,
        };
        let server = Server {
            callbacks: self.callbacks.clone(),
            counters: self.counters.clone(),
            transactions: self.transactions.clone(),
            options: self.live.clone(),
            position: self.position.clone(),
            restart: self.restart.clone(),
            other_replication: self.other_replication.clone(),
            events: self.events.clone(),
        };
        let queue_bytes = self.options().size(key::APPLY_QUEUE_SIZE);
        let serial = self.next_serial.fetch_add(1, Ordering::Relaxed);
        let connection =
            Connection::new(server, serial, DonorPreference::parse(donor), queue_bytes);
        let node = Node::start(config, mode, connection.clone()).map_err(|e| e.to_string())?;
        connection.session.set_node(node.clone());
        // The log is locked now, and with it its directory's socket.
        self.serve_commands(&connection, &node);
        node.set(LiveSetting::QuorumLossPolicy(self.quorum_loss_policy()));
        node.set(LiveSetting::FullLogPolicy(self.options().full_log_policy()));
        node.set(LiveSetting::InconsistencyPolicy(
            self.options().inconsistency_policy(),
        ));
        node.set(LiveSetting::RegionPatience(
            self.options().region_patience(),
        ));
        node.set(LiveSetting::CommitWait(self.options().commit_wait()));
        node.set(LiveSetting::LeaderPreference(
            self.options().leader_preference(),
        ));
        node.set(LiveSetting::LeaderPlacement(
            self.options().leader_placement(),
        ));
        if let Err(why) = connection.start_threads() {
            connection.session.shut_down();
            return Err(why);
        }
        if bootstrap && self.position.may_bootstrap() {
            self.begin_from_this_member(&connection, &node);
        }
        match self.wait_until_joined(&connection, &node.status()) {
            Ok(()) => {
                self.found_group_settings(&node, bootstrap);
                Ok(connection)
            }
            Err(why) => {
                connection.session.shut_down();
                Err(why)
            }
        }
    }

    /// Refuses to let anyone in, unless the operator has said so; then warns.
    fn check_exposure(&self) -> Result<(), String> {
        let exposure = self.options().exposure().map_err(|e| e.to_string())?;
        if let Some(warning) = exposure.warning() {
            self.callbacks.log(LogLevel::Warn, &warning);
        }
        Ok(())
    }

    /// Sees to it that nothing of the last connection is left.
    fn close_last(&self) -> Result<(), String> {
        let Some(last) = self.connection() else {
            return Ok(());
        };
        if !last.session.is_closing() {
            return Err("this server is connected to a group already".to_owned());
        }
        last.session.close_node();
        last.session.join_threads();
        Ok(())
    }

    /// An operator bootstraps the group again from this server. If the group turns out to exist,
    /// the server joins it.
    fn begin_from_this_member(&self, connection: &Connection, node: &Node) {
        let limit = self.options().duration(key::EVS_SUSPECT_TIMEOUT);
        let joined = |state: &mut State| state.joined.is_some().then_some(());
        if connection
            .session
            .wait_for(Some(Instant::now() + limit), joined)
            .is_some()
        {
            return;
        }
        if let Err(error) = node.force_primary() {
            let text = format!("safe_to_bootstrap in grastate.dat has nothing to do: {error}");
            self.callbacks.log(LogLevel::Info, &text);
        }
    }

    fn wait_until_joined(&self, connection: &Connection, node: &NodeStatus) -> Result<(), String> {
        let Some(patience) = self.patience(connection, node) else {
            return Ok(());
        };
        if patience.is_member {
            let limit = patience.limit_text();
            let text = format!(
                "this member belongs to group {}: waiting {limit} for a majority of its members",
                node.group
            );
            self.callbacks.log(LogLevel::Info, &text);
        }
        let deadline = patience
            .limit
            .and_then(|limit| Instant::now().checked_add(limit));
        let outcome = connection.session.wait_for(deadline, |state| {
            match (&state.joined, state.lifecycle.failure()) {
                (_, Some(why)) => Some(Err(why.clone())),
                (Some(_), None) => Some(Ok(())),
                (None, None) => None,
            }
        });
        outcome.unwrap_or_else(|| {
            Err(patience.exhausted(
                &connection.session.unheard(),
                connection.start_watch.last_start_warning(),
            ))
        })
    }

    /// Patience of `connect` with the group; `None`: it does not wait.
    fn patience(&self, connection: &Connection, node: &NodeStatus) -> Option<Patience> {
        let options = self.options();
        if !options.bool(key::PC_WAIT_PRIM) {
            return None;
        }
        let limit = options.duration(key::PC_WAIT_PRIM_TIMEOUT);
        let rejoin = options.duration(key::REJOIN_TIMEOUT);
        let is_member = node.group != GroupId::NONE;
        // When a running server connects again, an operator waits at a client's prompt.
        let is_start = connection.session.serial == FIRST_SERIAL;
        let (limit, name) = match (is_member && is_start, rejoin.is_zero()) {
            (true, true) => (None, REJOIN_TIMEOUT),
            (true, false) if rejoin > limit => (Some(rejoin), REJOIN_TIMEOUT),
            (true, false) | (false, _) => (Some(limit), "pc.wait_prim_timeout"),
        };
        Some(Patience {
            limit,
            name,
            is_member,
        })
    }
}

const REJOIN_TIMEOUT: &str = "synod.rejoin_timeout";

struct Patience {
    /// `None`: without end.
    limit: Option<Duration>,
    name: &'static str,
    /// This member was in the group before.
    is_member: bool,
}

impl Patience {
    fn limit_text(&self) -> String {
        let name = self.name;
        match self.limit {
            Some(limit) => format!("up to {limit:?} ({name})"),
            None => format!("without end ({name})"),
        }
    }

    /// Why the server does not start, with the last warning: often that of a refused connection.
    /// `unheard`: what is at the addresses of the others, if the group may run.
    fn exhausted(&self, unheard: &[String], last_warning: Option<String>) -> String {
        let (limit, name) = (self.limit.unwrap_or_default(), self.name);
        if !unheard.is_empty() {
            let lines = unheard.join(". ");
            return format!("the group was not reached within {limit:?} ({name}). {lines}");
        }
        let last_resort = if self.is_member {
            " If the other members are lost for good: 'synod recover --plan' while this server \
             waits (synod.rejoin_timeout=0: without end). Or write 'safe_to_bootstrap: 1' into \
             grastate.dat and start this server with --wsrep-new-cluster: what only they have is \
             lost then"
        } else {
            ""
        };
        let warned = match last_warning {
            Some(warning) => format!(" The last warning was: {warning}."),
            None => String::new(),
        };
        format!(
            "the group was not reached within {limit:?} ({name}): is a majority of its members \
             running, is wsrep_cluster_address right, and have all of them the same secret or \
             authority, and the same wsrep_cluster_name?{warned}{last_resort}"
        )
    }
}
