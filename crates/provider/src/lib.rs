//! `libsynod.so`: a wsrep provider that a stock MariaDB server loads.
//!
//! ```text
//!   mariadbd ──C table──► boundary ──ProviderApi──► provider ──► node
//!            ◄─callbacks─ boundary ◄──Callbacks───
//! ```
//!
//! [`boundary`] is the only module with unsafe code: it turns pointers into safe values, catches
//! panics and fences the node after one. [`api`] says what a provider is. [`options`], [`status`] and
//! [`grastate`] are what operators and tools see of it.
#![deny(unsafe_code)]

pub mod api;
mod applier;
pub mod boundary;
mod capabilities;
mod causal_read;
mod connection;
mod counters;
mod donation;
mod ending;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod grastate;
mod joining;
mod latency;
mod local;
mod node_events;
pub mod options;
mod position;
pub mod provider;
mod sequence;
mod settings;
pub mod status;
mod status_inputs;
mod stream;
mod stream_ends;
mod total_order;
mod transaction;
mod voting;
mod write_set;

// Whatever else is built at the same time: no bug is ever planted in what servers load.
const _: () = assert!(
    !synod_planted::ENABLED,
    "libsynod.so must be built without the feature 'planted'"
);
