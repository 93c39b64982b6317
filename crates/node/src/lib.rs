//! A running group member: `synod-member`, which decides, with the threads, sockets and timers that
//! it runs on.
//!
//! A program that hosts a node implements [`Host`], starts a [`Node`], hands it [`Action`]s and is
//! handed [`Delivery`]s. The node knows nothing of databases.
//!
//! | thread          | does                                                         |
//! |-----------------|--------------------------------------------------------------|
//! | `synod-core`    | all protocol state: consensus, certification, membership     |
//! | `synod-log`     | writes the log: one sync for whatever gathered meanwhile     |
//! | `synod-deliver` | reads committed entries and hands them to the host, in order |
//! | `synod-catchup` | reads old entries for members far behind                     |
//! | `synod-accept`, `synod-in` | receive from peers                                |
//! | `synod-out-*`   | send to one peer, one lane each                              |
//! | `synod-seek`    | looks for the group until it is found                        |
#![forbid(unsafe_code)]

mod admin;
mod bell;
mod budget;
mod config;
mod core_thread;
mod disk_threads;
mod node;
mod peers;
mod pending;
mod session;
mod threads;

pub use admin::{ChangeConfigError, TransferLeadershipError};
pub use config::{NodeConfig, NodeError, TlsConfig};
pub use node::Node;
pub use pending::{Pending, WaitResult};

pub use synod_certify::{Class, KeySet, KeyType};
pub use synod_consensus::{
    ConfigChange, ConfigError, ForceError, GroupId, LeaderPreference, LeaderTransferError,
    LeaderWeight, Limits, LogIndex, MemberId, Origin, RoleName, Seqno, SessionId, Term, Timing,
    VersionRange,
};
pub use synod_log::LogOptions;
pub use synod_member::{
    Action, ApplyOutcome, DatabasePosition, DecisionSearch, Delivery, DonorRequest, Host,
    InconsistencyPolicy, LeaderContact, Level, MemberStatus, NodeStatus, OpenError,
    OutcomeDecision, PayloadError, ProposalResult, QuorumLossPolicy, Setting, StartMode,
    StateTransferEvent, View, ViewMember, WaitPolicy,
};
pub use synod_tls::{TlsError, TlsFiles, TlsSettingNames, names_tls13_suite};
pub use synod_wire::{DataState, OUR_VERSIONS};
