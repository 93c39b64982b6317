//! Whole groups in one deterministic process, with injected faults.
//!
//! The production code of `synod-consensus`, `synod-log` and `synod-certify` runs here with network,
//! disks, clocks and scheduling replaced. One seed decides everything: who takes part, options,
//! workload, which faults are on, and each event. `docs/simulation.md` says which lines of the commit
//! path are production's and how to use this.
//!
//! ```
//! let options = synod_sim::options_of(1);
//! let passed = synod_sim::run(1, options, false).unwrap();
//! assert!(passed.committed > 0);
//! ```
#![forbid(unsafe_code)]

mod action;
mod clients;
mod clock;
mod deeds;
mod driver;
mod flavour;
mod forced;
mod harm;
mod image;
mod invariants;
mod member;
mod net;
mod options;
mod peers;
mod programs;
mod report;
mod run;
mod scenes;
mod server;
mod storage;
mod trace;
mod trouble;
mod world;

pub use options::{Fault, Options, OptionsError, Workload};
pub use report::{Coverage, Failed, Passed};
pub use run::{options_of, run};
pub use scenes::Scene;
pub use trace::{MessageKind, Note, Text, What};
