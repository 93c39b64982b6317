//! Getting the leader's log onto the disks of the members.
//!
//! [`leader`] appends, sends and counts acknowledgements. [`follower`] takes entries over and
//! acknowledges what its disk holds. [`progress`] is what the leader knows of one other member.
//! [`lease`] is until when the leader may count on the others' promises.
//! Entries only ever come from the leader of the current term (Raft, section 5.3).

mod follower;
pub(crate) mod leader;
mod lease;
pub(crate) mod progress;
