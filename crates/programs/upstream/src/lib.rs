//! A client of a primary outside the group, MariaDB or MySQL, which pulls its binlog once, as a
//! replica does.
//!
//! ```text
//! Upstream::connect ──► questions of a replica, registration, dump
//! Upstream::next    ──► Part, Part, Heartbeat, Rotated, ..
//! UpstreamHandle    ──► acknowledge (semi-synchronous), stop; from any thread
//! ```
//!
//! - [`config`], [`position`], [`filter`]: what is asked for;
//! - [`incoming`]: what comes; [`error`]: why nothing comes;
//! - `session`, `questions`, `mysql_questions`: before the dump;
//! - `dump`: its packets; `stream`: from events to parts;
//! - `upstream`, `handle`: the two ends that callers have; `protocol`: packets and encryption.
//!
//! Invariants: events come in the order of the upstream's binlog, with their bytes unchanged but
//! for checksums, filters, what MariaDB writes otherwise than MySQL, and a bit that older versions
//! do not write; only events whose checksum was right; a transaction begins with its GTID and ends
//! with its commit. One part and one event are in memory at a time.

#![forbid(unsafe_code)]

pub mod config;
mod dump;
pub mod error;
pub mod filter;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod handle;
pub mod incoming;
mod mysql_questions;
mod password;
pub mod position;
mod protocol;
mod questions;
mod session;
mod stream;
mod upstream;

pub use config::{UpstreamAddress, UpstreamConfig, UpstreamEncryption};
pub use error::{Corruption, Obstacle, Stopped, UpstreamError};
pub use filter::{Filter, TablePattern, TablePatternError};
pub use handle::UpstreamHandle;
pub use incoming::{Incoming, Kind, NotWholeRows, Part};
pub use position::{FilePosition, Held, MysqlPosition, Position};
pub use upstream::Upstream;
