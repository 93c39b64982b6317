//! The transport, as the driver reaches it.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_consensus::{GroupId, MemberId};
use synod_member::{KnownPeer, Network, lock};
use synod_wire::PeerMessage;

use super::Transport;

/// The connections that the driver uses. Every call returns at once. Messages leave at the end
/// of the turn ([`Transport::end_turn`]); those to members without a connection are lost.
pub(crate) struct DriverNetwork(pub(crate) Arc<Transport>);

impl Network for DriverNetwork {
    fn send(&self, to: MemberId, message: PeerMessage) {
        self.0.send_in_turn(to, None, message);
    }

    fn send_over(&self, to: MemberId, connection: u64, message: PeerMessage) {
        self.0.send_in_turn(to, Some(connection), message);
    }

    fn knows(&self, member: MemberId) -> bool {
        lock(&self.0.links).contains_key(&member)
    }

    fn connect(&self, member: MemberId, address: &str) {
        self.0.connect(member, address);
    }

    fn keep_only(&self, wanted: &dyn Fn(MemberId) -> bool) {
        lock(&self.0.links).retain(|member, link| {
            let keep = wanted(*member) || link.is_wanted_by_peer();
            if !keep {
                link.close();
            }
            keep
        });
    }

    fn set_known(&self, known: &BTreeMap<MemberId, KnownPeer>) {
        self.0.set_known(known);
    }

    fn set_group(&self, group: GroupId) {
        lock(&self.0.identity).group = group;
        // A peer of another group, or of none that is known, has to repeat the handshake.
        for link in lock(&self.0.links).values() {
            link.reset_unless(group);
        }
        self.0.connections.close_other_groups(group);
    }

    fn stop_seeking(&self) {
        self.0.group_found.notify();
    }
}
