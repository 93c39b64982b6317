//! Running a member: events go into its driver, and its deeds are looked at, checked and done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use synod_consensus::{
    AppendOutcome, Body, Effect, EntryHeader, EntryId, EntryKind, LogIndex, MemberId, Message,
    RoleChange, RoleName, WriteOp,
};
use synod_member::{CatchUp, Driver, Event as Input, Job, Level};
use synod_wire::{DataState, PeerMessage};

use crate::invariants::bounds::{Held, within};
use crate::invariants::committed::Committed;
use crate::invariants::durable_first::may_leave;
use crate::invariants::election::Election;
use crate::invariants::quorum::{durable_on_quorum, whole_on_quorum};
use crate::invariants::{Violation, repair, require, versions};
use crate::member::recorded_effects::{CoreEffect, RecordedEffect};
use crate::options::Options;
use crate::trace::{MessageKind, Text, What};
use crate::world::{Event, SECOND, World};

/// Number and name of a message for the trace.
pub(crate) fn kind_of(message: &PeerMessage) -> MessageKind {
    let (number, name) = match message {
        PeerMessage::Consensus(message) | PeerMessage::Append { message, .. } => {
            match &message.body {
                Body::PreVote { .. } => (1, "pre-vote"),
                Body::PreVoteReply { .. } => (2, "pre-vote reply"),
                Body::Vote { .. } => (3, "vote"),
                Body::VoteReply { granted: true } => (4, "vote granted"),
                Body::VoteReply { granted: false } => (5, "vote refused"),
                Body::Append(_) => (6, "append"),
                Body::AppendReply(_) => (7, "append reply"),
                Body::Heartbeat { .. } => (8, "heartbeat"),
                Body::HeartbeatReply { .. } => (9, "heartbeat reply"),
                Body::InstallBase { .. } => (10, "install base"),
                Body::TimeoutNow => (11, "timeout now"),
                Body::Read { .. } => (12, "read"),
                Body::ReadReply { .. } => (13, "read reply"),
            }
        }
        PeerMessage::Propose(_) => (14, "propose"),
        PeerMessage::ProposalRefused { .. } => (15, "refused"),
        PeerMessage::Join(_) => (16, "join"),
        PeerMessage::JoinReply(_) => (17, "join reply"),
        PeerMessage::Leave { .. } => (18, "leave"),
        PeerMessage::LeaveReply => (19, "leave reply"),
        PeerMessage::Report(_) => (20, "report"),
        PeerMessage::Status(_) => (21, "status"),
        PeerMessage::StateRequest(_) => (22, "state request"),
        PeerMessage::StateOffer(_) => (23, "state offer"),
        PeerMessage::StateResult(_) => (24, "state result"),
        PeerMessage::OutcomeReport(_) => (25, "vote on an action"),
        PeerMessage::OutcomeQuery { .. } => (26, "vote request"),
    };
    MessageKind { number, name }
}

/// The message of the protocol in it, if any.
pub(crate) fn protocol(message: &PeerMessage) -> Option<&Message> {
    match message {
        PeerMessage::Consensus(message) | PeerMessage::Append { message, .. } => Some(message),
        _ => None,
    }
}

pub(crate) fn index_of(message: &PeerMessage) -> LogIndex {
    match protocol(message).map(|message| &message.body) {
        Some(Body::Append(append)) => append.entries.last().map_or(append.prev.index, |e| e.index),
        Some(Body::AppendReply(reply)) => match reply.outcome {
            AppendOutcome::Durable { index } => index,
            AppendOutcome::Rejected { hint, .. } => hint.index,
        },
        Some(Body::Heartbeat { commit, .. }) => *commit,
        Some(Body::InstallBase { base, .. }) => base.last.index,
        _ => LogIndex(0),
    }
}

impl World {
    // --- inputs -----------------------------------------------------------------------------

    /// Tells a member something. Its next turn comes at once, or after some more has come in.
    pub(crate) fn feed(&mut self, id: MemberId, input: Input) {
        if !self.is_up(id) {
            return;
        }
        self.drive(id, |driver, now| driver.handle(now, input));
        self.settle(id);
    }

    /// As [`World::tell`], of an event that others go with.
    pub(crate) fn feed_without_turn(&mut self, id: MemberId, input: Input) {
        if self.is_up(id) {
            self.drive(id, |driver, now| driver.handle(now, input));
        }
    }

    /// Calls the driver, and does what it did.
    pub(crate) fn drive(
        &mut self,
        id: MemberId,
        call: impl FnOnce(&mut Driver, synod_consensus::Time),
    ) {
        let now = self.local(id);
        self.note_window(id);
        call(&mut self.process(id).driver, now);
        self.note_window(id);
        self.perform_effects(id);
    }

    fn note_window(&mut self, id: MemberId) {
        let process = self.process(id);
        let start = process.driver.certified_from();
        if process.windows.last() != Some(&start) {
            process.windows.push(start);
        }
    }

    /// Ends a turn now, or lets more come in first.
    pub(crate) fn settle(&mut self, id: MemberId) {
        if !self.is_up(id) || self.process(id).turn_planned {
            return;
        }
        let gather = self.options.gather;
        if gather > 0.0 && self.chance(gather) {
            self.process(id).turn_planned = true;
            let (node, epoch) = (id, self.node(id).epoch);
            let after_us = self.draw((0, 300));
            self.schedule(after_us, Event::Turn { node, epoch });
        } else {
            self.turn(id);
        }
    }

    /// One turn of the member, and of what else waits for something to do.
    pub(crate) fn turn(&mut self, id: MemberId) {
        let handovers = self.core(id).preferred_transfers();
        self.drive(id, Driver::turn);
        if !self.is_up(id) || self.violation.is_some() {
            return;
        }
        if self.core(id).preferred_transfers() > handovers {
            self.coverage.count("handed over for a weight");
        }
        self.write_queued_jobs(id);
        if !self.is_up(id) {
            return;
        }
        self.schedule_apply(id);
        self.check_member(id);
        let now_us = self.now_us;
        let node = self.node_mut(id);
        let Some(process) = node.process.as_mut() else {
            return;
        };
        let kept = process.voters.len().saturating_sub(1);
        process.voters.drain(..kept);
        let kept = process.windows.len().saturating_sub(1);
        process.windows.drain(..kept);
        let wake = process.driver.wake_at();
        process.tick_at_us = Some(node.clock.global(wake).max(now_us + 1));
    }

    // --- deeds ------------------------------------------------------------------------------

    /// Looks at, checks and does what the process did since the last call.
    pub(crate) fn perform_effects(&mut self, id: MemberId) {
        let mut failed = None;
        while self.violation.is_none() && self.is_up(id) {
            let Some(effect) = self.process(id).effects.next() else {
                break;
            };
            match effect {
                RecordedEffect::Effect(seen) => self.effect(id, seen),
                RecordedEffect::Send { to, over, message } => self.sends(id, to, over, message),
                RecordedEffect::Connect(other) => self.reconnect_later(id, other),
                RecordedEffect::SetGroup => self.introduce(id),
                RecordedEffect::StopSeeking => self.process(id).is_seeking = false,
                RecordedEffect::Write(job) => self.queue_job(id, job),
                RecordedEffect::Read(request) => {
                    self.coverage.count("catch-up from disk");
                    self.process(id).catch_ups.push_back(request);
                    if self.process(id).catch_ups.len() == 1 {
                        self.read_next(id);
                    }
                }
                RecordedEffect::Decided { transaction, fate } => {
                    self.transaction_ended(id, transaction, fate)
                }
                RecordedEffect::Answered { read, seqno } => {
                    let checked = self.checks.reads.told(id, read, seqno);
                    self.judge(checked);
                }
                RecordedEffect::Joined(view) => self.joined(id, &view),
                RecordedEffect::Donate(request) => self.donate(id, &request),
                RecordedEffect::StateTransfer { id: number, news } => {
                    self.copy_news(id, number, news)
                }
                RecordedEffect::Failed(why) => failed = Some(why),
                RecordedEffect::Forced(result) => self.forced(id, result),
                RecordedEffect::EntriesSkipped => self.coverage.count("delivery passes over"),
                RecordedEffect::Left => failed = Some("left".to_owned()),
                RecordedEffect::Delivered(delivery) => self.delivered(id, &delivery),
                RecordedEffect::Logged(level, text) => {
                    if level > Level::Debug {
                        self.note(id, What::Logged { text: Text(text) });
                    }
                }
            }
        }
        if self.is_up(id)
            && self.violation.is_none()
            && (failed.is_some() || self.process(id).driver.is_stopped())
        {
            self.stopped(id, failed.unwrap_or_default());
        }
    }

    /// Sends a message, after a look whether it may leave.
    fn sends(&mut self, id: MemberId, to: MemberId, over: Option<u64>, message: PeerMessage) {
        if let Some(message) = protocol(&message) {
            let disk = &self.node(id).disk;
            let unrepaired_mark = disk.unrepaired_mark();
            let checked = may_leave(message, &disk.written, &disk.durable);
            self.judge(checked);
            let checked = self.checks.repairs.may_leave(message, unrepaired_mark);
            self.judge(checked);
        }
        let other = over.is_some_and(|over| over != self.net.connection(id, to));
        if !other {
            self.send(id, to, &message);
        }
    }

    fn queue_job(&mut self, id: MemberId, job: Job) {
        if let Job::Append { entries, .. } = &job {
            for entry in entries {
                let checked = self.checks.payloads.put(entry);
                self.judge(checked);
            }
        }
        self.process(id).jobs.push_back(job);
    }

    /// The process cannot or will not go on; it is started again after a while.
    fn stopped(&mut self, id: MemberId, why: String) {
        if let Some(damage) = self.node_mut(id).damage_met.take() {
            let checked = require(why.contains(&damage), "damage is named", || {
                format!("{id} stops because of {damage} and says: {why}")
            });
            self.judge(checked);
        }
        self.coverage
            .count_if(why.contains("protocol version"), "program refused");
        if why.contains("ordered to go on without a majority") {
            self.give_up_database(id);
        }
        match why.as_str() {
            "left" => self.coverage.count("left in good order"),
            _ => self.coverage.count("member stopped"),
        }
        self.note(id, What::Refused { why: Text(why) });
        self.check_silence(id);
        self.end_process(id);
        self.restart_later(id);
    }

    /// A thread that runs a driver hands it what has come in by then, and gives it one more turn, before it looks
    /// whether the driver has stopped. That must lead to nothing: the group may have let the member go.
    fn check_silence(&mut self, id: MemberId) {
        let now = self.local(id);
        let process = self.process(id);
        process
            .driver
            .handle(now, Input::DataState(DataState::Synced));
        // Anything that is due at times is due now.
        process.driver.turn(now.plus(Duration::from_secs(1)));
        let effects = std::iter::from_fn(|| process.effects.next());
        let speaks = effects
            .filter(|effect| !matches!(effect, RecordedEffect::Logged(..)))
            .count();
        let rule = "who has stopped does nothing more";
        let checked = require(speaks == 0, rule, || {
            format!("{id} has stopped, and does {speaks} things in its last turn")
        });
        self.judge(checked);
    }

    // --- effects ----------------------------------------------------------------------------

    fn effect(&mut self, id: MemberId, seen: CoreEffect) {
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
                let windows = match leads {
                    true => self.process(id).windows.clone(),
                    false => Vec::new(),
                };
                for header in headers {
                    let (is_new, checked) = self.checks.log_matching.written(header, before);
                    self.judge(checked);
                    if is_new && leads && header.kind == EntryKind::Action {
                        self.checks.certified.judged(header.id(), &windows);
                    }
                    let config = seen.configs.iter().find(|(at, ..)| *at == header.id());
                    if let Some((entry, config, before)) = config.filter(|_| is_new) {
                        self.coverage
                            .count_if(config.protocol > 1, "configuration of version 2");
                        let protocol =
                            before.and_then(|before| self.checks.config_change.protocol(before));
                        let checked = versions::made(*entry, config, protocol);
                        self.judge(checked);
                        let ordered =
                            self.is_forced_configuration(id, *entry, config.is_sole_voter(id));
                        let committed = self.commit_index();
                        let made = &mut self.checks.config_change;
                        let before = before.filter(|_| !ordered);
                        let checked = made.made(*entry, config, before, committed);
                        self.judge(checked);
                    }
                    before = header.id();
                }
            }
            WriteOp::Truncate { from } => {
                self.coverage.count("truncation");
                let had = self.node(id).disk.written.id_at(*from);
                let checked = self.checks.committed.cut(id, *from, had);
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
                what: format!("{id} commits {entry}, which nobody wrote"),
            }));
        };
        let (is_first, checked) = self.checks.commit(id, &header, &payload, seen.term);
        self.judge(checked);
        if is_first && header.kind == EntryKind::Action {
            self.check_whole(&header);
        }
    }

    /// All chunks of an action are on a majority of the disks when it is committed.
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
        // It may have stepped down since: removed by what it committed, or without a quorum.
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
            durable_on_quorum(entry, voters, |member| self.holds(member, entry))
        };
        let by = candidates.iter().find(|(_, voters)| count(voters).is_ok());
        let (_, voters) = by.or(candidates.last()).cloned().unwrap_or_default();
        let checked = count(&voters);
        self.checks.quorums.committed(index, &voters);
        self.judge(checked);
    }

    fn role_changed(&mut self, id: MemberId, change: RoleChange) {
        let role = match change.role {
            RoleName::Follower => "follower",
            RoleName::PreCandidate => "pre-candidate",
            RoleName::Candidate => "candidate",
            RoleName::Leader => "leader",
        };
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

    fn check_new_leader(&mut self, id: MemberId, term: synod_consensus::Term) {
        let written = &self.node(id).disk.written;
        let committed: &Committed = &self.checks.committed;
        let checked = Election::complete(term, committed.entries(), |entry| written.has(entry));
        self.judge(checked);
        for other in self.up().into_iter().filter(|other| *other != id) {
            let core = self.core(other);
            if core.term() < term && core.lease_valid(self.local(other)) {
                let checked = Election::lease(other, core.term(), term);
                self.judge(checked);
            }
        }
    }

    // --- what must hold after every turn ----------------------------------------------------

    fn check_member(&mut self, id: MemberId) {
        let local = self.local(id);
        let core = self.core(id);
        if core.is_leader() && core.lease_valid(local) {
            let newest = self
                .leader()
                .map_or(core.term(), |leader| self.core(leader).term());
            let checked = Election::lease(id, core.term(), newest);
            self.coverage.count("lease");
            self.judge(checked);
        }
        let core = self.core(id);
        let written = &self.node(id).disk.written;
        let agree = core.last_id() == written.last();
        if !agree {
            let (core, disk) = (core.last_id(), written.last());
            self.judge(Err(Violation {
                rule: "core and log agree",
                what: format!("{id}: the core's log ends at {core}, what was written at {disk}"),
            }));
        }
        let held = self.held(id);
        self.judge(within(id, &held));
        self.check_repair(id);
        let spoken = self.node(id).versions;
        let checked = versions::runs(id, &self.core(id).config().config, spoken);
        self.judge(checked);
    }

    /// A member that lacks what it has lost knows that; one that is done has it.
    fn check_repair(&mut self, id: MemberId) {
        if self.node(id).disk.unrepaired.is_none() {
            return;
        }
        let core = self.core(id);
        if core.repairing_until().is_some() {
            let checked = require(!core.is_leader(), "no leader under repair", || {
                format!("{id} leads in term {}", core.term())
            });
            return self.judge(checked);
        }
        let committed = &self.checks.committed;
        let checked = repair::is_whole(id, &self.node(id).disk, |index| {
            committed.get(index).map(synod_consensus::EntryHeader::id)
        });
        self.judge(checked);
        self.coverage.count("repair complete");
        self.node_mut(id).disk.unrepaired = None;
    }

    /// Since when a member can have known what its log may drop if it has to. Only a leader can tell, and one that
    /// has just started does not know what databases have on their disks; it takes no more then than its own log
    /// holds, but the log of a follower that came back with more is full sooner.
    fn may_purge_since(&mut self, id: MemberId) -> u64 {
        let now_us = self.now_us;
        let leader = self.leader();
        let tells =
            leader.filter(|leader| self.process(*leader).driver.load().purge_limit > LogIndex(0));
        self.purge_limit_since_us = tells.map(|_| self.purge_limit_since_us.unwrap_or(now_us));
        let since_us = self.process(id).since_us;
        match leader == Some(id) {
            true => since_us,
            false => since_us.max(self.purge_limit_since_us.unwrap_or(now_us)),
        }
    }

    /// How large a log may be: what it came to when it was allowed to is not gone at once, but does not grow.
    fn log_bytes_max(&mut self, id: MemberId) -> u64 {
        let may_drop = self.now_us.saturating_sub(self.may_purge_since(id)) > SECOND;
        // A leader whose disk is slow finds later than others that their logs are full.
        let unwritten = self.leader().map_or(0, |leader| {
            let process = self.process(leader);
            match process.driver.core().durable_index() < process.committed {
                true => process.driver.load().entry_cache_bytes as u64,
                false => 0,
            }
        });
        let Options {
            retain_bytes,
            segment_bytes,
            ..
        } = self.options;
        // Beyond the bound, what was on its way when the log was found to be full.
        let on_its_way = 20 * segment_bytes;
        let bound = 2 * retain_bytes + on_its_way;
        let found = self.process(id).shared.status().log_bytes;
        let allowed = &mut self.node_mut(id).log_allowed;
        if !may_drop || found <= bound + unwritten {
            *allowed = found;
            return u64::MAX;
        }
        *allowed = found.min(*allowed);
        if *allowed > bound {
            *allowed + on_its_way
        } else {
            bound
        }
    }

    /// What grows with the load, and how much of it there may be. One payload is at most 4 KiB here.
    fn held(&mut self, id: MemberId) -> Vec<Held> {
        let staged_max = self.options.entry_cache_bytes as u64;
        let running = self.nodes.values().filter_map(|node| node.process.as_ref());
        let outstanding: usize = running.map(|p| p.driver.load().submitted).sum();
        let log_max = self.log_bytes_max(id);
        // A window of them, and a probe and a long range beside it.
        let ranges_max = self.options.limits.inflight_messages_max as u64 + 2;
        let process = self.process(id);
        let log_bytes = process.shared.status().log_bytes as usize;
        let is_full = process.shared.is_log_full();
        let (ranges, twice) = ranges_held(&process.catch_ups);
        let (core, load) = (process.driver.core(), process.driver.load());
        let last = core.last_id().index;
        let kept_from = process.committed.min(core.durable_index()).min(last);
        let kept = last.0 - kept_from.0;
        let held = |what, found: usize, max: u64| Held {
            what,
            found: found as u64,
            max,
        };
        let all = vec![
            held(
                "staged bytes",
                load.entry_cache_bytes,
                staged_max + (kept + 1) * 4096,
            ),
            // Proposals of processes that are gone are forgotten in the next term only.
            held(
                "deferred proposals",
                load.deferred,
                outstanding as u64 + 2048,
            ),
            held("certification bytes", load.certification_bytes, 64 << 20),
            held(
                "answers dropped",
                core.counters().waiting_overflow as usize,
                0,
            ),
            held("log bytes", log_bytes, log_max),
            held("ranges to be read for one member", ranges, ranges_max),
            held("ranges to be read that are asked for twice", twice, 0),
        ];
        if is_full {
            self.coverage.count("log full");
        }
        all
    }

    /// Whether the log has moved since the last look.
    pub(crate) fn has_moved(&mut self, id: MemberId) -> bool {
        self.process(id).effects.moved.load(Ordering::Relaxed)
    }
}

/// Most ranges that wait to be read for one member, and how many repeat another one.
fn ranges_held(requests: &VecDeque<CatchUp>) -> (usize, usize) {
    let mut of_member: BTreeMap<MemberId, usize> = BTreeMap::new();
    let mut different = BTreeSet::new();
    for request in requests {
        let range = request.range();
        *of_member.entry(range.to).or_default() += 1;
        different.insert((range.to, range.term, range.first, range.last));
    }
    let most = of_member.values().copied().max().unwrap_or(0);
    (most, requests.len() - different.len())
}
