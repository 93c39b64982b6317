//! Isolation of a group of real servers, as its clients see it, under faults.
//!
//! Clients on all servers run the transactions of a [`workload`] while faults happen ([`faults`]),
//! and record what they are told. The [`checker`] finds the anomalies in that. `README.md` in this
//! folder says how to run it, what each workload checks, and what InnoDB allows.
#![forbid(unsafe_code)]

pub mod checker;
pub mod clients;
pub mod faults;
pub mod network;
pub mod run;
pub mod workload;
