//! The interfaces through which a driver acts: the network, its disk, and an observer. A node
//! implements them with threads and sockets, the simulator with virtual ones. No method here may
//! wait: what takes time answers later, by an [`crate::Event`].

use std::collections::BTreeMap;

use synod_consensus::{Core, Effect, GroupId, MemberId};
use synod_wire::PeerMessage;

use crate::read_for_peer::ReadForPeer;
use crate::storage::Job;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownPeer {
    /// Subject of the certificate that the member is bound to: a connection in its name has to show
    /// that one. None if it is bound to none.
    pub certificate: Option<String>,
    /// Subjects that a connection in the name of a member that is bound to none may not show: other
    /// members are bound to them.
    pub taken: Vec<String>,
}

pub trait Network: Send {
    /// Sends a message, if the member is known and reachable; otherwise the message is lost.
    fn send(&self, to: MemberId, message: PeerMessage);
    /// Like [`Network::send`], but only over this connection (see [`crate::Event::LinkUp`]). If the
    /// connection is lost, so is the message: it never arrives without those sent before it.
    fn send_over(&self, to: MemberId, connection: u64, message: PeerMessage);
    /// Whether there is a connection to this member, or the network tries to make one.
    fn knows(&self, member: MemberId) -> bool;
    /// Makes a connection to this member at this address, and keeps it up from now on.
    fn connect(&self, member: MemberId, address: &str);
    /// Drops connections to members that are neither wanted nor connected to this one.
    fn keep_only(&self, wanted: &dyn Fn(MemberId) -> bool);
    /// The members that may exchange messages with this one from now on. All others are unknown.
    fn set_known(&self, known: &BTreeMap<MemberId, KnownPeer>);
    fn set_group(&self, group: GroupId);
    /// The group is found: the search for it ends, and one for others of its name begins.
    fn stop_seeking(&self);
}

/// The member's own disk. Writes are done in the order in which they were asked for.
pub trait Disk: Send {
    /// Hands a job to [`crate::Storage`]. The answer is [`crate::Event::Persisted`] or
    /// [`crate::Event::StorageFailed`].
    fn write(&self, job: Job);
    /// Hands over a read for [`ReadForPeer::answer`], to be dropped after that. Few are outstanding
    /// at a time. Reads must not delay writes.
    fn read(&self, request: ReadForPeer);
}

/// Sees the effects that the core asks for, before they are done. For checkers.
pub trait Observer: Send {
    fn effect(&mut self, core: &Core, effect: &Effect);
}
