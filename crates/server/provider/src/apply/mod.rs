//! Ordered actions on this server: what happens to them after the group has given them a place.
//!
//! - `sequencer`: the commit order, the queue of delivered actions, what is released;
//! - `applier`: the server's applier threads, which take work from the sequencer;
//! - `inconsistency`: an action failed here; the group decides which outcome wins;
//! - `elsewhere`: clients that wait until the other servers have applied their commits;
//! - `gate`: a place for one thread to sleep;
//! - `causal_read`: reads that wait until everything acknowledged before them is released.

pub(crate) mod applier;
mod causal_read;
pub(crate) mod commit_wait;
mod failure;
mod gate;
pub(crate) mod inconsistency;
mod lacking;
pub(crate) mod sequencer;
