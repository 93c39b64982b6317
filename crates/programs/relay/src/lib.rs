//! `synod relay`: a member without a database that serves the group's log as a binlog.
//!
//! It is a logger, a learner unless its file says otherwise, and speaks the replication protocol of
//! MariaDB as a primary does. It stores nothing besides the log: what a reader gets is a function
//! of the log alone, so every relay of a group gives the same transactions the same GTIDs, and a
//! reader may change relays at any time.
//!
//! - [`config`]: its file; [`accounts`]: who may read; [`encryption`]: TLS to them; `identity`:
//!   domain and server of the GTIDs;
//! - `source`: from the log to transactions;
//! - `protocol`: packets, greeting, questions and answers;
//! - `admission`: callers, until they have proven a password;
//! - `reader`: one connection, from there to its dump; `request`: what it asks for; `dump`:
//!   the events, as they come; `clash`: whose number a reader may not have;
//! - `permits`, `pace`: how many late readers are served at a time;
//! - `excerpt`: what errors repeat of a text of others;
//! - `service`: the socket, and a thread for each reader; `seats`: the connected readers;
//! - `kept`, `pull`, `upstream_service`: the binlog of an upstream, in a group of relays;
//!   `backoff`: when to try again there; `sightings`, `readers_order`: readers that are registered
//!   there; `trouble`: what keeps its transactions away, and for how long.
//!
//! Invariants: a reader gets each transaction once, in the order of the group, and only what is
//! committed. A reader costs a thread, one buffer, and one action's largest event in memory.
#![forbid(unsafe_code)]

pub mod accounts;
mod admission;
mod backoff;
pub mod config;
mod dump;
mod duplicate_server_id;
pub mod encryption;
mod excerpt;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod late_reader;
mod late_reader_permits;
mod listening;
mod protocol;
mod pull;
mod reader;
mod reader_place;
mod reader_positions;
mod reader_registry;
mod readers_order;
mod request;
mod service;
mod source;
#[cfg(test)]
mod testing;
mod trouble;
mod upstream_log;
mod upstream_service;
pub mod upstream_settings;

pub use synod_binlog::MysqlGtidSet;
pub use synod_node::StartMode;

pub use config::{RelayConfig, RelayConfigError};
pub use service::run;
