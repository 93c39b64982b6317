//! The parts of the `synod` program.
//!
//! - [`agent`]: `synod agent`, health checks and metrics over HTTP.
//! - [`operate`]: commands for the servers of a group: `synod status`, `member`, `why`, …
//! - [`completion`]: `synod completion`, for shells.
//! - [`copy`]: `synod copy`, whether a server's data are used or replaced.
//! - [`demo`]: the commands `synod demo …`, their progress and their texts.
//! - [`doctor`]: `synod doctor`, what stands between a server and a group.
//! - [`keygen`]: `synod keygen`, which makes a group secret.
//! - [`log_tool`]: the commands `synod log …`, which read a durable log offline.
//! - [`logger`]: `synod logger`, a voter with a log and no database.
//! - [`manual`]: `synod manual`, the manual pages.
//! - [`relay`]: `synod relay`, a member that serves the group's log as a binlog.
//! - [`sst_config`]: `synod sst-config`, what encrypted full copies (SST) need.
//! - [`table`]: tables of text.
//!
//! Real clocks and waiting are allowed here (and nowhere below `node`). Every wait is for a
//! condition and has a limit.

#![forbid(unsafe_code)]

pub mod agent;
pub mod completion;
pub mod copy;
pub mod demo;
pub mod doctor;
pub mod keygen;
pub mod log_tool;
pub mod logger;
pub mod manual;
mod number;
pub mod operate;
pub mod relay;
pub mod sst_config;
pub mod table;
pub mod without_database;

pub use synod_admin::visible;
