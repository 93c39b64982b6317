//! The rules, one file each.
//!
//! Every rule has two functions: one says whether a step is possible in a state (`may_...`), the
//! other what the step does to the state.

pub(crate) mod counting;
pub(crate) mod disk;
pub(crate) mod election;
pub(crate) mod membership;
pub(crate) mod network;
pub(crate) mod replication;
