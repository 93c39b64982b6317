//! The core thread: turns what happens (messages, completed writes, clients, time) into calls of the
//! consensus core, and the core's effects into deeds. All protocol state is owned by this thread.
//!
//! One turn: take what has come in, tell the core, perform its effects. Nothing here waits for a
//! disk, a socket or the host.

mod deferred;
mod effects;
mod event;
mod flushed;
mod join;
mod leader;
mod leave;
mod origin;
mod presence;
mod protocol;
mod reads;
mod status;
mod transfer;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use synod_consensus::{
    Body, Config, Core, EntryKind, GroupId, Intake, LogIndex, MemberId, Message, Outbox, Seqno,
    SessionId, Term, Time,
};
use synod_log::LogReader;
use synod_wire::{DataState, PeerMessage};

pub(crate) use effects::append_message;
pub(crate) use event::{Event, LeaveDone, ReadDone, Submission};

use crate::budget::ByteBudget;
use crate::catchup::CatchUp;
use crate::config::{NodeConfig, StartMode};
use crate::host::{Host, Level};
use crate::ingest::Ingestor;
use crate::peers::Peers;
use crate::shared::Shared;
use crate::staged::Staged;
use crate::storage::Job;
use crate::view::View;
use deferred::Deferred;
use flushed::Flushed;
use join::Joining;
use leave::Leaving;
use origin::Submitted;
use presence::{Presence, ViewTrail};
use reads::Reads;

/// Events taken in one turn before effects are performed.
const EVENTS_PER_TURN: usize = 512;
/// Period of the slow work: reports, views, retention.
const SLOW_TICK: Duration = Duration::from_millis(250);

/// Who this member is.
#[derive(Clone, Debug)]
pub(crate) struct Me {
    pub(crate) member: MemberId,
    pub(crate) session: SessionId,
}

/// What the driver is connected to.
pub(crate) struct Links {
    pub(crate) events: Receiver<Event>,
    pub(crate) jobs: Sender<Job>,
    pub(crate) catchup: Sender<CatchUp>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reader: LogReader,
    /// Bytes of this member's actions on their way.
    pub(crate) pending_budget: Arc<ByteBudget>,
    /// Bytes of received messages not handled yet.
    pub(crate) inbound_budget: Arc<ByteBudget>,
}

/// See the module.
pub(crate) struct Driver {
    me: Me,
    config: NodeConfig,
    group: GroupId,
    core: Core,
    outbox: Outbox,
    intake: Intake,
    ingest: Ingestor,
    staged: Staged,
    links: Links,
    started: Instant,
    /// Payloads of the append being handled.
    arriving: HashMap<(Term, LogIndex), Bytes>,
    submitted: HashMap<u64, Submitted>,
    /// Proposals waiting for room in the leader's log.
    deferred: Deferred,
    /// The connection over which proposals go to a member, see `Event::LinkUp`.
    connections: HashMap<MemberId, u64>,
    /// See `Shared::log_cut`.
    era: u64,
    reads: Reads,
    presence: Presence,
    views: ViewTrail,
    committed_view: View,
    next_retention: Instant,
    flushed: Flushed,
    /// How far the slowest member present has applied, by the leader's word.
    slowest_applied: Option<Seqno>,
    joining: Joining,
    leaving: Option<Leaving>,
    data_state: DataState,
    last_committed: LogIndex,
    leaderless_since: Option<Instant>,
    /// The group's protocol version; zero before it is known.
    protocol: u16,
    /// The term this member leads.
    led: Option<Term>,
    next_slow_tick: Instant,
    joined_host: bool,
    stopped: bool,
}

/// What recovery and start-up decided.
pub(crate) struct Start {
    pub(crate) me: Me,
    pub(crate) config: NodeConfig,
    pub(crate) group: GroupId,
    pub(crate) mode: StartMode,
    pub(crate) core: Core,
    pub(crate) ingest: Ingestor,
}

impl Driver {
    pub(crate) fn new(start: Start, links: Links) -> Driver {
        let Start {
            me,
            config,
            group,
            mode,
            core,
            ingest,
        } = start;
        let now = Instant::now();
        Driver {
            outbox: Outbox::new(me.member, me.session),
            intake: Intake::default(),
            ingest,
            staged: Staged::new(STAGED_BYTES_MAX),
            presence: Presence::default(),
            views: ViewTrail::load(&links.reader),
            joining: Joining::new(mode),
            committed_view: View::default(),
            last_committed: core.commit_index(),
            me,
            config,
            group,
            core,
            links,
            started: now,
            arriving: HashMap::new(),
            submitted: HashMap::new(),
            deferred: Deferred::default(),
            connections: HashMap::new(),
            era: 0,
            reads: Reads::default(),
            leaving: None,
            data_state: DataState::Disconnected,
            leaderless_since: Some(now),
            protocol: 0,
            led: None,
            next_slow_tick: now,
            next_retention: now,
            flushed: Flushed::default(),
            slowest_applied: None,
            joined_host: false,
            stopped: false,
        }
    }

    /// Microseconds since the node started: the core's clock.
    fn now(&self) -> Time {
        Time(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn log(&self, level: Level, text: impl AsRef<str>) {
        self.links.host.log(level, text.as_ref());
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) {
        self.start_peers();
        self.perform();
        while !self.stopped {
            self.turn();
        }
        self.abandon_submissions();
        self.reads.fail_all();
        self.links.shared.stop();
        // Nobody gives anything back from now on; what is still queued ends when it is dropped.
        self.links.pending_budget.close();
        self.links.inbound_budget.close();
    }

    fn turn(&mut self) {
        match self.links.events.recv_deadline(self.wake_at()) {
            Ok(event) => {
                self.handle(event);
                for event in self.links.events.clone().try_iter().take(EVENTS_PER_TURN) {
                    self.handle(event);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.stopped = true,
        }
        if self.core.poll_timeout().is_some_and(|at| at <= self.now()) {
            self.core.handle_tick(self.now());
        }
        self.perform();
        if Instant::now() >= self.next_slow_tick {
            self.next_slow_tick = Instant::now() + SLOW_TICK;
            self.slow_tick();
            self.perform();
        }
    }

    fn wake_at(&self) -> Instant {
        let core = self
            .core
            .poll_timeout()
            .map(|at| self.started + Duration::from_micros(at.0));
        core.map_or(self.next_slow_tick, |at| at.min(self.next_slow_tick))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Peer {
                from,
                group,
                message,
                bytes,
            } => {
                // It may have connected before this member chose its group.
                let foreign = GroupId::NONE != group && group != self.group;
                if !foreign || self.group == GroupId::NONE {
                    self.handle_peer(from, message);
                }
                self.links.inbound_budget.give_back(bytes);
            }
            Event::LinkUp { member, connection } => {
                self.connections.insert(member, connection);
                self.core.peer_connected(self.now(), member);
                self.repeat_proposals(member);
                if self.core.leader() == Some(member) {
                    self.send_join_if_needed();
                }
            }
            Event::Called { member } => self.repeat_proposals(member),
            Event::LinkDown { member } => self.core.peer_disconnected(self.now(), member),
            Event::Found {
                member,
                address,
                group,
            } => self.found(member, &address, group),
            Event::SeedRefused { text, is_final } => self.refused_at(&text, is_final),
            Event::Persisted(ticket) => {
                self.core.persisted(self.now(), ticket);
                self.trim_staged();
            }
            Event::Purged(base) => self.core.purged(base),
            Event::StorageFailed(why) => self.fail(&format!("the log failed: {why}")),
            Event::Submit(submission) => self.submit(submission),
            Event::Read(done) => self.read(done),
            Event::CancelRead(id) => self.cancel_read(id),
            Event::DataState(state) => {
                self.data_state = state;
                self.send_report();
            }
            Event::RequestState(request) => self.request_state(request),
            Event::StateOffer { joiner, offer } => self.answer_offer(joiner, offer),
            Event::StateResult { joiner, result } => self.answer_result(joiner, result),
            Event::Leave(done) => self.begin_leave(done),
            Event::Stop => self.stopped = true,
        }
    }

    fn handle_peer(&mut self, from: MemberId, message: PeerMessage) {
        self.presence.heard(from);
        match message {
            PeerMessage::Consensus(message) => self.handle_consensus(from, message, Vec::new()),
            PeerMessage::Append { message, payloads } => {
                self.handle_consensus(from, message, payloads);
            }
            PeerMessage::Propose(propose) => self.handle_propose(from, propose),
            PeerMessage::ProposeRefused {
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
            PeerMessage::LeaveReply { ok } => self.handle_leave_reply(ok),
            PeerMessage::Report(report) => self.handle_report(from, report),
            PeerMessage::Status(status) => self.handle_status(from, status),
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
        self.publish_status();
    }

    fn slow_tick(&mut self) {
        self.watch_primary();
        self.send_join_if_needed();
        self.send_report();
        self.lead_slow_tick();
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

/// Newest entries kept at hand for replication, in bytes.
const STAGED_BYTES_MAX: usize = 32 << 20;
