//! What `SHOW STATUS LIKE 'wsrep_%'` shows.
//!
//! - [`variables`]: the table of all status variables, with the text of each. A new variable goes
//!   there; `docs/status.md` is written from it;
//! - `gather`: collects the values of one `SHOW STATUS` from the node and the connection;
//! - `counters`, `latency`: what is counted and measured in this crate.

pub(crate) mod counters;
pub(crate) mod gather;
pub(crate) mod latency;
pub mod variables;

pub use variables::LocalState;
