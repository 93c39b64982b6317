//! State that several threads read: positions, membership, counters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use synod_consensus::{GroupId, LogIndex, MemberId, RoleName, Seqno, SessionId, Term};

use crate::host::MemberStatus;
use crate::pending::Pending;
use crate::snapshots::Snapshots;
use crate::view::View;

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

/// See the module.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) status: Mutex<NodeStatus>,
    commit: Mutex<CommitPoint>,
    commit_moved: Condvar,
    pub(crate) commit_seqno: AtomicI64,
    pub(crate) primary: AtomicBool,
    /// Raised whenever proposals of this session were given up, so that certification no longer
    /// takes their locks for granted.
    pub(crate) epoch: Arc<AtomicU64>,
    /// Last position the host has applied.
    pub(crate) applied: AtomicI64,
    /// Size of the log on disk.
    pub(crate) log_bytes: AtomicU64,
    /// Last index delivered.
    pub(crate) delivered: AtomicU64,
    /// The log begins after this action, once the log thread has caught up with the core thread.
    pub(crate) base_seqno: AtomicI64,
    /// Actions of this session on their way.
    pub(crate) snapshots: Arc<Snapshots>,
    local: Mutex<HashMap<Seqno, Arc<Pending>>>,
}

#[derive(Default)]
struct CommitPoint {
    index: LogIndex,
    /// Up to here readers of the log find the log that the core thread means. A commit may be known
    /// before this member has written the entry; until then the log may hold another one there, which
    /// is to be cut.
    written: LogIndex,
    /// Counts cuts; what was written before the latest cut proves nothing about the log after it.
    era: u64,
    stopped: bool,
}

impl CommitPoint {
    fn readable(&self) -> LogIndex {
        self.index.min(self.written)
    }
}

/// Locks even if a thread panicked while holding it: the values are valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn is_primary(&self) -> bool {
        self.primary.load(Ordering::Acquire)
    }

    /// Remembers that a client of this session waits for the action at `seqno`. Before the commit
    /// of that action is published.
    pub(crate) fn attach_local(&self, seqno: Seqno, pending: Arc<Pending>) {
        lock(&self.local).insert(seqno, pending);
    }

    pub(crate) fn delivered_index(&self) -> LogIndex {
        LogIndex(self.delivered.load(Ordering::Acquire))
    }

    /// Whether a client of this session waits for the action at `seqno`.
    pub(crate) fn take_local(&self, seqno: Seqno) -> bool {
        lock(&self.local).remove(&seqno).is_some()
    }

    pub(crate) fn publish_commit(&self, index: LogIndex, seqno: Seqno) {
        let mut commit = lock(&self.commit);
        commit.index = index;
        self.commit_seqno.store(seqno.0, Ordering::Release);
        drop(commit);
        self.commit_moved.notify_all();
    }

    /// Entries at and after `from` are void until they are written again, in the era returned.
    pub(crate) fn log_cut(&self, from: LogIndex) -> u64 {
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
            self.commit_moved.notify_all();
        }
    }

    /// Waits until entries up to `index` at least are committed and can be read here, and tells how
    /// far; `None` once stopped.
    pub(crate) fn wait_for_commit(&self, index: LogIndex) -> Option<LogIndex> {
        let mut commit = lock(&self.commit);
        loop {
            if commit.stopped {
                return None;
            }
            if commit.readable() >= index {
                return Some(commit.readable());
            }
            commit = self
                .commit_moved
                .wait(commit)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until everything up to `seqno` is committed and can be read here; false once stopped.
    pub(crate) fn wait_for_commit_seqno(&self, seqno: Seqno) -> bool {
        let mut commit = lock(&self.commit);
        loop {
            if commit.stopped {
                return false;
            }
            if self.commit_seqno.load(Ordering::Acquire) >= seqno.0 {
                let index = commit.index;
                drop(commit);
                return self.wait_for_commit(index).is_some();
            }
            commit = self
                .commit_moved
                .wait(commit)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn stop(&self) {
        lock(&self.commit).stopped = true;
        self.commit_moved.notify_all();
    }
}
