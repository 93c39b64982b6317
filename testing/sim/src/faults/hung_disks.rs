//! Disks that hang (P5): a minority of them, the leader's included, must not stop the group.
//!
//! One disk after the other answers nothing for a while, the leader's first, and nothing else
//! fails. The bounds of memory are small in these runs: a leader that kept leading would soon have
//! no room for new entries.

use synod_consensus::MemberId;

use crate::invariants::Violation;
use crate::member::start::DISK_PATIENCE_HEARTBEATS;
use crate::world::{SECOND, World};

/// A disk answers nothing for this long.
const HANG_US: u64 = 5 * SECOND;
/// In this time a member whose disk works again takes part again.
const BACK_US: u64 = 20 * SECOND;
/// Commits are looked for in so many spans of time.
const LOOKS: u64 = 5;

impl World {
    /// Hangs the disk of each voter in turn, while clients work.
    pub(crate) fn hang_disks_in_turn(&mut self) {
        let Some(leader) = self.ready_leader() else {
            return;
        };
        let mut voters: Vec<MemberId> = self.core(leader).config().config.voters().collect();
        voters.sort_by_key(|id| *id != leader);
        for id in voters {
            self.hang_disk(id);
            if self.violation.is_some() {
                return;
            }
        }
    }

    fn hang_disk(&mut self, id: MemberId) {
        let led = self.ready_leader() == Some(id);
        let patience_us = DISK_PATIENCE_HEARTBEATS * self.options.timing.heartbeat_us;
        // The leader notices, hands over, and the other voters elect one of them.
        let bound_us = 2 * patience_us + 2 * self.options.timing.election_timeout_max_us;
        self.node_mut(id).slow_disk = HANG_US;
        self.run_for(bound_us);
        for _ in 0..LOOKS {
            let before = self.commit_index();
            self.run_for(patience_us);
            if self.violation.is_none() && self.commit_index() == before {
                return self.hung(format!("nothing is committed while the disk of {id} hangs"));
            }
        }
        if led && self.ready_leader().is_some_and(|leader| leader != id) {
            self.coverage.count("leader handed over for its disk");
        }
        self.node_mut(id).slow_disk = 0;
        // The sync under way still takes its time.
        let reached = self.commit_index();
        let is_back = self.run_until(HANG_US + BACK_US, |world| {
            world.core(id).durable_index() >= reached && world.core(id).leader().is_some()
        });
        if !is_back && self.violation.is_none() {
            self.hung(format!("{id}, whose disk works again, does not take part"));
        }
    }

    fn hung(&mut self, what: String) {
        let rule = "hung disks of a minority stop nothing";
        self.violation = Some(Violation { rule, what });
    }
}
