//! Programs of different ages in one group: there is only one protocol version yet, so the newer program is one
//! that claims to speak the next one, too. Messages are encoded as in version 1 between all of them.

use synod_consensus::{MemberId, VersionRange};

use crate::member::Node;
use crate::options::Fault;
use crate::trace::What;
use crate::world::World;

/// The program that came first.
pub(crate) const OLD: VersionRange = VersionRange { min: 1, max: 1 };
/// Its successor.
pub(crate) const NEW: VersionRange = VersionRange { min: 1, max: 2 };

impl World {
    /// The program that a new member begins with. A group is founded by the old one.
    pub(crate) fn draw_versions(&mut self) -> VersionRange {
        match self.options.has(Fault::Versions) && !self.nodes.is_empty() && self.chance(0.8) {
            true => NEW,
            false => OLD,
        }
    }

    /// A member's program is replaced by an older or a newer one, and it is started again.
    pub(crate) fn change_version(&mut self) {
        let there = |(_, node): &(&MemberId, &Node)| !node.gone;
        let all = self.nodes.iter().filter(there);
        let (old, new): (Vec<_>, Vec<_>) = all.partition(|(_, node)| node.versions == OLD);
        let ids = |of: Vec<(&MemberId, &Node)>| of.into_iter().map(|(id, _)| *id).collect();
        let (old, new): (Vec<MemberId>, Vec<MemberId>) = (ids(old), ids(new));
        // Upgrades get done, in the end.
        let versions = match self.chance(0.7) && !old.is_empty() {
            true => NEW,
            false => OLD,
        };
        let Some(id) = self.pick(if versions == NEW { &old } else { &new }) else {
            return;
        };
        self.hit(id, Fault::Versions);
        let before = std::mem::replace(&mut self.node_mut(id).versions, versions);
        let name = match before.max.cmp(&versions.max) {
            std::cmp::Ordering::Less => "upgrade",
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => "downgrade",
        };
        self.coverage.count(name);
        self.note(id, What::Operator { name });
        if self.is_up(id) {
            self.end_process(id);
        }
        self.restart_later(id);
    }

    /// Everybody gets the newest program; whoever runs another one is stopped for that.
    pub(crate) fn finish_upgrade(&mut self) {
        if !self.has(Fault::Versions) {
            return;
        }
        let is_old = |id: &MemberId| self.node(*id).versions != NEW;
        let old: Vec<MemberId> = self.nodes.keys().copied().filter(is_old).collect();
        for id in old {
            self.node_mut(id).versions = NEW;
            if self.is_up(id) {
                self.end_process(id);
            }
        }
    }
}
