//! The parts of the `synod` program. Real clocks and waiting are allowed here (and nowhere below
//! `node`). Every wait is for a condition and has a limit.

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
