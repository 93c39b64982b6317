//! The rules about single effects of a member's core: writes, commits, roles, reads.
//!
//! Called for each effect before it is performed, so that a violation stops the run at the first
//! wrong step. The facts that only the core knew at that moment come with the effect
//! ([`CoreEffect`]).

use synod_consensus::{
    Config, Effect, EntryHeader, EntryId, EntryKind, LogIndex, MemberId, RoleChange, RoleName,
    Term, WriteOp,
};
use synod_wire::OUR_VERSIONS;

use crate::expected::entries;
use crate::invariants::committed::Committed;
use crate::invariants::election::Election;
use crate::invariants::quorum::{durable_on_quorum, outlives_each_region, whole_on_quorum};
use crate::invariants::voters::Made;
use crate::invariants::{Violation, require, versions};
use crate::member::recorded_effects::CoreEffect;
use crate::trace::What;
use crate::world::World;

/// Name of a role, which is part of the hash of a run.
pub(crate) fn role_name(role: RoleName) -> &'static str {
    match role {
        RoleName::Follower => "follower",
        RoleName::PreCandidate => "pre-candidate",
        RoleName::Candidate => "candidate",
        RoleName::Leader => "leader",
    }
}

impl World {
    /// Checks an effect of the core, and keeps account of it.
    pub(crate) fn core_effect(&mut self, id: MemberId, seen: CoreEffect) {
        match &seen.effect {
            Effect::Write { ticket, op } => {
                self.check_write(id, &seen, op);
                let ticket = *ticket;
                if let Effect::Write { op, .. } = &seen.effect {
                    self.node_mut(id).disk.write(ticket, op);
                }
            }
            Effect::Committed { index } => self.committed(id, *index, &seen),
            Effect::Role(change) => self.role_changed(id, *change),
            Effect::Config(config) => {
                self.coverage.count("configuration in force");
                let voters: Vec<MemberId> = config.config.voters().collect();
                let (index, count) = (config.index, voters.len());
                self.process(id).voters.push((index, voters));
                let voters = count;
                self.note(id, What::Config { index, voters });
            }
            Effect::ReadReady {
                id: read,
                index,
                seqno,
            } => {
                let (id_of_read, index, seqno) = (*read, *index, *seqno);
                self.note(
                    id,
                    What::Read {
                        id: id_of_read,
                        index,
                    },
                );
                let known = self.checks.committed.get(index);
                let checked = self
                    .checks
                    .reads
                    .answer(id, id_of_read, index, seqno, known);
                self.judge(checked);
            }
            Effect::Send(_) | Effect::SendEntries(_) => {}
        }
    }

    /// The rules about what is written.
    fn check_write(&mut self, id: MemberId, seen: &CoreEffect, op: &WriteOp) {
        match op {
            WriteOp::Append(headers) => {
                let mut before = self.node(id).disk.written.last();
                let leads = self.checks.election.leader_of(seen.term) == Some(id);
                let windows = if leads {
                    self.process(id).windows.clone()
                } else {
                    Vec::new()
                };
                for header in headers {
                    let (is_new, checked) = self.checks.log_matching.written(header, before);
                    self.judge(checked);
                    if is_new && leads && header.kind == EntryKind::Action {
                        self.checks.certified.verdict_given(header.id(), &windows);
                    }
                    let config = seen.configs.iter().find(|(at, ..)| *at == header.id());
                    if let Some((entry, config, before)) = config.filter(|_| is_new) {
                        self.check_configuration(id, *entry, config, *before);
                    }
                    before = header.id();
                }
            }
            WriteOp::Truncate { from } => {
                self.coverage.count("truncation");
                let had = self.node(id).disk.written.id_at(*from);
                let checked = self.checks.committed.truncated(id, *from, had);
                self.judge(checked);
            }
            WriteOp::Vote(_) => {}
            WriteOp::Reset(base) => {
                self.coverage.count("log reset");
                self.process(id).committed = base.last.index;
                let checked = self.checks.committed.base(id, base.last);
                self.judge(checked);
            }
        }
    }

    /// A leader made a configuration; `before` is the entry of the one before it in its log.
    fn check_configuration(
        &mut self,
        id: MemberId,
        entry: EntryId,
        config: &Config,
        before: Option<EntryId>,
    ) {
        self.coverage.count_if(
            config.protocol > OUR_VERSIONS.max,
            "configuration of the next version",
        );
        let protocol = before.and_then(|before| self.checks.config_change.protocol(before));
        let checked = versions::made(entry, config, protocol, &self.checks.ordered_versions);
        self.judge(checked);
        let ordered = self.is_forced_configuration(id, entry, config.is_sole_voter(id));
        let committed = self.commit_index();
        let changes = &mut self.checks.config_change;
        let before = before.filter(|_| !ordered);
        let checked = changes.made(entry, config, before, committed);
        self.judge(checked);
        let nodes = &self.nodes;
        let joined = |id: MemberId| {
            let process = nodes.get(&id)?.process.as_ref()?;
            process.driver.has_joined().then_some(process.session)
        };
        let removed = &mut self.checks.removed;
        let checked = removed.made(entry, config, before, joined);
        self.judge(checked);
        self.check_voters(entry, config, before);
    }

    /// The group changes its voters by itself only as far as operators want.
    fn check_voters(&mut self, entry: EntryId, config: &Config, before: Option<EntryId>) {
        let changes = &self.checks.config_change;
        let before = before.and_then(|before| changes.voters(before));
        let (Some(bounds), Some(before)) = (self.voter_bounds, before) else {
            return;
        };
        let may_follow =
            |id: &MemberId| !config.is_voter(*id) && self.is_up(*id) && self.node(*id).wants_vote;
        let made = Made {
            entry,
            before,
            voters: &config.voters().collect(),
            successors: config.members.keys().copied().filter(may_follow).count(),
        };
        let checked = bounds.made(&made, |id| self.is_up(id));
        self.judge(checked);
    }

    fn committed(&mut self, id: MemberId, index: LogIndex, seen: &CoreEffect) {
        self.note(id, What::Committed { index });
        if index > self.commit_index() {
            let entry = seen.entries.last().copied().flatten();
            self.check_quorum(id, index, entry, seen);
        }
        for entry in seen.entries.iter().flatten() {
            self.check_commit(id, *entry, seen);
        }
        self.process(id).committed = index;
    }

    /// Shows a committed entry to the checkers.
    fn check_commit(&mut self, id: MemberId, entry: EntryId, seen: &CoreEffect) {
        let Some((header, payload)) = self.checks.payloads.get(entry) else {
            return self.judge(Err(Violation {
                rule: "what is committed was written",
                what: format!("{id} commits {entry}, which no member wrote"),
            }));
        };
        let (is_first, checked) = self.checks.commit(id, &header, &payload, seen.term);
        self.judge(checked);
        if is_first {
            entries::count(&mut self.coverage, &header.kind);
        }
        if is_first && header.kind == EntryKind::Action {
            self.checks.lags.committed(self.now_us, header.seqno);
            self.check_whole(&header);
            let has_writer = self.checks.one_writer.is_in_force();
            self.coverage
                .count_if(has_writer, "action of the only writer");
        }
    }

    /// Checks that a majority of the disks holds all chunks of a committed action.
    fn check_whole(&mut self, header: &EntryHeader) {
        let Some(first_chunk) = self.checks.certified.first_chunk(header.seqno) else {
            return;
        };
        let voters = self.checks.quorums.voters_of(header.index);
        let checked = whole_on_quorum(header.id(), voters, |member| {
            let node = self.nodes.get(&member);
            node.is_some_and(|node| node.disk.vouches_from(first_chunk, header.id()))
        });
        self.judge(checked);
    }

    fn check_quorum(
        &mut self,
        id: MemberId,
        index: LogIndex,
        entry: Option<EntryId>,
        seen: &CoreEffect,
    ) {
        let candidates = self.process(id).voters.clone();
        let term = seen.term;
        // The leader may have stepped down since: removed by this commit, or without a quorum.
        let leads = self.checks.election.leader_of(term) == Some(id);
        let checked = require(leads, "leaders commit first", || {
            format!("{id} commits {index} first, but does not lead")
        });
        self.judge(checked);
        let Some(entry) = entry else { return };
        let own = entry.term == term;
        let rule = "only entries of the own term commit by counting";
        let checked = require(own, rule, || format!("{id} commits {entry} in term {term}"));
        self.judge(checked);
        let count = |voters: &[MemberId]| {
            let holds = |member| self.holds(member, entry);
            durable_on_quorum(entry, voters, holds)?;
            if self.is_liveness_phase || !self.regions_are_asked_for {
                return Ok(());
            }
            let region = |member| self.options.region(member);
            outlives_each_region(entry, voters, holds, region)
        };
        let by = candidates.iter().find(|(_, voters)| count(voters).is_ok());
        let (_, voters) = by.or(candidates.last()).cloned().unwrap_or_default();
        let checked = count(&voters);
        self.checks.quorums.committed(index, &voters);
        self.judge(checked);
        self.coverage.count_if(
            self.regions_are_asked_for && !self.is_liveness_phase,
            "commit in two regions",
        );
    }

    fn role_changed(&mut self, id: MemberId, change: RoleChange) {
        let role = role_name(change.role);
        let (term, leader) = (change.term, change.leader);
        self.note(id, What::Role { role, term, leader });
        if let Some(leader) = leader {
            let checked = self.checks.election.leader(term, leader);
            self.judge(checked);
        }
        if change.role == RoleName::Leader {
            self.coverage.count("election won");
            self.check_new_leader(id, term);
            self.restart_early_winner(id);
        }
    }

    fn check_new_leader(&mut self, id: MemberId, term: Term) {
        let written = &self.node(id).disk.written;
        let committed: &Committed = &self.checks.committed;
        let checked = Election::complete(term, committed.entries(), |entry| written.has(entry));
        self.judge(checked);
    }
}
