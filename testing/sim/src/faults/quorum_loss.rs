//! Going on without a majority (decision 013): most voters are lost for good, and an operator orders one that is
//! left to lead. What the lost ones had committed and this one has not is *lost by order*: it is taken out of
//! the account, and everything else has to hold as ever, before and after.
//!
//! Operators do here what members tell them to: a database that holds lost actions is given up.

use synod_consensus::{EntryHeader, EntryId, ForceError, LogIndex, MemberId, Seqno};
use synod_member::{Event as Input, ForceDone};

use std::collections::BTreeSet;

use crate::invariants::{Violation, require};
use crate::member::disk_model::LogImage;
use crate::member::recorded_effects::RecordedEffect;
use crate::options::Fault;
use crate::trace::What;
use crate::world::World;

impl World {
    /// Loses most voters and goes on with one of the rest. `None` if nobody is fit for it; otherwise those
    /// that are left, who must come to rest.
    pub(crate) fn continue_with_forced_primary(&mut self) -> Option<BTreeSet<MemberId>> {
        self.stop_all();
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        for id in &all {
            self.node(*id).faulty.heal();
            let node = self.node_mut(*id);
            (node.slow_disk, node.paused_until_us) = (0, 0);
            self.start(*id);
        }
        let fit: Vec<MemberId> = all
            .into_iter()
            .filter(|id| self.can_be_forced_primary(*id))
            .collect();
        let leader = self.pick(&fit)?;
        let left = self.draw_survivors(leader);
        let cut = self.last_committed_in(&self.node(leader).disk.written);
        self.stop_all();
        self.hit(leader, Fault::ForcedPrimary);
        self.forget_lost_entries(cut);
        self.give_up_disks(&left, cut);
        let left: BTreeSet<MemberId> = left.into_iter().filter(|id| !self.node(*id).gone).collect();
        self.net.unblock_all();
        self.forced = Some(leader);
        self.start(leader);
        if self.is_up(leader) {
            let done = self.process(leader).effects.forced();
            self.feed(leader, Input::ForcePrimary(done));
        }
        for id in &left {
            self.start(*id);
        }
        Some(left)
    }

    fn stop_all(&mut self) {
        for id in self.up() {
            self.end_process(id);
        }
    }

    /// Whether this member can be told to go on: it votes, its log is whole, and its database goes with it.
    fn can_be_forced_primary(&self, id: MemberId) -> bool {
        let node = self.node(id);
        if !node.is_up() || !node.has_data || node.database.copying || node.disk.needs_repair() {
            return false;
        }
        let core = self.core(id);
        let applied = node.database.applied;
        let kept = self.seqno_at(self.last_committed_in(&node.disk.written));
        core.config().config.is_voter(id) && core.base().seqno <= applied && applied <= kept
    }

    /// Who is left beside a member: fewer than a majority of its configuration.
    fn draw_survivors(&mut self, leader: MemberId) -> Vec<MemberId> {
        let voters: BTreeSet<MemberId> = self.core(leader).config().config.voters().collect();
        let mut left = vec![leader];
        let others: Vec<MemberId> = self.up().into_iter().filter(|id| *id != leader).collect();
        for id in others {
            let voting = left.iter().chain([&id]).filter(|id| voters.contains(id));
            if voting.count() * 2 <= voters.len() && self.chance(0.7) {
                left.push(id);
            }
        }
        left
    }

    /// Up to where a log has what is committed.
    fn last_committed_in(&self, log: &LogImage) -> LogIndex {
        let committed = &self.checks.committed;
        let known = |index: LogIndex| committed.get(index).map(EntryHeader::id);
        let last = log.last().index.min(committed.index());
        let mut down = (log.base.index.0..=last.0).rev().map(LogIndex);
        let same = down.find(|index| log.id_at(*index) == known(*index));
        same.unwrap_or(log.base.index)
    }

    fn seqno_at(&self, index: LogIndex) -> Seqno {
        let header = self.checks.committed.get(index);
        header.map_or(Seqno(0), |header| header.seqno)
    }

    /// Takes what is committed after an entry out of the account.
    fn forget_lost_entries(&mut self, cut: LogIndex) {
        if self.commit_index() > cut {
            self.coverage.count("entries lost by order");
        }
        let entries = self.checks.committed.entries();
        let kept: Vec<_> = entries
            .iter()
            .take_while(|(header, _)| header.index <= cut)
            .copied()
            .collect();
        self.checks.forget_committed(cut);
        for (header, term) in kept {
            let known = self.checks.payloads.get(header.id());
            let Some((header, payload)) = known else {
                continue;
            };
            let (_, checked) = self
                .checks
                .commit(header.origin.member, &header, &payload, term);
            self.judge(checked);
        }
    }

    /// The disks of the others are lost; so is, to their operators, a log that begins behind the cut, and a
    /// database with lost actions whose log is damaged.
    fn give_up_disks(&mut self, left: &[MemberId], cut: LogIndex) {
        let kept = self.seqno_at(cut);
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        for id in all {
            let node = self.node_mut(id);
            node.database.holds_lost = node.database.applied > kept;
            let (log_end, needs_repair) = (node.disk.written.last(), node.disk.needs_repair());
            let known = self.checks.payloads.get(log_end);
            let is_short =
                known.is_some_and(|(header, _)| header.seqno < self.node(id).database.applied);
            let node = self.node_mut(id);
            if node.database.holds_lost && (needs_repair || is_short) {
                // Its log does not tell, so the documents do.
                node.database.replace(Seqno(0));
            }
            let begins_behind = node.disk.written.base.index > cut;
            if !left.contains(&id) || begins_behind {
                node.gone = true;
            }
        }
    }

    /// A member has stopped because its database holds what is lost. Its operator deletes that.
    pub(crate) fn give_up_database(&mut self, id: MemberId) {
        self.coverage
            .count("database given up after a forced start");
        self.node_mut(id).database.replace(Seqno(0));
    }

    /// A database is handed something.
    pub(crate) fn check_not_lost(&mut self, id: MemberId) {
        let holds_lost = self.node(id).database.holds_lost;
        let checked = require(
            !holds_lost,
            "what is lost by order is in no database",
            || format!("{id} goes on with a database that holds actions which the group has lost"),
        );
        self.judge(checked);
    }

    /// The member that was told to go on says whether it does.
    pub(crate) fn forced_primary_answered(&mut self, id: MemberId, result: Result<(), ForceError>) {
        self.note(id, What::Operator { name: "force" });
        if let Err(error) = result {
            self.judge(Err(Violation {
                rule: "a fit member goes on when told to",
                what: format!("{id}: {error}"),
            }));
        }
    }

    /// Whether this configuration entry is the one that was ordered.
    pub(crate) fn is_forced_configuration(
        &mut self,
        id: MemberId,
        entry: EntryId,
        sole_voter: bool,
    ) -> bool {
        let ordered = self.forced == Some(id) && sole_voter;
        if ordered {
            self.forced = None;
            self.note(id, What::Forced { entry });
        }
        ordered
    }
}

impl crate::member::recorded_effects::RecordedEffects {
    /// Takes the place of the operator who has given the order.
    fn forced(self: &std::sync::Arc<Self>) -> ForceDone {
        let effects = self.clone();
        ForceDone(Box::new(move |result| {
            effects.push(RecordedEffect::Forced(result))
        }))
    }
}
