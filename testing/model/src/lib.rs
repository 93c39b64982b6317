//! A model of Synod's protocol, small enough that a checker visits every state it can reach.
//!
//! It is written after the rules of `docs/protocol.md`, not after the code: elections, replication,
//! disks that forget what was not synced, changes of one voter at a time, and origins that count
//! acknowledgements themselves. The simulator runs the production code through random schedules; this
//! runs the rules through all of them, at bounds one can count on one's fingers.
//!
//! - [`Group`]: the model, a [`stateright::Model`] with [`Bounds`] and perhaps a [`Mistake`].
//! - [`State`]: what all members know, and what they have ever said to each other.
//! - [`check`]: runs the checker.
//!
//! # The network
//!
//! Messages may be lost, doubled and overtake each other. So a message once sent may be taken at any
//! later time, any number of times, or never; and what was ever sent can be told from a few facts: the
//! log that a term's leader sent from, and how far each member has said that its copy is durable.
//! [`Term`] holds those facts instead of a heap of messages, which keeps the space finite and small.
//!
//! # The disk
//!
//! Every member has its log, term and vote twice: in memory and on disk. A step changes memory; a flush
//! makes the disk equal to memory; a crash makes memory equal to the disk. What a member says to others
//! it says from what the disk has, except that a leader sends entries before its own flush. That a
//! flush may also store only the first of several writes needs no step of its own: it is the same as a
//! flush between the writes.
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
