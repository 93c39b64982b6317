//! Harness of the end-to-end tests: a cluster of real servers per test program, load whose
//! results are recorded, and checks afterwards.
//!
//! ```text
//! make e2e e2e-long                 all test programs, with `make build` before
//! scripts/run-e2e faults/crash      one file of a program (needs root or a servers' user)
//! ```
//!
//! - [`place`]: where libraries, programs and data are; how long the loads run.
//! - [`harness`]: the shared cluster of a test program; scenarios run one after the other.
//! - [`acknowledged_writes`]: clients that insert rows and record the answers; a check that the
//!   tables hold every acknowledged row and no refused one.
//! - [`read_your_writes`]: clients that read right after answers to others; how many reads missed
//!   what was acknowledged before.
//! - [`agreement`]: a check that all nodes hold the same tables, definitions and accounts.
//! - [`sysbench`]: the standard load. [`checked_loads`]: the lab's loads, with their checks.
//! - [`small_disk`]: a file system that a test may fill. [`hanging_disks`]: directories of servers
//!   in which nothing can be written for a while, or slowly. A disk that can lose its power is the
//!   lab's (`synod_lab::disk`).
//! - `leftovers`: removes the clusters of test programs that have ended.
//! - [`drill`]: the commands of the manual's drills. [`doctor`]: what `synod doctor` finds.
//! - [`agent_process`]: an agent beside a server. [`browser`]: a browser without a window.
//!   [`dashboard`]: the agent's page in that browser, with what a group does meanwhile.
//! - [`monitor`]: tools that know Galera. [`prometheus`]: Prometheus with the packaged rules.
//! - [`packaged_proxy`]: HAProxy with the settings of `packaging/kubernetes`.
//! - [`machines`]: servers that change from Galera to Synod and back. [`live_migration`]: two sides
//!   between which clients move. [`migration_relays`]: the relays between them.
//! - [`certificates`]: those of the manual.
//! - [`logger`]: a logger beside a cluster. [`usage`]: processor time and memory of a process.
//! - [`stock_server`]: a server outside any group. [`replica`]: one that replicates from a relay.
//! - [`mysql_server`]: one of MySQL, where that is installed. [`mysql_group`]: three of them in a
//!   group, by the plugin. [`mysql_clients`]: clients that follow its writer, and a check of rows.
//!   `administrator`: what servers outside groups do for tests.
//! - [`pull`]: a reader of such a server's binlog, as a relay is one.
//! - [`relay_group`]: relays that keep such a server's binlog. [`relays_under_load`]: three of them
//!   with clients and readers, for faults. [`dice`]: chance that a seed repeats.
//! - [`relay`]: a relay beside a cluster. [`readers`]: programs for change data capture, and the
//!   clients of `examples`.
//!
//! Every wait is for a condition and has a bound. Servers die with the test program, however it
//! ends.

#![forbid(unsafe_code)]

pub mod acknowledged_writes;
mod administrator;
pub mod agent_process;
pub mod agreement;
pub mod browser;
pub mod certificates;
pub mod checked_loads;
pub mod dashboard;
pub mod dice;
pub mod doctor;
pub mod drill;
pub mod failure;
pub mod hanging_disks;
pub mod harness;
mod leftovers;
pub mod live_migration;
pub mod logger;
pub mod machines;
pub mod migration_relays;
pub mod monitor;
pub mod mysql_clients;
pub mod mysql_group;
pub mod mysql_server;
pub mod packaged_proxy;
pub mod place;
pub mod ports;
pub mod programs;
pub mod prometheus;
pub mod pull;
pub mod read_your_writes;
pub mod readers;
pub mod relay;
pub mod relay_group;
pub mod relays_under_load;
pub mod replica;
pub mod small_disk;
pub mod stock_server;
pub mod sysbench;
pub mod usage;

pub use failure::{Failure, Outcome, Why, ensure, ensure_says, exit_code};
pub use harness::{Shared, TestCluster};
