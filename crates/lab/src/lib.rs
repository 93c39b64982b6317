//! The lab: groups of real servers on emulated networks, measured beside other systems.
//!
//! Everything runs on this machine. What is measured, and everything that is needed to judge it,
//! is one document: [`results`].
//!
//! The lab is not part of `libsynod.so`. Clocks, threads and waiting are allowed here.

#![forbid(unsafe_code)]

pub mod results;
pub mod statistics;
pub mod workload;
