//! The operator's road into the driver: changes of the configuration, and leader transfers.
//!
//! Each order is a request with a reply. The driver answers every request that it handles: as soon
//! as the leader has accepted it, or at once with the reason why not. It drops the reply uncalled
//! only when it stops before it has handled the request; the caller then sees the end of its
//! channel.

use std::fmt;

use synod_consensus::{ConfigChange, ConfigError, LeaderTransferError, LogIndex, MemberId};

use crate::driver::Driver;
use crate::host::Level;

/// Takes the answer to an operator's order. Called at most once; dropped uncalled if the driver
/// stops first. It runs on the driver's thread and must return at once.
pub type OperatorReply<T, E> = Box<dyn FnOnce(Result<T, OperatorRefusal<E>>) + Send>;

/// A change of the configuration that an operator orders.
pub struct ConfigRequest {
    /// What to change.
    pub change: ConfigChange,
    /// Takes the log index of the change: the leader has appended it, so it is in force there, and
    /// it is final once the commit index has reached it. Until then another leader may truncate it.
    pub reply: OperatorReply<LogIndex, ConfigError>,
}

/// A leader transfer that an operator orders.
pub struct LeaderTransferRequest {
    /// The voter that is to lead; none: the voter with the most complete log.
    pub to: Option<MemberId>,
    /// Takes the target, as soon as the leader has begun to hand leadership over. The transfer may
    /// still fail; the leader then keeps its leadership.
    pub reply: OperatorReply<MemberId, LeaderTransferError>,
}

/// Why an operator's order was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorRefusal<E> {
    /// This member does not lead: the order is for the leader.
    NotLeader {
        /// Where to ask instead; none while this member knows no leader.
        leader: Option<LeaderContact>,
    },
    /// The leader refuses, for a reason other than its role.
    Refused(E),
}

/// The leader, as a command can name it to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderContact {
    /// Its identity.
    pub member: MemberId,
    /// Its name; empty if this member's configuration does not have it yet.
    pub name: String,
    /// The address at which members reach it, `host:port`; empty with the name.
    pub address: String,
}

impl fmt::Display for LeaderContact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            write!(f, "member {}", self.member)
        } else {
            write!(f, "'{}' at {}", self.name, self.address)
        }
    }
}

impl Driver {
    pub(in crate::driver) fn operate_config(&mut self, request: ConfigRequest) {
        let accepted = self.core.change_config(self.now(), request.change);
        if let Err(error) = &accepted {
            self.log(Level::Info, format!("configuration not changed: {error}"));
        }
        (request.reply)(accepted.map_err(|error| match error {
            ConfigError::NotLeader { leader } => self.not_leader(leader),
            error => OperatorRefusal::Refused(error),
        }));
    }

    pub(in crate::driver) fn operate_transfer(&mut self, request: LeaderTransferRequest) {
        let accepted = self.core.transfer_leadership(self.now(), request.to);
        if let Err(error) = &accepted {
            self.log(Level::Info, format!("leadership not handed over: {error}"));
        }
        (request.reply)(accepted.map_err(|error| match error {
            LeaderTransferError::NotLeader { leader } => self.not_leader(leader),
            error => OperatorRefusal::Refused(error),
        }));
    }

    fn not_leader<E>(&self, leader: Option<MemberId>) -> OperatorRefusal<E> {
        let leader = leader.map(|member| {
            let known = self.core.config().config.members.get(&member);
            LeaderContact {
                member,
                name: known.map(|known| known.name.clone()).unwrap_or_default(),
                address: known.map(|known| known.address.clone()).unwrap_or_default(),
            }
        });
        OperatorRefusal::NotLeader { leader }
    }
}
