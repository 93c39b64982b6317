//! `libsynod.so`: a wsrep provider that a stock MariaDB server loads.
//!
//! ```text
//!   mariadbd ──C table──► boundary ──ProviderApi──► provider ──► connection ──► node
//!            ◄─callbacks─ boundary ◄──Callbacks───────────────── connection ◄──Host──
//! ```
//!
//! # Rooms
//!
//! | room | what is in it |
//! |---|---|
//! | [`boundary`] | C pointers to safe values and back; the only unsafe code |
//! | [`api`] | what a provider must be able to do, in safe Rust |
//! | [`options`] | `wsrep_provider_options`: the crate `options`; `docs/options.md` |
//! | `live_options` | options read on hot paths |
//! | [`provider`] | one per server: connects, changes options, reloads certificates |
//! | `connection` | one stay in the group: join, SST, disconnect, events of the node |
//! | `transaction` | this server's clients: certify, commit order, replay, streaming, TOI |
//! | `apply` | ordered actions: sequencer, applier threads, inconsistency, causal reads |
//! | [`position`] | where the database is, and `grastate.dat` |
//! | `commands` | serves the program `synod`: its socket, status, events, orders |
//! | `log_queue` | lines for the error log, and the thread that waits for its disk |
//! | `other_replication` | MariaDB's own replication beside the group |
//! | `server_program` | runs the server's own program for its settings and its position |
//! | `service_manager` | what systemd is told during a long start |
//! | [`status`] | `SHOW STATUS LIKE 'wsrep_%'`: variables, counters; `docs/status.md` |
//!
//! # One commit's way
//!
//! 1. The client's thread calls `append_key`, `append_data`, `certify` through [`boundary`].
//! 2. `transaction/certify.rs` makes an action of them and submits it to the node. The leader
//!    certifies and orders it; `certify` answers its seqno.
//! 3. `transaction/commit_order.rs` waits in `apply/sequencer` until all smaller seqnos have left
//!    the commit order. The server commits, leaves the order and releases the transaction.
//! 4. On the other servers the node delivers the action (`connection/node_events.rs`) to the queue
//!    of `apply/sequencer`. A thread in `apply/applier.rs` applies it.
//!
//! # Rules
//!
//! - Unsafe code is in [`boundary`] only. The boundary also catches panics, and fences the node
//!   after one.
//! - Names, order and types of options and status variables are Galera's, because tools parse them.
//!   Names that exist only here begin with `synod.` and `synod_`.
//! - No lock is held across a callback of the server. The lock order is written at
//!   `connection/mod.rs`.
#![deny(unsafe_code)]

pub mod api;
mod apply;
pub mod boundary;
mod commands;
mod connection;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod live_options;
mod other_replication;
pub mod position;
pub mod provider;
mod server_program;
mod service_manager;
pub mod status;
mod transaction;

pub use synod_options as options;

// Whatever else is built at the same time: no bug is ever planted in what servers load.
const _: () = assert!(
    !synod_planted::ENABLED,
    "libsynod.so must be built without the feature 'planted'"
);
