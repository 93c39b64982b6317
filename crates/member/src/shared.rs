//! State that several threads read: positions, membership, counters.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_consensus::{
    GroupId, LeaderWeight, LogIndex, MemberId, RoleName, Seqno, SessionId, Term,
};
use synod_log::LogReader;

use crate::config::DatabasePosition;
use crate::host::MemberStatus;
use crate::payload::view::View;
use crate::snapshots::{Snapshot, Snapshots};

/// Snapshot of a node for status output.
#[derive(Clone, Debug, Default)]
pub struct NodeStatus {
    /// This member.
    pub member: MemberId,
    /// Its session.
    pub session: SessionId,
    /// The group; `NONE` before it joined.
    pub group: GroupId,
    /// Term.
    pub term: Term,
    /// Role in consensus.
    pub role: Option<RoleName>,
    /// Whether it votes.
    pub voter: bool,
    /// The leader, if known.
    pub leader: Option<MemberId>,
    /// The leader's name, if known.
    pub leader_name: String,
    /// How much this member should lead.
    pub leader_weight: LeaderWeight,
    /// Commit index.
    pub commit_index: LogIndex,
    /// Last index in the log.
    pub last_index: LogIndex,
    /// Seqno at the commit index.
    pub commit_seqno: Seqno,
    /// Oldest action held by the log.
    pub first_seqno: Seqno,
    /// Size of the log in bytes.
    pub log_bytes: u64,
    /// Configured members.
    pub members: Vec<MemberStatus>,
    /// Keys in the certification index.
    pub cert_keys: usize,
    /// Actions proposed here whose outcome is not known.
    pub pending: usize,
    /// Latest committed view.
    pub view: View,
    /// Whether a leader with a quorum is heard.
    pub primary: bool,
    /// Protocol version of the group; zero before it is known.
    pub protocol: u16,
}

/// See the module. Nothing here waits; who wants to wait is called when the readable part of the log
/// or the commit position moves.
pub struct Shared {
    pub(crate) status: Mutex<NodeStatus>,
    commit: Mutex<CommitPoint>,
    moved: Box<dyn Fn() + Send + Sync>,
    pub(crate) commit_seqno: AtomicI64,
    pub(crate) primary: AtomicBool,
    epoch: Arc<AtomicU64>,
    applied: AtomicI64,
    /// The driver is to be told when this is applied.
    awaited: AtomicI64,
    /// Size of the log on disk.
    pub(crate) log_bytes: AtomicU64,
    /// See [`Shared::is_log_full`].
    pub(crate) log_full: AtomicBool,
    /// See [`Shared::is_database_diverged`].
    pub(crate) database_diverged: AtomicBool,
    /// Last index delivered.
    pub(crate) delivered: AtomicU64,
    /// The log begins after this action, once the log has caught up with the driver.
    pub(crate) base_seqno: AtomicI64,
    /// Actions of this session on their way.
    pub(crate) snapshots: Arc<Snapshots>,
    local: Mutex<BTreeSet<Seqno>>,
}

#[derive(Default)]
struct CommitPoint {
    index: LogIndex,
    /// Up to here readers of the log find the log that the driver means. A commit may be known
    /// before this member has written the entry; until then the log may hold another one there, which
    /// is to be cut.
    written: LogIndex,
    /// Counts cuts; what was written before the latest cut proves nothing about the log after it.
    era: u64,
}

impl CommitPoint {
    fn readable(&self) -> LogIndex {
        self.index.min(self.written)
    }
}

/// Locks even if a thread panicked while holding it: for values that are valid at every step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// State of a member whose log ends at `written` and whose database is at `applied`; `moved` is
    /// called whenever there may be more to read, or the commit position is another.
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
            awaited: AtomicI64::new(i64::MAX),
            log_bytes: AtomicU64::default(),
            log_full: AtomicBool::default(),
            database_diverged: AtomicBool::default(),
            delivered: AtomicU64::default(),
            base_seqno: AtomicI64::default(),
            snapshots: Arc::default(),
            local: Mutex::default(),
        }
    }

    /// Whether a leader with a quorum is heard.
    pub fn is_primary(&self) -> bool {
        self.primary.load(Ordering::Acquire)
    }

    /// Raised whenever proposals of this session were given up, so that certification no longer
    /// takes their locks for granted.
    pub fn epoch(&self) -> &Arc<AtomicU64> {
        &self.epoch
    }

    /// Everything up to here is in the host's database. Whether the driver waits for that: it wants
    /// an [`crate::Event::Applied`].
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

    /// Has [`Shared::set_applied`] tell when this is applied, unless it is: look after the call.
    pub(crate) fn call_when_applied(&self, seqno: Seqno) {
        self.awaited.store(seqno.0, Ordering::SeqCst);
    }

    /// For a member without a database: counts everything that is committed here as delivered and
    /// applied, so that the log is not kept for a database. Returns the same as
    /// [`Shared::set_applied`].
    pub fn skip_to_commit(&self) -> bool {
        let (index, seqno) = self.committed();
        self.delivered.store(index.0, Ordering::Release);
        self.set_applied(seqno)
    }

    /// See [`Shared::set_applied`].
    pub fn applied(&self) -> Seqno {
        Seqno(self.applied.load(Ordering::SeqCst))
    }

    /// Seqno of the last committed action known here.
    pub fn commit_seqno(&self) -> Seqno {
        Seqno(self.commit_seqno.load(Ordering::Acquire))
    }

    /// An action sets out that has seen everything up to `seqno`; until all holds are dropped.
    pub fn hold_snapshot(&self, seqno: Seqno) -> Arc<Snapshot> {
        self.snapshots.hold(seqno)
    }

    /// A snapshot for status output; all of it but what the log knows.
    pub fn status(&self) -> NodeStatus {
        let mut status = lock(&self.status).clone();
        status.commit_seqno = self.commit_seqno();
        status.log_bytes = self.log_bytes.load(Ordering::Acquire);
        status
    }

    /// Whether the log is beyond its disk bound: a leader takes no new actions, because what would have to be
    /// dropped is on too few databases' disks.
    pub fn is_log_full(&self) -> bool {
        self.log_full.load(Ordering::Acquire)
    }

    /// Where the database is that was there at the start, if its position is still worth anything.
    pub fn position_of(&self, database: DatabasePosition) -> DatabasePosition {
        match self.is_database_diverged() {
            true => DatabasePosition::NONE,
            false => database,
        }
    }

    /// Whether the database, as it was at the start, is at a position of a history that the group has left by an order to
    /// go on without a majority. It has no action of that, but its position means another one here: it has to be
    /// copied anew.
    pub fn is_database_diverged(&self) -> bool {
        self.database_diverged.load(Ordering::Acquire)
    }

    /// The oldest action that this member's log has, or will have once what is under way is written.
    pub fn first_seqno(&self, reader: &LogReader) -> Seqno {
        let base = Seqno(self.base_seqno.load(Ordering::Acquire));
        reader.first_seqno_available().max(base.next())
    }

    /// Remembers that a client of this session waits for the action at `seqno`. Before the commit
    /// of that action is published.
    pub(crate) fn attach_local(&self, seqno: Seqno) {
        lock(&self.local).insert(seqno);
    }

    pub(crate) fn delivered_index(&self) -> LogIndex {
        LogIndex(self.delivered.load(Ordering::Acquire))
    }

    /// Whether a client of this session waits for the action at `seqno`.
    pub(crate) fn take_local(&self, seqno: Seqno) -> bool {
        lock(&self.local).remove(&seqno)
    }

    pub(crate) fn publish_commit(&self, index: LogIndex, seqno: Seqno) {
        let mut commit = lock(&self.commit);
        commit.index = index;
        self.commit_seqno.store(seqno.0, Ordering::Release);
        drop(commit);
        (self.moved)();
    }

    /// Entries at and after `from` are void until they are written again, in the era returned.
    pub(crate) fn log_truncated(&self, from: LogIndex) -> u64 {
        let mut commit = lock(&self.commit);
        commit.written = commit.written.min(from.prev());
        commit.era += 1;
        commit.era
    }

    /// The log can be read up to here, as far as the order of `era` goes.
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
        match synod_planted::is(synod_planted::Bug::DeliverUncommitted) {
            true => commit.written,
            false => commit.readable(),
        }
    }

    /// The last commit known here, whether its entry can be read already or not.
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
        assert_eq!(calls.load(Ordering::Relaxed), 3, "told of each move");
    }
}
