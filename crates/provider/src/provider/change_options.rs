//! What changed options mean for the connection and the node that run.
//!
//! Called when `wsrep_provider_options` is set, and for the options in a cluster address. An option
//! that is read where it is used needs nothing here.

use synod_node::{InconsistencyPolicy, Node, QuorumLossPolicy};

use super::start_node::to_usize;
use super::{Provider, log_notices};
use crate::api::LogLevel;
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

    pub(super) fn inconsistency_policy(&self) -> InconsistencyPolicy {
        match self.options().unsigned(key::GCS_VOTE_POLICY) {
            0 => InconsistencyPolicy::MostFrequent,
            enough => InconsistencyPolicy::SuccessOf(u32::try_from(enough).unwrap_or(u32::MAX)),
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
        node.set_quorum_loss_policy(self.quorum_loss_policy());
        node.set_leader_preference(self.options().leader_preference());
        if let Some(Value::Bool(true)) = update.value(key::PC_BOOTSTRAP)
            && let Err(error) = node.force_primary()
        {
            let text = format!("pc.bootstrap has nothing to do: {error}");
            self.callbacks.log(LogLevel::Info, &text);
        }
    }

    /// What changed options mean for what runs. The rest is read where it is used.
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
