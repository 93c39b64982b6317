//! State that the parts of a member share: positions, status, flags.
//!
//! The driver, the storage, and the deliverer write to it; threads of the host read from it.
//! Nothing here waits. A part that wants to wait is called when more of the log can be read, or
//! when the commit position changes ([`Shared::new`]).
//!
//! Two counters tell old knowledge from new:
//! * The *era* counts truncations and resets of the log. A write of an earlier era proves nothing
//!   about the log as it is now.
//! * The *epoch* counts proposals of this session that were given up. Locks of an earlier epoch may
//!   have been released since, so certification does not rely on them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use synod_consensus::{
    GroupId, GroupSettings, LeaderWeight, LogIndex, MemberId, RoleName, Seqno, SessionId, Term,
    Time,
};
use synod_log::LogReader;
use synod_planted::planted;
use synod_wire::{DataState, FetchFrom, SurvivorReport};

use crate::config::DatabasePosition;
use crate::driver::CommitWait;
use crate::fetch::{FetchBox, FetchResult, FetchWish, NotFetched};
use crate::freshness::Freshness;
use crate::host::MemberStatus;
use crate::log_holds::{LogHold, LogHolds};
use crate::payload::view::View;
use crate::snapshots::{Snapshot, Snapshots};

#[derive(Clone, Debug, Default)]
pub struct NodeStatus {
    pub member: MemberId,
    pub session: SessionId,
    /// The group; `NONE` before it joined.
    pub group: GroupId,
    pub term: Term,
    /// Role in the term; none before the member has started.
    pub role: Option<RoleName>,
    pub voter: bool,
    pub leader: Option<MemberId>,
    pub leader_name: String,
    pub leader_weight: LeaderWeight,
    pub commit_index: LogIndex,
    pub last_index: LogIndex,
    pub commit_seqno: Seqno,
    pub first_seqno: Seqno,
    pub log_bytes: u64,
    /// How often the log was synced since its start.
    pub log_syncs: u64,
    /// When the oldest file of the log was begun, in milliseconds since 1970; zero: not known.
    pub log_begins_ms: u64,
    pub members: Vec<MemberStatus>,
    pub cert_keys: usize,
    /// Number of actions proposed here that have no result yet.
    pub pending: usize,
    pub view: View,
    /// Whether the member hears a leader with a quorum.
    pub primary: bool,
    /// Protocol version of the group; zero before it is known.
    pub protocol: u16,
    /// Whether that version stays until an operator raises it.
    pub protocol_is_held: bool,
    /// Number of the format in which this member's log is written; zero before it is known.
    pub log_format: u32,
    pub settings: GroupSettings,
    /// On the leader, why commits wait for a region, or are in fewer of them; empty: they are in as
    /// many, or this member does not lead.
    pub commit_regions_trouble: String,
    /// Whether that is a wait.
    pub commits_wait_for_region: bool,
    /// Messages refused because their senders have no right to them, since the start.
    pub refused_messages: u64,
    /// How far databases lag, and at which pace actions are admitted.
    pub pace: PaceStatus,
    pub commit_wait: CommitWaitStatus,
    /// The last index that is durable on this member's disk.
    pub durable_index: LogIndex,
    /// Leader only: up to which index the logs of others are durable. Empty on others.
    pub durable_elsewhere: Vec<(MemberId, LogIndex)>,
    /// The databases as their members have reported them, by the leader's last status. Empty while
    /// no leader is known.
    pub databases: Vec<DatabaseStatus>,
    /// All configured members: whether they are there.
    pub presence: Vec<MemberPresence>,
    /// All configured members, as survivors: what each has, if it has said so a moment ago.
    pub survivors: Vec<SurvivorStatus>,
    /// Why this member hears no leader although the group may run, and what to do: sentences.
    /// Empty: it hears one, or all other voters are gone.
    pub unheard: Vec<String>,
    /// Whether no call to some other voter has ended yet, which decides whether it is among those.
    pub is_calling: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPresence {
    pub member: MemberId,
    pub presence: Presence,
    /// For how long nothing has come from it, to this member or to a leader that it followed; none:
    /// nothing has since this process began.
    pub silent_for: Option<Duration>,
    /// `host:port` at which readers of the binlog reach it, if it is a relay; empty: a logger.
    /// None: it has a database, or no leader has passed on its report to this process.
    pub readers_at: Option<String>,
}

/// Whether a member is there, whatever its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Messages of the member came a moment ago.
    Present,
    /// Nothing has come from it for a second, and not for the suspect timeout: it may be gone.
    Silent,
    /// Nothing has come from it for the suspect timeout, or it has left.
    #[default]
    Absent,
}

/// Status of a member when a majority is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurvivorStatus {
    pub member: MemberId,
    /// Its latest report; none if it does not report now.
    pub report: Option<SurvivorReport>,
}

/// A database, as its member has reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseStatus {
    pub member: MemberId,
    pub state: DataState,
    /// The last action in it, with all before it.
    pub applied: Seqno,
    /// The last action that it has flushed, by estimate; none while that is unknown.
    pub flushed: Option<Seqno>,
    /// Delivered actions that are not applied yet.
    pub queue: u32,
    /// Number of the format in which its member's log is written; none while that is unknown.
    pub log_format: Option<u32>,
}

/// Commit wait of this member's clients: the one in force, and the databases excluded from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitWaitStatus {
    /// Commit wait that is in force. [`CommitWait::Durable`] also while the group cannot do more.
    pub in_force: CommitWait,
    /// Names of the members whose databases are not waited for because they were too slow.
    pub excluded: Vec<String>,
    /// How often a member was excluded, since this member came.
    pub exclusions: u64,
}

/// How far databases lag, and at which pace the leader admits actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaceStatus {
    /// For how long this member's database has lacked a committed action.
    pub own_lag: Duration,
    /// Actions per second that are admitted, in thousandths; zero: all are.
    pub rate: u64,
    /// The member that lags most of the majority that keeps up best, by name; empty: not known.
    pub slowest: String,
    pub slowest_lag: Duration,
    /// Time in which proposals of the group waited for their admission, since this member came.
    pub paused: Duration,
    pub pauses: u64,
    /// How often it was this member's database that the group waited for.
    pub caused: u64,
    /// The databases as the leader knows them: name, committed actions that it lacks, lag.
    pub lags: Vec<(String, u64, Duration)>,
}

pub struct Shared {
    pub(crate) status: Mutex<NodeStatus>,
    commit: Mutex<CommitPoint>,
    /// Called when more of the log can be read, or the commit position changes.
    moved: Box<dyn Fn() + Send + Sync>,
    pub(crate) commit_seqno: AtomicI64,
    pub(crate) primary: AtomicBool,
    epoch: Arc<AtomicU64>,
    applied: AtomicI64,
    /// See [`Shared::left`]; behind `applied` if the host never states it.
    left: AtomicI64,
    /// The driver wants an event when this seqno is applied; the largest number if it wants none.
    awaited: AtomicI64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) log_syncs: AtomicU64,
    pub(crate) log_full: AtomicBool,
    pub(crate) log_tight: AtomicBool,
    /// See [`Shared::purge_up_to`]; zero: nothing.
    purge_wanted: AtomicI64,
    pub(crate) database_diverged: AtomicBool,
    /// The last index delivered: delivery needs no entry up to it again.
    pub(crate) delivered: AtomicU64,
    /// The log begins after this action, once the writes under way are done.
    pub(crate) base_seqno: AtomicI64,
    pub(crate) fetched: FetchBox,
    /// Snapshot positions of this session's actions that are being proposed.
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) readers: LogHolds,
    pub(crate) freshness: Freshness,
    /// Committed actions of this session whose clients finish them.
    local: Mutex<BTreeSet<Seqno>>,
}

/// How far the log may be read.
#[derive(Default)]
struct CommitPoint {
    index: LogIndex,
    /// Up to here the log on disk is the one that the driver has in mind. A commit may be known
    /// before this member has written the entry. Until then the log may hold another entry there,
    /// which will be truncated.
    written: LogIndex,
    /// Counts truncations and resets. A write of an earlier era proves nothing about the log now.
    era: u64,
}

impl CommitPoint {
    /// Entries up to here are committed and written.
    fn readable(&self) -> LogIndex {
        self.index.min(self.written)
    }
}

/// Locks even if a thread panicked while holding it: for values that are valid at every step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// State of a member whose log ends at `written` and whose database is at `applied`. `moved` is
    /// called whenever more of the log can be read, or the commit position has changed.
    pub fn new(
        written: LogIndex,
        applied: Seqno,
        moved: impl Fn() + Send + Sync + 'static,
    ) -> Shared {
        let commit = CommitPoint {
            written,
            ..CommitPoint::default()
        };
        Shared {
            status: Mutex::default(),
            commit: Mutex::new(commit),
            moved: Box::new(moved),
            commit_seqno: AtomicI64::default(),
            primary: AtomicBool::default(),
            epoch: Arc::default(),
            applied: AtomicI64::new(applied.0),
            left: AtomicI64::new(applied.0),
            awaited: AtomicI64::new(i64::MAX),
            log_bytes: AtomicU64::default(),
            log_syncs: AtomicU64::default(),
            log_full: AtomicBool::default(),
            log_tight: AtomicBool::default(),
            purge_wanted: AtomicI64::default(),
            database_diverged: AtomicBool::default(),
            delivered: AtomicU64::default(),
            base_seqno: AtomicI64::default(),
            fetched: FetchBox::default(),
            snapshots: Arc::default(),
            readers: LogHolds::default(),
            freshness: Freshness::default(),
            local: Mutex::default(),
        }
    }

    pub fn is_primary(&self) -> bool {
        self.primary.load(Ordering::Acquire)
    }

    /// The epoch of this session's locks. It is raised whenever a client gives up a proposal and
    /// releases its locks, so that certification no longer assumes that they serialise the actions
    /// before with those after.
    pub fn epoch(&self) -> &Arc<AtomicU64> {
        &self.epoch
    }

    /// Everything up to `seqno` is in the host's database. Returns whether the driver waits for
    /// that: if so, the caller sends it an [`crate::Event::Applied`].
    pub fn set_applied(&self, seqno: Seqno) -> bool {
        // Each side writes, then reads what the other has written.
        self.applied.store(seqno.0, Ordering::SeqCst);
        let awaited = self.awaited.load(Ordering::SeqCst);
        seqno.0 >= awaited
            && self
                .awaited
                .compare_exchange(awaited, i64::MAX, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }

    /// Everything up to `seqno` has left the host's commit order: its rows are changed, and threads
    /// may still be busy with it.
    pub fn set_left(&self, seqno: Seqno) {
        self.left.fetch_max(seqno.0, Ordering::AcqRel);
    }

    /// Everything up to here has left the host's commit order.
    pub fn left(&self) -> Seqno {
        self.applied().max(Seqno(self.left.load(Ordering::Acquire)))
    }

    /// Makes [`Shared::set_applied`] return true once `seqno` is applied, unless an earlier one is
    /// awaited: then once that is, after which every call has to be repeated. It may be applied
    /// already: the driver has to check [`Shared::applied`] after this call.
    pub(crate) fn call_when_applied(&self, seqno: Seqno) {
        self.awaited.fetch_min(seqno.0, Ordering::SeqCst);
    }

    /// For a member without a database: counts everything that is committed here as delivered and
    /// applied, so that the log is not kept for a database. Returns the same as
    /// [`Shared::set_applied`].
    pub fn skip_to_commit(&self) -> bool {
        let (index, seqno) = self.committed();
        self.delivered.store(index.0, Ordering::Release);
        self.set_applied(seqno)
    }

    /// The last action in the host's database, as it last reported.
    pub fn applied(&self) -> Seqno {
        Seqno(self.applied.load(Ordering::SeqCst))
    }

    /// Greatest age of this member's database, if it has everything up to `applied`: it shows what
    /// was acknowledged anywhere before `now` less this. `now` is of the driver's clock. None: no
    /// answered question proves any.
    pub fn staleness(&self, now: Time, applied: Seqno) -> Option<Duration> {
        let age = self.freshness.age(now, applied);
        age.filter(|_| !self.is_database_diverged())
    }

    /// Whether the caller is to ask for the group's position, so that there is a question in each
    /// such period.
    pub fn is_question_due(&self, now: Time, every: Duration) -> bool {
        self.freshness.is_due(now, every)
    }

    /// Seqno of the last committed action known here.
    pub fn commit_seqno(&self) -> Seqno {
        Seqno(self.commit_seqno.load(Ordering::Acquire))
    }

    /// Holds `seqno` as the snapshot position of an action that is about to be proposed, until all
    /// copies of the hold are dropped.
    pub fn hold_snapshot(&self, seqno: Seqno) -> Arc<Snapshot> {
        self.snapshots.hold(seqno)
    }

    pub fn status(&self) -> NodeStatus {
        let mut status = lock(&self.status).clone();
        status.commit_seqno = self.commit_seqno();
        status.log_bytes = self.log_bytes.load(Ordering::Acquire);
        status.log_syncs = self.log_syncs.load(Ordering::Relaxed);
        status
    }

    /// Whether the log is larger than its disk bound. A leader then orders no new actions, because
    /// too few databases have flushed the entries that would have to be purged.
    pub fn is_log_full(&self) -> bool {
        self.log_full.load(Ordering::Acquire)
    }

    /// Whether the log is at its disk bound: what is appended from now on makes it full.
    pub fn is_log_tight(&self) -> bool {
        self.log_tight.load(Ordering::Acquire)
    }

    /// The log is not purged of what comes after the action `passed`, until the hold is dropped, as
    /// long as the log is not full.
    pub fn hold_log_after(&self, passed: Seqno) -> LogHold {
        self.readers.hold_after(passed)
    }

    /// The host wants the log to be purged up to this action, by whole files, of what neither
    /// members nor readers need. It never wants less than it did.
    pub fn purge_up_to(&self, last: Seqno) {
        self.purge_wanted.fetch_max(last.0, Ordering::AcqRel);
    }

    /// Up to which action the host wants the log to be purged, whatever its size; none: nothing.
    pub(crate) fn purge_wanted(&self) -> Option<Seqno> {
        let last = self.purge_wanted.load(Ordering::Acquire);
        (last > 0).then_some(Seqno(last))
    }

    /// The position of the database as it was at the start; none if the database has diverged.
    pub fn position_of(&self, database: DatabasePosition) -> DatabasePosition {
        if self.is_database_diverged() {
            DatabasePosition::NONE
        } else {
            database
        }
    }

    /// Whether the database has diverged: its seqno, as of the start, belongs to a history that a
    /// forced primary discarded. It must be copied again.
    pub fn is_database_diverged(&self) -> bool {
        self.database_diverged.load(Ordering::Acquire)
    }

    /// The oldest action that this member's log has, or will have once the writes under way are
    /// done.
    pub fn first_seqno(&self, reader: &LogReader) -> Seqno {
        let base = Seqno(self.base_seqno.load(Ordering::Acquire));
        reader.first_seqno_available().max(base.next())
    }

    /// Notes that a client of this session waits for the action at `seqno`. The driver calls this
    /// before it publishes the commit of that action.
    pub(crate) fn attach_local(&self, seqno: Seqno) {
        lock(&self.local).insert(seqno);
    }

    /// Delivery needs no entry up to this one again.
    pub(crate) fn delivered_index(&self) -> LogIndex {
        LogIndex(self.delivered.load(Ordering::Acquire))
    }

    /// Whether a client of this session waits for the action at `seqno`; forgets it.
    pub(crate) fn take_local(&self, seqno: Seqno) -> bool {
        lock(&self.local).remove(&seqno)
    }

    /// Entries up to `index` are committed, and actions up to `seqno`.
    pub(crate) fn publish_commit(&self, index: LogIndex, seqno: Seqno) {
        let mut commit = lock(&self.commit);
        commit.index = index;
        self.commit_seqno.store(seqno.0, Ordering::Release);
        drop(commit);
        (self.moved)();
    }

    pub(crate) fn put_fetched(&self, wish: FetchWish, answer: FetchResult) {
        self.fetched.put(wish, answer);
        (self.moved)();
    }

    /// Looks for the entries after this action, of which the log has none: whether a member that is
    /// present has them. None: that is not known yet; the caller hands the driver
    /// [`crate::Event::Fetch`], and asks again when the log has moved ([`Shared::new`]).
    pub fn look_for_entries_after(&self, seqno: Seqno) -> Option<Result<(), NotFetched>> {
        let from = FetchFrom::After(seqno.max(Seqno(0)));
        self.fetched
            .is_there(FetchWish::all_from(from, LogIndex(0)))
    }

    /// The log is truncated or reset: entries at and after `from` are void until they are written
    /// again. Returns the era of the writes that follow.
    pub(crate) fn log_truncated(&self, from: LogIndex) -> u64 {
        let mut commit = lock(&self.commit);
        commit.written = commit.written.min(from.prev());
        commit.era += 1;
        commit.era
    }

    /// A write of this era is done: the log can be read up to here. Ignored if the era has passed.
    pub(crate) fn log_written(&self, era: u64, up_to: LogIndex) {
        let mut commit = lock(&self.commit);
        if era != commit.era || up_to <= commit.written {
            return;
        }
        let before = commit.readable();
        commit.written = up_to;
        let moved = commit.readable() > before;
        drop(commit);
        if moved {
            (self.moved)();
        }
    }

    /// Entries up to here are committed and can be read.
    pub fn readable(&self) -> LogIndex {
        let commit = lock(&self.commit);
        planted!(DeliverUncommitted, commit.readable(), else commit.written)
    }

    /// The commit index and its seqno, whether the entry can be read already or not.
    pub fn committed(&self) -> (LogIndex, Seqno) {
        let commit = lock(&self.commit);
        (commit.index, self.commit_seqno())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_read_only_when_it_is_written_here() {
        let calls = Arc::new(AtomicU64::new(0));
        let counter = calls.clone();
        let shared = Shared::new(LogIndex(0), Seqno(0), move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        shared.publish_commit(LogIndex(10), Seqno(10));
        let era = shared.log_truncated(LogIndex(4));
        shared.log_written(era - 1, LogIndex(10));
        assert_eq!(shared.readable(), LogIndex(0));
        shared.log_written(era, LogIndex(6));
        assert_eq!(shared.readable(), LogIndex(6));
        shared.log_written(era, LogIndex(12));
        assert_eq!(shared.readable(), LogIndex(10));
        assert_eq!(calls.load(Ordering::Relaxed), 3, "one call for each move");
    }
}
