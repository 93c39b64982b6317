//! The transport, as the driver reaches it: the driver's [`Network`].
//!
//! Every call returns at once. Messages leave at the end of the turn ([`Transport::end_turn`]).
//! Messages to members without a connection are lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_consensus::{GroupId, MemberId};
use synod_member::{KnownPeer, Network};
use synod_wire::PeerMessage;

use super::Transport;

/// A handle to the transport.
pub(crate) struct DriverNetwork(pub(crate) Arc<Transport>);

impl Network for DriverNetwork {
    fn send(&self, to: MemberId, message: PeerMessage) {
        self.0.send_in_turn(to, None, message);
    }

    fn send_over(&self, to: MemberId, connection: u64, message: PeerMessage) {
        self.0.send_in_turn(to, Some(connection), message);
    }

    fn knows(&self, member: MemberId) -> bool {
        self.0.knows(member)
    }

    fn connect(&self, member: MemberId, address: &str) {
        self.0.connect(member, address);
    }

    fn keep_only(&self, wanted: &dyn Fn(MemberId) -> bool) {
        self.0.keep_only(wanted);
    }

    fn set_known(&self, known: &BTreeMap<MemberId, KnownPeer>) {
        self.0.set_known(known);
    }

    fn set_group(&self, group: GroupId) {
        self.0.set_group(group);
    }

    fn stop_seeking(&self) {
        self.0.stop_discovery();
    }
}
