//! A client of a primary outside the group, MariaDB or MySQL, which pulls its binlog once, as a
//! replica does.
//!
//! ```text
//! Upstream::connect ──► questions of a replica, registration, dump
//! Upstream::next    ──► Part, Part, Heartbeat, Rotated, ..
//! UpstreamHandle    ──► acknowledge (semi-synchronous), stop; from any thread
//! ```
//! Invariants: events come in the order of the upstream's binlog, with their bytes unchanged but
//! for checksums, filters, what MariaDB writes otherwise than MySQL, and a bit that older versions
//! do not write; only events whose checksum was right; a transaction begins with its GTID and ends
//! with its commit. One part and one event are in memory at a time.

#![forbid(unsafe_code)]

pub mod config;
pub mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod link;
mod messages;
pub mod position;
mod questions;
pub mod server;
mod session;
mod stream;
mod upstream;

pub use config::{
    Filter, TablePattern, TablePatternError, UpstreamAddress, UpstreamConfig, UpstreamEncryption,
};
pub use error::{Corruption, Obstacle, Stopped, UpstreamError};
pub use link::{PACKET_BYTES_MAX, Packet, PacketError, read_packet};
pub use messages::{CLIENT_CAPABILITIES, ClientManner};
pub use position::{FilePosition, Held, Incoming, MysqlPosition, NotWholeRows, Part, Position};
pub use upstream::{Upstream, UpstreamHandle};
