//! A model of Synod's protocol, small enough that a checker visits every state it can reach.
//!
//! It is written after the rules of `docs/protocol.md`, not after the code: elections, replication,
//! disks that lose what was not synced, changes of one voter at a time, and origins that count
//! acknowledgements themselves. The simulator runs the production code through random schedules;
//! this crate runs the rules through all of them, within very small bounds.
//!
//! - [`Group`]: the model, a [`stateright::Model`] with [`Bounds`] and perhaps a [`Mistake`].
//! - [`State`]: the state of all members, and the messages that they have sent.
//! - [`check`]: runs the checker.
//!
//! # The network
//!
//! Messages may be lost, doubled and overtake each other. So a message once sent may be taken at
//! any later time, any number of times, or never. A few facts say what was ever sent: the log that
//! a term's leader has sent, and the position up to which each member has acknowledged it. [`Term`]
//! holds those facts instead of a heap of messages, which keeps the space finite and small.
//!
//! # The disk
//!
//! Every member has its log, term and vote twice: in memory and on disk. A step changes memory; a
//! sync makes the disk equal to memory; a crash makes memory equal to the disk. Messages state what
//! the disk has, except that a leader sends entries before its own sync. A sync that stores only
//! the first of several writes needs no step of its own: it is the same as a sync between the
//! writes.
#![forbid(unsafe_code)]

mod bounds;
mod checking;
mod group;
mod log;
mod mistake;
mod properties;
mod rules;
mod state;
mod symmetry;
mod voters;

pub use bounds::{Bounds, BoundsError};
pub use checking::{Limits, Order, Outcome, Way, check};
pub use group::{Group, Step};
pub use log::{Entry, Kind, Log};
pub use mistake::Mistake;
pub use state::{Broken, Disk, Left, Member, Role, Settled, State, Term};
pub use voters::Voters;
