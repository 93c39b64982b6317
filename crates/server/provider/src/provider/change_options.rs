//! Applies changed options to the running connection and node.
//!
//! Called when `wsrep_provider_options` is set, and for the options in a cluster address. An option
//! that is read where it is used needs nothing here.

use synod_node::{Node, QuorumLossPolicy};

use super::start_node::to_usize;
use super::{Provider, log_notices};
use crate::api::LogLevel;
use crate::connection::Connection;
use crate::options::{Update, Value, key};

impl Provider {
    pub(super) fn quorum_loss_policy(&self) -> QuorumLossPolicy {
        let options = self.options();
        match options.bool(key::PC_IGNORE_QUORUM) {
            true => QuorumLossPolicy::ContinueAlone,
            false if options.bool(key::PC_IGNORE_SB) => QuorumLossPolicy::ContinueWithHalf,
            false => QuorumLossPolicy::Wait,
        }
    }

    pub(super) fn apply_to_node(&self, update: &Update, node: &Node) {
        if let Some(Value::Int(number)) = update.value(key::GMCAST_ISOLATE) {
            node.set_isolated(*number != 0);
        }
        if let Some(Value::Duration(limit)) = update.value(key::EVS_SUSPECT_TIMEOUT) {
            node.set_suspect_timeout(*limit);
        }
        if let Some(Value::Duration(limit)) = update.value(key::MAX_APPLY_LAG) {
            node.set_apply_lag_max(*limit);
        }
        if update.value(key::COMMIT_WAIT).is_some() {
            node.set_commit_wait(self.options().commit_wait());
        }
        node.set_quorum_loss_policy(self.quorum_loss_policy());
        node.set_full_log_policy(self.options().full_log_policy());
        if update.value(key::LEADER_WEIGHT).is_some() {
            node.set_leader_preference(self.options().leader_preference());
        } else if update.value(key::LEADER_HANDOVER).is_some() {
            // A saved list names it. A weight that an operator has ordered by a command stays.
            node.set_leader_handover(self.options().leader_preference().hands_over);
        }
        node.set_leader_placement(self.options().leader_placement());
        node.set_voter_policy(self.options().voter_policy());
        if let Some(Value::Bool(true)) = update.value(key::PC_BOOTSTRAP)
            && let Err(error) = node.force_primary()
        {
            let text = format!("pc.bootstrap has nothing to do: {error}");
            self.callbacks.log(LogLevel::Info, &text);
        }
    }

    /// Takes the weight of a node that has been closed: an operator's command may have changed it,
    /// which holds until the server ends.
    pub(super) fn keep_leader_weight(&self, connection: &Connection) {
        if let Some(node) = connection.node() {
            let weight = node.status().leader_weight;
            self.options().follow_leader_weight(weight);
        }
    }

    /// Applies changed options to what runs. Others are read where they are used.
    pub(super) fn apply_update(&self, update: &Update) {
        log_notices(&self.callbacks, update);
        let queue_bytes = {
            let options = self.options();
            self.live.update(&options);
            to_usize(options.unsigned(key::APPLY_QUEUE_SIZE))
        };
        let Some(connection) = self.connection() else {
            return;
        };
        connection.sequencer.set_queue_bytes_max(queue_bytes);
        if let Some(node) = connection.node() {
            self.apply_to_node(update, node);
        }
    }
}
