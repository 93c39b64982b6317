//! Disks that harm what was written: bits that rot, writes that land elsewhere. And the atlas: whom that may
//! happen to, so that the group can still be asked to come to rest.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::Rng;
use synod_consensus::{Config, MemberId};
use synod_log::{MemoryFiles, offline};
use synod_wire::PeerMessage;

use crate::invariants::repair;
use crate::member::Node;
use crate::member::recorded_effects::RecordedEffects;
use crate::member::storage::LOG_DIR;
use crate::options::Fault;
use crate::trace::{Text, What};
use crate::world::World;
use crate::world::peers::decode;

/// A write is looked for among so many of the last.
const RECENT_WRITES: usize = 200;
/// Places on the disk by docs/log-format.md: a checker does not ask the code under test. Size of a batch
/// header; where that and the control file state a floor, and of which segment the latter.
const BATCH_HEADER_BYTES: u64 = 80;
const BATCH_FLOOR_AT: usize = 24;
const CONTROL_SEGMENT_AT: usize = 52;
const CONTROL_FLOOR_AT: usize = 60;

/// What becomes of the bytes of a file.
struct Damage {
    path: PathBuf,
    offset: u64,
    bytes: Vec<u8>,
}

/// What a harmed disk comes to when a log is opened on it.
enum Trial {
    /// Nothing that matters was harmed.
    Whole,
    /// Nothing is lost, but the log ends sooner: with the empty batch gone that had stated the last floor.
    FloorLost,
    /// The damage is noticed, and can be repaired.
    Repairable,
    /// The damage is noticed and cannot be repaired.
    Refused(String),
    /// Above all floors damage looks like a torn tail, which no log can tell.
    Unnoticed,
}

/// The last writes whose bytes no later write has replaced.
fn lasting_writes(writes: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut replaced: Vec<Range<u64>> = Vec::new();
    let mut last = Vec::new();
    for write in writes.iter().rev().take(RECENT_WRITES) {
        let overlaps = |later: &Range<u64>| later.start < write.end && write.start < later.end;
        if !replaced.iter().any(overlaps) {
            last.push(write.clone());
        }
        replaced.push(write.clone());
    }
    last
}

/// A batch as it was written: a header, and records.
struct Batch {
    place: Range<u64>,
    /// Everything before it was durable.
    floor: u64,
}

/// The newest batches of a segment, as far as each is a write of its own. (At a start those that were read go
/// into one write; the control file states a floor above them.)
fn newest_batches(files: &MemoryFiles, segment: &Path) -> Vec<Batch> {
    let content = files.content(segment).unwrap_or_default();
    let batch = |place: Range<u64>| {
        let at = usize::try_from(place.start).ok()?;
        let is_batch = content.get(at..at + 4)? == b"SynB";
        let floor = number_at(&content, at + BATCH_FLOOR_AT)?;
        // No batch states more than what came before it: that is damage, and states nothing.
        (is_batch && floor <= place.start).then_some(Batch { place, floor })
    };
    let writes = lasting_writes(&files.writes(segment));
    writes.into_iter().filter_map(batch).collect()
}

/// The floor that the control file states for a segment.
fn control_floor(files: &MemoryFiles, segment: &Path) -> u64 {
    let control = files.content(&Path::new(LOG_DIR).join("synod-control.log"));
    let control = control.unwrap_or_default();
    match number_at(&control, CONTROL_SEGMENT_AT) == segment_number(segment) {
        true => number_at(&control, CONTROL_FLOOR_AT).unwrap_or(0),
        false => 0,
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Whether all headers are gone that stated that a harmed batch was durable: then a shorter log looks as good.
/// One write can cover them. One that goes astray can also land on the one header that stated that its own
/// batch was durable, which is missing now. If something was `harmed_before`, they may have been about that.
fn takes_end(files: &MemoryFiles, damaged: &MemoryFiles, damaged_before: bool) -> bool {
    let mut paths = files.paths();
    paths.retain(|path| is_segment(path));
    let Some(newest) = paths.last() else {
        return false;
    };
    let (before, after) = (files.content(newest), damaged.content(newest));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let differs = |place: Range<u64>| {
        let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let range = at(place.start)..at(place.end);
        before.get(range.clone()) != after.get(range)
    };
    let batches = newest_batches(files, newest);
    let control = control_floor(files, newest);
    let highest = |floors: &mut dyn Iterator<Item = u64>| floors.fold(control, u64::max);
    let header = |batch: &Batch| batch.place.start..batch.place.start + BATCH_HEADER_BYTES;
    let left = batches.iter().filter(|batch| !differs(header(batch)));
    let left = highest(&mut left.map(|batch| batch.floor));
    let stated = highest(&mut batches.iter().map(|batch| batch.floor));
    let mut damaged = batches.iter().filter(|batch| differs(batch.place.clone()));
    left < stated
        && (damaged_before || damaged.any(|batch| (left..stated).contains(&batch.place.start)))
}

fn is_segment(path: &Path) -> bool {
    segment_number(path).is_some()
}

fn segment_number(path: &Path) -> Option<u64> {
    let number = path.file_stem()?.to_str()?.strip_prefix("synod-")?;
    let is_number = number.len() == 16;
    u64::from_str_radix(number, 16).ok().filter(|_| is_number)
}

/// How many batches can be read of a log, those that only state a floor among them.
fn count_batches(files: &MemoryFiles) -> usize {
    let mut lines = Vec::new();
    // If there is damage, what comes before it was written.
    let _ = offline::dump_with(files, Path::new(LOG_DIR), &mut lines, true);
    let lines = lines.split(|byte| *byte == b'\n');
    let batch: &[u8] = br#"{"type":"batch","#;
    lines.filter(|line| line.starts_with(batch)).count()
}

impl World {
    /// Bits change on the disk of somebody who is down.
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

    /// Bits change on a disk.
    pub(crate) fn rot(&mut self, id: MemberId, fault: Fault) {
        let Some(path) = self.pick_file(id) else {
            return;
        };
        let content = self.node(id).files.content(&path).unwrap_or_default();
        let used = content.iter().rposition(|byte| *byte != 0);
        // Now and then also what is still blank.
        let reach = match self.chance(0.1) {
            true => content.len(),
            false => used.map_or(0, |at| at + 1),
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

    /// It turns out that a write went elsewhere: it is missing where it belongs, and has overwritten
    /// something else.
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
        // Whole sectors go astray, or parts of memory.
        let offset = match self.chance(0.5) {
            true => self.rng.random_range(0..room) & !511,
            false => self.rng.random_range(0..room) & !7,
        };
        if (&to, offset) == (&from, start) {
            return;
        }
        // Every write goes to where nothing was before.
        let missing = Damage {
            path: from,
            offset: start,
            bytes: vec![0; bytes.len()],
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

    /// Harms a disk, unless the atlas forbids what would come of it.
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
            Trial::Whole => {
                self.coverage.count("damage without effect");
                self.apply_damage(id, damages);
            }
            // Who opens the log now goes on where it ends now.
            Trial::FloorLost if !is_up => {
                self.coverage.count("statement of a floor lost");
                self.apply_damage(id, damages);
                self.node_mut(id).disk.floor_lost = true;
            }
            // Who has it open writes on behind the gap. Then it is below a floor: at the next start it counts
            // as damage, and all that was written behind it has to come again.
            Trial::FloorLost => {
                self.coverage.count("statement of a floor lost");
                if self.may_damage(id) {
                    self.apply_damage(id, damages);
                    let disk = &mut self.node_mut(id).disk;
                    (disk.damaged, disk.floor_lost) = (true, true);
                }
            }
            Trial::Unnoticed => self.coverage.count("damage above floors"),
            Trial::Repairable => {
                self.coverage.count("damage noticed");
                if self.may_damage(id) {
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

    fn apply_damage(&mut self, id: MemberId, damages: &[Damage]) {
        for damage in damages {
            let files = &self.node(id).files;
            files.harm(&damage.path, damage.offset, &damage.bytes);
        }
    }

    /// Opens the log on a copy of a harmed disk; `takes_end` says whether no statement may be left of how far
    /// the log went.
    fn trial(&mut self, id: MemberId, files: MemoryFiles, takes_end: bool) -> Trial {
        let effects = RecordedEffects::new(id, self.wanted_links.clone());
        let is_shorter = count_batches(&files) < count_batches(&self.node(id).files);
        let opened = match self.open(Arc::new(files), &effects) {
            Ok(opened) => opened,
            Err(error) => return Trial::Refused(error.to_string()),
        };
        let found = self.found(id, &opened);
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
            Ok(()) if whole => Trial::Whole,
            Ok(()) => Trial::Repairable,
            Err(_) => Trial::Unnoticed,
        }
    }

    // --- the atlas ----------------------------------------------------------------------------

    /// The configuration if it is settled: every life of a disk that is configured anywhere is still there, or
    /// replaced for good, and nobody is about to leave. Whoever has asked to is taken out of the voters as soon as
    /// the others can do without it, which may be long after it has gone.
    fn settled_config(&self) -> Option<&Config> {
        let leader = self.ready_leader()?;
        let leads = self.node(leader).process.as_ref()?;
        let core = leads.driver.core();
        let config = core.config();
        let is_lost = |member: &MemberId| self.nodes.get(member).is_none_or(|node| node.gone);
        let running = || self.nodes.values().filter_map(|node| node.process.as_ref());
        let asks_to_leave = |frame| matches!(decode(frame), Ok(PeerMessage::Leave { .. }));
        let settled = config.index <= core.commit_index()
            && leads.driver.leavers().next().is_none()
            && !self.frames_to(leader).any(asks_to_leave)
            && !config.config.members.keys().any(is_lost)
            && running().all(|process| {
                let config = &process.driver.core().config().config;
                !process.is_leaving && !config.members.keys().any(is_lost)
            });
        settled.then_some(&config.config)
    }

    /// Whether the voters with whole logs are a majority, not counting this member.
    fn can_spare(&self, config: &Config, id: MemberId) -> bool {
        let voters: BTreeSet<MemberId> = config.voters().collect();
        voters.len() >= 3
            && config.members.contains_key(&id)
            && self.keeps_intact_majority(&voters, Some(id))
    }

    /// Whether the members with whole logs, not counting `harmed`, are a majority of these voters, and stay one
    /// whomever the group makes a voter: anybody who wants to be one and has caught up, and damage that
    /// nobody has met yet does not stand in the way.
    pub(crate) fn keeps_intact_majority(
        &self,
        voters: &BTreeSet<MemberId>,
        damaged: Option<MemberId>,
    ) -> bool {
        let needs_repair =
            |id: &MemberId| damaged == Some(*id) || self.node(*id).disk.needs_repair();
        let is_whole = |id: &&MemberId| !self.node(**id).gone && !needs_repair(id);
        let may_come = |(id, node): &(&MemberId, &Node)| {
            node.wants_vote && !node.gone && needs_repair(id) && !voters.contains(id)
        };
        let all = voters.len() + self.nodes.iter().filter(may_come).count();
        voters.iter().filter(is_whole).count() > all / 2
    }

    /// Whether the group survives the loss of this disk for sure.
    pub(crate) fn may_lose_disk(&mut self, id: MemberId) -> bool {
        self.flush_databases();
        let leads = self.leader() == Some(id);
        let config = self.settled_config();
        !leads
            && config.is_some_and(|config| {
                self.can_spare(config, id)
                    && (self.has_databases_to_spare(config) || self.is_elsewhere(config, id))
            })
    }

    /// Whether as many databases vote as must have what logs drop. With loggers in place of databases, what is
    /// older than the logs may be in one database only (decision 016).
    fn has_databases_to_spare(&self, config: &Config) -> bool {
        let voters = config.voters().count();
        let databases = config.voters().filter(|id| config.members[id].has_data);
        databases.count() > (voters - 1) / 2 * 2
    }

    /// Whether another voter's database has all that logs have dropped, or may yet drop because this one has
    /// told that it has it: an absent member's word counts. A log that goes further back is no help, for a
    /// member gets its log from the leader and everything before that from a database.
    fn is_elsewhere(&self, config: &Config, id: MemberId) -> bool {
        let others = || {
            let others = config.voters().filter(|other| *other != id);
            others.filter_map(|other| self.nodes.get(&other))
        };
        let before_log = |node: &Node| {
            let base = node.disk.written.base.index;
            self.checks.committed.get(base).map_or(0, |h| h.seqno.0)
        };
        let whole = others().filter(|node| node.has_data && !node.database.copying);
        let newest = whole.map(|node| node.database.durable.0).max();
        let told = self.nodes.get(&id).map(|node| node.database.had.0);
        newest >= others().map(before_log).chain(told).max()
    }

    /// Whether the group survives it for sure if this log has to be repaired from others: of most voters the
    /// logs stay whole.
    fn may_damage(&self, id: MemberId) -> bool {
        let config = self.settled_config();
        config.is_some_and(|config| self.can_spare(config, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{HardState, Term};
    use synod_log::{Log, LogOptions, LogWriter};

    /// A log of so many batches, and its only segment.
    fn log_of(batches: u64) -> (MemoryFiles, LogWriter, PathBuf) {
        let files = MemoryFiles::new(1);
        let options = LogOptions {
            segment_bytes: 64 << 10,
            ..LogOptions::default()
        };
        let opened = Log::open(Arc::new(files.clone()), Path::new(LOG_DIR), options);
        let mut writer = opened.unwrap().writer;
        for term in 1..=batches {
            let vote = HardState {
                term: Term(term),
                voted_for: None,
            };
            writer.save_vote(vote).unwrap();
            writer.sync().unwrap();
        }
        let segment = files.paths().into_iter().find(|path| is_segment(path));
        (files, writer, segment.unwrap())
    }

    #[test]
    fn lost_statement_of_a_floor_makes_a_log_shorter() {
        let (files, mut writer, segment) = log_of(1);
        assert_eq!(count_batches(&files), 1);
        writer.write_floor().unwrap();
        assert_eq!(count_batches(&files), 2);
        let statement = files.writes(&segment).pop().unwrap();
        files.harm(&segment, statement.end, &[1]);
        assert_eq!(count_batches(&files), 2, "behind the end");
        files.harm(&segment, statement.start, &[0]);
        assert_eq!(count_batches(&files), 1);
    }

    #[test]
    fn end_is_taken_with_the_last_header_that_states_it() {
        let (files, writer, segment) = log_of(3);
        let mut batches = newest_batches(&files, &segment);
        batches.sort_unstable_by_key(|batch| batch.place.start);
        let places: Vec<_> = batches.iter().map(|batch| batch.place.clone()).collect();
        let floors: Vec<_> = batches.iter().map(|batch| batch.floor).collect();
        let [first, second, third] = &places[..] else {
            panic!("{places:?}");
        };
        assert_eq!(floors, [first.start, second.start, third.start]);
        let takes = |hit: &[u64]| {
            let damaged = files.crash(u64::MAX);
            for at in hit {
                damaged.harm(&segment, *at, &[0xaa]);
            }
            takes_end(&files, &damaged, false)
        };
        let records = |place: &Range<u64>| place.start + BATCH_HEADER_BYTES + 8;
        assert!(!takes(&[]) && !takes(&[third.start + 8]));
        assert!(!takes(&[records(second)]) && !takes(&[second.start + 8]));
        assert!(takes(&[records(second), third.start + 8]));
        assert!(takes(&[second.start + 8, third.start + 8]));
        assert!(!takes(&[second.start + 8, records(third)]));
        assert!(
            !takes(&[records(first), third.start + 8]),
            "the second states it"
        );
        assert!(takes(&[records(first), second.start + 8, third.start + 8]));
        let floor_at = first.start + BATCH_FLOOR_AT as u64;
        files.harm(&segment, floor_at, &[0xff; 8]);
        assert!(
            takes(&[second.start + 8, third.start + 8]),
            "damage states nothing"
        );
        writer.close().unwrap();
        assert!(
            !takes(&[records(second), third.start + 8]),
            "the control file"
        );
    }
}
