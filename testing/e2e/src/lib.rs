//! Harness of the end-to-end tests: a cluster of real servers per test program, load whose
//! outcome is recorded, and the questions asked afterwards.
//!
//! - [`place`]: where libraries, programs and data are; how long the loads run.
//! - [`harness`]: the shared cluster of a test program; scenarios run one after the other.
//! - [`oracle`]: clients that insert rows and remember what they were told.
//! - [`agreement`]: do all nodes hold the same?
//! - [`sysbench`], [`tpcc`]: loads made by others.
//! - [`usage`]: processor time and memory of a server.
//!
//! Every wait is for a condition and has a bound. Servers die with the test program, however it
//! ends.

#![forbid(unsafe_code)]

pub mod agreement;
pub mod failure;
pub mod harness;
pub mod monitor;
pub mod oracle;
pub mod place;
pub mod sysbench;
pub mod tpcc;
pub mod usage;

pub use failure::{Failure, Outcome, Why, ensure};
pub use harness::{Shared, TestCluster};
