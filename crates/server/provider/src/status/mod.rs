//! Values of `SHOW STATUS LIKE 'wsrep_%'`.
//!
//! - [`variables`]: the table of all status variables, with the text of each. A new variable goes
//!   there; `docs/status.md` is written from it;
//! - [`inputs`], `gather`: the values of one `SHOW STATUS`, and how they are collected;
//! - `counters`, `latency`, `commit_steps`, `time_counts`: what is counted and measured in this
//!   crate;
//! - `conflicts`: which tables lose, for `synod conflicts`.

pub(crate) mod commit_steps;
pub(crate) mod conflicts;
pub(crate) mod counters;
mod document;
pub(crate) mod gather;
pub mod inputs;
pub(crate) mod latency;
pub(crate) mod time_counts;
pub mod variables;

pub use document::markdown_tables;
pub use inputs::LocalState;
