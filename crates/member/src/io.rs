//! What a member reaches the world through. Nothing here may wait: what takes time answers later, by
//! an [`crate::Event`].

use synod_consensus::{Core, Effect, GroupId, MemberId};
use synod_wire::PeerMessage;

use crate::catch_up::CatchUp;
use crate::storage::Job;

/// The other members.
pub trait Network: Send {
    /// Sends a message, if the member is known and reachable; otherwise it is lost.
    fn send(&self, to: MemberId, message: PeerMessage);
    /// As [`Network::send`], but only over this connection (see [`crate::Event::LinkUp`]): what was
    /// meant for it does not overtake what got lost with it.
    fn send_over(&self, to: MemberId, connection: u64, message: PeerMessage);
    /// Whether there is, or is to be, a connection to this member.
    fn knows(&self, member: MemberId) -> bool;
    /// Keeps a connection to this member from now on, at this address.
    fn connect(&self, member: MemberId, address: &str);
    /// Drops connections to members that are neither wanted nor connected to this one.
    fn keep_only(&self, wanted: &dyn Fn(MemberId) -> bool);
    /// This member belongs to a group from now on.
    fn set_group(&self, group: GroupId);
    /// The group is found.
    fn stop_seeking(&self);
}

/// The member's own disk. What is asked for is done in the order in which it was asked.
pub trait Disk: Send {
    /// For [`crate::Storage`]; answered by [`crate::Event::Persisted`] or
    /// [`crate::Event::StorageFailed`].
    fn write(&self, job: Job);
    /// For [`CatchUp::answer`]; to be dropped after that. Few are outstanding at a time. Has a way to the disk that delays no write.
    fn read(&self, request: CatchUp);
}

/// Sees what the protocol asks for, before it is done. For checkers.
pub trait Observer: Send {
    /// The core asks for this.
    fn effect(&mut self, core: &Core, effect: &Effect);
}
