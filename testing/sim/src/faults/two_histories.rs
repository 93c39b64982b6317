//! Two histories (decision 008): an operator forces a primary while the majority only seems to be
//! lost, and the majority comes back later.
//!
//! The forced primary must have purged the place where the histories part: otherwise its entries
//! show the difference. One member of the old majority comes back from its disk; another one never
//! stopped, and has in memory what it has committed. Neither may take the new history for its own.
//!
//! In some runs the former has lost its log, and its database is left. Then nothing shows that the
//! database is of another history, so it has to be copied again.

use std::collections::BTreeSet;

use synod_consensus::{LogIndex, MemberId};

use crate::world::{MS, SECOND, World};

/// Segments of the log that only the majority writes.
const LOST_SEGMENTS: u64 = 8;
/// Time between two transactions of one member, in microseconds.
const WRITE_US: u64 = 3 * MS;
/// Most transactions of one member in one step.
const WRITES_MAX: u64 = 5_000;
/// Time in which the group comes to rest, in microseconds.
const REST_US: u64 = 60 * SECOND;

impl World {
    /// Makes two histories, and brings the members of the first into the second. Returns the
    /// members that must come to rest; `None` if two histories did not come about.
    pub(crate) fn meet_two_histories(&mut self) -> Option<BTreeSet<MemberId>> {
        let mut all: BTreeSet<MemberId> = self.nodes.keys().copied().collect();
        self.heal_network();
        for id in &all {
            self.start(*id);
        }
        if !self.run_until(REST_US, |world| world.is_settled(&all)) {
            return None;
        }
        let leader = self.ready_leader()?;
        let others: Vec<MemberId> = all.iter().copied().filter(|id| *id != leader).collect();
        let &[follower, forced] = others.as_slice() else {
            return None;
        };
        self.isolate(forced);
        let parted = self.core(forced).last_id().index;
        let lost_to = self.write_first_history(leader, follower)?;
        self.end_process(leader);
        self.isolate(follower);
        self.force_while_others_live(forced);
        self.write_second_history(forced, parted, lost_to)?;
        self.heal_network();
        self.run_for(SECOND);
        if self.options.loses_log {
            all.remove(&leader);
            all.insert(self.return_without_log(leader));
        } else {
            self.start(leader);
        }
        self.heal_network();
        Some(all)
    }

    /// A member's database comes back with a new log, as a new member of the same name.
    fn return_without_log(&mut self, id: MemberId) -> MemberId {
        let node = self.node_mut(id);
        node.gone = true;
        let database = std::mem::take(&mut node.database);
        let (name, wants_vote) = (node.name.clone(), node.wants_vote);
        let returned = self.new_node(name, true, wants_vote);
        self.node_mut(returned).database = database;
        self.coverage.count("database back without its log");
        self.start(returned);
        returned
    }

    fn isolate(&mut self, id: MemberId) {
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        for other in all.into_iter().filter(|other| *other != id) {
            self.net.block(id, other);
            self.net.block(other, id);
            self.disconnect(id, other);
        }
    }

    /// Two voters of three write, and apply all of it. Returns the last index.
    fn write_first_history(&mut self, leader: MemberId, follower: MemberId) -> Option<LogIndex> {
        let enough = self.committed_bytes() + LOST_SEGMENTS * self.options.segment_bytes;
        self.write_until(&[leader, follower], |world| {
            world.committed_bytes() >= enough
        })?;
        let at_rest = |world: &World| {
            let last = world.core(leader).last_id().index;
            let is_at_end = |id: MemberId| {
                let (core, database) = (world.core(id), &world.node(id).database);
                core.commit_index() == last
                    && core.durable_index() == last
                    && database.applied == world.last_seqno()
            };
            is_at_end(leader) && is_at_end(follower)
        };
        let rested = self.run_until(REST_US, at_rest);
        rested.then(|| self.core(leader).last_id().index)
    }

    /// The forced primary writes until its log ends after the first history, and begins after the
    /// place where the histories part.
    fn write_second_history(
        &mut self,
        forced: MemberId,
        parted: LogIndex,
        lost_to: LogIndex,
    ) -> Option<()> {
        self.write_until(&[forced], |world| {
            let core = world.core(forced);
            core.commit_index() > lost_to && core.base().last.index > parted
        })?;
        let is_hidden = self.core(forced).base().last.index <= lost_to;
        self.coverage.count("two histories");
        self.coverage
            .count_if(is_hidden, "two histories that part in a purged place");
        Some(())
    }

    /// Members write, and purge as much as they may, until something holds.
    fn write_until(&mut self, members: &[MemberId], holds: impl Fn(&World) -> bool) -> Option<()> {
        for _ in 0..WRITES_MAX {
            if self.violation.is_some() || members.iter().any(|id| !self.is_up(*id)) {
                return None;
            }
            if holds(self) {
                return Some(());
            }
            for id in members {
                self.node_mut(*id).wall_ahead = true;
                self.submit(*id);
            }
            self.run_for(WRITE_US);
        }
        None
    }

    fn committed_bytes(&self) -> u64 {
        let entries = self.checks.committed.entries().iter();
        let bytes = entries.map(|(header, _)| u64::from(header.payload_len));
        bytes.sum()
    }
}
