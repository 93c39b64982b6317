//! `synod relay`: a member without a database that serves the group's log as a binlog.
//!
//! A relay is a logger, a learner unless its file says otherwise, and speaks the replication
//! protocol of MariaDB as a primary does. It stores nothing besides the log: what a reader gets is
//! a function of the log alone, so every relay of a group gives the same transactions the same
//! GTIDs, and a reader may change relays at any time.
//!
//! Invariants: a reader gets each transaction once, in the order of the group, and only what is
//! committed. A reader costs a thread, one buffer, and one action's largest event in memory.
#![forbid(unsafe_code)]

pub mod accounts;
mod callers;
pub mod config;
mod consequences;
mod dump;
pub mod encryption;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod late_readers;
mod one_reader_per_server_id;
mod protocol;
mod pull;
mod reader_connection;
mod registered_readers;
mod request;
mod service;
mod source;
pub mod sql;
mod stalled_reader;
#[cfg(test)]
mod testing;
mod upstream_log;
mod upstream_service;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use synod_binlog::MysqlGtidSet;
pub use synod_node::StartMode;

pub use config::{RelayConfig, RelayConfigError};
pub use service::run;

/// Locks even if a thread panicked while holding it: the values are valid at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
