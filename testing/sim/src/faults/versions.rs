//! Programs of different versions in one group, and operators who hold the group's version.
//!
//! The old program of a run speaks version 1; in every third run version 2, too, in every other
//! third version 3. The new one speaks all. All are the present code. What the old one sends and
//! reads is encoded in the newest version that it speaks, and what a group writes in the group's
//! version.
//!
//! Where operators hold the version, the old program is the present one, and the new one speaks one
//! version more. On the wire that is the same as the one before.

use synod_consensus::{MemberId, VersionRange};
use synod_wire::{Command, OUR_VERSIONS, choose_version};

use crate::member::Node;
use crate::options::Fault;
use crate::trace::What;
use crate::world::World;

/// Protocol versions that the old programs speak.
const OLD: [VersionRange; 3] = [
    VersionRange { min: 1, max: 2 },
    VersionRange { min: 1, max: 3 },
    VersionRange { min: 1, max: 1 },
];

/// Protocol versions that the programs of a run speak.
#[derive(Clone, Copy)]
pub(crate) struct Programs {
    old: VersionRange,
    new: VersionRange,
}

impl Programs {
    /// The programs of a run in which operators hold the version, or do not.
    pub(crate) fn of(seed: u64, holds_version: bool) -> Programs {
        if holds_version {
            let next = VersionRange {
                max: OUR_VERSIONS.max + 1,
                ..OUR_VERSIONS
            };
            return Programs {
                old: OUR_VERSIONS,
                new: next,
            };
        }
        Programs {
            old: OLD[(seed % 3) as usize], // below three
            new: OUR_VERSIONS,
        }
    }
}

/// The version of a connection between programs that speak these.
pub(crate) fn connection_version(ours: VersionRange, theirs: VersionRange) -> Option<u16> {
    choose_version(ours, theirs).map(|version| version.min(OUR_VERSIONS.max))
}

impl World {
    /// The versions that a new member's program speaks. In a mixed group the old program is the
    /// founder's.
    pub(crate) fn draw_versions(&mut self) -> VersionRange {
        let is_mixed = self.options.has(Fault::Versions);
        if is_mixed && (self.nodes.is_empty() || self.chance(0.2)) {
            self.programs.old
        } else {
            self.programs.new
        }
    }

    /// An operator replaces a member's program by an older or a newer one, and restarts the member.
    pub(crate) fn change_version(&mut self) {
        let Programs {
            old: old_program,
            new: new_program,
        } = self.programs;
        let is_present = |(_, node): &(&MemberId, &Node)| !node.gone;
        let all = self.nodes.iter().filter(is_present);
        let (old, new): (Vec<_>, Vec<_>) = all.partition(|(_, node)| node.versions != new_program);
        let ids = |of: Vec<(&MemberId, &Node)>| of.into_iter().map(|(id, _)| *id).collect();
        let (old, new): (Vec<MemberId>, Vec<MemberId>) = (ids(old), ids(new));
        // Upgrades are more frequent, so that they are complete in the end.
        let versions = if self.chance(0.7) && !old.is_empty() {
            new_program
        } else {
            old_program
        };
        let Some(id) = self.pick(if versions == new_program { &old } else { &new }) else {
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
        let new = self.programs.new;
        let is_old = |id: &MemberId| self.node(*id).versions != new;
        let old: Vec<MemberId> = self.nodes.keys().copied().filter(is_old).collect();
        for id in old {
            self.node_mut(id).versions = new;
            if self.is_up(id) {
                self.end_process(id);
            }
        }
    }
}
