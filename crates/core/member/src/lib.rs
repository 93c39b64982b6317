//! A group member without threads, sockets, or a clock of its own.
//!
//! DESIGN.md has its way and its owners. `synod-node` runs a member with threads and sockets,
//! `synod-sim` with simulated ones.
//!
//! # Rules
//!
//! 1. Nothing here waits, generates random numbers, or reads a clock. Time comes in with every
//!    call, random numbers come in once ([`StartEntropy`]). Equal inputs give equal effects.
//! 2. The driver decides, and only the driver. It never touches the disk or the network, but asks
//!    for writes, reads and messages through [`Disk`] and [`Network`]; answers are [`Event`]s.
//! 3. Writes are done in the order in which the driver asks for them. A write is durable only when
//!    its ticket is reported as persisted, after [`Storage::sync`].
//! 4. Actions reach the host in the order of the log, each once, and only after their commit
//!    ([`Deliverer`]).
//! 5. No text names an option of the host: [`Host::setting_name`] spells the [`Setting`].
//!
//! # The loop
//!
//! ```text
//! let mut opened = open_log(files, dir, options, knows_others, &host)?;
//! let start = Start::new(config, tuning, mode, entropy, &mut opened, &host, now)?;
//! let mut driver = Driver::new(start, links, now);
//! driver.begin(now);
//! loop {
//!     // An event, or none if driver.wake_at() comes first.
//!     driver.handle(now, event);
//!     driver.turn(now);
//! }
//! ```
//!
//! Beside it, each in a loop of its own: [`Storage`] writes what the driver asks for, [`Deliverer`]
//! hands committed entries to the host, and [`ReadForPeer`] requests are answered from the log.
//!
//! # Parts
//!
//! | part | does | one caller at a time |
//! |------|------|----------------------|
//! | [`open_log`], [`Start`] | opens or repairs the log; decides which history continues | yes |
//! | [`Driver`] | decides; holds all protocol state | yes |
//! | `CertificationState` | verdicts, and the partial actions of the log | inside the driver |
//! | `EntryCache` | newest entries, for replication | inside the driver |
//! | [`Storage`] | writes the log, syncs, purges | yes |
//! | [`Deliverer`] | hands committed entries to the [`Host`], in order | yes |
//! | [`ReadForPeer`] | reads old entries for members that lag, or fetch them | no |
//! | [`Shared`] | positions and status that all parts read | no |
//! | [`Client`], [`Waiter`] | a thread that waits for a [`ProposalResult`] | no |
//! | [`Action`], [`Chunk`], [`View`], [`Discard`], [`OutcomeDecision`] | payloads of entries | no |
#![forbid(unsafe_code)]

mod certification;
mod client;
mod config;
mod consequence;
mod deliver;
mod disk_space;
mod driver;
mod entry_cache;
mod fetch;
mod freshness;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod initial_history;
mod io;
mod log_growth;
mod log_holds;
mod old_entries_for_followers;
mod open;
mod ordered_action;
mod outcome;
mod payload;
mod read_for_peer;
mod session_history;
mod setting;
mod shared;
mod snapshots;
mod start;
mod storage;
mod tuning;

pub use client::{Client, ProposalResult, ResultSlot, WaitPolicy, Waiter};
pub use config::{DatabasePosition, MemberConfig, StartMode};
pub use consequence::Consequence;
pub use deliver::{
    DeliverError, Delivered, Deliverer, FollowError, Followed, FollowedAction, Follower,
};
pub use driver::{
    CommandReply, CommandRequest, CommitWait, Driver, DriverLinks, Event, FailedCall, ForceDone,
    FullLogPolicy, LeaderPlacement, LeaveDone, LiveSetting, Load, Me, OwnLogTimes,
    QuorumLossPolicy, ReadDone, Reply, SettingRefusal, SettingRequest, SignOfLife, Submission,
    VoterPolicy, WritePermission,
};
pub use fetch::{FetchWish, NotFetched};
pub use host::{
    DataChunk, Delivery, DonorRequest, Election, Host, Level, MemberStatus, Remedy,
    StateTransferEvent, Topic,
};
pub use initial_history::has_history;
pub use io::{Disk, KnownPeer, Network, Observer};
pub use log_holds::LogHold;
pub use old_entries_for_followers::OldEntries;
pub use open::{OpenError, open_log};
pub use ordered_action::{OrderedAction, ordered_action};
pub use outcome::{ApplyOutcome, InconsistencyPolicy};
pub use payload::action::{
    Action, ActionPiece, Chunk, ChunkSplitter, Part, PayloadError, Piece, split_as_it_comes,
    split_into_chunks,
};
pub use payload::decision::{DecisionSearch, MemberOutcome, OutcomeDecision};
pub use payload::discard::{Discard, PartialActionId};
pub use payload::view::{View, ViewMember};
pub use read_for_peer::{FetchRead, ReadForPeer};
pub use session_history::{SessionHistory, SessionHistoryError};
pub use setting::Setting;
pub use shared::{
    CommitWaitStatus, DatabaseStatus, MemberPresence, NodeStatus, PaceStatus, Presence, Shared,
    SurvivorStatus, lock,
};
pub use snapshots::Snapshot;
pub use start::{Start, StartEntropy, StartError};
pub use storage::{IDLE, Job, PurgeJob, Storage};
pub use tuning::Tuning;
