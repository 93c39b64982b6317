//! Programs of different versions in one group.
//!
//! The old program of a run speaks version 1, in every third run version 2, too; the new one speaks
//! version 3, too. All are the present code. What the old one sends and reads is encoded in the
//! newest version that it speaks, and what a group writes in the group's version.

use synod_consensus::{MemberId, VersionRange};
use synod_wire::OUR_VERSIONS;

use crate::member::Node;
use crate::options::Fault;
use crate::trace::What;
use crate::world::World;

/// Protocol versions that the old programs speak.
const OLD: [VersionRange; 2] = [
    VersionRange { min: 1, max: 1 },
    VersionRange { min: 1, max: 2 },
];
/// Protocol versions that their successor speaks.
const NEW: VersionRange = OUR_VERSIONS;

/// The versions that the old program of a run speaks.
pub(crate) fn old_versions(seed: u64) -> VersionRange {
    OLD[usize::from(seed.is_multiple_of(3))]
}

impl World {
    /// The versions that a new member's program speaks. In a mixed group the old program is the
    /// founder's.
    pub(crate) fn draw_versions(&mut self) -> VersionRange {
        let is_mixed = self.options.has(Fault::Versions);
        if is_mixed && (self.nodes.is_empty() || self.chance(0.2)) {
            self.old_versions
        } else {
            NEW
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
            self.old_versions
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
