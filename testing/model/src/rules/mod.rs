//! The rules, one file each. Every function says what one step does to the state; whether the step is
//! possible at all is decided here, too.

pub(crate) mod counting;
pub(crate) mod disk;
pub(crate) mod election;
pub(crate) mod membership;
pub(crate) mod network;
pub(crate) mod replication;
