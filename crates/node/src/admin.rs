//! The operator's road: orders that change the group, and settings that change while a node runs.
//!
//! Commands and the host's own interface for operators call these methods. An order (a change of
//! the configuration, a leader transfer, a forced primary) is answered by the driver, with a
//! typed reason if it is refused. A setting is handed to the driver and has no answer.

use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use synod_consensus::{
    ConfigChange, ConfigError, ForceError, LeaderPreference, LeaderTransferError, LogIndex,
    MemberId,
};
use synod_member::{
    ConfigRequest, Event, ForceDone, InconsistencyPolicy, LeaderContact, LeaderTransferRequest,
    OperatorRefusal, OperatorReply, QuorumLossPolicy,
};
use synod_tls::TlsError;

use crate::node::Node;

/// Why the configuration was not changed, as far as this member knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeConfigError {
    /// Only the leader changes the configuration. Nothing was changed.
    #[error("the configuration was not changed: {}", ask_leader(.leader.as_ref()))]
    NotLeader {
        /// Where to ask instead; none while this member knows no leader.
        leader: Option<LeaderContact>,
    },
    /// The leader refuses the change. Nothing was changed.
    #[error("the configuration was not changed: {}. {}", .0, config_advice(.0))]
    Refused(ConfigError),
    /// The node has stopped, or stopped before it answered.
    #[error(
        "the configuration was not changed here: this member has stopped. Start it, or ask the \
         leader"
    )]
    Stopped,
    /// The node did not answer in time. The change may still be made.
    #[error(
        "this member did not answer within {} ms, so the change may still be made. Look at the \
         members in the status before you repeat it",
        .limit.as_millis()
    )]
    NoAnswer {
        /// How long the caller waited.
        limit: Duration,
    },
}

/// Why leadership was not handed over, as far as this member knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferLeadershipError {
    /// Only the leader hands leadership over.
    #[error("leadership was not handed over: {}", ask_leader(.leader.as_ref()))]
    NotLeader {
        /// Where to ask instead; none while this member knows no leader.
        leader: Option<LeaderContact>,
    },
    /// The leader refuses, and keeps its leadership.
    #[error("leadership was not handed over: {}. {}", .0, transfer_advice(.0))]
    Refused(LeaderTransferError),
    /// The node has stopped, or stopped before it answered.
    #[error("leadership was not handed over here: this member has stopped. Ask the leader")]
    Stopped,
    /// The node did not answer in time. The transfer may still begin.
    #[error(
        "this member did not answer within {} ms, so leadership may still be handed over. Look at \
         the leader in the status before you repeat it",
        .limit.as_millis()
    )]
    NoAnswer {
        /// How long the caller waited.
        limit: Duration,
    },
}

fn ask_leader(leader: Option<&LeaderContact>) -> String {
    match leader {
        Some(leader) => format!("this member does not lead. Ask the leader, {leader}"),
        None => "this member does not lead, and knows no leader. Ask again once the group has one"
            .to_owned(),
    }
}

/// What an operator can do about a refused change.
fn config_advice(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::NotLeader { .. } => "Ask the leader",
        ConfigError::LeaderTransfer => "Ask the new leader in a few seconds",
        ConfigError::InProgress { .. } => {
            "Repeat it when that change is committed; if it stays uncommitted, a majority of the \
             voters does not answer"
        }
        ConfigError::NotReady => {
            "Repeat it in a few seconds; if that does not help, a majority of the voters does not \
             answer"
        }
        ConfigError::UnknownMember { .. } => "The status lists the members",
        ConfigError::AlreadySo { .. } => "There is nothing to do",
        ConfigError::NotCaughtUp { .. } => "Check that it runs and can be reached",
        ConfigError::Protocol { .. } => "Upgrade that member first",
        ConfigError::ProtocolNotNewer { .. } => "There is nothing to do",
        ConfigError::NoVoterLeft => "Promote another member first",
        ConfigError::SeatTaken { .. } => {
            "Choose another name or address, or remove that member first"
        }
        ConfigError::Invalid { .. } => "Correct the member's identity, name, or address",
    }
}

/// What an operator can do about a refused leader transfer.
fn transfer_advice(error: &LeaderTransferError) -> &'static str {
    match error {
        LeaderTransferError::NotLeader { .. } => "Ask the leader",
        LeaderTransferError::InProgress { .. } => "Wait a few seconds and look at the leader again",
        LeaderTransferError::NotVoter { .. } => "Promote that member first, or choose a voter",
        LeaderTransferError::AlreadyLeader { .. } => "There is nothing to do",
        LeaderTransferError::NoCandidate => "Check that other voters run and can be reached",
    }
}

/// Why there is no acceptance.
enum Unaccepted<E> {
    Refusal(OperatorRefusal<E>),
    Stopped,
    NoAnswer,
}

impl Node {
    /// Changes the configuration. Returns the log index of the change as soon as the leader, which
    /// must be this member, has appended it. The change is in force then, and final once the commit
    /// index has reached it. Waits up to `limit` for the driver.
    ///
    /// # Errors
    /// This member does not lead, the leader refuses the change, the node has stopped, or the
    /// answer did not come in time. Only in the last case the change may still be made.
    pub fn change_config(
        &self,
        change: ConfigChange,
        limit: Duration,
    ) -> Result<LogIndex, ChangeConfigError> {
        let accepted = self.operate(limit, |reply| {
            Event::ChangeConfig(ConfigRequest { change, reply })
        });
        accepted.map_err(|unaccepted| match unaccepted {
            Unaccepted::Refusal(OperatorRefusal::NotLeader { leader }) => {
                ChangeConfigError::NotLeader { leader }
            }
            Unaccepted::Refusal(OperatorRefusal::Refused(error)) => {
                ChangeConfigError::Refused(error)
            }
            Unaccepted::Stopped => ChangeConfigError::Stopped,
            Unaccepted::NoAnswer => ChangeConfigError::NoAnswer { limit },
        })
    }

    /// Hands leadership to the voter `to`, or to the voter with the most complete log. Returns the
    /// target as soon as the leader, which must be this member, has begun; a transfer that has not
    /// ended after the shortest election timeout is abandoned, and this member keeps its
    /// leadership. Waits up to `limit` for the driver.
    ///
    /// # Errors
    /// This member does not lead, the leader refuses the transfer, the node has stopped, or the
    /// answer did not come in time. Only in the last case leadership may still be handed over.
    pub fn transfer_leadership(
        &self,
        to: Option<MemberId>,
        limit: Duration,
    ) -> Result<MemberId, TransferLeadershipError> {
        let accepted = self.operate(limit, |reply| {
            Event::TransferLeadership(LeaderTransferRequest { to, reply })
        });
        accepted.map_err(|unaccepted| match unaccepted {
            Unaccepted::Refusal(OperatorRefusal::NotLeader { leader }) => {
                TransferLeadershipError::NotLeader { leader }
            }
            Unaccepted::Refusal(OperatorRefusal::Refused(error)) => {
                TransferLeadershipError::Refused(error)
            }
            Unaccepted::Stopped => TransferLeadershipError::Stopped,
            Unaccepted::NoAnswer => TransferLeadershipError::NoAnswer { limit },
        })
    }

    /// Hands an order to the driver and waits for the reply.
    fn operate<T: Send + 'static, E: Send + 'static>(
        &self,
        limit: Duration,
        order: impl FnOnce(OperatorReply<T, E>) -> Event,
    ) -> Result<T, Unaccepted<E>> {
        let (reply, answer) = bounded(1);
        self.send_event(order(Box::new(move |accepted| {
            // The caller may have waited long enough.
            let _ = reply.send(accepted);
        })));
        let answered = match Instant::now().checked_add(limit) {
            Some(deadline) => answer.recv_deadline(deadline),
            None => answer.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match answered {
            Ok(accepted) => accepted.map_err(Unaccepted::Refusal),
            Err(RecvTimeoutError::Disconnected) => Err(Unaccepted::Stopped),
            Err(RecvTimeoutError::Timeout) => Err(Unaccepted::NoAnswer),
        }
    }

    /// Makes this member primary without a majority of the voters: see
    /// [`synod_consensus::Core::force`] for what that costs.
    ///
    /// # Errors
    /// The group has a leader, this member is no voter, or its log is under repair.
    pub fn force_primary(&self) -> Result<(), ForceError> {
        let (done, answer) = bounded(1);
        self.send_event(Event::ForcePrimary(ForceDone(Box::new(move |result| {
            // The caller's thread may have ended.
            let _ = done.send(result);
        }))));
        // A node that has stopped cannot become primary.
        answer.recv().unwrap_or(Err(ForceError::NoVoter))
    }

    /// Sets what this member does by itself when the majority is gone, from now on.
    pub fn set_quorum_loss_policy(&self, policy: QuorumLossPolicy) {
        self.send_event(Event::QuorumLossPolicy(policy));
    }

    /// Sets the bound on the best majority's lag, see
    /// [`NodeConfig::apply_lag_max`](crate::NodeConfig::apply_lag_max).
    pub fn set_apply_lag_max(&self, limit: Duration) {
        self.send_event(Event::ApplyLagMax(limit));
    }

    /// Sets how long a member may be silent, see
    /// [`NodeConfig::suspect`](crate::NodeConfig::suspect).
    pub fn set_suspect_timeout(&self, limit: Duration) {
        self.send_event(Event::SuspectTimeout(limit));
    }

    /// Sets how much this member should lead, and whether it hands leadership over, from now on.
    pub fn set_leader_preference(&self, preference: LeaderPreference) {
        self.send_event(Event::LeaderPreference(preference));
    }

    /// Sets how outcomes are counted while this member leads.
    pub fn set_inconsistency_policy(&self, policy: InconsistencyPolicy) {
        self.send_event(Event::InconsistencyPolicy(policy));
    }

    /// Reads the credentials again, for connections opened from now on. Open connections by a
    /// secret that is not accepted any more are closed; others stay as they are.
    ///
    /// # Errors
    /// What is wrong with the files; the credentials in use stay.
    pub fn reload_tls(&self) -> Result<(), TlsError> {
        self.transport.reload_tls()
    }

    /// Separates this member from all others, in both directions, or connects it again: for tests,
    /// and for operators who want to see what a partition does.
    pub fn set_isolated(&self, isolated: bool) {
        self.transport.set_isolated(isolated);
    }
}
