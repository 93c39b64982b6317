//! Replication of the leader's log to the disks of the members. Entries only ever come from the
//! leader of the current term (Raft, section 5.3).

mod follower;
pub(crate) mod leader;
pub(crate) mod progress;
pub(crate) mod regions;
