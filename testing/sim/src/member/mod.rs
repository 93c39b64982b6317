//! A simulated member: its machine (disk, clock, database) and, while it is up, its process: the
//! production member, and what its threads would hold.

pub(crate) mod disk_model;
mod effect_checks;
mod member_runner;
pub(crate) mod recorded_effects;
mod retention_checks;
mod server;
pub(crate) mod start;
pub(crate) mod storage;
mod turn_checks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_consensus::{LeaderPreference, LogIndex, MemberId, Seqno, SessionId, VersionRange};
use synod_log::{FaultyFiles, LogReader, MemoryFiles};
use synod_member::{CatchUp, Deliverer, Driver, Job, Shared, Storage};

use crate::clients::content::Row;
use crate::member::disk_model::DiskModel;
use crate::member::recorded_effects::RecordedEffects;
use crate::world::clock::Clock;

/// One life of a disk, with the machine around it.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) has_data: bool,
    /// Whether it shall vote once it has caught up.
    pub(crate) wants_vote: bool,
    /// Protocol versions that its program speaks.
    pub(crate) versions: VersionRange,
    pub(crate) clock: Clock,
    pub(crate) files: MemoryFiles,
    pub(crate) faulty: FaultyFiles,
    pub(crate) disk: DiskModel,
    pub(crate) process: Option<Box<Process>>,
    /// Counts starts and ends of processes; what was planned for an earlier one is void.
    pub(crate) epoch: u64,
    pub(crate) paused_until_us: u64,
    /// Its disk is lost: it never comes back.
    pub(crate) gone: bool,
    pub(crate) database: Database,
    /// Each sync takes so much longer.
    pub(crate) slow_disk: u64,
    /// A disk fault is planned, so errors of the log are no surprise.
    pub(crate) disk_fault: bool,
    /// Damage that its process has met, and stops for.
    pub(crate) damage_met: Option<String>,
    /// What its operator wants for it.
    pub(crate) preference: LeaderPreference,
    /// Its wall clock is far ahead: everything in the log is older than the log may grow.
    pub(crate) wall_ahead: bool,
    /// Bytes of its log when those were last no more than it might have.
    pub(crate) log_allowed: u64,
}

/// The database of a member: only how far it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Database {
    pub(crate) applied: Seqno,
    /// Survives a power cut.
    pub(crate) durable: Seqno,
    /// It holds actions that were lost by order.
    pub(crate) holds_lost: bool,
    /// The furthest it was, on its disk, before that was lost or a copy replaced it.
    pub(crate) had: Seqno,
    /// Applied and not surely flushed: when, in the world's time.
    pub(crate) unflushed: VecDeque<(u64, Seqno)>,
    /// A full copy is on its way.
    pub(crate) copying: bool,
}

impl Database {
    pub(crate) fn apply(&mut self, now_us: u64, seqno: Seqno) {
        self.applied = seqno;
        self.unflushed.push_back((now_us, seqno));
    }

    /// What was applied before then has been flushed.
    pub(crate) fn flush_before(&mut self, us: u64) {
        while let Some((_, seqno)) = self.unflushed.front().filter(|(at, _)| *at < us) {
            self.durable = *seqno;
            self.had = self.had.max(*seqno);
            self.unflushed.pop_front();
        }
    }

    /// It is at this position now, on its disk, too.
    pub(crate) fn replace(&mut self, seqno: Seqno) {
        (self.applied, self.durable) = (seqno, seqno);
        self.had = self.had.max(seqno);
        self.unflushed.clear();
        self.holds_lost = false;
    }
}

/// What a new process is made of.
pub(crate) struct ProcessParts {
    pub(crate) session: SessionId,
    pub(crate) driver: Driver,
    pub(crate) storage: Storage,
    pub(crate) reader: LogReader,
    pub(crate) shared: Arc<Shared>,
    pub(crate) effects: Arc<RecordedEffects>,
    /// The last entry before the log's beginning.
    pub(crate) committed: LogIndex,
}

/// A running member.
pub(crate) struct Process {
    pub(crate) session: SessionId,
    pub(crate) driver: Driver,
    pub(crate) storage: Storage,
    pub(crate) deliverer: Option<Deliverer>,
    pub(crate) reader: LogReader,
    pub(crate) shared: Arc<Shared>,
    /// When it was started.
    pub(crate) since_us: u64,
    pub(crate) effects: Arc<RecordedEffects>,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) catch_ups: VecDeque<CatchUp>,
    pub(crate) is_syncing: bool,
    /// Batches written; a pause between two is when nothing was written since.
    pub(crate) batches: u64,
    pub(crate) is_applying: bool,
    pub(crate) is_seeking: bool,
    pub(crate) is_leaving: bool,
    /// Up to here entries were shown to the checkers as committed by this process.
    pub(crate) committed: LogIndex,
    /// The full copy asked for last, and when.
    pub(crate) asked: Option<(u64, u64)>,
    pub(crate) locks: BTreeSet<Row>,
    /// Local transactions that are ordered and not applied.
    pub(crate) attached: BTreeMap<Seqno, u64>,
    /// Numbers of actions and requests.
    pub(crate) next_number: u64,
    pub(crate) tick_at_us: Option<u64>,
    pub(crate) turn_planned: bool,
    /// Voters in force since all effects were performed last, the newest last: commits are counted
    /// before the changes that they lead to.
    pub(crate) voters: Vec<(LogIndex, Vec<MemberId>)>,
    /// Where the certification window began at any moment since then.
    pub(crate) windows: Vec<Seqno>,
}

impl Process {
    /// A process that was started now and has done nothing yet.
    pub(crate) fn new(parts: ProcessParts, now_us: u64) -> Process {
        let config = parts.driver.core().config();
        let voters = vec![(config.index, config.config.voters().collect())];
        let windows = vec![parts.driver.certified_from()];
        Process {
            session: parts.session,
            driver: parts.driver,
            storage: parts.storage,
            deliverer: None,
            reader: parts.reader,
            shared: parts.shared,
            since_us: now_us,
            effects: parts.effects,
            jobs: Default::default(),
            catch_ups: Default::default(),
            is_syncing: false,
            batches: 0,
            is_applying: false,
            is_seeking: true,
            is_leaving: false,
            committed: parts.committed,
            asked: None,
            locks: Default::default(),
            attached: Default::default(),
            next_number: 0,
            tick_at_us: None,
            turn_planned: false,
            voters,
            windows,
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

impl Node {
    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }
}
