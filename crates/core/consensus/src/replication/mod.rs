//! Replication of the leader's log to the disks of the members.
//!
//! [`leader`] appends, sends and counts acknowledgements. [`follower`] takes entries over and
//! acknowledges those that its disk holds. [`progress`] is the leader's record of one other member.
//! Entries only ever come from the leader of the current term (Raft, section 5.3).

mod follower;
pub(crate) mod leader;
pub(crate) mod progress;
