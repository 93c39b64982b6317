//! The driver: turns what happens (messages, completed writes, clients, time) into calls of the
//! consensus core, and performs the core's effects. It owns all protocol state of a member.
//!
//! The loop that a host runs:
//!
//! ```text
//! until an event comes, or Driver::wake_at():
//!   Driver::handle(now, event)    a component or the core takes note; messages may be sent
//!   Driver::turn(now)             the core's timeout, its effects, then the slow tick
//! ```
//!
//! Nothing here waits for a disk, a socket or the host, and time is an argument.
//!
//! [`Driver`] itself is a coordinator. State lives in components, and each answers a question:
//!
//! | component | question |
//! |---|---|
//! | [`Identity`] | who is this member, in which group, with which settings? |
//! | [`Turns`] | what is due: the slow tick, or nothing any more? |
//! | [`OwnLog`] | what is in an entry to be written, or to be sent? |
//! | [`LocalProposals`] | which proposals of this session have no result; what is to be sent? |
//! | [`Ordering`] | as the leader: is a proposal appended, refused, or does it wait? |
//! | [`FlowControl`] | how far do databases lag, and may the leader append another action now? |
//! | [`CommitWaits`] | up to where have all databases applied; who wants to know it of this one? |
//! | [`WritersSetting`] | what do operators want the setting to be, and may the host take writes? |
//! | [`Reads`] | which clients wait for the group's position? |
//! | [`Membership`] | how does this member join and leave, who is present, which view is next? |
//! | [`Retention`] | how far may the log be purged? |
//! | [`StateTransfers`] | which messages about full copies (SST) are to be repeated? |
//! | [`Inconsistency`] | which outcome of a failed action wins? |
//! | [`ForcedPrimary`] | does this member continue without a majority? |
//! | [`Recovery`] | what do the survivors of a lost majority have, and which one may continue? |
//! | [`LeaderPriority`] | which members are fit to lead, with which weight? |
//! | [`FollowWriters`] | as the leader: do nearly all writes come from another region? |
//! | [`Regions`] | which region is each member in? |
//! | [`Feeding`] | as the leader: who sends entries on to which learner? As a feeder: which wait? |
//! | [`PrimaryWatch`] | is this member primary, or has it lost the group? |
//! | [`Elections`] | who led before, and why is another member elected? |
//! | [`LogTimes`] | how long do own actions take to disk, and to be committed? |
//! | [`Standstill`] | does a log stand still although members talk to each other? |
//! | [`Authorization`] | who may send which message? |
//! | [`Fetching`] | which member has what this log lacks; what is read for whom? |
//! | [`Commands`] | which orders of operators have no answer yet? |
//!
//! The rule: components do not know each other, the driver, or the world outside. The driver
//! collects the facts that a component needs, asks, and performs the answer. Its methods are in the
//! files named `coordinate`, one per room, and beside this one: `effects` (what the core asks for),
//! `housekeeping` (the slow tick), `reports` (what members report to each other), `status` and
//! `inspect` (what others see of it).

mod authorization;
mod clock;
mod commands;
mod commit_times;
mod commit_wait;
mod effects;
mod event;
#[cfg(test)]
mod example_groups;
mod feeding;
mod fetching;
mod flow_control;
mod housekeeping;
mod identity;
mod inconsistency;
mod inspect;
mod leadership;
mod log_times;
mod membership;
mod own_log;
mod proposals;
mod recovery;
mod repeated_warning;
mod reports;
mod retention;
mod stalled_logs;
mod state_transfer;
mod status;
mod writers;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use synod_consensus::{Body, Core, GroupId, MemberId, Message, SessionId, Time};
use synod_log::LogReader;
use synod_wire::PeerMessage;

pub use commands::{CommandReply, CommandRequest};
pub use commit_wait::CommitWait;
pub(crate) use effects::{EntrySender, append_message};
pub use event::{Event, ForceDone, LeaveDone, ReadDone, Reply, Submission};
pub use inspect::Load;
pub use leadership::{LeaderPlacement, QuorumLossPolicy};
pub use log_times::OwnLogTimes;
pub use membership::VoterPolicy;
pub use retention::FullLogPolicy;
pub use writers::{WritePermission, WritersRefusal, WritersRequest};

use crate::host::{Host, Level, Remedy, Topic};
use crate::io::{Disk, Network, Observer};
use crate::shared::{Shared, lock};
use crate::start::Start;
use authorization::Authorization;
use clock::Turns;
use commands::Commands;
use commit_wait::CommitWaits;
use feeding::Feeding;
use fetching::Fetching;
use flow_control::FlowControl;
use identity::Identity;
use inconsistency::Inconsistency;
use leadership::{
    DiskWatch, Elections, FollowWriters, ForcedPrimary, LeaderPriority, PrimaryWatch, Regions,
};
use log_times::LogTimes;
use membership::{LEAVE_LIMIT, Membership};
use own_log::{Arrived, Missing, OwnLog, RepairWatch};
use proposals::{Link, LocalProposals, Ordering, Reads};
use recovery::Recovery;
use retention::Retention;
use stalled_logs::Standstill;
use state_transfer::StateTransfers;
use writers::WritersSetting;

/// A member, as the group names it.
#[derive(Clone, Copy, Debug)]
pub struct Me {
    /// The identity of its disk.
    pub member: MemberId,
    /// The identity of its process.
    pub session: SessionId,
}

/// Connections of the driver to its surroundings.
pub struct DriverLinks {
    /// The other members.
    pub peers: Box<dyn Network>,
    /// Its own disk.
    pub disk: Box<dyn Disk>,
    /// The program it runs in.
    pub host: Arc<dyn Host>,
    /// State of the driver that other threads see.
    pub shared: Arc<Shared>,
    /// Its log, for reading.
    pub reader: LogReader,
    /// A checker that sees each effect before it is performed; none in production.
    pub observer: Option<Box<dyn Observer>>,
}

/// A running member's protocol state: the consensus core and the components around it.
///
/// Call [`Driver::begin`] once, then [`Driver::handle`] and [`Driver::turn`] as the events and
/// [`Driver::wake_at`] demand, and [`Driver::end`] last.
pub struct Driver {
    identity: Identity,
    core: Core,
    links: DriverLinks,
    turns: Turns,
    own_log: OwnLog,
    proposals: LocalProposals,
    ordering: Ordering,
    flow_control: FlowControl,
    commit_wait: CommitWaits,
    writers: WritersSetting,
    reads: Reads,
    membership: Membership,
    retention: Retention,
    state_transfers: StateTransfers,
    inconsistency: Inconsistency,
    forced_primary: ForcedPrimary,
    recovery: Recovery,
    leader_priority: LeaderPriority,
    regions: Regions,
    feeding: Feeding,
    fetching: Fetching,
    follow_writers: FollowWriters,
    disk_watch: DiskWatch,
    log_times: LogTimes,
    primary: PrimaryWatch,
    elections: Elections,
    standstill: Standstill,
    authorization: Authorization,
    commands: Commands,
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
            ingest: certification,
        } = start;
        {
            let mut status = lock(&links.shared.status);
            (status.member, status.session, status.group) = (me.member, me.session, group);
        }
        let repair = RepairWatch::new(core.repairing_until().is_some());
        let uncommitted_max = config.limits.uncommitted_bytes_max;
        let step_down = Duration::from_micros(config.timing.election_timeout_max_us);
        Driver {
            turns: Turns::new(now, tuning.slow_tick),
            own_log: OwnLog::new(&tuning, uncommitted_max, core.commit_index(), repair),
            proposals: LocalProposals::new(me, core.base().last.term),
            ordering: Ordering::new(
                certification,
                config.cert_limits(&tuning),
                tuning.partial_action_timeout,
            ),
            flow_control: FlowControl::new(config.apply_lag_max, now),
            commit_wait: CommitWaits::default(),
            writers: WritersSetting::default(),
            reads: Reads::default(),
            membership: Membership::new(mode, &links.reader, &tuning),
            retention: Retention::new(&tuning, now, config.in_relay_group),
            state_transfers: StateTransfers::default(),
            inconsistency: Inconsistency::default(),
            forced_primary: ForcedPrimary::default(),
            recovery: Recovery::default(),
            leader_priority: LeaderPriority::default(),
            regions: Regions::new(me.member, config.region.clone()),
            feeding: Feeding::default(),
            fetching: Fetching::default(),
            follow_writers: FollowWriters::new(&tuning, now),
            disk_watch: DiskWatch::new(tuning.disk_patience),
            log_times: LogTimes::default(),
            primary: PrimaryWatch::new(now, step_down),
            elections: Elections::default(),
            standstill: Standstill::default(),
            authorization: Authorization::default(),
            commands: Commands::default(),
            identity: Identity { me, group, config },
            core,
            links,
        }
    }

    /// The time of the input being handled, by this member's own clock.
    fn now(&self) -> Time {
        self.turns.now
    }

    fn log(&self, level: Level, text: impl AsRef<str>) {
        self.links.host.log(level, text.as_ref());
    }

    /// Like [`Driver::log`], for an event that operators ask for afterwards.
    fn note(&self, topic: Topic, level: Level, text: impl AsRef<str>) {
        self.links.host.note(topic, level, text.as_ref());
    }

    /// Begins to take part. Once, before anything else.
    pub fn begin(&mut self, now: Time) {
        self.turns.observe(now);
        self.look_at_database();
        self.start_membership();
        self.perform();
    }

    /// Whether this member has stopped for good, or was ordered to.
    pub fn is_stopped(&self) -> bool {
        self.turns.is_stopped()
    }

    /// Releases all clients that wait for this member. Events handed to it later end when it is
    /// dropped.
    pub fn end(&mut self) {
        self.withdraw_proposals();
        self.reads.fail_all();
    }

    /// Does what is due, and what the events since the last turn led to.
    pub fn turn(&mut self, now: Time) {
        if self.is_stopped() && !synod_planted::is(synod_planted::Bug::TurnAfterStop) {
            // A member that has left must not ask to be present again.
            return;
        }
        self.turns.observe(now);
        if self.core.poll_timeout().is_some_and(|at| at <= now) {
            self.core.handle_tick(now);
            self.notice_failed_feeding();
        }
        self.perform();
        if self.turns.is_slow_tick_due(now) {
            self.slow_tick();
            self.perform();
        }
    }

    /// When the next turn is due at the latest.
    pub fn wake_at(&self) -> Time {
        let (core, slow_tick) = (self.core.poll_timeout(), self.turns.next_slow_tick());
        let next = core.map_or(slow_tick, |at| at.min(slow_tick));
        self.flow_control.wake_at().map_or(next, |at| at.min(next))
    }

    /// Takes note of an event. A turn has to follow, at once or after more events. A member that
    /// has stopped ignores the event.
    pub fn handle(&mut self, now: Time, event: Event) {
        if self.is_stopped() {
            return;
        }
        self.turns.observe(now);
        match event {
            Event::Peer {
                from,
                certificate,
                group,
                message,
            } => {
                if !self.identity.is_foreign(group) {
                    self.handle_peer(from, certificate, message);
                }
            }
            Event::LinkUp {
                member,
                connection,
                session,
                version,
            } => {
                let link = Link {
                    connection,
                    session,
                    version,
                };
                self.proposals.link_up(member, link);
                self.membership.join_watch.link_up(member);
                self.core.peer_connected(self.now(), member);
                self.repeat_proposals(member);
                self.repeat_state_transfer_messages(member);
                self.introduce_to(member);
                self.ask_for_position(member);
                self.fetching.search.heard(member);
                if self.core.leader() == Some(member) {
                    self.send_join_if_needed();
                }
            }
            Event::InboundLink { member } => {
                self.repeat_proposals(member);
                self.fetching.search.heard(member);
            }
            Event::LinkDown { member } => {
                self.feeding.feeders.lost(member);
                self.membership.join_watch.link_down(member);
                self.core.peer_disconnected(self.now(), member);
                self.fetch_elsewhere(member);
            }
            Event::MemberFound {
                member,
                address,
                group,
            } => self.found(member, &address, group),
            Event::SeedRefused {
                text,
                is_final,
                needs_operator,
            } => self.refused_by_address(&text, is_final, needs_operator),
            Event::DuplicateIdentity { by, text } => self.duplicate_identity(by, &text),
            Event::Persisted { ticket, sync_began } => {
                self.disk_watch.persisted(ticket);
                self.core.persisted(self.now(), ticket);
                self.note_durable(sync_began);
                self.trim_cache();
            }
            Event::Purged(base) => self.core.purged(base),
            Event::StorageFailed(why) => {
                self.stop_for(&format!("the log failed: {why}"), Remedy::Restart);
            }
            Event::LogDamaged(error) => self.log_damaged(&error),
            Event::Fetch => self.fetch(),
            Event::Submit(submission) => self.submit(submission),
            Event::Read(done) => self.read(done),
            Event::CancelRead(id) => self.cancel_read(id),
            Event::DataState(state) => {
                self.state_transfers.set_data_state(state);
                self.send_report();
                self.tell_all_askers();
            }
            Event::RequestState(request) => self.request_state(request),
            Event::StateOffer { joiner, offer } => self.answer_offer(joiner, offer),
            Event::StateResult { joiner, result } => self.answer_result(joiner, result),
            Event::Command(request) => self.take_command(request),
            Event::ForcePrimary(done) => {
                let forced = self.force_new_primary();
                (done.0)(forced);
            }
            Event::QuorumLossPolicy(policy) => self.forced_primary.set_policy(policy),
            Event::VoterPolicy(policy) => self.identity.config.voter_policy = policy,
            Event::FullLogPolicy(policy) => self.retention.set_full_log_policy(policy),
            Event::LeaderPreference(preference) => self.set_leader_preference(preference),
            Event::LeaderHandover(hands_over) => self.set_leader_handover(hands_over),
            Event::LeaderPlacement(placement) => {
                let now = self.turns.now;
                self.follow_writers.set_placement(now, placement);
            }
            Event::ApplyLagMax(limit) => self.flow_control.set_lag_max(limit),
            Event::SuspectTimeout(limit) => self.identity.config.suspect = limit,
            Event::ActionFailed { seqno, outcome } => self.action_failed(seqno, outcome),
            Event::Applied => {
                self.answer_outcome_queries();
                self.tell_askers();
            }
            Event::CommitWait(wanted) => self.set_commit_wait(wanted),
            Event::OrderWriters(request) => self.order_writers(request),
            Event::InconsistencyPolicy(policy) => self.inconsistency.set_policy(policy),
            Event::Leave(done) => self.begin_leave(done, Some(LEAVE_LIMIT)),
            Event::LeaveWhenNotNeeded(done) => self.begin_leave(done, None),
            Event::Stop => self.turns.stop(),
        }
    }

    /// A message of another process. Its right to send it comes first: what is refused there
    /// changes nothing.
    fn handle_peer(&mut self, from: MemberId, certificate: Option<Arc<str>>, message: PeerMessage) {
        if !self.may_send(from, certificate.as_ref(), &message) {
            return;
        }
        self.fetching.search.heard(from);
        match message {
            PeerMessage::Consensus(message) => self.handle_consensus(from, message, Vec::new()),
            PeerMessage::Append { message, payloads } => {
                self.handle_consensus(from, message, payloads);
            }
            PeerMessage::Feed(order) => self.handle_feed(from, order),
            PeerMessage::Fed { message, payloads } => self.handle_fed(from, message, payloads),
            PeerMessage::Fetch(request) => self.handle_fetch(from, request),
            PeerMessage::Fetched(answer) => self.handle_fetched(from, answer),
            PeerMessage::Propose(propose) => self.handle_propose(from, propose),
            PeerMessage::ProposalRefused {
                term,
                session,
                number,
                reason,
            } => {
                if session == self.identity.me.session {
                    self.proposal_refused(term, number, reason);
                }
            }
            PeerMessage::Join(join) => self.handle_join(from, certificate.as_deref(), join),
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
            PeerMessage::StateOffer(offer) => self.handle_state_offer(from, offer),
            PeerMessage::StateResult(result) => self.handle_state_result(from, result),
            PeerMessage::Introduction(introduction) => {
                self.handle_introduction(from, introduction);
            }
            PeerMessage::AppliedPosition(position) => {
                self.handle_applied_position(from, position);
            }
            PeerMessage::Pace(report) => self.handle_pace(from, report),
            PeerMessage::Presence(report) => self.handle_presence(from, &report),
            PeerMessage::AppliedQuery { session } => self.handle_applied_query(from, session),
            PeerMessage::Command {
                session,
                number,
                command,
            } => self.handle_command(from, session, number, command),
            PeerMessage::CommandAnswer {
                session,
                number,
                answer,
            } => self.handle_command_answer(session, number, answer),
            PeerMessage::VoteOrder { votes } => self.handle_vote_order(votes),
            PeerMessage::WritersOrder { writers } => self.handle_writers_order(from, writers),
            PeerMessage::WritersRefused { writers, text } => self.writers_refused(writers, &text),
            PeerMessage::Survivor(report) => self.handle_survivor(from, report),
            // Between the transports, which measure with them.
            PeerMessage::Ping { .. } | PeerMessage::Pong { .. } => {}
        }
    }

    fn handle_consensus(
        &mut self,
        from: MemberId,
        mut message: Message,
        payloads: Vec<Option<Bytes>>,
    ) {
        if message.from != from || message.to != self.identity.me.member {
            self.log(
                Level::Warning,
                format!("ignoring a message of member {from} that names other parties"),
            );
            return;
        }
        if self.identity.group == GroupId::NONE {
            // Nothing may be written before the log knows which group it is for.
            return;
        }
        self.elections.heard(&message);
        if self.is_answer_to_this_leader(&message) {
            // This turn performs what all such answers lead to: one commit, one message for each
            // follower.
            return self.core.handle_message(self.now(), message);
        }
        // The core wants its effects performed before it is given the next message. The payloads of
        // that message come to hand only then: none is written with an entry that was there before.
        self.perform_core_effects();
        if self.is_stopped() || !self.may_obey(&message) {
            return;
        }
        let (core, proposals) = (&self.core, &self.proposals);
        let arrived = self
            .own_log
            .arrived(core, &mut message, payloads, |header| {
                proposals.payload_of(header)
            });
        let Arrived { configs, missing } = match arrived {
            Ok(arrived) => arrived,
            Err(text) => {
                self.own_log.forget_arrived();
                return self.log(Level::Error, text);
            }
        };
        let has_entries = matches!(message.body, Body::Append(_) | Body::InstallBase { .. });
        let before = self.core.counters().refused_entries();
        let term = message.term;
        self.core.handle_message_with(self.now(), message, &configs);
        if let Some(Missing { index, sent_at }) = missing {
            let now = self.now();
            self.core.payload_missing(now, (from, term), index, sent_at);
        }
        if has_entries && self.core.leader() == Some(from) {
            self.entries_came(from, self.core.counters().refused_entries() == before);
        }
        // The payloads' entries, if accepted, are in the effects now.
        self.perform_core_effects();
        self.own_log.forget_arrived();
        // Learners may wait for entries that have just come.
        self.feed_waiting();
    }

    /// Whether a member answers what this one has sent it as the leader of the present term.
    fn is_answer_to_this_leader(&self, message: &Message) -> bool {
        let is_answer = matches!(
            message.body,
            Body::AppendReply(_) | Body::HeartbeatReply { .. }
        );
        is_answer && self.core.is_leader() && message.term == self.core.term()
    }

    /// Performs effects and sends proposals until there is nothing left to do.
    fn perform(&mut self) {
        self.follow_appliers();
        loop {
            self.perform_core_effects();
            let ordered = self.order_waiting();
            let sent = self.send_proposals();
            if !ordered && !sent {
                break;
            }
        }
        self.note_throttled();
        self.announce_leader_transfer();
        self.follow_work();
        self.publish_status();
        self.tell_write_permission();
    }

    /// Stops for good, until a person has changed something.
    fn fail(&mut self, why: &str) {
        self.stop_for(why, Remedy::Operator);
    }

    /// Stops for good, and says what brings this member back.
    fn stop_for(&mut self, why: &str, remedy: Remedy) {
        let text = format!("this member stops: {why}");
        self.note(Topic::Membership, Level::Error, text);
        self.links.host.failed(why, remedy);
        self.turns.stop();
    }

    fn send(&self, to: MemberId, message: PeerMessage) {
        self.links.peers.send(to, message);
    }
}
