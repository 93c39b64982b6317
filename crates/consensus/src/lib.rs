//! The replicated-log protocol of Synod: elections, replication, membership, reads.
//!
//! Own code after Raft (Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm",
//! 2014) and Ongaro's dissertation ("Consensus: Bridging Theory and Practice", 2014); every rule
//! names its section. Sans-IO: no sockets, files, threads or clocks. Events go in, effects come out,
//! time is an argument and randomness is seeded, so equal inputs give equal outputs.
//!
//! ```text
//! core.handle_message(now, message);               // and: handle_tick, persisted, propose, read...
//! while let Some(effect) = core.poll_effect() { driver.perform(effect); }
//! let wake_at = core.poll_timeout();
//! ```
//!
//! The core holds entry headers and sizes, never payloads, and never reads storage. What must not
//! leave before something is durable, it withholds itself; the driver performs whatever it is given,
//! in order, and reports finished writes by their ticket.
//!
//! - [`Core`]: one member's protocol state.
//! - [`Outbox`] and [`ProposalDedup`]: both ends of a proposal's way from any member to the leader.
//! - [`Config`]: who votes.
#![forbid(unsafe_code)]

mod commands;
mod core;
mod damaged_log;
mod durability;
mod effect;
mod election;
mod membership;
mod message;
mod params;
mod proposals;
mod quorum;
mod read_index;
mod replication;
mod tail;
mod types;

pub use self::core::Core;
pub use commands::{
    BootstrapError, ConfigChange, ConfigError, Counters, ForceError, LeaderTransferError, Progress,
    ProgressMode, Proposal, ProposeError,
};
pub use effect::{Effect, RoleChange, RoleName, SendEntries, WriteOp, WriteTicket};
pub use election::priority::{LeaderPreference, LeaderWeight};
pub use membership::config::{Config, ConfigAt, DecodeConfigError, Member, Role};
pub use membership::version::VersionRange;
pub use message::{Append, AppendOutcome, AppendReply, Body, LogBase, Message};
pub use params::{CoreParams, Limits, Recovered, Timing};
pub use proposals::dedup::{DedupVerdict, ProposalDedup};
pub use proposals::outbox::{Outbox, SendProposal};
pub use types::{
    EntryHeader, EntryId, EntryKind, GroupId, HardState, LogIndex, LogMark, MemberId, Origin,
    ParseGroupIdError, Seqno, SessionId, Term, Time,
};
