//! Loss of the quorum (decision 008): most voters are lost for good, and an operator orders one of
//! the others to become a forced primary.
//!
//! Entries that the lost voters had committed and that are not in the log of the forced primary are
//! *lost to the forced primary*. The checkers forget that these entries were committed; all other
//! rules hold before and after. Operators follow the advice of members here: a database that holds
//! lost actions is deleted.

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
    /// Loses most voters and forces one of the others to be primary. Returns the survivors, which
    /// must come to rest; `None` if no member can be a forced primary.
    pub(crate) fn continue_with_forced_primary(&mut self) -> Option<BTreeSet<MemberId>> {
        self.stop_all();
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        for id in &all {
            self.node(*id).faulty.heal();
            self.node_mut(*id).slow_disk = 0;
            self.start(*id);
        }
        let candidates: Vec<MemberId> = all
            .into_iter()
            .filter(|id| self.can_be_forced_primary(*id))
            .collect();
        let leader = self.pick(&candidates)?;
        let left = self.draw_survivors(leader);
        let kept_to = self.last_committed_in(&self.node(leader).disk.written);
        self.stop_all();
        self.hit(leader, Fault::ForcedPrimary);
        self.forget_lost_entries(kept_to);
        self.lose_disks(&left, kept_to);
        let left: BTreeSet<MemberId> = left.into_iter().filter(|id| !self.node(*id).gone).collect();
        self.net.unblock_all();
        self.force(leader);
        for id in &left {
            self.start(*id);
        }
        Some(left)
    }

    /// An operator forces a primary although the majority lives. Members of the majority keep their
    /// disks.
    pub(crate) fn force_while_others_live(&mut self, leader: MemberId) {
        self.end_process(leader);
        let kept_to = self.last_committed_in(&self.node(leader).disk.written);
        self.hit(leader, Fault::ForcedPrimary);
        self.forget_lost_entries(kept_to);
        let kept = self.seqno_at(kept_to);
        for node in self.nodes.values_mut() {
            node.database.holds_lost = node.database.applied > kept;
        }
        self.force(leader);
    }

    /// Starts a member and orders it to become a forced primary.
    fn force(&mut self, leader: MemberId) {
        self.forced = Some(leader);
        self.start(leader);
        if self.is_up(leader) {
            let done = self.process(leader).effects.forced();
            self.feed(leader, Input::ForcePrimary(done));
        }
    }

    fn stop_all(&mut self) {
        for id in self.up() {
            self.end_process(id);
        }
    }

    /// Whether this member can become a forced primary: it is configured, its log is undamaged, and
    /// its database fits to the log.
    fn can_be_forced_primary(&self, id: MemberId) -> bool {
        let node = self.node(id);
        if !node.is_up() || !node.has_data || node.database.copying || node.disk.needs_repair() {
            return false;
        }
        let core = self.core(id);
        let applied = node.database.applied;
        let kept = self.seqno_at(self.last_committed_in(&node.disk.written));
        let members = &core.config().config.members;
        members.contains_key(&id) && core.base().seqno <= applied && applied <= kept
    }

    /// Random survivors with this member among them: fewer than a majority of its configuration.
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

    /// The last index up to which a log has what is committed.
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

    /// The checkers forget that entries after `kept_to` were committed.
    fn forget_lost_entries(&mut self, kept_to: LogIndex) {
        if self.commit_index() > kept_to {
            self.coverage.count("entries lost to a forced primary");
        }
        let entries = self.checks.committed.entries();
        let kept: Vec<_> = entries
            .iter()
            .take_while(|(header, _)| header.index <= kept_to)
            .copied()
            .collect();
        self.checks.forget_committed(kept_to);
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

    /// The disks of all but the survivors are lost. Operators also give up a log that begins after
    /// `kept_to`. A database with lost actions stays, also if its log is damaged or too short to
    /// show that: its member has to find out.
    fn lose_disks(&mut self, left: &[MemberId], kept_to: LogIndex) {
        let kept = self.seqno_at(kept_to);
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        for id in all {
            let node = self.node_mut(id);
            node.database.holds_lost = node.database.applied > kept;
            let begins_later = node.disk.written.base.index > kept_to;
            if !left.contains(&id) || begins_later {
                node.gone = true;
            }
        }
    }

    /// A member has stopped because its database holds lost actions. Its operator deletes it.
    pub(crate) fn give_up_database(&mut self, id: MemberId) {
        self.coverage.count("database deleted after quorum loss");
        self.node_mut(id).database.replace(Seqno(0));
    }

    /// A database that applies actions holds none that were lost.
    pub(crate) fn check_not_lost(&mut self, id: MemberId) {
        let holds_lost = self.node(id).database.holds_lost;
        let checked = require(
            !holds_lost,
            "no database keeps actions lost to a forced primary",
            || format!("{id} applies to a database that holds actions which the group has lost"),
        );
        self.judge(checked);
    }

    /// The answer of the member that was ordered to become a forced primary.
    pub(crate) fn forced_primary_answered(&mut self, id: MemberId, result: Result<(), ForceError>) {
        self.note(id, What::Operator { name: "force" });
        if let Err(error) = result {
            self.judge(Err(Violation {
                rule: "a member that can be a forced primary becomes one",
                what: format!("{id}: {error}"),
            }));
        }
    }

    /// Whether a configuration is the one that the forced primary makes by order.
    pub(crate) fn is_forced_configuration(
        &mut self,
        id: MemberId,
        entry: EntryId,
        sole_voter: bool,
    ) -> bool {
        let is_forced = self.forced == Some(id) && sole_voter;
        if is_forced {
            self.forced = None;
            self.note(id, What::Forced { entry });
        }
        is_forced
    }
}

impl crate::member::recorded_effects::RecordedEffects {
    /// The operator who waits for the answer to the order.
    fn forced(self: &std::sync::Arc<Self>) -> ForceDone {
        let effects = self.clone();
        ForceDone(Box::new(move |result| {
            effects.push(RecordedEffect::Forced(result))
        }))
    }
}
