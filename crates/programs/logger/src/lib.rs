//! `synod logger`: a voter with a log and no database.
//!
//! It is the same member as a server's, with another host: it stores, acknowledges and serves the
//! log, votes, and certifies while it leads, which it does only while no server is fit. So two
//! servers and a logger survive the loss of any one of them.
#![forbid(unsafe_code)]

mod commands;
pub mod config;
pub mod directory;
pub mod host;
mod keys;
pub mod output;
mod run;
mod signals;

pub use config::{ConfigError, LoggerConfig};
pub use run::{LoggerError, Service, run, run_with};
