//! Ordered actions on this server: what happens to them after the group has given them a place.
//!
//! - `sequencer`: the commit order, the queue of delivered actions, what is released;
//! - `applier`: the server's applier threads, which take work from the sequencer;
//! - `failed_action_here`: an action failed here; the group decides which outcome wins;
//! - `error_kinds`: errors of actions, by their numbers;
//! - `recorded_lack`: the database has again what it lacked;
//! - `table_from_rows`: `CREATE TABLE ... SELECT`, which may be there already after a kill;
//! - `client_waits`: reads that wait for this database, commits that wait for the others.

pub(crate) mod applier;
pub(crate) mod client_waits;
mod error_kinds;
pub(crate) mod failed_action_here;
pub(crate) mod recorded_lack;
pub(crate) mod sequencer;
mod table_from_rows;
