//! `synod relay`: a member without a database that serves the group's log as a binlog.
//!
//! A relay is a logger, a learner unless its file says otherwise, and speaks the replication
//! protocol of MariaDB as a primary does. It stores nothing besides the log: what a reader gets is
//! a function of the log alone, so every relay of a group gives the same transactions the same
//! GTIDs, and a reader may change relays at any time.
//!
//! - [`config`]: its file; [`accounts`]: who may read; [`encryption`]: TLS to them;
//! - `service`: the socket; `admission`: callers, until they have proven a password; `reader`: one
//!   connection, from there to its dump; `request`: what it asks for; `dump`: the events, as they
//!   come; `readers`: all that are connected; `late_reader`: how many late ones at a time;
//! - `protocol`: packets, greeting, questions and answers;
//! - `source`: from the log of a group to transactions;
//! - `upstream_log`, `pull`, `upstream_service`: the binlog of an upstream, in a group of relays;
//!   `registered_readers`: readers whose places are held there.
//!
//! Invariants: a reader gets each transaction once, in the order of the group, and only what is
//! committed. A reader costs a thread, one buffer, and one action's largest event in memory.
#![forbid(unsafe_code)]

pub mod accounts;
mod admission;
pub mod config;
mod dump;
pub mod encryption;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod late_reader;
mod protocol;
mod pull;
mod reader;
mod readers;
mod registered_readers;
mod request;
mod service;
mod source;
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
