//! A simulated member: its machine (disk, clock, database) and, while it is up, its process.
//!
//! A process is the production member, and everything that its threads would hold. A lost disk
//! never comes back: the member that replaces it is a new one under the same name.

pub(crate) mod disk_model;
pub(crate) mod effect_checks;
pub(crate) mod failed_actions;
mod member_runner;
pub(crate) mod recorded_effects;
mod retention_checks;
mod server;
pub(crate) mod start;
pub(crate) mod storage;
mod turn_checks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_consensus::{
    LeaderPreference, LogIndex, MemberId, Seqno, SessionId, Time, Timing, VersionRange,
};
use synod_log::{FaultyFiles, LogReader, MemoryFiles};
use synod_member::{Deliverer, Delivery, Driver, Job, ReadForPeer, Shared, Storage};

use crate::clients::content::Row;
use crate::member::disk_model::DiskModel;
use crate::member::failed_actions::{FailedAction, Failing, Recorder};
use crate::member::recorded_effects::RecordedEffects;
use crate::world::clock::Clock;

/// One life of a disk, with the machine around it.
pub(crate) struct Node {
    /// Name and address; a replacement has the same.
    pub(crate) name: String,
    /// Whether it has a database; otherwise it is a logger.
    pub(crate) has_data: bool,
    /// Target size of its log, in bytes.
    pub(crate) retain_bytes: u64,
    /// Whether it wants to be a voter.
    pub(crate) wants_vote: bool,
    /// Protocol versions that its program speaks.
    pub(crate) versions: VersionRange,
    pub(crate) clock: Clock,
    /// Timing of its process; operators change it with restarts.
    pub(crate) timing: Timing,
    pub(crate) files: MemoryFiles,
    pub(crate) faulty: FaultyFiles,
    pub(crate) disk: DiskModel,
    pub(crate) process: Option<Box<Process>>,
    /// Counts starts and ends of processes. Events of an earlier epoch are void.
    pub(crate) epoch: u64,
    pub(crate) paused_until_us: u64,
    /// Its disk is lost, and it never comes back.
    pub(crate) gone: bool,
    /// An operator has shut it down, and starts it again.
    pub(crate) stays_down: bool,
    pub(crate) database: Database,
    /// Additional time of each sync, in microseconds.
    pub(crate) slow_disk: u64,
    /// Speed of its database.
    pub(crate) applies: ApplierPace,
    /// Why its database does not apply what it is given.
    pub(crate) failing: Option<Failing>,
    /// A disk fault is planned, which explains errors of the log.
    pub(crate) disk_fault: bool,
    /// Damage that its process has met and has to name when it stops.
    pub(crate) damage_met: Option<String>,
    /// The leader weight that its operator gave it.
    pub(crate) preference: LeaderPreference,
    /// Its wall clock is far ahead, so that the whole log is older than `retain_age`.
    pub(crate) wall_ahead: bool,
    /// Size of its log, in bytes, when it was last within its bound.
    pub(crate) log_allowed: u64,
}

/// Speed at which a database applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplierPace {
    /// By the options of the run.
    Usual,
    /// Some actions at a time, each time after these microseconds.
    Slow {
        /// The time.
        us: u64,
    },
    /// Nothing is applied.
    StandsStill,
}

/// The database of a member: only its positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Database {
    /// Last action applied.
    pub(crate) applied: Seqno,
    /// Position by its engine: also beyond an action that has failed.
    pub(crate) engine: Seqno,
    /// Last action that survives a power cut.
    pub(crate) durable: Seqno,
    /// Position that the engine would have after a power cut.
    pub(crate) durable_engine: Seqno,
    /// Position that its process takes it to be at when it starts.
    pub(crate) starts_at: Seqno,
    /// The database has actions that were lost to a forced primary.
    pub(crate) holds_lost: bool,
    /// The highest `durable` ever, also before the database was lost or replaced by a copy.
    pub(crate) had: Seqno,
    /// Changes that may not be flushed yet.
    pub(crate) unflushed: VecDeque<Unflushed>,
    /// A full copy (SST) is under way.
    pub(crate) copying: bool,
    /// Full copies asked for so far.
    pub(crate) copies: u64,
}

/// A change of a database that its engine may not have flushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unflushed {
    /// When it was made, in microseconds.
    at_us: u64,
    /// The last action that is applied then.
    applied: Seqno,
    /// Position by the engine then.
    engine: Seqno,
}

impl Database {
    /// An action is applied, or a view is shown: the engine moves with it.
    pub(crate) fn apply(&mut self, now_us: u64, seqno: Seqno) {
        self.applied = seqno;
        self.move_engine(now_us, seqno);
    }

    /// The engine's position moves, with the data or without them. At worst it never goes back, and
    /// so it is here.
    pub(crate) fn move_engine(&mut self, at_us: u64, engine: Seqno) {
        self.engine = self.engine.max(engine);
        let engine = self.engine;
        let applied = self.applied;
        self.unflushed.push_back(Unflushed {
            at_us,
            applied,
            engine,
        });
    }

    /// Changes made before this time are flushed.
    pub(crate) fn flush_before(&mut self, us: u64) {
        while let Some(change) = self.unflushed.front().filter(|change| change.at_us < us) {
            (self.durable, self.durable_engine) = (change.applied, change.engine);
            self.had = self.had.max(self.durable);
            self.unflushed.pop_front();
        }
    }

    /// Only this many changes after the last flush are left.
    pub(crate) fn lose_all_but(&mut self, changes: usize) {
        let last = changes.checked_sub(1).and_then(|at| self.unflushed.get(at));
        let left = last.map(|change| (change.applied, change.engine));
        let (applied, engine) = left.unwrap_or((self.durable, self.durable_engine));
        self.replace(applied.max(Seqno(0)));
        (self.engine, self.durable_engine) = (engine.max(Seqno(0)), engine.max(Seqno(0)));
    }

    /// The process of the database stands still for a time, and flushes nothing meanwhile.
    pub(crate) fn stand_still(&mut self, for_us: u64) {
        for change in &mut self.unflushed {
            change.at_us += for_us;
        }
    }

    /// The process continues so much earlier than [`Database::stand_still`] was told.
    fn continue_early(&mut self, early_us: u64) {
        for change in &mut self.unflushed {
            change.at_us = change.at_us.saturating_sub(early_us);
        }
    }

    /// The database is at this position now, also on its disk.
    pub(crate) fn replace(&mut self, seqno: Seqno) {
        (self.applied, self.durable) = (seqno, seqno);
        (self.engine, self.durable_engine) = (seqno, seqno);
        self.had = self.had.max(seqno);
        self.unflushed.clear();
        self.holds_lost = false;
    }
}

/// Parts of a new process.
pub(crate) struct ProcessParts {
    pub(crate) session: SessionId,
    pub(crate) driver: Driver,
    pub(crate) storage: Storage,
    pub(crate) reader: LogReader,
    pub(crate) shared: Arc<Shared>,
    pub(crate) effects: Arc<RecordedEffects>,
    /// The last entry before the log's beginning.
    pub(crate) committed: LogIndex,
    pub(crate) recorder: Option<Recorder>,
}

/// A running member.
pub(crate) struct Process {
    pub(crate) session: SessionId,
    pub(crate) driver: Driver,
    pub(crate) storage: Storage,
    pub(crate) deliverer: Option<Deliverer>,
    pub(crate) reader: LogReader,
    pub(crate) shared: Arc<Shared>,
    /// Start time, in microseconds of the world's time.
    pub(crate) since_us: u64,
    pub(crate) effects: Arc<RecordedEffects>,
    /// Jobs that wait for the writer of the log.
    pub(crate) jobs: VecDeque<Job>,
    /// Ranges that wait to be read for other members.
    pub(crate) catch_ups: VecDeque<ReadForPeer>,
    /// Start of the sync that is under way, by the member's clock.
    pub(crate) syncing_since: Option<Time>,
    /// Number of batches written; the log is idle if it has not changed for a while.
    pub(crate) batches: u64,
    pub(crate) is_applying: bool,
    /// The record of its database, if actions fail in this run.
    pub(crate) recorder: Option<Recorder>,
    /// The action that has failed on its database.
    pub(crate) failed: Option<FailedAction>,
    /// Deliveries that wait behind it.
    pub(crate) held: VecDeque<Delivery>,
    /// Since when its database has followed the group, in microseconds of the world's time.
    pub(crate) synced_since_us: Option<u64>,
    pub(crate) is_seeking: bool,
    pub(crate) is_leaving: bool,
    /// Last entry that this process has committed before the checkers.
    pub(crate) committed: LogIndex,
    /// Number of the last request for a full copy, and its time in microseconds.
    pub(crate) asked: Option<(u64, u64)>,
    /// Rows that local transactions hold.
    pub(crate) locks: BTreeSet<Row>,
    /// Local transactions that are ordered and not applied yet, by seqno.
    pub(crate) attached: BTreeMap<Seqno, u64>,
    /// Last number given to an action or a request.
    pub(crate) next_number: u64,
    pub(crate) tick_at_us: Option<u64>,
    pub(crate) turn_planned: bool,
    /// Voters that were in force since the end of the last turn, the newest last: a commit is
    /// counted by the voters before the changes that it leads to.
    pub(crate) voters: Vec<(LogIndex, Vec<MemberId>)>,
    /// Every beginning that the certification window had since the end of the last turn.
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
            syncing_since: None,
            batches: 0,
            is_applying: false,
            recorder: parts.recorder,
            failed: None,
            held: Default::default(),
            synced_since_us: None,
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

    /// A number that this process has not used yet.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

impl Node {
    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// A pause that is not over ends now, for the process and for its database.
    pub(crate) fn end_pause(&mut self, now_us: u64) {
        let until_us = std::mem::take(&mut self.paused_until_us);
        self.database
            .continue_early(until_us.saturating_sub(now_us));
    }
}
