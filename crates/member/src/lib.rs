//! A group member without threads, sockets, or a clock of its own.
//!
//! Consensus, log, certification and messages joined into one member: everything that decides. What
//! takes time or comes from outside is left to whoever runs it: `synod-node` with threads and
//! sockets, `synod-sim` with simulated ones. Nothing here waits, draws random numbers, or looks at a
//! clock: equal inputs give equal deeds.
//!
//! | part          | does                                                        | one caller at a time |
//! |---------------|-------------------------------------------------------------|----------------------|
//! | [`Driver`]    | all protocol state; [`Event`]s in, [`Network`] and [`Disk`] out | yes              |
//! | [`Storage`]   | writes the log, syncs                                       | yes                  |
//! | [`Deliverer`] | hands committed entries to the [`Host`], in order           | yes                  |
//! | [`CatchUp`]   | reads old entries for members far behind                    | no                   |
//! | [`Shared`]    | what the others see of the driver                           | no                   |
//!
//! ```text
//! let mut opened = open_log(...)?;
//! let start = Start::new(config, tuning, mode, drawn, &mut opened, &host, now)?;
//! let mut driver = Driver::new(start, links, now);
//! driver.begin(now);
//! loop {
//!     // until an event comes or driver.wake_at():
//!     driver.handle(now, event);
//!     driver.turn(now);
//! }
//! ```
#![forbid(unsafe_code)]

mod catch_up;
mod certification;
mod client;
mod config;
mod deliver;
mod driver;
mod entry_cache;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod io;
mod open;
mod outcome;
mod payload;
mod session_history;
mod setting;
mod shared;
mod snapshots;
mod start;
mod storage;
mod tuning;

pub use catch_up::CatchUp;
pub use client::{Client, ProposalResult, ResultSlot, WaitPolicy, Waiter};
pub use config::{DatabasePosition, MemberConfig, StartMode};
pub use deliver::{DeliverError, Delivered, Deliverer};
pub use driver::{
    ConfigRequest, Driver, DriverLinks, Event, ForceDone, LeaderContact, LeaderTransferRequest,
    LeaveDone, Load, Me, OperatorRefusal, OperatorReply, QuorumLossPolicy, ReadDone, Reply,
    Submission,
};
pub use host::{Delivery, DonorRequest, Host, Level, MemberStatus, StateTransferEvent};
pub use io::{Disk, Network, Observer};
pub use open::{OpenError, open_log};
pub use outcome::{ApplyOutcome, InconsistencyPolicy};
pub use payload::action::{
    Action, ActionPiece, Chunk, ChunkSplitter, Part, PayloadError, Piece, split_into_chunks,
};
pub use payload::decision::{DecisionSearch, MemberOutcome, OutcomeDecision};
pub use payload::discard::{Discard, PartialActionId};
pub use payload::view::{View, ViewMember};
pub use session_history::sessions_between;
pub use setting::Setting;
pub use shared::{NodeStatus, Shared, lock};
pub use snapshots::Snapshot;
pub use start::{Start, StartEntropy, StartError};
pub use storage::{IDLE, Job, Retain, Storage};
pub use tuning::Tuning;
