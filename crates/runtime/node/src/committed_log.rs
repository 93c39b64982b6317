//! The committed part of this member's log, for readers beside the host.

use std::sync::Arc;
use std::time::Instant;

use synod_consensus::{LogIndex, Seqno};
use synod_log::LogReader;
use synod_member::{FollowError, Follower, LogHold, Shared};

use crate::node::Node;
use crate::threads::delivery::Delivery;

/// The committed part of a member's log. Cheap to clone.
#[derive(Clone)]
pub struct CommittedLog {
    reader: LogReader,
    shared: Arc<Shared>,
    delivery: Arc<Delivery>,
}

impl Node {
    /// The committed part of this member's log. Its waits end when the node stops.
    pub fn committed_log(&self) -> CommittedLog {
        CommittedLog {
            reader: self.reader.clone(),
            shared: self.shared.clone(),
            delivery: self.delivery.clone(),
        }
    }
}

impl CommittedLog {
    pub fn first_seqno(&self) -> Seqno {
        self.shared.first_seqno(&self.reader)
    }

    /// The last committed action that this member knows, whether its log has it already or not.
    pub fn commit_seqno(&self) -> Seqno {
        self.shared.commit_seqno()
    }

    /// The last committed action that is in this member's log. A member that has just joined knows
    /// of commits before it has them.
    pub fn readable_seqno(&self) -> Seqno {
        self.seqno_at(self.shared.readable())
    }

    /// The last action that is in this member's log, committed or not.
    pub fn written_seqno(&self) -> Seqno {
        self.seqno_at(self.reader.durable_index())
    }

    /// The last action of the log up to an entry.
    fn seqno_at(&self, index: LogIndex) -> Seqno {
        let newest = self.reader.summary(index);
        let before_log = self.reader.first_seqno_available().prev();
        newest.map_or(before_log, |entry| entry.seqno.max(before_log))
    }

    pub fn follow(&self, after: Seqno) -> Result<Follower, FollowError> {
        Follower::after(self.reader.clone(), self.shared.clone(), after)
    }

    /// Keeps this log from being purged of what comes after the action `passed`, as long as it is
    /// not full.
    pub fn hold_after(&self, passed: Seqno) -> LogHold {
        self.shared.hold_log_after(passed)
    }

    /// Has this log purged up to this action, by whole files, of what neither members nor readers
    /// need; soon, and again after each call.
    pub fn purge_up_to(&self, last: Seqno) {
        self.shared.purge_up_to(last);
    }

    /// Whether the log is at its disk bound: what is appended from now on makes it full, and then
    /// nothing is taken any more.
    pub fn is_tight(&self) -> bool {
        self.shared.is_log_tight()
    }

    /// Whether the log is full: a leader takes nothing until it has been purged.
    pub fn is_full(&self) -> bool {
        self.shared.is_log_full()
    }

    /// How often the log or the commit index has moved; none once the node has stopped.
    pub fn moves(&self) -> Option<u64> {
        self.delivery.log_moved().count()
    }

    /// Waits until the log or the commit index has moved more often than `seen`, at most until
    /// `deadline`.
    pub fn wait_beyond(&self, seen: u64, deadline: Instant) {
        self.delivery.log_moved().wait_beyond_until(seen, deadline);
    }

    /// Ends all waits as if the log had moved: those who wait are to look at something else.
    pub fn wake(&self) {
        self.delivery.log_moved().notify();
    }
}
