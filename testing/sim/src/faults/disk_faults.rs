//! Disks that change what was written: bits rot, and writes land elsewhere.
//!
//! Each damage is tried on a copy of the disk first. The atlas (`fault_atlas.rs`) then decides
//! whether the group survives what would come of it; otherwise the disk stays as it is.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::Rng;
use synod_consensus::MemberId;
use synod_log::MemoryFiles;

use crate::faults::stated_floors::{
    FIRST_BATCH_AT, OPEN_AT, count_batches, is_segment, lasting_writes, takes_end,
};
use crate::invariants::repair;
use crate::member::Node;
use crate::member::recorded_effects::RecordedEffects;
use crate::member::start::LOG_DIR;
use crate::options::Fault;
use crate::trace::{Text, What};
use crate::world::World;

/// A change of bytes on a disk.
struct Damage {
    path: PathBuf,
    offset: u64,
    bytes: Vec<u8>,
}

/// Result of opening a log on a copy of a damaged disk.
enum Trial {
    /// Nothing that matters has changed.
    NoEffect,
    /// No entry is lost, but the log ends earlier: the empty batch that stated the last floor is
    /// gone.
    FloorLost,
    /// The damage is noticed, and can be repaired.
    Repairable,
    /// The damage is noticed, and the log does not open.
    Refused(String),
    /// Damage above all floors looks like a torn tail. No log can notice it.
    Unnoticed,
}

impl World {
    /// A bit changes on the disk of a member that is down.
    pub(crate) fn rot_somewhere(&mut self) {
        let is_down = |(_, node): &(&MemberId, &Node)| !node.is_up() && !node.gone;
        let down: Vec<MemberId> = self
            .nodes
            .iter()
            .filter(is_down)
            .map(|(id, _)| *id)
            .collect();
        if let Some(id) = self.pick(&down) {
            self.rot(id, Fault::BitRot);
        }
    }

    /// A bit changes on a disk.
    pub(crate) fn rot(&mut self, id: MemberId, fault: Fault) {
        let Some(path) = self.pick_file(id) else {
            return;
        };
        let content = self.node(id).files.content(&path).unwrap_or_default();
        let used = content.iter().rposition(|byte| *byte != 0);
        // Sometimes a byte that is still blank.
        let reach = if self.chance(0.1) {
            content.len()
        } else {
            used.map_or(0, |at| at + 1)
        };
        if reach == 0 {
            return;
        }
        let at = self.rng.random_range(0..reach);
        let bit = 1 << self.rng.random_range(0..8);
        let damage = Damage {
            path,
            offset: at as u64, // usize is at most 64 bits
            bytes: vec![content[at] ^ bit],
        };
        self.damage_disk(id, fault, &[damage]);
    }

    /// A recent write turns out to have landed elsewhere: it is missing where it belongs, and has
    /// overwritten something else.
    pub(crate) fn misdirect_write(&mut self, id: MemberId) {
        let (Some(from), Some(to)) = (self.pick_file(id), self.pick_file(id)) else {
            return;
        };
        let files = self.node(id).files.clone();
        let recent = lasting_writes(&files.writes(&from));
        let content = files.content(&from).unwrap_or_default();
        let room = files.content(&to).map_or(0, |to| to.len() as u64); // usize is at most 64 bits
        let Some(at) = self.pick(&(0..recent.len()).collect::<Vec<_>>()) else {
            return;
        };
        let Range { start, end } = recent[at].clone();
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
        let bytes = content[place(start)..place(end)].to_vec();
        if bytes.is_empty() || room == 0 {
            return;
        }
        // Whole sectors are misdirected, or parts of memory.
        let offset = if self.chance(0.5) {
            self.rng.random_range(0..room) & !511
        } else {
            self.rng.random_range(0..room) & !7
        };
        if (&to, offset) == (&from, start) {
            return;
        }
        let missing = Damage {
            bytes: before_write(&from, start, &bytes),
            path: from,
            offset: start,
        };
        let landed = Damage {
            path: to,
            offset,
            bytes,
        };
        self.damage_disk(id, Fault::MisdirectedWrite, &[missing, landed]);
    }

    fn pick_file(&mut self, id: MemberId) -> Option<PathBuf> {
        let mut paths = self.node(id).files.paths();
        paths.retain(|path| path != &Path::new(LOG_DIR).join("synod-lock.log"));
        if self.chance(0.8) {
            paths.retain(|path| is_segment(path));
        }
        let at = self.pick(&(0..paths.len()).collect::<Vec<_>>())?;
        Some(paths.swap_remove(at))
    }

    /// Damages a disk, unless the atlas forbids the consequence.
    fn damage_disk(&mut self, id: MemberId, fault: Fault, damages: &[Damage]) {
        let node = self.node(id);
        if node.gone || node.disk_fault {
            return;
        }
        let is_up = node.is_up();
        let damaged = node.files.crash(u64::MAX);
        for damage in damages {
            damaged.harm(&damage.path, damage.offset, &damage.bytes);
        }
        self.hit(id, fault);
        for damage in damages {
            let (path, offset, bytes) = (damage.path.clone(), damage.offset, damage.bytes.len());
            self.note(
                id,
                What::Damaged {
                    path,
                    offset,
                    bytes,
                },
            );
        }
        let Node { files, disk, .. } = self.node(id);
        let takes_end = takes_end(files, &damaged, disk.damaged) || disk.floor_lost;
        match self.trial(id, damaged, takes_end) {
            Trial::NoEffect => {
                self.coverage.count("damage without effect");
                self.apply_damage(id, damages);
            }
            // The member opens the log later, and continues where it ends now.
            Trial::FloorLost if !is_up => {
                self.coverage.count("stated floor lost");
                self.apply_damage(id, damages);
                self.node_mut(id).disk.floor_lost = true;
            }
            // A running member writes on after the gap, which is then below a floor. At the next
            // start the gap counts as damage, and everything after it has to come from other
            // members.
            Trial::FloorLost => {
                self.coverage.count("stated floor lost");
                if self.fault_atlas().may_damage(id) {
                    self.apply_damage(id, damages);
                    let disk = &mut self.node_mut(id).disk;
                    (disk.damaged, disk.floor_lost) = (true, true);
                }
            }
            Trial::Unnoticed => self.coverage.count("damage above floors"),
            Trial::Repairable => {
                self.coverage.count("damage noticed");
                if self.fault_atlas().may_damage(id) {
                    self.apply_damage(id, damages);
                    self.node_mut(id).disk.damaged = true;
                }
            }
            Trial::Refused(why) => {
                self.coverage.count("damage beyond repair");
                if !is_up && self.may_lose_disk(id) {
                    self.note(id, What::Refused { why: Text(why) });
                    self.replace_disk(id);
                }
            }
        }
    }

    /// Changes the real disk.
    fn apply_damage(&mut self, id: MemberId, damages: &[Damage]) {
        for damage in damages {
            let files = &self.node(id).files;
            files.harm(&damage.path, damage.offset, &damage.bytes);
        }
    }

    /// Opens the log on a copy of a damaged disk. With `takes_end`, nothing on the disk may state
    /// any more how far the log went, so that the rule about damage does not apply.
    fn trial(&mut self, id: MemberId, files: MemoryFiles, takes_end: bool) -> Trial {
        let effects = RecordedEffects::new(id, self.wanted_links.clone());
        let is_shorter = count_batches(&files) < count_batches(&self.node(id).files);
        let opened = match self.open(Arc::new(files), &effects) {
            Ok(opened) => opened,
            Err(error) => return Trial::Refused(error.to_string()),
        };
        let found = self.recovered_log(id, &opened);
        drop(opened);
        let disk = &self.node(id).disk;
        let checked = repair::after_damage(id, disk, &found, false);
        let all = repair::after_damage(id, disk, &found, true);
        let whole = !found.repaired && disk.may_recover(&found.image);
        if !takes_end {
            self.judge(checked);
        }
        match all {
            Ok(()) if whole && is_shorter => Trial::FloorLost,
            Ok(()) if whole => Trial::NoEffect,
            Ok(()) => Trial::Repairable,
            Err(_) => Trial::Unnoticed,
        }
    }

    /// Whether the group survives the loss of this disk, judged by what databases have flushed now.
    pub(crate) fn may_lose_disk(&mut self, id: MemberId) -> bool {
        self.flush_databases();
        self.fault_atlas().may_lose_disk(id)
    }
}

/// Bytes at the place of a write before it. The first batch of a segment completes the segment's
/// header, which was open; every other write goes to a blank place.
fn before_write(path: &Path, start: u64, bytes: &[u8]) -> Vec<u8> {
    let mut before = vec![0; bytes.len()];
    let is_first_batch = start == 0 && bytes.len() as u64 > FIRST_BATCH_AT && is_segment(path);
    let Some(complete) = bytes.get(..160).filter(|_| is_first_batch) else {
        return before;
    };
    // Magic, version, and what is known while the segment before is written.
    before[..12].copy_from_slice(&complete[..12]);
    before[16..80].copy_from_slice(&complete[16..80]);
    before[OPEN_AT] = 1;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&before[8..12]), &before[16..160]);
    before[12..16].copy_from_slice(&checksum.to_le_bytes());
    before
}
