//! The driver: turns what happens (messages, completed writes, clients, time) into calls of the
//! consensus core, and performs the core's effects. It owns all protocol state of a member.
//!
//! After [`Driver::handle`], by which a component or the core takes note of an event (messages may
//! be sent), [`Driver::turn`] has the core's timeout, its effects, then the slow tick. [`Driver`]
//! hands each event and message to the component that it concerns: the table of owners is in the
//! crate's DESIGN.md, and so are the rules of their signatures.
//!
//! What concerns several components is done here, in an order that matters: `effects` (what the
//! core asks for), `coordination` (changes of role, configuration and view; orders; reports) and
//! `housekeeping` (the slow tick). `status` and `inspect` are what others see of it.

mod authorization;
mod catch_up;
mod clock;
mod commands;
mod commit_times;
mod commit_wait;
mod context;
mod coordination;
mod effects;
mod event;
#[cfg(test)]
#[path = "testing/example_groups.rs"]
mod example_groups;
mod failed_actions;
mod flow_control;
mod housekeeping;
mod identity;
mod inspect;
mod leadership;
mod log_times;
mod membership;
mod own_log;
mod proposals;
mod purge_policy;
mod recovery;
mod repeated_warning;
mod status;
mod writers;

use std::sync::Arc;

use synod_consensus::{MemberId, SessionId, Time};
use synod_log::LogReader;
use synod_wire::{DataState, PeerMessage};

use crate::host::{Host, Remedy};
use crate::io::{Disk, Network, Observer};
use crate::shared::{Shared, lock};
use crate::start::Start;
use authorization::{Authorization, introduce_to};
use catch_up::CatchUp;
use clock::Turns;
use commands::Commands;
use commit_wait::CommitWaits;
use context::Context;
use failed_actions::{Decisions, FailedActions};
use flow_control::FlowControl;
use identity::Identity;
use leadership::Leadership;
use membership::{LEAVE_LIMIT, Membership, Views};
use own_log::{OwnLog, RepairWatch};
use proposals::{Link, Proposals};
use purge_policy::PurgePolicy;
use recovery::Recovery;

pub use commands::{CommandReply, CommandRequest};
pub use commit_wait::CommitWait;
pub(crate) use effects::{EntrySender, append_message};
pub use event::{
    Event, FailedCall, ForceDone, LeaveDone, LiveSetting, ReadDone, Reply, SignOfLife, Submission,
};
pub use inspect::Load;
pub use leadership::{LeaderPlacement, QuorumLossPolicy};
pub use log_times::OwnLogTimes;
pub use membership::VoterPolicy;
pub use purge_policy::FullLogPolicy;
pub use writers::{SettingRefusal, SettingRequest, WritePermission};

#[derive(Clone, Copy, Debug)]
pub struct Me {
    pub member: MemberId,
    pub session: SessionId,
}

/// Connections of the driver to its surroundings.
pub struct DriverLinks {
    pub peers: Box<dyn Network>,
    pub disk: Box<dyn Disk>,
    pub host: Arc<dyn Host>,
    pub shared: Arc<Shared>,
    pub reader: LogReader,
    /// A checker that sees each effect before it is performed; none in production.
    pub observer: Option<Box<dyn Observer>>,
}

/// A running member's protocol state: the consensus core and the components around it. Call
/// [`Driver::begin`] once, then [`Driver::handle`] and [`Driver::turn`] as the events and
/// [`Driver::wake_at`] demand, and [`Driver::end`] last.
pub struct Driver {
    ctx: Context,
    proposals: Proposals,
    flow_control: FlowControl,
    commit_wait: CommitWaits,
    membership: Membership,
    purge_policy: PurgePolicy,
    failed_actions: FailedActions,
    recovery: Recovery,
    leadership: Leadership,
    catch_up: CatchUp,
    authorization: Authorization,
    commands: Commands,
}

impl Driver {
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
        Driver {
            proposals: Proposals::new(me, core.base().last.term, tuning.partial_action_timeout),
            flow_control: FlowControl::new(config.apply_lag_max, now),
            commit_wait: CommitWaits::default(),
            membership: Membership::new(mode, &links.reader, &tuning),
            purge_policy: PurgePolicy::new(&tuning, now, config.keeps_log_only),
            failed_actions: FailedActions::default(),
            recovery: Recovery::default(),
            leadership: Leadership::new(me.member, &config, &tuning, now),
            catch_up: CatchUp::default(),
            authorization: Authorization::default(),
            commands: Commands::default(),
            ctx: Context {
                turns: Turns::new(now, tuning.slow_tick),
                own_log: OwnLog::new(&tuning, uncommitted_max, core.commit_index(), repair),
                certification,
                views: Views::load(&links.reader),
                decisions: Decisions::default(),
                data_state: DataState::Disconnected,
                identity: Identity { me, group, config },
                core,
                links,
            },
        }
    }

    /// Begins to take part. Once, before anything else.
    pub fn begin(&mut self, now: Time) {
        self.ctx.turns.observe(now);
        self.recovery.look_at_database(&self.ctx);
        self.start_membership();
        self.perform();
    }

    /// Whether this member has stopped for good, or was ordered to.
    pub fn is_stopped(&self) -> bool {
        self.ctx.turns.is_stopped()
    }

    /// Releases all clients that wait for this member. Events handed to it later end when it is
    /// dropped.
    pub fn end(&mut self) {
        self.proposals.withdraw_proposals(&self.ctx);
        self.proposals.reads.fail_all();
    }

    /// Does what is due, and what the events since the last turn led to.
    pub fn turn(&mut self, now: Time) {
        if self.is_stopped() && !synod_planted::is(synod_planted::Bug::TurnAfterStop) {
            // A member that has left must not ask to be present again.
            return;
        }
        self.ctx.turns.observe(now);
        if self.ctx.core.poll_timeout().is_some_and(|at| at <= now) {
            self.ctx.core.handle_tick(now);
            self.catch_up.feeding.notice_failed_feeding(&self.ctx);
        }
        self.perform();
        if self.ctx.turns.is_slow_tick_due(now) {
            self.slow_tick();
            self.perform();
        }
    }

    /// When the next turn is due at the latest.
    pub fn wake_at(&self) -> Time {
        let (core, slow_tick) = (
            self.ctx.core.poll_timeout(),
            self.ctx.turns.next_slow_tick(),
        );
        let next = core.map_or(slow_tick, |at| at.min(slow_tick));
        self.flow_control.wake_at().map_or(next, |at| at.min(next))
    }

    /// Takes note of an event. A turn has to follow, at once or after more events. A member that
    /// has stopped ignores the event.
    pub fn handle(&mut self, now: Time, event: Event) {
        if self.is_stopped() {
            return;
        }
        self.ctx.turns.observe(now);
        match event {
            Event::Peer {
                from,
                certificate,
                group,
                message,
            } => {
                if !self.ctx.identity.is_foreign(group) {
                    self.handle_peer(from, certificate, message);
                }
            }
            Event::LinkUp {
                member,
                connection,
                session,
            } => {
                let link = Link {
                    connection,
                    session,
                };
                self.proposals.local.link_up(member, link);
                self.membership.presence.link_up(member);
                self.ctx.core.peer_connected(self.ctx.turns.now, member);
                self.proposals.repeat_proposals(&self.ctx, member);
                self.catch_up
                    .state_transfers
                    .repeat_state_transfer_messages(&self.ctx, member);
                introduce_to(&self.ctx, member);
                self.commit_wait.ask_for_position(&self.ctx, member);
                self.catch_up.fetching.search.heard(member);
                if self.ctx.core.leader() == Some(member) {
                    self.membership.send_join_if_needed(
                        &self.ctx,
                        &self.leadership,
                        &mut self.authorization,
                    );
                }
            }
            Event::InboundLink { member } => {
                self.proposals.repeat_proposals(&self.ctx, member);
                self.catch_up.fetching.search.heard(member);
            }
            Event::LinkDown { member } => {
                self.catch_up.feeding.feeders.lost(member);
                self.membership.presence.link_down(member);
                self.ctx.core.peer_disconnected(self.ctx.turns.now, member);
                self.catch_up.fetching.fetch_elsewhere(&self.ctx, member);
            }
            Event::Alive { member } => self.ctx.core.note_alive(self.ctx.turns.now, member),
            Event::MemberFound {
                member,
                address,
                group,
            } => self
                .membership
                .found(&self.ctx, &self.authorization, member, &address, group),
            Event::CallFailed(call) => self.membership.call_failed(&mut self.ctx, call),
            Event::DuplicateIdentity { by, text } => {
                self.membership
                    .presence
                    .refused(self.ctx.turns.now, by, &text);
                self.authorization
                    .duplicate_identity(&mut self.ctx, &self.membership, by, &text)
            }
            Event::Persisted { ticket, sync_began } => {
                self.leadership.disk_watch.persisted(ticket);
                self.ctx.core.persisted(self.ctx.turns.now, ticket);
                self.ctx.note_durable(sync_began);
                self.ctx.trim_cache();
            }
            Event::Purged(base) => self.ctx.core.purged(base),
            Event::StorageFailed(why) => {
                self.ctx
                    .stop_for(&format!("the log failed: {why}"), Remedy::Restart);
            }
            Event::LogDamaged(error) => self.ctx.log_damaged(&error),
            Event::Fetch => self.catch_up.fetching.fetch(&self.ctx),
            Event::Submit(submission) => {
                self.proposals
                    .submit(&self.ctx, &self.membership, submission)
            }
            Event::Read(done) => self.proposals.read(&mut self.ctx, done),
            Event::CancelRead(id) => self.proposals.cancel_read(&mut self.ctx, id),
            Event::DataState(state) => {
                self.ctx.data_state = state;
                self.send_report();
                self.commit_wait
                    .tell_all_askers(&self.ctx, &self.flow_control);
            }
            Event::RequestState(request) => {
                self.catch_up
                    .state_transfers
                    .request_state(&self.ctx, &self.membership, request)
            }
            Event::StateOffer { joiner, offer } => self
                .catch_up
                .state_transfers
                .answer_offer(&self.ctx, joiner, offer),
            Event::StateResult { joiner, result } => self
                .catch_up
                .state_transfers
                .answer_result(&self.ctx, joiner, result),
            Event::Command(request) => self.take_command(request),
            Event::ForcePrimary(done) => {
                let forced = self.leadership.force_new_primary(&mut self.ctx);
                (done.0)(forced);
            }
            Event::Set(setting) => self.set(setting),
            Event::ActionFailed { seqno, outcome } => {
                self.failed_actions
                    .action_failed(&mut self.ctx, &self.membership, seqno, outcome)
            }
            Event::Applied => {
                self.failed_actions
                    .answer_outcome_queries(&mut self.ctx, &self.membership);
                self.commit_wait.tell_askers(&self.ctx, &self.flow_control);
            }
            Event::OrderSetting(request) => {
                self.proposals.writers.order_setting(&mut self.ctx, request)
            }
            Event::Leave(done) => {
                self.membership
                    .begin_leave(&mut self.ctx, done, Some(LEAVE_LIMIT))
            }
            Event::LeaveWhenNotNeeded(done) => {
                self.membership.begin_leave(&mut self.ctx, done, None)
            }
            Event::Stop => self.ctx.turns.stop(),
        }
    }

    fn set(&mut self, setting: LiveSetting) {
        match setting {
            LiveSetting::QuorumLossPolicy(policy) => {
                self.leadership.forced_primary.set_policy(policy)
            }
            LiveSetting::VoterPolicy(policy) => self.ctx.identity.config.voter_policy = policy,
            LiveSetting::FullLogPolicy(policy) => self.purge_policy.set_full_log_policy(policy),
            LiveSetting::LeaderPreference(preference) => self.set_leader_preference(preference),
            LiveSetting::LeaderHandover(hands_over) => self.set_leader_handover(hands_over),
            LiveSetting::LeaderPlacement(placement) => {
                let now = self.ctx.turns.now;
                self.leadership.writers.set_placement(now, placement);
            }
            LiveSetting::ApplyLagMax(limit) => self.flow_control.set_lag_max(limit),
            LiveSetting::SuspectTimeout(limit) => self.ctx.identity.config.suspect = limit,
            LiveSetting::CommitWait(wanted) => self.commit_wait.set_commit_wait(&self.ctx, wanted),
            LiveSetting::RegionPatience(limit) => {
                let limit_us = limit.map(|limit| limit.as_micros() as u64);
                self.ctx.core.set_region_patience(limit_us);
            }
            LiveSetting::InconsistencyPolicy(policy) => self.failed_actions.set_policy(policy),
        }
    }

    /// A message of another process. Its right to send it comes first: what is refused there
    /// changes nothing.
    fn handle_peer(&mut self, from: MemberId, certificate: Option<Arc<str>>, message: PeerMessage) {
        if !self.authorization.may_send(
            &self.ctx,
            &mut self.membership,
            from,
            certificate.as_ref(),
            &message,
        ) {
            return;
        }
        self.catch_up.fetching.search.heard(from);
        match message {
            PeerMessage::Consensus(message) => self.handle_consensus(from, message, Vec::new()),
            PeerMessage::Append { message, payloads } => {
                self.handle_consensus(from, message, payloads);
            }
            PeerMessage::Feed(order) => {
                self.catch_up
                    .feeding
                    .handle_feed(&mut self.ctx, from, order)
            }
            PeerMessage::Fed { message, payloads } => self.handle_fed(from, message, payloads),
            PeerMessage::Fetch(request) => {
                self.catch_up
                    .fetching
                    .handle_fetch(&self.ctx, &self.purge_policy, from, request)
            }
            PeerMessage::Fetched(answer) => self
                .catch_up
                .fetching
                .handle_fetched(&self.ctx, from, answer),
            PeerMessage::Propose(propose) => self.proposals.handle_propose(
                &mut self.ctx,
                &mut self.flow_control,
                &mut self.leadership,
                from,
                propose,
            ),
            PeerMessage::ProposalRefused {
                term,
                session,
                number,
                reason,
            } => {
                if session == self.ctx.identity.me.session {
                    self.proposals
                        .proposal_refused(&self.ctx, term, number, reason);
                }
            }
            PeerMessage::Join(join) => self.handle_join(from, certificate.as_deref(), join),
            PeerMessage::JoinReply(reply) => self.membership.handle_join_reply(
                &mut self.ctx,
                &self.leadership,
                &self.authorization,
                reply,
            ),
            PeerMessage::Leave { session } => {
                let own = self.own_report();
                self.membership
                    .handle_leave(&mut self.ctx, from, session, own);
            }
            PeerMessage::LeaveReply => self.membership.finish_leave(&mut self.ctx),
            PeerMessage::Report(report) => {
                self.leadership.hear_region(&mut self.ctx, from, &report);
                self.membership
                    .handle_report(&mut self.ctx, &mut self.commands, from, report)
            }
            PeerMessage::Status(status) => self.handle_status(from, status),
            PeerMessage::OutcomeReport(report) => self.failed_actions.handle_outcome_report(
                &mut self.ctx,
                &self.membership,
                from,
                report,
            ),
            PeerMessage::OutcomeQuery { term, seqno } => {
                self.failed_actions.handle_outcome_query(
                    &mut self.ctx,
                    &self.membership,
                    from,
                    term,
                    seqno,
                );
            }
            PeerMessage::StateRequest(request) => self
                .catch_up
                .state_transfers
                .handle_state_request(&self.ctx, &self.membership, from, request),
            PeerMessage::StateOffer(offer) => self
                .catch_up
                .state_transfers
                .handle_state_offer(&self.ctx, from, offer),
            PeerMessage::StateResult(result) => self
                .catch_up
                .state_transfers
                .handle_state_result(&self.ctx, from, result),
            PeerMessage::Introduction(introduction) => {
                self.authorization.handle_introduction(
                    &self.ctx,
                    &self.membership,
                    from,
                    introduction,
                );
            }
            PeerMessage::AppliedPosition(position) => {
                self.handle_applied_position(from, position);
            }
            PeerMessage::Pace(report) => self.flow_control.handle_pace(&self.ctx, from, report),
            PeerMessage::Presence(report) => {
                self.membership.handle_presence(&self.ctx, from, &report)
            }
            PeerMessage::AppliedQuery { session } => {
                self.commit_wait
                    .handle_applied_query(&self.ctx, &self.flow_control, from, session)
            }
            PeerMessage::Command {
                session,
                number,
                command,
            } => self.handle_command(from, session, number, command),
            PeerMessage::CommandAnswer {
                session,
                number,
                answer,
            } => self
                .commands
                .handle_command_answer(&self.ctx, session, number, answer),
            PeerMessage::VoteOrder { votes } => self.handle_vote_order(votes),
            PeerMessage::SettingOrder { setting } => {
                self.proposals
                    .writers
                    .handle_setting_order(&mut self.ctx, from, setting)
            }
            PeerMessage::SettingRefused { setting, text } => {
                self.proposals.writers.setting_refused(setting, &text)
            }
            PeerMessage::Survivor(report) => {
                self.recovery
                    .handle_survivor(&self.ctx, &mut self.membership, from, report)
            }
            // Between the transports, which measure with them.
            PeerMessage::Ping { .. } | PeerMessage::Pong { .. } => {}
        }
    }

    fn perform(&mut self) {
        self.flow_control
            .follow_appliers(&self.ctx, &self.membership);
        loop {
            self.perform_core_effects();
            let ordered = self.proposals.order_waiting(
                &mut self.ctx,
                &mut self.flow_control,
                &mut self.leadership,
            );
            let sent = self.proposals.send_proposals(
                &mut self.ctx,
                &mut self.flow_control,
                &mut self.leadership,
            );
            if !ordered && !sent {
                break;
            }
        }
        self.flow_control.note_throttled(&self.ctx, &self.proposals);
        self.leadership.announce_leader_transfer(&self.ctx);
        self.commands
            .follow_work(&mut self.ctx, &mut self.authorization);
        // The second change of a replacement is written and sent now, not with the next event.
        self.perform_core_effects();
        self.proposals.publish_status(&self.ctx);
        self.proposals.tell_write_permission(&self.ctx);
    }
}
