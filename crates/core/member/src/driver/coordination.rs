//! Events that concern several components: changes of role, configuration and view, orders of
//! operators, and reports. The order in which the components hear of them matters.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use synod_consensus::{
    ConfigAt, LeaderPreference, LeaderWeight, MemberId, Message, RoleChange, RoleName, SessionId,
};
use synod_wire::{
    AppliedPosition, Command, CommandRefusal, Done, Join, JoinReply, PeerMessage, RefusalReason,
    Report, StatusBroadcast,
};

use super::Driver;
use super::catch_up::may_be_fed_by;
use super::commands::{Asker, CommandRequest, find, refuse};
use super::membership::announce_shared_name;
use super::recovery::may_join;
use crate::host::{Level, Topic};
use crate::shared::lock;

impl Driver {
    /// A feeder sends an append of the leader on. It counts only for a leader that this member
    /// follows already: that a member leads is never learned from another one. And only from a
    /// member that may be chosen for it: voters are never fed, and learners only within a region.
    pub(in crate::driver) fn handle_fed(
        &mut self,
        from: MemberId,
        message: Message,
        payloads: Vec<Option<Bytes>>,
    ) {
        let leader = message.from;
        let is_current =
            self.ctx.core.leader() == Some(leader) && message.term == self.ctx.core.term();
        if is_current && may_be_fed_by(&self.ctx, &self.leadership, from) {
            self.handle_consensus(leader, message, payloads);
        }
    }

    /// Connects to the members that the log knows, or begins a group if this member is to.
    pub(in crate::driver) fn start_membership(&mut self) {
        let config = self.ctx.core.config().clone();
        self.config_changed(&config);
        let is_new = self.ctx.core.config().config.members.is_empty()
            && self.ctx.core.repairing_until().is_none();
        if self.membership.join.begins_group() && is_new {
            let me = self.ctx.identity.config.first_voter();
            if let Err(error) = self.ctx.core.bootstrap(self.ctx.turns.now, me) {
                self.ctx.fail(&format!("cannot begin a new group: {error}"));
            }
        }
    }

    pub(in crate::driver) fn config_changed(&mut self, config: &ConfigAt) {
        self.membership.obey_protocol(&mut self.ctx, &config.config);
        for (member, entry) in &config.config.members {
            if *member != self.ctx.identity.me.member {
                self.ctx.links.peers.connect(*member, &entry.address);
            }
        }
        self.leadership.publish_members(&self.ctx);
        self.authorization
            .publish_known(&self.ctx, &self.membership);
        self.drop_strangers();
    }

    /// Forgets processes outside the group, and closes connections to them unless they ask to be in
    /// it.
    pub(in crate::driver) fn drop_strangers(&mut self) {
        self.ctx.links.peers.keep_only(&|member| {
            self.authorization
                .is_wanted(&self.ctx, &self.membership, member)
        });
        let links = &self.ctx.links.peers;
        self.membership
            .presence
            .forget_findings(|member| links.knows(member));
        self.proposals
            .local
            .retain_links(|member| links.knows(member));
        let members = &self.ctx.core.config().config.members;
        self.membership
            .presence
            .forget_others(|member| members.contains_key(&member));
    }

    pub(in crate::driver) fn view_committed(&mut self) {
        self.membership.join_without_view(&self.ctx);
        let Some(view) = self.ctx.views.commit(self.ctx.own_log.committed()) else {
            return;
        };
        let names: Vec<&str> = view.members.iter().map(|m| m.name.as_str()).collect();
        let text = format!(
            "view {} at {}: {}",
            view.number,
            view.seqno,
            names.join(", ")
        );
        let seqno = view.seqno;
        self.ctx.note(Topic::Membership, Level::Info, text);
        self.leadership.publish_view(&self.ctx);
        self.commit_wait.ask_for_positions(&self.ctx);
        self.commit_wait.publish_everywhere(&self.ctx);
        let is_first = self.ctx.is_present() && !self.membership.join.is_completed();
        if is_first && may_join(&mut self.ctx, &self.membership, seqno) {
            self.membership.join.complete();
            self.ctx.links.peers.stop_seeking();
            self.membership.presence.forget_listed();
            announce_shared_name(&self.ctx);
            self.watch_primary();
            self.ctx.links.host.joined(self.ctx.views.committed());
        }
    }

    pub(in crate::driver) fn role_changed(&mut self, change: RoleChange) {
        let leads = change.role == RoleName::Leader;
        self.leadership
            .primary
            .role_changed(self.ctx.turns.now, &change);
        self.proposals
            .local
            .leader_changed(change.term, change.leader);
        self.flow_control.leader_changed(self.ctx.turns.now);
        if leads {
            self.proposals
                .ordering
                .begin_term(change.term, self.ctx.core.last_seqno());
            self.begin_leading();
        } else {
            self.proposals.ordering.stop_leading();
            self.purge_policy.stop_leading();
        }
        if change.leader.is_some() {
            self.watch_primary();
            self.membership.send_join_if_needed(
                &self.ctx,
                &self.leadership,
                &mut self.authorization,
            );
            self.send_report();
            self.failed_actions
                .report_to_new_leader(&mut self.ctx, &self.membership);
        }
        if let Some(leader) = change.leader {
            self.recovery
                .doubt_database(&self.ctx, &self.membership, leader);
            self.leadership
                .announce_leader(&self.ctx, change.term, leader);
        }
    }

    fn begin_leading(&mut self) {
        let (now, me) = (self.ctx.turns.now, self.ctx.identity.view_member());
        let suspect = self.ctx.identity.config.suspect;
        let is_forced = self.leadership.forced_primary.take_order();
        let membership = &mut self.membership;
        let view = self.ctx.views.latest_known();
        if is_forced {
            // The others had their time before, or the operator knows better.
            let presence = &mut membership.presence;
            presence.begin_with_live_members(now, view, me, suspect);
        } else {
            membership.presence.begin(now, view, me);
        }
        membership.leave.stay_for_others(now);
        self.leadership.begin_leading(&mut self.ctx);
        self.commands.begin_leading();
        self.catch_up.feeding.feeders.begin_leading();
        membership.successor = None;
    }

    pub(in crate::driver) fn watch_primary(&mut self) {
        let (now, patience) = (self.ctx.turns.now, self.ctx.group_patience());
        let was_primary = self.ctx.links.shared.is_primary();
        let is_primary = self
            .leadership
            .primary
            .is_primary(now, was_primary, patience);
        if is_primary == was_primary {
            return;
        }
        self.ctx
            .links
            .shared
            .primary
            .store(is_primary, Ordering::Release);
        lock(&self.ctx.links.shared.status).primary = is_primary;
        if is_primary {
            let text = "a leader with a quorum is heard";
            self.ctx.note(Topic::Leadership, Level::Info, text);
        } else {
            let text = format!(
                "no leader for {:?}: this member is not primary until it hears one. Configured \
                 voters: {}. {}",
                self.leadership
                    .primary
                    .leaderless_for(now)
                    .unwrap_or_default(),
                self.ctx.voter_names(),
                self.recovery.advice(&self.ctx, &self.membership)
            );
            self.ctx.note(Topic::Leadership, Level::Info, text);
            self.proposals.withdraw_proposals(&self.ctx);
        }
        self.commit_wait.publish_everywhere(&self.ctx);
        self.ctx.links.host.primary_changed(is_primary);
    }

    pub(in crate::driver) fn set_leader_preference(&mut self, preference: LeaderPreference) {
        if preference != self.ctx.core.leader_preference() {
            self.ctx.core.set_leader_preference(preference);
            self.leadership.publish_members(&self.ctx);
            self.send_report();
        }
    }

    pub(in crate::driver) fn set_leader_handover(&mut self, hands_over: bool) {
        self.set_leader_preference(LeaderPreference {
            hands_over,
            ..self.ctx.core.leader_preference()
        });
    }

    pub(in crate::driver) fn handle_applied_position(
        &mut self,
        from: MemberId,
        position: AppliedPosition,
    ) {
        self.flow_control.note_position(&self.ctx, from, position);
        self.commit_wait.position_told(&self.ctx, from, position);
    }

    pub(in crate::driver) fn take_command(&mut self, request: CommandRequest) {
        let CommandRequest {
            command,
            limit,
            reply,
        } = request;
        let number = self.commands.wait(self.ctx.turns.now, limit, reply);
        let me = self.ctx.identity.me;
        let asker = Asker {
            member: me.member,
            session: me.session,
            number,
        };
        match self.addressee(&command) {
            Ok(to) if to == me.member => self.carry_out(asker, command),
            Ok(to) => self.commands.pass_on(&self.ctx, to, number, command),
            Err(refusal) => self.commands.answer(&self.ctx, asker, Err(refusal)),
        }
    }

    fn addressee(&self, command: &Command) -> Result<MemberId, CommandRefusal> {
        if let Command::SetWeight { member, .. } = command {
            return find(&self.ctx.core.config().config, member);
        }
        if *command == Command::Recover {
            return self.recovery.choose_survivor(
                &self.ctx,
                &self.membership,
                &self.leadership,
                false,
            );
        }
        self.ctx.core.leader().ok_or_else(|| {
            refuse(
                RefusalReason::NoLeader,
                "this member knows no leader: a majority of the voters does not answer, or an \
                 election is under way. Repeat the command in a few seconds",
            )
        })
    }

    pub(in crate::driver) fn handle_command(
        &mut self,
        from: MemberId,
        session: SessionId,
        number: u64,
        command: Command,
    ) {
        let asker = Asker {
            member: from,
            session,
            number,
        };
        self.carry_out(asker, command);
    }

    fn carry_out(&mut self, asker: Asker, command: Command) {
        let by = self.ctx.name_of(asker.member);
        let text = format!("an operator orders, by way of {by}: {command}");
        self.ctx.note(Topic::Membership, Level::Info, text);
        let begun = match &command {
            Command::SetWeight { member, weight } => self.weigh_myself(member, *weight).map(Some),
            Command::Recover => {
                let is_passed_on = asker.member != self.ctx.identity.me.member;
                let (membership, leadership) = (&self.membership, &mut self.leadership);
                self.recovery
                    .recover(&mut self.ctx, membership, leadership, is_passed_on)
                    .map(Some)
            }
            _ => self
                .commands
                .begin_work(
                    &mut self.ctx,
                    &self.membership,
                    &mut self.authorization,
                    asker,
                    &command,
                )
                .map(|()| None),
        };
        match begun {
            // The answer follows when it is carried out.
            Ok(None) => {}
            Ok(Some(done)) => self.commands.answer(&self.ctx, asker, Ok(done)),
            Err(refusal) => self.commands.answer(&self.ctx, asker, Err(refusal)),
        }
    }

    fn weigh_myself(&mut self, member: &str, weight: LeaderWeight) -> Result<Done, CommandRefusal> {
        let config = &self.ctx.core.config().config;
        if find(config, member)? != self.ctx.identity.me.member {
            let text = format!("this member is not {member}: its configuration is an older one");
            return Err(refuse(RefusalReason::UnknownMember, text));
        }
        let has_data = |id| {
            config
                .members
                .get(&id)
                .is_some_and(|member| member.has_data)
        };
        if !self.ctx.identity.config.has_data && config.voters().any(has_data) {
            let text = format!(
                "{member} has no database: it leads only while no server can, whatever its weight"
            );
            return Err(refuse(RefusalReason::Unfit, text));
        }
        let preference = LeaderPreference {
            weight,
            ..self.ctx.core.leader_preference()
        };
        self.set_leader_preference(preference);
        Ok(Done::WeightSet {
            member: self.ctx.identity.config.name.clone(),
            weight,
        })
    }

    pub(in crate::driver) fn handle_vote_order(&mut self, votes: bool) {
        self.ctx.identity.config.wants_vote = votes;
        self.send_report();
    }

    pub(super) fn own_report(&self) -> Report {
        let shared = &self.ctx.links.shared;
        let applied = shared.applied();
        let on_their_way = shared.snapshots.oldest();
        let seen_by_all = on_their_way.map_or(applied, |seen| seen.min(applied));
        let committed = shared.commit_seqno.load(Ordering::Acquire);
        let (me, config) = (self.ctx.identity.me, &self.ctx.identity.config);
        Report {
            member: me.member,
            session: me.session,
            state: self.ctx.data_state,
            applied,
            seen: seen_by_all,
            db_flushed: self.purge_policy.db_flushed(),
            incoming: config.incoming.clone(),
            queue: u32::try_from(committed.saturating_sub(applied.0).max(0)).unwrap_or(u32::MAX),
            weight: self.leadership.reported_weight(&self.ctx),
            wants_vote: config.wants_vote,
            log_format: self.ctx.links.reader.format().number(),
            region: config.region.clone(),
        }
    }

    pub(super) fn handle_join(&mut self, from: MemberId, certificate: Option<&str>, join: Join) {
        let (ctx, membership) = (&mut self.ctx, &mut self.membership);
        let (purge_policy, commands) = (&self.purge_policy, &mut self.commands);
        let reply = membership.answer_join(ctx, purge_policy, commands, from, certificate, join);
        if matches!(reply, JoinReply::Accepted { .. }) {
            let own = self.own_report();
            self.membership.update_view(&mut self.ctx, own);
        }
        self.ctx.send(from, PeerMessage::JoinReply(reply));
    }

    pub(super) fn send_report(&mut self) {
        let Some(leader) = self.ctx.core.leader() else {
            return;
        };
        let report = self.own_report();
        if leader == self.ctx.identity.me.member {
            self.membership.presence.report(report);
        } else {
            self.ctx.send(leader, PeerMessage::Report(report));
            self.flow_control.repeat_position(&self.ctx);
        }
    }

    /// Leader only: sends all members its status. Not before each present member has reported:
    /// one that has just come may lag far behind, and its write sets need the history.
    pub(super) fn broadcast_status(&mut self) {
        let presence = &self.membership.presence;
        if !presence.all_reported() {
            return;
        }
        let members: Vec<Report> = presence.reports().cloned().collect();
        self.ctx.advance_window(&members);
        let config = &self.ctx.core.config().config;
        self.purge_policy.note_reports(config, &members);
        let (term, purge_limit) = (
            self.ctx.core.term(),
            self.purge_policy.purge_limit(&mut self.ctx),
        );
        let others: Vec<MemberId> = self
            .ctx
            .core
            .config()
            .config
            .members
            .keys()
            .copied()
            .collect();
        let me = self.ctx.identity.me.member;
        for member in others.into_iter().filter(|id| *id != me) {
            let status = StatusBroadcast {
                term,
                members: members.clone(),
                purge_limit,
                commit: self.ctx.core.commit_index(),
            };
            self.ctx.send(member, PeerMessage::Status(status));
        }
        self.membership.publish_databases(&self.ctx, &members);
        self.flow_control.announce_pace(&self.ctx);
    }

    pub(super) fn handle_status(&mut self, from: MemberId, status: StatusBroadcast) {
        if status.term != self.ctx.core.term() || self.ctx.core.leader() != Some(from) {
            return;
        }
        self.recovery.leader_states_commit(&self.ctx, status.commit);
        let (reports, limit) = (&status.members, status.purge_limit);
        self.ctx.advance_window(reports);
        let (config, last) = (
            &self.ctx.core.config().config,
            self.ctx.core.last_id().index,
        );
        self.purge_policy.note_status(config, reports, limit, last);
        self.leadership.weigh_status(&mut self.ctx, reports);
        self.membership.publish_databases(&self.ctx, reports);
    }
}
