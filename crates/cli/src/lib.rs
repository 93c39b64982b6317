//! The parts of the `synod` program.
//!
//! - [`demo`]: the commands `synod demo …`, their progress and their texts.
//! - [`keygen`]: `synod keygen`, which makes a group secret.
//! - [`log_tool`]: the commands `synod log …`, which read a durable log offline.
//! - [`sst_config`]: `synod sst-config`, what encrypted full copies (SST) need.
//!
//! Real clocks and waiting are allowed here (and nowhere below `node`). Every wait is for a
//! condition and has a limit.

#![forbid(unsafe_code)]

pub mod demo;
pub mod keygen;
pub mod log_tool;
pub mod sst_config;
