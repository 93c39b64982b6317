//! The replicated-log protocol of Synod: elections, replication, membership, reads.
//!
//! A group of members keeps one log. One member leads; it appends entries, sends them to the
//! others, and an entry is committed once it is durable on a majority of the voters. This crate is
//! that protocol for one member, and nothing else: own code after Raft (Ongaro and Ousterhout, "In
//! Search of an Understandable Consensus Algorithm", 2014) and Ongaro's dissertation ("Consensus:
//! Bridging Theory and Practice", 2014). Every rule names its section; `docs/protocol.md` lists the
//! rules, and why they are safe.
//!
//! The crate is sans-IO (DESIGN.md): equal inputs give equal outputs.
//!
//! - [`Core`]: one member's protocol state.
//! - [`Outbox`] and [`ProposalDedup`]: both ends of a proposal's way from any member to the leader.
//! - [`Config`]: the members, and who votes.
//!
//! # What the driver does
//!
//! The driver is the code around a [`Core`] that has the disk, the network and the clock.
//!
//! 1. It starts the core with [`Core::new`]: with [`CoreParams`] and with what the disk holds
//!    ([`Recovered`]).
//! 2. It hands in what happens, one input at a time: messages ([`Core::handle_message_with`]),
//!    finished writes ([`Core::persisted`]), time ([`Core::handle_tick`]), connections
//!    ([`Core::peer_connected`], [`Core::peer_disconnected`]), and commands such as
//!    [`Core::propose`].
//! 3. It then polls [`Core::poll_effect`] until `None`, before the next message. Several commands,
//!    completions, or answers to a leader in its term (they neither append nor truncate) may
//!    precede one round of polling; they share one write and one message per follower.
//! 4. It performs the effects in the order given:
//!    - [`Effect::Write`]: writes to the log in ticket order, and reports the latest durable ticket
//!      with [`Core::persisted`]. It need not wait: writes and messages are concurrent. A failed
//!      write is never reported, and the member stops.
//!    - [`Effect::Send`]: sends at once. The core has withheld everything that had to be durable
//!      first.
//!    - [`Effect::SendEntries`]: reads the entries of the range from the log or a cache, and sends
//!      them as an [`Append`]. The payloads travel beside the headers.
//!    - [`Effect::Committed`]: delivers the entries up to the index to the host, in order.
//!    - [`Effect::Role`]: passes term and leader to the [`Outbox`]; a new leader empties its
//!      [`ProposalDedup`].
//!    - [`Effect::Config`]: takes note of the configuration in force (connections, status).
//!    - [`Effect::ReadReady`]: answers the read.
//! 5. It asks [`Core::poll_timeout`] for the time of the next tick, and waits for that or for an
//!    input.
//! 6. On receipt of an append it checks payloads against their headers, and decodes the payloads of
//!    config entries for [`Core::handle_message_with`]. If the leader has left out a payload that
//!    it does not have, it hands in the entries before that one, and then asks with
//!    [`Core::payload_missing`].
//! 7. It may purge what is committed and durable, and reports that with [`Core::purged`].
//!
//! # The loop
//!
//! ```
//! use synod_consensus::{
//!     Core, CoreParams, Effect, Limits, Member, MemberId, Recovered, Role, Time, Timing,
//!     VersionRange,
//! };
//!
//! let id = MemberId(1);
//! let (timing, limits, seed) = (Timing::default(), Limits::default(), 7);
//! let params = CoreParams { id, timing, limits, seed };
//! let mut core = Core::new(params, Recovered::default(), Time(0));
//! let me = Member {
//!     role: Role::Voter,
//!     has_data: true,
//!     name: "one".to_owned(),
//!     address: "one.example:4567".to_owned(),
//!     versions: VersionRange { min: 1, max: 1 },
//!     certificate: None,
//! };
//! core.bootstrap(Time(0), me).expect("an empty log");
//!
//! let mut now = Time(0);
//! while !core.is_ready_leader() {
//!     let mut written = None;
//!     while let Some(effect) = core.poll_effect() {
//!         match effect {
//!             Effect::Write { ticket, op: _ } => written = Some(ticket), // append, sync
//!             Effect::Send(_) | Effect::SendEntries(_) => {}             // no other member
//!             Effect::Committed { .. } => {}                             // deliver
//!             Effect::Role(_) | Effect::Config(_) | Effect::ReadReady { .. } => {}
//!         }
//!     }
//!     match written {
//!         Some(ticket) => core.persisted(now, ticket),
//!         None => {
//!             now = core.poll_timeout().expect("a timer"); // or: a message, a command
//!             core.handle_tick(now);
//!         }
//!     }
//! }
//! assert_eq!(core.leader(), Some(id));
//! ```
//!
//! # Invariants
//!
//! 1. A term has at most one leader.
//! 2. A leader never changes or removes an entry of its own log.
//! 3. Two logs with an entry of the same term and index are the same up to that entry.
//! 4. A committed entry is in the log of every later leader.
//! 5. No vote, term or acknowledgement leaves before it is durable.
//! 6. A committed entry is durable on a majority of the leader's configuration; the leader counts
//!    its own disk like any other.
//! 7. The commit index never decreases, and no entry at or below it is ever truncated.
//! 8. At most one configuration is uncommitted, and a change alters at most one voter.
//! 9. A proposal is ordered at most once.
//!
//! [`Core::force`] is the one exception: by order of an operator it gives up invariant 4.
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
mod unsent_answers;

pub use self::core::Core;
pub use commands::{
    BootstrapError, ConfigChange, ConfigError, Counters, ForceError, LeaderTransferError, Progress,
    ProgressMode, Proposal, ProposeError,
};
pub use effect::{Effect, RoleChange, RoleName, SendEntries, WriteOp, WriteTicket};
pub use election::priority::{LeaderPreference, LeaderWeight};
pub use election::succession::{Preferred, Reason, StalledDisk, WritingPlace};
pub use membership::config::{
    CONFIG_BYTES_MAX, Config, ConfigAt, DecodeConfigError, Member, Role, VersionRange,
};
pub use membership::settings::{CommitRegions, GroupSetting, GroupSettings, Writers};
pub use message::{Append, AppendOutcome, AppendReply, Body, LogBase, Message};
pub use params::{CoreParams, Limits, Recovered, Timing};
pub use proposals::dedup::{DedupVerdict, ProposalDedup};
pub use proposals::outbox::{Outbox, SendProposal};
pub use replication::regions::RegionWait;
pub use types::{
    EntryHeader, EntryId, EntryKind, GroupId, HardState, LogIndex, LogMark, MemberId, Origin,
    ParseGroupIdError, Seqno, SessionId, Term, Time,
};
