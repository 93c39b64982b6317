//! The driver: turns what happens (messages, completed writes, clients, time) into calls of the
//! consensus core, and the core's effects into deeds. It owns all protocol state.
//!
//! One turn: [`Driver::handle`] for whatever has come in, then [`Driver::turn`], and again at
//! [`Driver::wake_at`] at the latest. Nothing here waits for a disk, a socket or the host, and time is
//! an argument.

mod connections;
mod deferred;
mod effects;
mod event;
mod inconsistency;
mod inspect;
mod leader;
mod membership;
mod origin;
mod reads;
mod repair;
mod retention;
mod state_transfer;
mod status;
mod survivor;
mod weights;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use synod_consensus::{
    Body, Config, Core, EntryKind, GroupId, LogIndex, MemberId, Message, Outbox, ProposalDedup,
    SessionId, Term, Time,
};
use synod_log::LogReader;
use synod_wire::PeerMessage;

pub(crate) use effects::append_message;
pub use event::{Event, ForceDone, LeaveDone, ReadDone, Reply, Submission};
pub use inspect::Load;
pub use membership::operator::{
    ConfigRequest, LeaderContact, LeaderTransferRequest, OperatorRefusal, OperatorReply,
};

use crate::catch_up::OutstandingReads;
use crate::certification::CertificationState;
use crate::config::MemberConfig;
use crate::entry_cache::EntryCache;
use crate::host::{Host, Level};
use crate::io::{Disk, Network, Observer};
use crate::shared::{Shared, lock};
use crate::start::Start;
use crate::tuning::Tuning;
use connections::Connections;
use deferred::Deferred;
use inconsistency::Inconsistency;
use membership::{LEAVE_LIMIT, Membership};
use origin::Submitted;
use reads::Reads;
use repair::RepairWatch;
use retention::Retention;
use state_transfer::StateTransfers;
pub use survivor::QuorumLossPolicy;

/// Who this member is.
#[derive(Clone, Copy, Debug)]
pub struct Me {
    /// Its disk's identity.
    pub member: MemberId,
    /// Its process'.
    pub session: SessionId,
}

/// What the driver is connected to.
pub struct DriverLinks {
    /// The other members.
    pub peers: Box<dyn Network>,
    /// Its own disk.
    pub disk: Box<dyn Disk>,
    /// The program it runs in.
    pub host: Arc<dyn Host>,
    /// What other threads see of it.
    pub shared: Arc<Shared>,
    /// Its log.
    pub reader: LogReader,
    /// Whoever checks the protocol, if anybody.
    pub observer: Option<Box<dyn Observer>>,
}

/// See the module.
pub struct Driver {
    me: Me,
    config: MemberConfig,
    tuning: Tuning,
    group: GroupId,
    core: Core,
    outbox: Outbox,
    dedup: ProposalDedup,
    ingest: CertificationState,
    entry_cache: EntryCache,
    /// Ranges that are being read for members far behind.
    reading: OutstandingReads,
    links: DriverLinks,
    /// Microseconds of this member's own clock, as of the input being handled.
    now: Time,
    /// Payloads of the append being handled.
    arriving: BTreeMap<(Term, LogIndex), Bytes>,
    submitted: BTreeMap<u64, Submitted>,
    /// Proposals waiting for room in the leader's log.
    deferred: Deferred,
    /// The connection over which proposals go to a member, see `Event::LinkUp`.
    connections: Connections,
    /// See `Shared::log_truncated`.
    era: u64,
    reads: Reads,
    repair: RepairWatch,
    membership: Membership,
    retention: Retention,
    state_transfers: StateTransfers,
    inconsistency: Inconsistency,
    last_committed: LogIndex,
    leaderless_since: Option<Time>,
    /// The term this member leads.
    led: Option<Term>,
    next_slow_tick: Time,
    /// What to do without a majority.
    survivor_policy: QuorumLossPolicy,
    /// The handover that was told of.
    told_handover: Option<MemberId>,
    /// The next leadership of this member is by order.
    forced: bool,
    stopped: bool,
}

impl Driver {
    /// A driver that has not done anything yet; see [`Driver::begin`].
    pub fn new(start: Start, links: DriverLinks, now: Time) -> Driver {
        let Start {
            me,
            config,
            tuning,
            group,
            mode,
            core,
            ingest,
        } = start;
        {
            let mut status = lock(&links.shared.status);
            (status.member, status.session, status.group) = (me.member, me.session, group);
        }
        let mut outbox = Outbox::new(me.member, me.session);
        outbox.log_starts_after(core.base().last.term);
        Driver {
            outbox,
            dedup: ProposalDedup::default(),
            ingest,
            entry_cache: EntryCache::new(tuning.entry_cache_bytes),
            retention: Retention::new(&tuning, now),
            reading: OutstandingReads::default(),
            membership: Membership::new(mode, &links.reader, tuning.slow_tick),
            last_committed: core.commit_index(),
            repair: RepairWatch::new(&core),
            me,
            config,
            tuning,
            group,
            core,
            links,
            now,
            arriving: BTreeMap::new(),
            submitted: BTreeMap::new(),
            deferred: Deferred::default(),
            connections: Connections::default(),
            era: 0,
            reads: Reads::default(),
            state_transfers: StateTransfers::default(),
            inconsistency: Inconsistency::default(),
            leaderless_since: Some(now),
            led: None,
            next_slow_tick: now,
            survivor_policy: QuorumLossPolicy::default(),
            told_handover: None,
            forced: false,
            stopped: false,
        }
    }

    /// The core's clock.
    fn now(&self) -> Time {
        self.now
    }

    fn log(&self, level: Level, text: impl AsRef<str>) {
        self.links.host.log(level, text.as_ref());
    }

    /// Begins to take part. Once, before anything else.
    pub fn begin(&mut self, now: Time) {
        self.observe(now);
        self.start_membership();
        self.perform();
    }

    /// Whether this member has stopped for good, or was told to.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Lets everybody go who waits for this member. What is handed to it later ends when it is
    /// dropped.
    pub fn end(&mut self) {
        self.abandon_submissions();
        self.reads.fail_all();
    }

    /// Does what is due, and what the inputs since the last turn led to.
    pub fn turn(&mut self, now: Time) {
        if self.stopped && !synod_planted::is(synod_planted::Bug::TurnAfterStop) {
            // Whoever has left in good order must not ask to be present again.
            return;
        }
        self.observe(now);
        if self.core.poll_timeout().is_some_and(|at| at <= now) {
            self.core.handle_tick(now);
        }
        self.perform();
        if now >= self.next_slow_tick {
            self.next_slow_tick = now.plus(self.tuning.slow_tick);
            self.slow_tick();
            self.perform();
        }
    }

    /// When the next turn is due at the latest.
    pub fn wake_at(&self) -> Time {
        let core = self.core.poll_timeout();
        core.map_or(self.next_slow_tick, |at| at.min(self.next_slow_tick))
    }

    /// Time never goes back: a clock that does stands still here.
    fn observe(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Takes in what happened. A turn has to follow, at once or after some more. A member that has stopped
    /// drops it.
    pub fn handle(&mut self, now: Time, event: Event) {
        if self.stopped {
            return;
        }
        self.observe(now);
        match event {
            Event::Peer {
                from,
                group,
                message,
            } => {
                // It may have connected before this member chose its group.
                let foreign = GroupId::NONE != group && group != self.group;
                if !foreign || self.group == GroupId::NONE {
                    self.handle_peer(from, message);
                }
            }
            Event::LinkUp { member, connection } => {
                self.connections.up(member, connection);
                self.core.peer_connected(self.now(), member);
                self.repeat_proposals(member);
                self.repeat_state_transfer_messages(member);
                if self.core.leader() == Some(member) {
                    self.send_join_if_needed();
                }
            }
            Event::InboundLink { member } => self.repeat_proposals(member),
            Event::LinkDown { member } => self.core.peer_disconnected(self.now(), member),
            Event::MemberFound {
                member,
                address,
                group,
            } => self.found(member, &address, group),
            Event::SeedRefused { text, is_final } => self.refused_by_address(&text, is_final),
            Event::DuplicateIdentity(text) => self.fail(&text),
            Event::Persisted(ticket) => {
                self.core.persisted(self.now(), ticket);
                self.trim_staged();
            }
            Event::Purged(base) => self.core.purged(base),
            Event::StorageFailed(why) => self.fail(&format!("the log failed: {why}")),
            Event::LogDamaged(error) => self.log_damaged(&error),
            Event::Submit(submission) => self.submit(submission),
            Event::Read(done) => self.read(done),
            Event::CancelRead(id) => self.cancel_read(id),
            Event::DataState(state) => {
                self.state_transfers.set_data_state(state);
                self.send_report();
            }
            Event::RequestState(request) => self.request_state(request),
            Event::StateOffer { joiner, offer } => self.answer_offer(joiner, offer),
            Event::StateResult { joiner, result } => self.answer_result(joiner, result),
            Event::ChangeConfig(request) => self.operate_config(request),
            Event::TransferLeadership(request) => self.operate_transfer(request),
            Event::ForcePrimary(done) => {
                let forced = self.force();
                (done.0)(forced);
            }
            Event::QuorumLossPolicy(policy) => self.survivor_policy = policy,
            Event::LeaderPreference(preference) => self.prefer(preference),
            Event::SuspectTimeout(limit) => self.config.suspect = limit,
            Event::ActionFailed { seqno, outcome } => self.action_failed(seqno, outcome),
            Event::Applied => self.answer_outcome_queries(),
            Event::InconsistencyPolicy(policy) => self.inconsistency.set_policy(policy),
            Event::Leave(done) => self.begin_leave(done, Some(LEAVE_LIMIT)),
            Event::LeaveWhenNotNeeded(done) => self.begin_leave(done, None),
            Event::Stop => self.stopped = true,
        }
    }

    fn handle_peer(&mut self, from: MemberId, message: PeerMessage) {
        self.membership.presence.heard(self.now, from);
        match message {
            PeerMessage::Consensus(message) => self.handle_consensus(from, message, Vec::new()),
            PeerMessage::Append { message, payloads } => {
                self.handle_consensus(from, message, payloads);
            }
            PeerMessage::Propose(propose) => self.handle_propose(from, propose),
            PeerMessage::ProposalRefused {
                term,
                session,
                number,
                reason,
            } => {
                if session == self.me.session {
                    self.proposal_refused(term, number, reason);
                }
            }
            PeerMessage::Join(join) => self.handle_join(from, join),
            PeerMessage::JoinReply(reply) => self.handle_join_reply(reply),
            PeerMessage::Leave { session } => self.handle_leave(from, session),
            PeerMessage::LeaveReply => self.finish_leave(),
            PeerMessage::Report(report) => self.handle_report(from, report),
            PeerMessage::Status(status) => self.handle_status(from, status),
            PeerMessage::OutcomeReport(report) => self.handle_outcome_report(from, report),
            PeerMessage::OutcomeQuery { term, seqno } => {
                self.handle_outcome_query(from, term, seqno);
            }
            PeerMessage::StateRequest(request) => self.handle_state_request(from, request),
            PeerMessage::StateOffer(offer) => self.handle_state_offer(offer),
            PeerMessage::StateResult(result) => self.handle_state_result(result),
        }
    }

    fn handle_consensus(&mut self, from: MemberId, message: Message, payloads: Vec<Bytes>) {
        if message.from != from || message.to != self.me.member {
            self.log(
                Level::Warning,
                format!("dropping a message of member {from} that names other parties"),
            );
            return;
        }
        if self.group == GroupId::NONE {
            // Nothing may be written before the log knows which group it is for.
            return;
        }
        let Some(configs) = self.take_payloads(&message, payloads) else {
            return;
        };
        // The core wants its effects performed before it is given the next message.
        self.perform_core_effects();
        if self.stopped || !self.may_obey(&message) {
            return;
        }
        self.core.handle_message_with(self.now(), message, &configs);
        // The payloads' entries, if accepted, are in the effects now.
        self.perform_core_effects();
        self.arriving.clear();
    }

    /// Keeps the payloads of an append at hand, and decodes the configurations among them.
    fn take_payloads(
        &mut self,
        message: &Message,
        payloads: Vec<Bytes>,
    ) -> Option<Vec<(LogIndex, Config)>> {
        let mut configs = Vec::new();
        let Body::Append(append) = &message.body else {
            return Some(configs);
        };
        if append.entries.len() != payloads.len() {
            self.log(
                Level::Error,
                format!(
                    "member {} sent {} entries with {} payloads",
                    message.from,
                    append.entries.len(),
                    payloads.len()
                ),
            );
            return None;
        }
        for (header, payload) in append.entries.iter().zip(payloads) {
            let is_whole = payload.len() == header.payload_len as usize
                && crc32c::crc32c(&payload) == header.payload_crc;
            if !is_whole {
                self.log(
                    Level::Error,
                    format!(
                        "entry {} arrived damaged from {}",
                        header.id(),
                        message.from
                    ),
                );
                return None;
            }
            if header.kind == EntryKind::Config {
                match Config::decode(&payload) {
                    Ok(config) => configs.push((header.index, config)),
                    Err(error) => {
                        self.log(Level::Error, format!("entry {}: {error}", header.id()));
                        return None;
                    }
                }
            }
            self.arriving.insert((header.term, header.index), payload);
        }
        Some(configs)
    }

    /// Performs effects and sends proposals until there is nothing left to do.
    fn perform(&mut self) {
        loop {
            self.perform_core_effects();
            let ordered = self.retry_deferred();
            let sent = self.send_proposals();
            if !ordered && !sent {
                break;
            }
        }
        self.tell_handover();
        self.publish_status();
    }

    fn slow_tick(&mut self) {
        self.watch_survivors();
        self.watch_primary();
        self.watch_repair();
        self.send_join_if_needed();
        self.retention.database_is_at(
            self.now,
            self.state_transfers.data_state(),
            self.links.shared.applied(),
        );
        self.send_report();
        self.lead_slow_tick();
        self.inconsistency_tick();
        self.leave_tick();
        self.retain_log();
        self.drop_strangers();
    }

    /// Stops for good.
    fn fail(&mut self, why: &str) {
        self.log(Level::Error, format!("this member stops: {why}"));
        self.links.host.failed(why);
        self.stopped = true;
    }

    fn send(&self, to: MemberId, message: PeerMessage) {
        self.links.peers.send(to, message);
    }
}
