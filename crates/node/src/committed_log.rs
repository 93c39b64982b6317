//! What the group has committed, as this member's log has it, for readers beside the host.

use std::sync::Arc;
use std::time::Instant;

use synod_consensus::Seqno;
use synod_log::LogReader;
use synod_member::{FollowError, Follower, Shared};

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
    /// The oldest action in the log.
    pub fn first_seqno(&self) -> Seqno {
        self.shared.first_seqno(&self.reader)
    }

    /// The last committed action that this member knows, whether its log has it already or not.
    pub fn commit_seqno(&self) -> Seqno {
        self.shared.commit_seqno()
    }

    /// Reads everything after the action `after`.
    ///
    /// # Errors
    /// The log does not have it any more, or cannot be read.
    pub fn follow(&self, after: Seqno) -> Result<Follower, FollowError> {
        Follower::after(self.reader.clone(), self.shared.clone(), after)
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
}
