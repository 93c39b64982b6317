//! Values of `SHOW STATUS LIKE 'wsrep_%'`.
//!
//! - [`variables`]: the table of all status variables, with the text of each. A new variable goes
//!   there; `docs/status.md` is written from it;
//! - [`inputs`]: the values of one `SHOW STATUS`, and how they are collected;
//! - `counters`, `times`, `commit_steps`: what is counted and measured in this crate;
//! - `conflicts`: which tables lose, for `synod conflicts`.

pub(crate) mod commit_steps;
pub(crate) mod conflicts;
pub(crate) mod counters;
pub mod inputs;
pub(crate) mod times;
pub mod variables;

pub use inputs::LocalState;
pub use variables::markdown_tables;
