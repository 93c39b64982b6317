//! Values of `SHOW STATUS LIKE 'wsrep_%'`. A new variable goes into the table in [`variables`];
//! `docs/status.md` is written from it.

pub(crate) mod conflicts;
pub(crate) mod counters;
pub mod inputs;
pub(crate) mod latency;
pub mod variables;

pub use inputs::LocalState;
pub use variables::markdown_tables;
