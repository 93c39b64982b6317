//! Reads that see everything acknowledged before they began.
//!
//! The server calls this with `wsrep_sync_wait`, and scripts that copy a database call it, too. The
//! leader answers the group's position; the read waits until everything up to it is released here.

use std::time::{Duration, Instant};

use crate::api::{Gtid, Status};
use crate::connection::Connection;

/// Time after which the group's position is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

impl Connection {
    /// Waits until this server has everything up to `upto`, or up to the group's present position.
    pub(crate) fn sync_wait(&self, upto: Option<Gtid>, timeout: Duration) -> (Status, Gtid) {
        if !self.state().lifecycle.is_tracked() {
            // The database is being replaced, and the client is most likely the script that does
            // it: a wait for its end would never return.
            return (Status::TrxFail, Gtid::UNDEFINED);
        }
        // A time-out may be as long as the server can express.
        let deadline = Instant::now().checked_add(timeout);
        let target = match upto {
            Some(gtid) if gtid.group != self.group() => {
                return (Status::TrxMissing, Gtid::UNDEFINED);
            }
            Some(gtid) => Some(gtid.seqno),
            None => {
                self.shared.counters.causal_reads.one();
                // What this server has asked the group to do came before the read, too.
                match self.wait_streams_rolled_back(deadline) {
                    true => self.group_position(deadline),
                    false => None,
                }
            }
        };
        let reached = target.is_some_and(|seqno| self.sequencer.wait_released(seqno, deadline));
        match reached {
            true => (Status::Ok, self.last_committed()),
            false => (Status::TrxFail, Gtid::UNDEFINED),
        }
    }

    /// `None` by the deadline, or without a quorum.
    fn group_position(&self, deadline: Option<Instant>) -> Option<i64> {
        let node = self.node()?;
        // A question may be lost with the leader it was put to.
        while self.is_primary() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let limit = left.map_or(ASK_AGAIN, |left| left.min(ASK_AGAIN));
            if let Some(seqno) = node.read_position(limit) {
                return Some(seqno.0);
            }
            if left.is_some_and(|left| left <= ASK_AGAIN) {
                return None;
            }
        }
        None
    }

    /// The highest position with everything up to it finished here.
    pub(crate) fn last_committed(&self) -> Gtid {
        let (group, seqno) = (self.group(), self.sequencer.released());
        if group == synod_node::GroupId::NONE || seqno < 0 {
            return Gtid::UNDEFINED;
        }
        Gtid { group, seqno }
    }
}
