//! The simulated core thread: the same calls as `synod-node`'s driver makes, in the same order, with
//! its surroundings replaced. See `docs/simulation.md` for what is production code here.

use bytes::Bytes;
use rand::Rng;
use synod_consensus::{
    Append, Body, Config, ConfigAt, Effect, EntryHeader, EntryId, EntryKind, LogIndex, MemberId,
    Message, Origin, RoleChange, RoleName, SendEntries, Seqno, WriteOp, WriteTicket,
};
use synod_log::Entry;

use crate::invariants::bounds::{Held, within};
use crate::invariants::committed::Committed;
use crate::invariants::durable_first::may_leave;
use crate::invariants::election::Election;
use crate::invariants::quorum::durable_on_quorum;
use crate::invariants::{Violation, require};
use crate::member::{Job, Wire};
use crate::planted::Planted;
use crate::trace::What;
use crate::world::{Event, World};

/// Name of a message for the trace.
pub(crate) fn kind_of(wire: &Wire) -> &'static str {
    match wire {
        Wire::Core { message, .. } => match &message.body {
            Body::PreVote { .. } => "pre-vote",
            Body::PreVoteReply { .. } => "pre-vote reply",
            Body::Vote { .. } => "vote",
            Body::VoteReply { granted: true } => "vote granted",
            Body::VoteReply { granted: false } => "vote refused",
            Body::Append(_) => "append",
            Body::AppendReply(_) => "append reply",
            Body::Heartbeat { .. } => "heartbeat",
            Body::HeartbeatReply { .. } => "heartbeat reply",
            Body::InstallBase { .. } => "install base",
            Body::TimeoutNow => "timeout now",
            Body::Read { .. } => "read",
            Body::ReadReply { .. } => "read reply",
        },
        Wire::Propose(_) => "propose",
        Wire::Refused { .. } => "refused",
        Wire::Join { .. } => "join",
        Wire::Report { .. } => "report",
        Wire::Status { .. } => "status",
    }
}

fn index_of(wire: &Wire) -> LogIndex {
    match wire {
        Wire::Core { message, .. } => match &message.body {
            Body::Append(append) => append.entries.last().map_or(append.prev.index, |e| e.index),
            Body::AppendReply(reply) => match reply.outcome {
                synod_consensus::AppendOutcome::Durable { index } => index,
                synod_consensus::AppendOutcome::Rejected { hint, .. } => hint.index,
            },
            Body::Heartbeat { commit, .. } => *commit,
            Body::InstallBase { base, .. } => base.last.index,
            _ => LogIndex(0),
        },
        _ => LogIndex(0),
    }
}

impl World {
    pub(crate) fn planted(&self, bug: Planted) -> bool {
        self.options.planted == Some(bug)
    }

    // --- inputs -----------------------------------------------------------------------------

    /// A message of a peer.
    pub(crate) fn arrives(&mut self, from: MemberId, to: MemberId, wire: Wire) {
        let term = match &wire {
            Wire::Core { message, .. } => message.term,
            _ => Default::default(),
        };
        let (kind, index) = (kind_of(&wire), index_of(&wire));
        self.note(
            to,
            What::Received {
                from,
                kind,
                term,
                index,
            },
        );
        let now_us = self.now_us;
        if let Some(present) = self.process(to).presence.get_mut(&from) {
            present.heard_us = now_us;
        }
        match wire {
            Wire::Core { message, payloads } => self.handle_consensus(to, message, payloads),
            Wire::Propose(propose) => self.handle_propose(to, from, propose),
            Wire::Refused {
                term,
                session,
                number,
            } => {
                if session == self.process(to).session {
                    self.proposal_refused(to, term, number);
                }
            }
            Wire::Join {
                session,
                name,
                has_data,
                last,
            } => {
                self.handle_join(to, from, session, name, has_data, last);
            }
            Wire::Report {
                session,
                applied,
                eligible,
            } => {
                self.handle_report(to, from, session, applied, eligible);
            }
            Wire::Status { term, low_water } => {
                let process = self.process(to);
                if term == process.core.term() && process.core.leader() == Some(from) {
                    process.slowest_applied = low_water;
                    if let Some(low_water) = low_water {
                        process.ingest.advance_window(low_water);
                    }
                }
            }
        }
    }

    fn handle_consensus(&mut self, to: MemberId, mut message: Message, payloads: Vec<Bytes>) {
        let mut configs = Vec::new();
        if let Body::Append(append) = &message.body {
            for (header, payload) in append.entries.iter().zip(payloads) {
                if header.kind == EntryKind::Config {
                    match Config::decode(&payload) {
                        Ok(config) => configs.push((header.index, config)),
                        Err(_) => return,
                    }
                }
                self.process(to)
                    .arriving
                    .insert((header.term, header.index), payload);
            }
        }
        let local = self.local(to);
        if self.planted(Planted::LeaseFromReceiveTime) {
            match &mut message.body {
                Body::HeartbeatReply { sent_at, .. } => *sent_at = local,
                Body::AppendReply(reply) => reply.sent_at = local,
                _ => {}
            }
        }
        // The core wants its effects performed before it is given the next message.
        self.perform_core_effects(to);
        self.remember_voters(to);
        self.process(to)
            .core
            .handle_message_with(local, message, &configs);
        self.perform_core_effects(to);
        if let Some(process) = self.node_mut(to).process.as_mut() {
            process.arriving.clear();
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

    /// One turn of the core thread.
    pub(crate) fn turn(&mut self, id: MemberId) {
        self.remember_voters(id);
        let local = self.local(id);
        let process = self.process(id);
        if process.core.poll_timeout().is_some_and(|at| at <= local) {
            process.core.handle_tick(local);
        }
        self.perform(id);
    }

    /// An input is about to be given to the core.
    pub(crate) fn remember_voters(&mut self, id: MemberId) {
        let process = self.process(id);
        let config = process.core.config();
        if process
            .voters
            .last()
            .is_none_or(|(index, _)| *index != config.index)
        {
            let voters = config.config.voters().collect();
            process.voters.push((config.index, voters));
        }
    }

    /// Performs effects and sends proposals until there is nothing left to do.
    pub(crate) fn perform(&mut self, id: MemberId) {
        while self.is_up(id) && self.violation.is_none() {
            self.perform_core_effects(id);
            let ordered = self.retry_deferred(id);
            let sent = self.send_proposals(id);
            if !ordered && !sent {
                break;
            }
        }
        if !self.is_up(id) || self.violation.is_some() {
            return;
        }
        self.pump_disk(id);
        if !self.is_up(id) {
            return;
        }
        self.pump_delivery(id);
        self.check_member(id);
        let now_us = self.now_us;
        let node = self.node_mut(id);
        let Some(process) = node.process.as_mut() else {
            return;
        };
        let wake = process.core.poll_timeout();
        process.tick_at_us = wake.map(|at| node.clock.global(at).max(now_us + 1));
    }

    // --- effects ----------------------------------------------------------------------------

    pub(crate) fn perform_core_effects(&mut self, id: MemberId) {
        while self.violation.is_none() {
            let Some(effect) = self.process(id).core.poll_effect() else {
                break;
            };
            match effect {
                Effect::Write { ticket, op } => self.write(id, ticket, op),
                Effect::Send(message) => self.send_core(id, message, Vec::new()),
                Effect::SendEntries(range) => self.send_entries(id, &range),
                Effect::Committed { index } => self.committed(id, index),
                Effect::Role(change) => self.role_changed(id, change),
                Effect::Config(config) => self.config_changed(id, &config),
                Effect::ReadReady {
                    id: read,
                    index,
                    seqno,
                } => {
                    self.note(id, What::Read { id: read, index });
                    let known = self.checks.committed.get(index);
                    let checked = self.checks.reads.answer(id, read, index, seqno, known);
                    self.judge(checked);
                }
            }
        }
        self.remember_voters(id);
        let voters = &mut self.process(id).voters;
        voters.drain(..voters.len() - 1);
    }

    fn write(&mut self, id: MemberId, ticket: WriteTicket, op: WriteOp) {
        let early = self.planted(Planted::CountOwnDiskEarly)
            && self.process(id).core.is_leader()
            && matches!(op, WriteOp::Append(_));
        self.check_write(id, &op);
        let skipped = match &op {
            WriteOp::Vote(_) => self.planted(Planted::SkipVote),
            WriteOp::Truncate { .. } => self.planted(Planted::LoseTruncate),
            WriteOp::Append(_) | WriteOp::Reset(_) => false,
        };
        if !skipped || matches!(op, WriteOp::Truncate { .. }) {
            self.node_mut(id).ledger.write(ticket, &op);
        }
        let job = match op {
            WriteOp::Append(headers) => {
                let entries = headers
                    .iter()
                    .map(|header| self.stage(id, header))
                    .collect();
                let era = self.process(id).readable.era;
                Job::Append {
                    ticket,
                    era,
                    entries,
                }
            }
            WriteOp::Truncate { from } => {
                let process = self.process(id);
                process.staged.truncate(from);
                process.ingest.truncated(from);
                process.views.retain(|(index, _)| *index < from);
                process.readable.cut(from);
                let era = process.readable.era;
                Job::Truncate { ticket, era, from }
            }
            WriteOp::Vote(vote) => Job::Vote { ticket, vote },
            WriteOp::Reset(base) => {
                self.log_began_anew(id, base.last.index, base.seqno);
                let era = self.process(id).readable.era;
                Job::Reset { ticket, era, base }
            }
        };
        let job = match skipped {
            true => Job::Nothing { ticket },
            false => job,
        };
        self.process(id).jobs.push_back(job);
        if early {
            let local = self.local(id);
            self.process(id).core.persisted(local, ticket);
        }
    }

    /// The rules about what is written.
    fn check_write(&mut self, id: MemberId, op: &WriteOp) {
        match op {
            WriteOp::Append(headers) => {
                let mut before = self.node(id).ledger.written.last();
                for header in headers {
                    let (is_new, checked) = self.checks.log_matching.written(header, before);
                    self.judge(checked);
                    if is_new && header.kind == EntryKind::Config {
                        self.check_config(id, header);
                    }
                    before = header.id();
                }
            }
            WriteOp::Truncate { from } => {
                self.coverage.count("truncation");
                let had = self.node(id).ledger.written.id_at(*from);
                let checked = self.checks.committed.cut(id, *from, had);
                self.judge(checked);
            }
            WriteOp::Vote(_) => {}
            WriteOp::Reset(base) => {
                self.coverage.count("log reset");
                let checked = self.checks.committed.base(id, base.last);
                self.judge(checked);
            }
        }
    }

    fn check_config(&mut self, id: MemberId, header: &EntryHeader) {
        let core = self.core(id);
        let Some(config) = core.config_at(header.index).cloned() else {
            return;
        };
        let before = core
            .config_at(header.index.prev())
            .filter(|at| at.index > LogIndex(0));
        let before = before.and_then(|at| {
            Some(EntryId {
                term: core.term_at(at.index)?,
                index: at.index,
            })
        });
        let committed = self.commit_index();
        let made = &mut self.checks.config_change;
        let checked = made.made(header.id(), &config.config, before, committed);
        self.judge(checked);
    }

    /// Finds an entry's payload, and has certification see the entry if it has not.
    fn stage(&mut self, id: MemberId, header: &EntryHeader) -> Entry {
        let payload = self.payload_of(id, header);
        let process = self.process(id);
        if process
            .staged
            .get(header.index)
            .is_none_or(|entry| entry.header != *header)
        {
            process.staged.put(*header, payload.clone());
        }
        self.ingest_entry(id, header, &payload);
        Entry {
            header: *header,
            payload,
        }
    }

    fn payload_of(&mut self, id: MemberId, header: &EntryHeader) -> Bytes {
        let process = self.process(id);
        if let Some(payload) = process.arriving.remove(&(header.term, header.index)) {
            return payload;
        }
        if let Some(entry) = process
            .staged
            .get(header.index)
            .filter(|e| e.header == *header)
        {
            return entry.payload.clone();
        }
        match header.kind {
            EntryKind::NoOp => Bytes::new(),
            EntryKind::Config => {
                let config = process.core.config_at(header.index);
                Bytes::from(config.expect("the core made this entry").config.encode())
            }
            EntryKind::View | EntryKind::Action | EntryKind::Chunk | EntryKind::Discard => {
                panic!("entry {} has no payload at hand", header.id())
            }
        }
    }

    /// Shows an appended entry to certification and to the view bookkeeping, once.
    pub(crate) fn ingest_entry(&mut self, id: MemberId, header: &EntryHeader, payload: &Bytes) {
        let now_us = self.now_us;
        let process = self.process(id);
        if header.index <= process.ingest.last_index() {
            return;
        }
        process.ingest.appended(header, payload, now_us);
        if header.kind == EntryKind::View {
            let view = crate::joining::decode_view(payload);
            process.views.push_back((header.index, view));
        }
    }

    fn send_core(&mut self, id: MemberId, message: Message, payloads: Vec<Bytes>) {
        let ledger = &self.node(id).ledger;
        let checked = may_leave(&message, &ledger.written, &ledger.durable);
        self.judge(checked);
        let to = message.to;
        self.send(id, to, Wire::Core { message, payloads });
    }

    /// From memory if all entries are there, otherwise from the log, as the catch-up thread does.
    fn send_entries(&mut self, id: MemberId, range: &SendEntries) {
        let staged = self.process(id).staged.range(range.first, range.last);
        let mut entries = match staged {
            Some(entries) => entries,
            None => {
                self.coverage.count("catch-up from disk");
                let reader = self.process(id).reader.clone();
                match reader.read(range.first, range.last, usize::MAX) {
                    Ok(entries) => entries,
                    // Not written yet or cut: the core finds out and asks for something else.
                    Err(_) => return,
                }
            }
        };
        let is_cut = entries
            .first()
            .is_none_or(|entry| entry.header.index != range.first);
        let whole = entries
            .last()
            .is_some_and(|entry| entry.header.index == range.last);
        if is_cut || !(whole || range.may_cut) {
            return;
        }
        if range.may_cut {
            let keep = self.rng.random_range(1..=entries.len());
            entries.truncate(keep);
        }
        let append = Append {
            prev: range.prev,
            entries: entries.iter().map(|entry| entry.header).collect(),
            commit: range.commit,
            leader_durable: range.leader_durable,
            sent_at: range.sent_at,
        };
        let (to, term) = (range.to, range.term);
        let message = Message {
            from: id,
            to,
            term,
            body: Body::Append(append),
        };
        self.send_core(
            id,
            message,
            entries.into_iter().map(|entry| entry.payload).collect(),
        );
    }

    fn committed(&mut self, id: MemberId, index: LogIndex) {
        self.note(id, What::Committed { index });
        let first = self.process(id).last_committed.next();
        let mut seqno = None;
        if index > self.commit_index() {
            self.check_quorum(id, index);
        }
        for at in (first.0..=index.0).map(LogIndex) {
            let entry = self.process(id).staged.get(at).cloned();
            let Some(Entry { header, payload }) = entry else {
                // Written before this start: none of this session's.
                self.written_before(id, at);
                continue;
            };
            seqno = Some(header.seqno);
            self.check_commit(id, &header, &payload);
            if let Some(number) = self.process(id).outbox.committed(&header) {
                self.own_committed(id, number, &header);
            }
            self.process(id).ingest.committed(&header);
        }
        let process = self.process(id);
        process.last_committed = index;
        process.readable.committed = index;
        let read = || process.reader.header(index).ok().map(|header| header.seqno);
        process.commit_seqno = seqno.or_else(read).unwrap_or(process.core.base().seqno);
        self.trim_staged(id);
    }

    /// The outbox wants to know of every commit; of this one only the term is known.
    fn written_before(&mut self, id: MemberId, index: LogIndex) {
        let Some(term) = self.process(id).core.term_at(index) else {
            return;
        };
        self.process(id).outbox.committed(&EntryHeader {
            term,
            index,
            seqno: Seqno(0),
            kind: EntryKind::NoOp,
            origin: Origin::default(),
            depends_on: Seqno::UNDEFINED,
            payload_len: 0,
            payload_crc: 0,
        });
        // For the checkers, the log has the rest.
        let reader = self.process(id).reader.clone();
        let entries = reader.read(index, index, 1).unwrap_or_default();
        if let Some(entry) = entries.first().filter(|entry| entry.header.index == index) {
            self.check_commit(id, &entry.header, &entry.payload);
        }
    }

    /// Shows a committed entry to the checkers.
    fn check_commit(&mut self, id: MemberId, header: &EntryHeader, payload: &Bytes) {
        let term = self.core(id).term();
        let (is_first, checked) = self.checks.committed.commit(id, header, term);
        self.judge(checked);
        if is_first {
            let checked = self.checks.once.committed(header);
            self.judge(checked);
            let checked = self.checks.certified.committed(header, payload);
            self.judge(checked);
        }
    }

    fn check_quorum(&mut self, id: MemberId, index: LogIndex) {
        let process = self.process(id);
        let (core, candidates) = (&process.core, process.voters.clone());
        let term = core.term();
        let entry = core.term_at(index).map(|term| EntryId { term, index });
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

    pub(crate) fn trim_staged(&mut self, id: MemberId) {
        let bytes_max = self.options.staged_bytes;
        let process = self.process(id);
        let done = process.last_committed.min(process.core.durable_index());
        process.staged.trim(done.next(), bytes_max);
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
        self.process(id).outbox.leader_changed(term, leader);
        if change.role == RoleName::Leader {
            self.coverage.count("election won");
            self.process(id).intake.new_term(term);
            self.check_new_leader(id);
            self.begin_leading(id);
        } else {
            self.process(id).deferred.clear();
        }
    }

    fn check_new_leader(&mut self, id: MemberId) {
        let term = self.core(id).term();
        let written = &self.node(id).ledger.written;
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

    fn config_changed(&mut self, id: MemberId, config: &ConfigAt) {
        self.coverage.count("configuration in force");
        let voters = config.config.voters().count();
        let index = config.index;
        self.note(id, What::Config { index, voters });
    }

    /// The log starts anew: what was known of the old one is void.
    fn log_began_anew(&mut self, id: MemberId, index: LogIndex, seqno: Seqno) {
        self.process(id).readable.cut(LogIndex(0));
        self.forget_unseen(id);
        let limits = self.cert_limits();
        let ingest = self.new_ingestor(index, seqno, limits);
        let process = self.process(id);
        process.staged.clear();
        process.ingest = ingest;
        process.views.clear();
        process.last_committed = index;
        process.readable.committed = index;
        process.commit_seqno = seqno;
        process.deliver_next = None;
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
        let written = &self.node(id).ledger.written;
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
    }

    /// What grows with the load, and how much of it there may be. One payload is at most 4 KiB here.
    fn held(&mut self, id: MemberId) -> Vec<Held> {
        let staged_max = self.options.staged_bytes as u64;
        let running = self.nodes.values().filter_map(|node| node.process.as_ref());
        let outstanding: usize = running.map(|process| process.submitted.len()).sum();
        let process = self.process(id);
        let kept_from = process.last_committed.min(process.core.durable_index());
        let kept = process.core.last_id().index.0 - kept_from.0.min(process.core.last_id().index.0);
        let held = |what, found: usize, max: u64| Held {
            what,
            found: found as u64,
            max,
        };
        vec![
            held(
                "staged bytes",
                process.staged.bytes,
                staged_max + (kept + 1) * 4096,
            ),
            // Proposals of processes that are gone are forgotten in the next term only.
            held(
                "deferred proposals",
                process.deferred.len(),
                outstanding as u64 + 2048,
            ),
            held(
                "certification bytes",
                process.ingest.memory_bytes(),
                64 << 20,
            ),
            held(
                "answers dropped",
                process.core.counters().waiting_overflow as usize,
                0,
            ),
        ]
    }
}
