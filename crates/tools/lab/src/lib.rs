//! The lab: groups of real servers on emulated networks, measured beside other systems.
//!
//! Everything runs on this machine. Hosts are network namespaces ([`hosts`]); a process between
//! them delays, limits and cuts packets ([`router`], [`topology`]). The servers of each system run
//! on these hosts ([`systems`]) and take turns ([`mod@bench`]), or fail under load ([`certify`]).
//! The measurements, and everything
//! that is needed to judge them, are one document: [`results`].
//!
//! The lab is not part of `libsynod.so`. Clocks, threads and waiting are allowed here. Whatever it
//! makes carries its name, and is removed by that name: [`hosts::place`].

#![forbid(unsafe_code)]

pub mod bench;
pub mod certify;
pub mod command;
pub mod disk;
mod error;
pub mod hosts;
mod interrupt;
pub mod meters;
pub mod network;
pub mod report;
pub mod results;
pub mod router;
pub mod statistics;
pub mod systems;
mod tools;
pub mod topology;
pub mod workload;

pub use error::{LabError, Result};
