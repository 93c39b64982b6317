//! Programs of different versions in one group, and operators who hold the group's version.
//!
//! The old program is the present one, and the new one speaks one version more. On the wire that is
//! the same as the one before.

use synod_consensus::{MemberId, VersionRange};
use synod_wire::{Command, OUR_VERSIONS};

use crate::member::Node;
use crate::options::Fault;
use crate::trace::What;
use crate::world::World;

const OLD: VersionRange = OUR_VERSIONS;
const NEW: VersionRange = VersionRange {
    min: OLD.min,
    max: OLD.max + 1,
};

impl World {
    /// The versions that a new member's program speaks. In a mixed group the old program is the
    /// founder's.
    pub(crate) fn draw_versions(&mut self) -> VersionRange {
        let is_mixed = self.options.has(Fault::Versions);
        if is_mixed && !self.nodes.is_empty() && !self.chance(0.2) {
            NEW
        } else {
            OLD
        }
    }

    /// An operator replaces a member's program by an older or a newer one, and restarts the member.
    pub(crate) fn change_version(&mut self) {
        let is_present = |(_, node): &(&MemberId, &Node)| !node.gone;
        let all = self.nodes.iter().filter(is_present);
        let (old, new): (Vec<_>, Vec<_>) = all.partition(|(_, node)| node.versions != NEW);
        let ids = |of: Vec<(&MemberId, &Node)>| of.into_iter().map(|(id, _)| *id).collect();
        let (old, new): (Vec<MemberId>, Vec<MemberId>) = (ids(old), ids(new));
        // Upgrades are more frequent, so that they are complete in the end.
        let versions = if self.chance(0.7) && !old.is_empty() {
            NEW
        } else {
            OLD
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

    /// An operator holds the group's version, raises it, or lets it rise by itself. A refusal is no
    /// fault.
    pub(crate) fn order_version(&mut self) {
        let up = self.up();
        let Some(id) = self.pick(&up) else { return };
        let present = self.core(id).config().config.protocol;
        let (newer, force) = (present + 1, self.chance(0.5));
        let orders = [Some(present), Some(present), Some(newer), None];
        let Some(version) = self.pick(&orders) else {
            return;
        };
        let name = match version {
            Some(version) if version == present => "hold the version",
            Some(_) => "raise the version",
            None => "release the version",
        };
        self.coverage.count(name);
        self.note(id, What::Operator { name });
        self.checks.ordered_versions.extend(version);
        self.command(id, Command::SetProtocol { version, force });
    }

    /// All members get the new program; a member that runs the old one is stopped first.
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
