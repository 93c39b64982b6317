//! The parts of the `synod` program that tests use too.
//!
//! - [`cluster`]: a group of MariaDB servers on this machine, in one directory of its own: create,
//!   start, kill, wipe, ask. The demo and the end-to-end tests are both built on it.
//! - [`demo`]: the commands `synod demo …`, their progress and their texts.
//! - [`log_tool`]: the commands `synod log …`, which read a durable log offline.
//!
//! Real clocks and waiting are allowed here (and nowhere below `node`); every wait is for a
//! condition and has a bound.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod demo;
pub mod log_tool;
