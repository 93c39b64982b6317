//! A running group member: `synod-member`, which decides, with the threads, sockets and timers that
//! it runs on.
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
//! | `synod-core` | drives when a time comes, and what others leave | timers, events |
//! | `synod-log` | writes the log, one sync for all jobs that gathered; drives | jobs |
//! | `synod-deliver` | hands to the host, in order, what a driving thread leaves | the host |
//! | `synod-catchup` | reads old entries for lagging members | requests of the driver |
//! | `synod-accept` | starts a `synod-in` for each connection | the listening socket |
//! | `synod-in` | receives, and drives; or serves a client | its socket, and room in bytes |
//! | `synod-out-*` | connects one lane to one member; sends what waits | its queue, its socket |
//! | `synod-seek` | looks for the group, then for others of its name | a pause between rounds |
//! | `synod-ping` | pings the connected members | a quarter of a second between rounds |
//!
//! # Rules
//!
//! - One thread at a time touches the driver: whichever brings an event while none drives. It
//!   takes what others bring meanwhile, for a few turns; then the core thread continues
//!   (`threads/driving.rs`). A host's thread drives two turns at most, in [`Node::submit`].
//! - A thread that drives waits for nothing: neither for a disk, nor a socket, nor another thread.
//!   Messages of a turn are written at its end as far as their sockets take them at once.
//! - A driver that panics is not used again, and the panic ends the core thread, whichever thread
//!   drove. A vital thread that panics ends the node as a failed disk does.
//! - Received messages (each lane's apart), own actions and each lane's queue are bounded in bytes.
//! - What came by a control lane goes before what came by a bulk lane (`threads/event_queue.rs`).
//! - A host's call returns at once, or takes a limit of time, or waits for the group by its nature
//!   (a proposal's result, a leave); [`Node::stop`] ends those waits.
//! - No option of a host is named in texts: the host spells its settings ([`Host::setting_name`]).
#![forbid(unsafe_code)]

mod admin;
mod clock;
mod committed_log;
mod config;
mod log_queue;
mod node;
mod start;
mod sync;
mod threads;
mod transport;
mod wait;

pub use admin::SettingError;
pub use committed_log::CommittedLog;
pub use config::{NodeConfig, NodeError, TlsConfig};
pub use log_queue::LogQueue;
pub use node::Node;
pub use transport::{
    CallSource, ClockOffset, CommandConnection, CommandHandler, CompressionChoice,
    CompressionStatus, LinkStatus, LogRateLimit, galera, oldest_of_fullest_address,
};
pub use wait::{Pending, WaitResult};

pub use synod_certify::{Class, Fingerprint, KeySet, KeyType};
pub use synod_consensus::{
    CommitRegions, ForceError, GroupId, GroupSetting, GroupSettings, LeaderPreference,
    LeaderWeight, Limits, LogIndex, MemberId, Origin, RoleName, Seqno, SessionId, Term, Timing,
    VersionRange, Writers,
};
pub use synod_log::{
    Behind, DatabaseLack, DatabaseRecord, DatabaseRecordError, DatabaseRecordFile, DoubtfulStreams,
    ExecutingStatement, LogOptions, PAYLOAD_BYTES_MAX, RealFiles, SEGMENT_BYTES_MAX, STREAMS_MAX,
    replace_file, shows_other_data,
};
pub use synod_member::{
    Action, ApplyOutcome, CommitWait, CommitWaitStatus, Consequence, DataChunk, DatabasePosition,
    DatabaseStatus, DecisionSearch, Delivery, DonorRequest, Election, FollowError, Followed,
    FollowedAction, Follower, FullLogPolicy, Host, InconsistencyPolicy, LeaderPlacement, Level,
    LiveSetting, LogHold, MemberConfig, MemberPresence, MemberStatus, NodeStatus, NotFetched,
    OpenError, OrderedAction, OutcomeDecision, OwnLogTimes, PaceStatus, PayloadError, Presence,
    ProposalResult, QuorumLossPolicy, Remedy, Setting, StartMode, StateTransferEvent,
    SurvivorStatus, Topic, View, ViewMember, VoterPolicy, WaitPolicy, WritePermission,
};
pub use synod_tls::{
    Credentials, GroupSecret, SecretFile, TlsError, TlsFiles, TlsSettingNames, names_tls13_suite,
};
pub use synod_wire::{
    Command, CommandRefusal, DataState, Done, OUR_VERSIONS, RefusalReason, Region, RegionError,
    SurvivorReport,
};
