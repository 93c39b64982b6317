//! Reads that see everything acknowledged before they began.

use std::time::{Duration, Instant};

use crate::api::{Gtid, Status};
use crate::connection::Connection;

impl Connection {
    /// Waits until this server has everything up to `upto`, or up to the group's present position.
    pub fn sync_wait(&self, upto: Option<Gtid>, timeout: Duration) -> (Status, Gtid) {
        // A time-out may be as long as the server can express.
        let deadline = Instant::now().checked_add(timeout);
        let target = match upto {
            Some(gtid) if gtid.group != self.group() => {
                return (Status::TrxMissing, Gtid::UNDEFINED);
            }
            Some(gtid) => Some(gtid.seqno),
            None => {
                self.counters.causal_reads.one();
                self.group_position(timeout)
            }
        };
        let reached = target.is_some_and(|seqno| self.sequencer.wait_released(seqno, deadline));
        match reached {
            true => (Status::Ok, self.last_committed()),
            false => (Status::TrxFail, Gtid::UNDEFINED),
        }
    }

    fn group_position(&self, timeout: Duration) -> Option<i64> {
        let node = self.node().filter(|_| self.is_primary())?;
        node.read_position(timeout).map(|seqno| seqno.0)
    }

    /// The highest position with everything up to it finished here.
    pub fn last_committed(&self) -> Gtid {
        let (group, seqno) = (self.group(), self.sequencer.released());
        if group == synod_node::GroupId::NONE || seqno < 0 {
            return Gtid::UNDEFINED;
        }
        Gtid { group, seqno }
    }
}
