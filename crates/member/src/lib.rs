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

mod action;
mod catchup;
mod client;
mod config;
mod decision;
mod deliver;
mod driver;
mod former;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod ingest;
mod opening;
mod outcome;
mod outside;
mod shared;
mod snapshots;
mod staged;
mod start;
mod storage;
mod tuning;
mod unfinished;
mod view;

pub use action::{
    Action, ActionPiece, Chunk, ChunkSplitter, Part, PayloadError, Piece, split_into_chunks,
};
pub use catchup::CatchUp;
pub use client::{Client, ProposalResult, ResultSlot, WaitPolicy, Waiter};
pub use config::{DatabasePosition, MemberConfig, StartMode};
pub use decision::{DecisionSearch, MemberOutcome, OutcomeDecision};
pub use deliver::{DeliverError, Delivered, Deliverer};
pub use driver::{
    Driver, DriverLinks, Event, ForceDone, LeaveDone, Load, Me, QuorumLossPolicy, ReadDone, Reply,
    Submission,
};
pub use former::sessions_between;
pub use host::{Delivery, DonorRequest, Host, Level, MemberStatus, StateTransferEvent};
pub use opening::{OpenError, open_log};
pub use outcome::{ApplyOutcome, InconsistencyPolicy};
pub use outside::{Disk, Network, Observer};
pub use shared::{NodeStatus, Shared, lock};
pub use snapshots::Snapshot;
pub use start::{Start, StartEntropy, StartError};
pub use storage::{IDLE, Job, Retain, Storage};
pub use tuning::Tuning;
pub use unfinished::{Discard, PartialActionId};
pub use view::{View, ViewMember};
