//! `libsynod.so`: a wsrep provider that a stock MariaDB server loads.
//!
//! ```text
//!   mariadbd ──C table──► boundary ──ProviderApi──► provider ──► connection ──► node
//!            ◄─callbacks─ boundary ◄──Callbacks───────────────── connection ◄──Host──
//! ```
//!
//! `DESIGN.md` beside the crate has the way of one write set, and why not otherwise.
//!
//! # Rules
//!
//! - Unsafe code is in [`boundary`] only. The boundary also catches panics, and fences the node
//!   after one.
//! - Names, order and types of options and status variables are Galera's, because tools parse them.
//!   Names that exist only here begin with `synod.` and `synod_`.
//! - No lock is held across a callback of the server. The lock order is written at
//!   `connection/session.rs`.
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
pub mod status;
#[path = "../../../runtime/node/src/sync.rs"]
mod sync;
mod transaction;
mod waiting;

pub use synod_options as options;

// Whatever else is built at the same time: no bug is planted in what servers load, unless
// that very library is to be wrong.
#[cfg(not(test))]
const _: () = assert!(
    !synod_planted::ENABLED || cfg!(feature = "planted"),
    "libsynod.so must be built without the feature 'planted'"
);
