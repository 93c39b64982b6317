//! The rules about what a member purged from its log: see `invariants/retained.rs`.
//!
//! The storage calls them after each purge, with what the log held before and holds now.

use synod_consensus::{ConfigAt, LogBase, LogIndex, MemberId, Seqno};

use crate::invariants::retained;
use crate::world::World;

impl World {
    /// A member purges what its own database has not flushed only if its log, of `bytes`, is too
    /// large.
    pub(super) fn check_own_database(&mut self, id: MemberId, base: &LogBase, bytes: u64) {
        self.flush_databases();
        let node = self.node(id);
        let before = self.last_incomplete_action(node.disk.written.base.index);
        let durable = node.database.durable;
        let needs = node.has_data && !node.database.copying && durable >= before;
        // A member's own target may be an eighth smaller.
        if needs && bytes <= 2 * (node.retain_bytes / 8 * 7) {
            let checked =
                retained::own_database(id, self.last_incomplete_action(base.last.index), durable);
            self.judge(checked);
        }
    }

    /// Enough databases hold what was purged, so that any minority of the disks may be lost.
    pub(super) fn check_redundancy(&mut self, id: MemberId, base: &LogBase) {
        self.flush_databases();
        let purged_to = self.last_incomplete_action(base.last.index);
        let enough = self.options.drops_full_logs.then_some(1);
        let check = |at: &ConfigAt| {
            let databases = at.config.members.iter().filter(|(_, m)| m.has_data);
            let voters = databases.filter(|(id, _)| at.config.is_voter(**id));
            let had = voters.map(|(id, _)| self.nodes.get(id).map_or(Seqno(0), |n| n.database.had));
            retained::redundancy(
                id,
                purged_to,
                at.config.voters().count(),
                had.collect(),
                enough,
            )
        };
        let core = self.core(id);
        let own = core.config();
        // The configuration may have changed since the leader decided this, and the leader's
        // configuration may not have reached this member yet.
        let before = core.config_at(own.index.prev());
        let up = self.up().into_iter();
        let elsewhere = up.flat_map(|other| {
            let core = self.core(other);
            let now = core.config();
            [Some(now), core.config_at(now.index.prev())]
        });
        let newer = elsewhere.flatten().filter(|at| at.index > own.index);
        let checked = check(own).or_else(|violation| {
            let mut others = before.into_iter().chain(newer);
            if others.any(|at| check(at).is_ok()) {
                Ok(())
            } else {
                Err(violation)
            }
        });
        self.judge(checked);
    }

    /// The last action of which a log that begins after `base` lacks a part.
    pub(crate) fn last_incomplete_action(&self, base: LogIndex) -> Seqno {
        let before = self.checks.committed.get(base).map(|header| header.seqno);
        let broken = self.checks.certified.last_broken(base);
        before.max(broken).unwrap_or(Seqno(0))
    }

    /// Purged entries are still in a log or in a database.
    pub(super) fn check_retained(&mut self, id: MemberId) {
        self.flush_databases();
        let present = || self.nodes.values().filter(|node| !node.gone);
        let logs = present().map(|node| self.last_incomplete_action(node.disk.written.base.index));
        let whole = present().filter(|node| node.has_data && !node.database.copying);
        let databases = whole.map(|node| node.database.durable);
        let checked = retained::purged(id, logs, databases);
        self.judge(checked);
    }
}
