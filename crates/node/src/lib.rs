//! A running group member: `synod-member`, which decides, with the threads, sockets and timers that
//! it runs on.
//!
//! A program that hosts a node implements [`Host`], starts a [`Node`], proposes [`Action`]s and
//! takes [`Delivery`]s. The node knows no database.
//!
//! ```text
//! let node = Node::start(config, StartMode::Join, host)?;   // Host::joined follows
//! node.deliver_after(applied)?;                             // Host::deliver, in order
//! let result = node.submit(&action).wait_for_result();
//! node.leave();                                             // orderly; or not at all
//! node.stop();
//! ```
//!
//! # Threads
//!
//! | thread | does | waits for |
//! |---|---|---|
//! | `synod-core` | all protocol state | events, and the driver's timers |
//! | `synod-log` | writes the log; one sync for all jobs that gathered | jobs of the core thread |
//! | `synod-deliver` | hands committed entries to the host, in order | commits, and the host |
//! | `synod-catchup` | reads old entries for lagging members | requests of the core thread |
//! | `synod-accept` | starts a `synod-in` for each connection | the listening socket |
//! | `synod-in` | receives from one connection | its socket, and room in bytes |
//! | `synod-out-*` | sends to one member, one lane each | its queue, and its socket |
//! | `synod-seek` | looks for the group until it is found | a pause between rounds |
//!
//! # Rules
//!
//! - Only the core thread touches the driver. Other threads send it events; it waits for none of
//!   them.
//! - Received messages, own actions and each lane's queue are bounded in bytes.
//! - A host's call returns at once, or takes a limit of time, or waits for the group by its nature
//!   (a proposal's result, a leave); [`Node::stop`] ends those waits.
//! - No option of a host is named in texts: the host spells its settings ([`Host::setting_name`]).
#![forbid(unsafe_code)]

mod admin;
mod clock;
mod config;
mod entropy;
mod node;
mod start;
mod threads;
mod transport;
mod wait;

pub use admin::{ChangeConfigError, TransferLeadershipError};
pub use config::{NodeConfig, NodeError, TlsConfig};
pub use node::Node;
pub use transport::{CompressionChoice, CompressionStatus};
pub use wait::{Pending, WaitResult};

pub use synod_certify::{Class, KeySet, KeyType};
pub use synod_consensus::{
    ConfigChange, ConfigError, ForceError, GroupId, LeaderPreference, LeaderTransferError,
    LeaderWeight, Limits, LogIndex, MemberId, Origin, RoleName, Seqno, SessionId, Term, Timing,
    VersionRange,
};
pub use synod_log::{LogOptions, PAYLOAD_BYTES_MAX, SEGMENT_BYTES_MAX};
pub use synod_member::{
    Action, ApplyOutcome, DatabasePosition, DecisionSearch, Delivery, DonorRequest, Host,
    InconsistencyPolicy, LeaderContact, Level, MemberStatus, NodeStatus, OpenError,
    OutcomeDecision, PayloadError, ProposalResult, QuorumLossPolicy, Remedy, Setting, StartMode,
    StateTransferEvent, View, ViewMember, WaitPolicy,
};
pub use synod_tls::{
    Credentials, GroupSecret, SecretFile, TlsError, TlsFiles, TlsSettingNames, names_tls13_suite,
};
pub use synod_wire::{DataState, OUR_VERSIONS};
