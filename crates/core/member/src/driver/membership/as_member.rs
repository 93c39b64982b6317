//! The driver's dealings with [`super::Membership`] as a member: it joins, obeys configurations,
//! follows views, and leaves.

use std::time::Duration;

use synod_consensus::{Config, GroupId, MemberId};
use synod_log::LogFormat;
use synod_wire::{JoinRefusal, JoinReply, PeerMessage};

use super::Membership;
use super::join::Refusal;
use super::leave::{LeaveFacts, LeaveStep};
use super::protocol_version::Obeyed;
use crate::driver::authorization::Authorization;
use crate::driver::context::Context;
use crate::driver::event::{FailedCall, LeaveDone, SignOfLife};
use crate::driver::leadership::Leadership;
use crate::host::{Level, Topic};
use crate::setting::Setting;
use crate::storage::Job;

const REMOVED: &str = "an operator has removed this member from the group, or another one has \
                       taken its place, or it was silent for so long that the group has forgotten \
                       it. To join again, as a new member, start it again";

impl Membership {
    /// A member was found at an address. It concerns only a member that looks for its group: the
    /// others are found by the configuration.
    pub(in crate::driver) fn found(
        &mut self,
        ctx: &Context,
        authorization: &Authorization,
        member: MemberId,
        address: &str,
        group: GroupId,
    ) {
        self.presence.found(address);
        if member == ctx.identity.me.member || !self.is_searching(ctx) {
            return;
        }
        ctx.links.peers.connect(member, address);
        if group != GroupId::NONE {
            self.join.found(member);
        }
        authorization.publish_known(ctx, self);
    }

    /// A call of this member has failed. A refusal is logged, and so is all that keeps an address
    /// of its own list from being used. A member that is only away is called again without a line.
    pub(in crate::driver) fn call_failed(&mut self, ctx: &mut Context, call: FailedCall) {
        let is_final = call.sign == SignOfLife::RefusedForGood;
        let (text, level) = (
            format!("{} {}", call.address, call.why),
            level_of(call.sign),
        );
        let is_refusal = is_final || call.member.is_none();
        self.presence.call_failed(ctx.turns.now, call);
        if is_refusal {
            self.refused_by_address(ctx, &text, is_final, level);
        }
    }

    fn refused_by_address(&mut self, ctx: &mut Context, text: &str, is_final: bool, level: Level) {
        let (has_leader, is_in_group) = (
            ctx.core.leader().is_some(),
            ctx.identity.group != GroupId::NONE,
        );
        let join = &mut self.join;
        let refusal =
            join.refused_by_address(ctx.turns.now, text, is_final, has_leader, is_in_group);
        follow_refusal(ctx, text, level, refusal);
    }

    fn refused_by_group(&mut self, ctx: &mut Context, text: &str, is_final: bool) {
        let refusal = self.join.refused_by_group(text, is_final);
        let level = match is_final {
            true => Level::Error,
            false => Level::Info,
        };
        follow_refusal(ctx, text, level, refusal);
    }

    /// Whether the leader has this session among the members that are present, as far as this
    /// member knows. Views say so of members with databases only.
    fn is_known_as_present(&self, ctx: &Context) -> bool {
        let (now, limit) = (ctx.turns.now, ctx.identity.config.suspect);
        let join = &self.join;
        let has_data = ctx.identity.config.has_data;
        ctx.is_present()
            || !has_data && join.has_joined() && join.was_accepted(now, ctx.core.term(), limit)
    }

    /// Asks to be present, unless this member is, or is leaving. A member that has lost its group
    /// asks, too: it may have been absent while all the members that it knew were replaced.
    pub(in crate::driver) fn send_join_if_needed(
        &mut self,
        ctx: &Context,
        leadership: &Leadership,
        authorization: &mut Authorization,
    ) {
        let (now, suspect) = (ctx.turns.now, ctx.identity.config.suspect);
        let is_lost = leadership.primary.has_lost_group(now, suspect);
        if self.is_known_as_present(ctx) && !is_lost
            || self.leave.is_under_way()
            || self.join.is_removed()
            || ctx.core.is_leader()
        {
            return;
        }
        // One that was removed while it was cut off hears nothing of that from anybody by itself.
        let me = ctx.identity.me.member;
        let members = ctx.core.config().config.members.keys().copied();
        let others = members.filter(|id| is_lost && *id != me);
        let leader = ctx.core.leader();
        let targets = self.join.targets(now, leader, others);
        if targets.is_empty() {
            return;
        }
        let has_joined = self.join.has_joined();
        let (database, last) = (ctx.database(), ctx.core.last_id());
        let join = ctx.identity.join_request(database, last, has_joined);
        for target in &targets {
            authorization.unconfigured_peers.ask(*target);
        }
        authorization.publish_known(ctx, self);
        for target in targets {
            ctx.send(target, PeerMessage::Join(join.clone()));
        }
    }

    /// Stops a member that was taken out of the group while it ran: it would ask to join at once.
    pub(in crate::driver) fn watch_removal(&mut self, ctx: &mut Context) {
        let committed = ctx.core.config_at(ctx.core.commit_index());
        let is_out =
            !ctx.names_me(ctx.core.config()) && committed.is_some_and(|at| !ctx.names_me(at));
        let (now, patience) = (ctx.turns.now, ctx.identity.config.suspect);
        if self.join.removed(now, is_out, patience) {
            ctx.fail(REMOVED);
        }
    }

    pub(in crate::driver) fn handle_join_reply(
        &mut self,
        ctx: &mut Context,
        leadership: &Leadership,
        authorization: &Authorization,
        reply: JoinReply,
    ) {
        if let JoinReply::Refused {
            reason: JoinRefusal::NameTaken,
            text,
        } = reply
        {
            let suspect = ctx.identity.config.suspect;
            let is_final = self.join.name_taken(ctx.turns.now, suspect, &text);
            return self.refused_by_group(ctx, &text, is_final);
        }
        // All members that were found are asked, and only the leader knows.
        if !matches!(reply, JoinReply::NotLeader { .. }) {
            self.join.name_not_taken();
        }
        self.join.answered(answer_text(&reply));
        self.join.put_off(&reply);
        match reply {
            JoinReply::Accepted { group } => self.accepted_by(ctx, group),
            JoinReply::NotLeader {
                leader: Some((member, address)),
            } => {
                self.found(ctx, authorization, member, &address, ctx.identity.group);
                self.join.leader_named(member);
            }
            JoinReply::NotLeader { leader: None } => {}
            JoinReply::Refused {
                reason: JoinRefusal::Removed,
                ..
            } => told_of_removal(ctx, leadership),
            JoinReply::Refused { text, .. } => self.refused_by_group(ctx, &text, true),
            JoinReply::Retry { text } => {
                ctx.log(Level::Debug, format!("the group asks to wait: {text}"));
            }
        }
    }

    fn accepted_by(&mut self, ctx: &mut Context, group: GroupId) {
        if ctx.identity.group == group {
            let (now, term) = (ctx.turns.now, ctx.core.term());
            self.join.accepted(now, term);
            return;
        }
        if ctx.identity.group != GroupId::NONE {
            let text = format!(
                "two groups are called '{}': this member is in group {}, and group {group} \
                 accepts it, too. One of them was begun by mistake",
                ctx.identity.config.cluster_name, ctx.identity.group
            );
            let refusal = self.join.refused_by_group(&text, true);
            if refusal.is_new {
                ctx.note(Topic::Membership, Level::Error, text);
            }
            return;
        }
        ctx.log(Level::Info, format!("joining group {group}"));
        ctx.identity.group = group;
        // Ordered before every write that the group may cause.
        ctx.links.disk.write(Job::SetGroup(group));
        ctx.links.peers.set_group(group);
    }

    pub(in crate::driver) fn obey_protocol(&mut self, ctx: &mut Context, config: &Config) {
        let spoken = ctx.identity.config.versions;
        match self.protocol.obey(config, spoken) {
            Obeyed::Unchanged => {}
            Obeyed::Now(version) => {
                let text = format!("the group speaks protocol version {version}");
                ctx.log(Level::Info, text);
            }
            Obeyed::NotSpoken(version) => ctx.fail(&format!(
                "the group speaks protocol version {version}, and this program speaks {spoken}: \
                 run one that speaks version {version}"
            )),
        }
    }

    /// The commit index has moved. Once it is certain that the group speaks a protocol version, the
    /// log is written in the format that goes with it. Not before: until then the member's program
    /// may be replaced by an older one, which does not read that format.
    pub(in crate::driver) fn raise_log_format(&mut self, ctx: &Context) {
        let at = ctx.core.config();
        let (protocol, is_committed) = (at.config.protocol, at.index <= ctx.core.commit_index());
        let format = LogFormat::of_group(protocol);
        if !is_committed || format <= self.log_format {
            return;
        }
        self.log_format = format;
        let text = format!(
            "the group speaks protocol version {protocol}: the log is written in format {format} \
             from now on"
        );
        ctx.log(Level::Info, text);
        ctx.links.disk.write(Job::RaiseFormat(format));
    }

    /// No view lists a member without a database. It has joined when it hears a leader with a
    /// quorum, and is in a configuration that is committed.
    pub(in crate::driver) fn join_without_view(&mut self, ctx: &Context) {
        let is_without_view = !ctx.identity.config.has_data && !self.join.has_joined();
        let follows = is_without_view && ctx.core.leader().is_some();
        if follows && is_committed_member(ctx) && self.join.take_part() {
            ctx.links.peers.stop_seeking();
            self.presence.forget_listed();
            let text = format!(
                "this member takes part in group {} without a database",
                ctx.identity.group
            );
            ctx.log(Level::Info, text);
        }
    }

    pub(in crate::driver) fn begin_leave(
        &mut self,
        ctx: &mut Context,
        done: LeaveDone,
        limit: Option<Duration>,
    ) {
        if self.leave.begin(ctx.turns.now, done, limit) {
            self.leave_tick(ctx);
        }
    }

    pub(in crate::driver) fn leave_tick(&mut self, ctx: &mut Context) {
        let (me, config) = (ctx.identity.me.member, &ctx.core.config().config);
        let leads = ctx.core.is_leader();
        let answering = ctx.answering();
        // A new leader has not heard anybody yet.
        let knows = ctx.core.is_ready_leader();
        let counts = |id: MemberId| id != me && (!knows || answering.contains(&id));
        let facts = LeaveFacts {
            leads,
            others_leave: !self.presence.leavers().is_empty(),
            others_vote: config.voters().any(counts),
            is_out_of_view: ctx.core.leader().is_some() && config.is_voter(me) && !ctx.is_present(),
        };
        match self.leave.step(ctx.turns.now, facts) {
            LeaveStep::Wait => {}
            LeaveStep::GoWithoutConsent => {
                ctx.log(
                    Level::Info,
                    "leaving without the group's consent: it did not answer in time",
                );
                self.finish_leave(ctx);
            }
            LeaveStep::GoThoughNeeded => {
                ctx.log(
                    Level::Warning,
                    "this member leaves, and the voters that are left are no majority without it: \
                     the group is not primary until one of the absent voters is back",
                );
                self.finish_leave(ctx);
            }
            LeaveStep::Go => self.finish_leave(ctx),
            // Refused while another transfer is under way, or no voter is fit: the next tick tries
            // again.
            LeaveStep::TransferLeadership => {
                let _ = ctx.core.transfer_leadership(ctx.turns.now, None);
            }
            LeaveStep::AskLeader => {
                if let Some(leader) = ctx.core.leader() {
                    let session = ctx.identity.me.session;
                    ctx.send(leader, PeerMessage::Leave { session });
                }
            }
        }
    }

    pub(in crate::driver) fn finish_leave(&mut self, ctx: &mut Context) {
        if let Some(done) = self.leave.finish() {
            (done.0)();
            // A member that has left takes no further part, even before its process ends.
            ctx.turns.stop();
        }
    }
}

fn level_of(sign: SignOfLife) -> Level {
    match sign {
        SignOfLife::RefusedForGood => Level::Error,
        SignOfLife::Distrust => Level::Warning,
        SignOfLife::NoneListens
        | SignOfLife::Silence
        | SignOfLife::Listens
        | SignOfLife::OtherMember(_) => Level::Info,
    }
}

fn follow_refusal(ctx: &mut Context, text: &str, level: Level, refusal: Refusal) {
    if refusal.is_new {
        ctx.note(Topic::Membership, level, text);
    }
    if refusal.is_fatal {
        ctx.fail(text);
    }
}

fn is_committed_member(ctx: &Context) -> bool {
    let committed = ctx.core.config_at(ctx.core.commit_index());
    committed.is_some_and(|at| ctx.names_me(at))
}

/// A leader says that this member was removed. It matters if this member follows no leader:
/// otherwise its own log says the same.
fn told_of_removal(ctx: &mut Context, leadership: &Leadership) {
    let (now, suspect) = (ctx.turns.now, ctx.identity.config.suspect);
    if leadership.primary.has_lost_group(now, suspect) {
        ctx.fail(REMOVED);
    }
}

/// Members of one name work, but neither operators nor a joiner's choice of a donor can
/// distinguish them.
pub(in crate::driver) fn announce_shared_name(ctx: &Context) {
    let (me, own) = (ctx.identity.me.member, &ctx.identity.config.name);
    let mut members = ctx.core.config().config.members.iter();
    let Some((_, other)) = members.find(|(id, other)| **id != me && other.name == *own) else {
        return;
    };
    let setting = ctx.links.host.setting_name(Setting::MemberName);
    let text = format!(
        "another member is called '{own}', too, at {}: no person can tell the two apart in 'synod \
         status' and in alerts, and orders have to name them by address. Set another {setting} \
         in the configuration of one of them, and restart it",
        other.address
    );
    ctx.note(Topic::Membership, Level::Warning, text);
}

fn answer_text(reply: &JoinReply) -> String {
    match reply {
        JoinReply::Accepted { .. } => "accepted".to_owned(),
        JoinReply::NotLeader { .. } => "it does not lead".to_owned(),
        JoinReply::Refused { text, .. } => format!("refused, {text}"),
        JoinReply::Retry { text } => format!("try again, {text}"),
    }
}
