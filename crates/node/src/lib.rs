//! A running group member: consensus, log, certification and peers, joined by threads.
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

mod action;
mod budget;
mod catchup;
mod config;
mod deliver;
mod driver;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod ingest;
mod node;
mod peers;
mod pending;
mod shared;
mod snapshots;
mod staged;
mod storage;
mod threads;
mod view;

pub use action::{Action, PayloadError};
pub use config::{DatabasePosition, NodeConfig, NodeError, StartMode};
pub use host::{Delivery, DonorRequest, Host, Level, MemberStatus, TransferNews};
pub use node::Node;
pub use pending::{Fate, Pending, Waited};
pub use shared::NodeStatus;
pub use view::{View, ViewMember};

pub use synod_certify::{Class, KeySet, KeyType};
pub use synod_consensus::{
    GroupId, Limits, LogIndex, MemberId, Origin, RoleName, Seqno, SessionId, Term, Timing,
    VersionRange,
};
pub use synod_log::LogOptions;
pub use synod_wire::{DataState, OUR_VERSIONS};
