//! The driver's dealings with [`super::Membership`] as the leader: it admits joiners, announces
//! views, lets leavers go, and raises the protocol version.

use std::collections::BTreeSet;

use synod_consensus::{
    ConfigChange, EntryId, EntryKind, GroupId, LogBase, LogIndex, MemberId, SessionId, Time,
};
use synod_planted::planted;
use synod_wire::{Join, JoinRefusal, JoinReply, PeerMessage, Report};

use super::Membership;
use super::admission::{Admit, MEMBERS_MAX, Standing, admit, holders, required_certificate};
use super::voter_policy::{Departure, Others, departure};
use crate::driver::authorization::other_holder;
use crate::driver::commands::Commands;
use crate::driver::context::Context;
use crate::driver::purge_policy::PurgePolicy;
use crate::host::{Level, Topic};
use crate::payload::view::ViewMember;
use crate::setting::Setting;

impl Membership {
    pub(in crate::driver) fn handle_report(
        &mut self,
        ctx: &mut Context,
        commands: &mut Commands,
        from: MemberId,
        report: Report,
    ) {
        let is_present = self.presence.session_of(from) == Some(report.session);
        if !ctx.core.is_leader() || report.member != from || !is_present {
            return;
        }
        self.presence.report(report);
        if !ctx.core.config().config.is_voter(from) {
            self.let_learners_vote(ctx, commands);
        }
    }

    pub(in crate::driver) fn answer_join(
        &mut self,
        ctx: &mut Context,
        purge_policy: &PurgePolicy,
        commands: &mut Commands,
        from: MemberId,
        certificate: Option<&str>,
        join: Join,
    ) -> JoinReply {
        if !ctx.core.is_leader() {
            return tell_of_removal(ctx, from, &join).unwrap_or_else(|| name_the_leader(ctx));
        }
        if !ctx.core.is_ready_leader() {
            return retry("the leader has just been elected");
        }
        if join.group != GroupId::NONE && join.group != ctx.identity.group {
            return refuse_join(ctx, JoinRefusal::WrongGroup, from, certificate, &join);
        }
        if join.has_data && ctx.identity.config.keeps_log_only {
            return refuse_database(&join);
        }
        if let Some(reply) = refuse_removed(ctx, from, certificate, &join) {
            return reply;
        }
        if let Err(reply) = self.configure(ctx, purge_policy, commands, from, certificate, &join) {
            return reply;
        }
        let (now, suspect) = (ctx.turns.now, ctx.identity.config.suspect);
        let latest = ctx.views.latest_entry();
        let joiner = (from, join.session);
        let last = join.last.index;
        self.admission.asked(now, joiner, last, latest, suspect);
        let member = ViewMember {
            member: from,
            session: join.session,
            name: join.name,
            incoming: join.incoming,
        };
        if self.presence.session_of(from) != Some(member.session) {
            // Its new process has not heard what operators ordered the former one.
            commands.forget_demotion(from);
        }
        self.presence.enter(now, member);
        JoinReply::Accepted {
            group: ctx.identity.group,
        }
    }

    fn configure(
        &self,
        ctx: &mut Context,
        purge_policy: &PurgePolicy,
        commands: &mut Commands,
        from: MemberId,
        certificate: Option<&str>,
        join: &Join,
    ) -> Result<(), JoinReply> {
        let config = &ctx.core.config().config;
        let change = match admit(config, from, join, certificate, |id| self.standing(ctx, id)) {
            Admit::AsItIs => return Ok(()),
            Admit::Change(change) => change,
            Admit::Wait => {
                return Err(retry(
                    "this leader does not know yet if the namesake is live",
                ));
            }
            Admit::Refuse(JoinRefusal::GroupFull) if self.make_room(ctx, commands) => {
                return Err(retry("a learner that is gone makes room"));
            }
            Admit::Refuse(reason) => {
                return Err(refuse_join(ctx, reason, from, certificate, join));
            }
            Admit::RefuseCertificateOf(holder) => {
                return Err(refuse_certificate_of(ctx, holder, certificate, join));
            }
        };
        ctx.core
            .change_config(ctx.turns.now, change)
            .map_err(|error| retry(&error.to_string()))?;
        // Before the effects of the change are performed, which send it.
        if join.last == EntryId::default() {
            let base = self.base_for(ctx, purge_policy, join);
            ctx.core.set_install_base(from, base);
        }
        // Not before: as long as the change is impossible, the joiner asks again and again.
        let text = format!("{} joins from {}", join.name, join.address);
        ctx.note(Topic::Membership, Level::Info, text);
        Ok(())
    }

    fn standing(&self, ctx: &Context, id: MemberId) -> Standing {
        if id == ctx.identity.me.member {
            Standing::Live
        } else if !self.is_alive(ctx, id) {
            Standing::Silent
        } else if self.presence.in_grace_period(id) {
            Standing::InGracePeriod
        } else {
            Standing::Live
        }
    }

    /// Base of a new member's log: late, but early enough for the actions that its database lacks.
    /// If the group keeps its log only, the log starts where this one does: readers need all of it.
    fn base_for(&self, ctx: &Context, purge_policy: &PurgePolicy, join: &Join) -> LogBase {
        if ctx.identity.config.keeps_log_only {
            return ctx.core.base().clone();
        }
        let oldest = ctx.core.base().last.index;
        let before = |index| self.admission.backlog_before(index);
        let mut index = before(ctx.core.commit_index());
        if join.db_group == ctx.identity.group
            && join.db_seqno.0 > 0
            // The first action that it lacks. The last one that it has may be purged here.
            && let Ok(next) = ctx.links.reader.seek_seqno(join.db_seqno.next())
        {
            index = index.min(before(next.prev()));
        }
        if let Some(entry) = ctx.links.reader.summary(index) {
            let log = ctx.certified_log();
            if let Some(chunk) = purge_policy.first_chunk_after(&log, entry.seqno) {
                index = index.min(chunk.prev());
            }
        }
        if index <= oldest {
            return ctx.core.base().clone();
        }
        let entry = ctx.links.reader.summary(index);
        let config = ctx.core.config_at(index).cloned();
        match (entry, config) {
            (Some(entry), Some(config)) => LogBase {
                last: entry.id,
                seqno: entry.seqno,
                config,
            },
            _ => ctx.core.base().clone(),
        }
    }

    /// Announces who is present, if that has changed. `own`: the leader's own report.
    pub(in crate::driver) fn update_view(&mut self, ctx: &mut Context, own: Report) {
        if !ctx.core.is_ready_leader() {
            return;
        }
        let (me, suspect) = (ctx.identity.me.member, ctx.identity.config.suspect);
        for name in self.presence.expire(ctx.turns.now, me, suspect) {
            let text = format!("{name} has sent nothing for {suspect:?}: it counts as absent");
            ctx.note(Topic::Membership, Level::Info, text);
        }
        self.presence.report(own);
        let config = &ctx.core.config().config;
        let unknown = number_of_first_view(ctx);
        if let Some(view) = self.next_view(&ctx.views, me, config, unknown) {
            // If it is refused, the next tick tries again.
            let _ = ctx.append_own(EntryKind::View, &view.encode());
        }
    }

    pub(in crate::driver) fn is_alive(&self, ctx: &Context, member: MemberId) -> bool {
        let suspect = ctx.identity.config.suspect;
        self.presence.is_alive(ctx.turns.now, member, suspect)
    }

    /// A member asks to leave. If it is not present, whatever its session is: one that was silent
    /// for too long leaves, too, and this leader may be too new to know in which session it was.
    pub(in crate::driver) fn handle_leave(
        &mut self,
        ctx: &mut Context,
        from: MemberId,
        session: SessionId,
        own: Report,
    ) {
        if !ctx.core.is_ready_leader() {
            return;
        }
        let presence = &mut self.presence;
        if presence
            .session_of(from)
            .is_some_and(|present| present != session)
        {
            // Stale: sent by the member's previous session.
            return;
        }
        if presence.exit(from, session) {
            let text = format!("{} leaves", ctx.name_of(from));
            ctx.note(Topic::Membership, Level::Info, text);
            ctx.core.set_eligible(from, false);
            self.update_view(ctx, own);
        }
        self.presence.asked_to_leave(ctx.turns.now, from);
        self.continue_leaves(ctx);
    }

    /// Lets leavers go, after one of the voters was taken out for them, if that is needed.
    pub(in crate::driver) fn continue_leaves(&mut self, ctx: &mut Context) {
        for (member, asked) in self.presence.leavers().clone() {
            let config = ctx.core.config();
            if !config.config.is_voter(member) {
                if config.index <= ctx.core.commit_index() {
                    self.let_go(ctx, member);
                }
                continue;
            }
            match self.departure_of(ctx, member, asked) {
                Departure::Goes => self.let_go(ctx, member),
                // Refused while another change is under way: the next tick tries again.
                Departure::TakeOut(voter) => {
                    let _ = ctx
                        .core
                        .change_config(ctx.turns.now, ConfigChange::Demote(voter));
                }
                Departure::Needed => {}
            }
        }
    }

    fn departure_of(&self, ctx: &Context, leaver: MemberId, asked: Time) -> Departure {
        let me = ctx.identity.me.member;
        let followers = ctx.core.progress();
        let answered: BTreeSet<MemberId> = followers
            .filter(|progress| progress.last_heard.is_some_and(|at| at > asked))
            .map(|progress| progress.member)
            .chain([me])
            .collect();
        let leavers = self.presence.leavers();
        let leaves =
            |id: MemberId| leavers.contains_key(&id) || id == me && self.leave.is_under_way();
        let voters: BTreeSet<MemberId> = ctx.core.config().config.voters().collect();
        let stays = voters.intersection(&answered).any(|id| !leaves(*id));
        let answering = ctx.answering();
        let presence = &self.presence;
        let is_absent = |id: &MemberId| {
            let is_known = presence.session_of(*id).is_some() || leavers.contains_key(id);
            !is_known && !answering.contains(id)
        };
        let others = Others {
            answered: &answered,
            absent: &voters.iter().copied().filter(is_absent).collect(),
            kept: &voters_of_regions(ctx),
            stays,
        };
        let policy = &ctx.identity.config.voter_policy;
        departure(policy, &voters, leaver, others)
    }

    fn let_go(&mut self, ctx: &Context, member: MemberId) {
        self.presence.let_go(member);
        self.leave.stay_for_others(ctx.turns.now);
        ctx.send(member, PeerMessage::LeaveReply);
    }
}

/// Voters whose region commits need, and that has no other voter.
pub(super) fn voters_of_regions(ctx: &Context) -> BTreeSet<MemberId> {
    let voters = ctx.core.config().config.voters();
    voters.filter(|id| ctx.core.holds_region(*id)).collect()
}

fn name_the_leader(ctx: &Context) -> JoinReply {
    let members = &ctx.core.config().config.members;
    let named = |id| members.get(&id).map(|member| (id, member.address.clone()));
    let leader = ctx.core.leader().and_then(named);
    JoinReply::NotLeader { leader }
}

/// Without a leader no member lets a removed one in, and those that are left tell it what they know
/// for certain: its log ends before a configuration that is committed and lacks it.
fn tell_of_removal(ctx: &Context, from: MemberId, join: &Join) -> Option<JoinReply> {
    let commit = ctx.core.commit_index();
    let was_member = join.group == ctx.identity.group && join.last != EntryId::default();
    let committed = ctx.core.config_at(commit)?;
    let is_removed =
        was_member && join.last.index <= commit && !committed.config.members.contains_key(&from);
    (is_removed && ctx.core.leader().is_none()).then(|| {
        retry(&format!(
            "{} was removed from the group, by {}'s log. It joins again, as a new member, when the \
             group has a majority and lets it in",
            join.name, ctx.identity.config.name
        ))
    })
}

/// A process that had joined, and is in no configuration any more, was removed. It may not have
/// heard so, and would come back by asking to join.
fn refuse_removed(
    ctx: &Context,
    from: MemberId,
    certificate: Option<&str>,
    join: &Join,
) -> Option<JoinReply> {
    let at = ctx.core.config();
    let was_removed = join.has_joined && !at.config.members.contains_key(&from);
    if !planted!(AdmitRemoved, was_removed, else false) {
        return None;
    }
    if at.index > ctx.core.commit_index() {
        return Some(retry("a change of the group is not committed yet"));
    }
    Some(refuse_join(
        ctx,
        JoinRefusal::Removed,
        from,
        certificate,
        join,
    ))
}

fn refuse_certificate_of(
    ctx: &Context,
    holder: MemberId,
    certificate: Option<&str>,
    join: &Join,
) -> JoinReply {
    let members = &ctx.core.config().config.members;
    let (name, address) = members.get(&holder).map_or(("", ""), |holder| {
        (holder.name.as_str(), holder.address.as_str())
    });
    let text = format!(
        "{} at {} shows the certificate '{}', to which {name} at {address} (member {holder}) is \
         bound. Give this server a certificate with a subject of its own; if it is that member \
         without its former log, start it with that member's {}",
        join.name,
        join.address,
        certificate.unwrap_or("none"),
        ctx.links.host.setting_name(Setting::MemberName),
    );
    JoinReply::Refused {
        reason: JoinRefusal::CertificateMismatch,
        text,
    }
}

fn refuse_join(
    ctx: &Context,
    reason: JoinRefusal,
    from: MemberId,
    certificate: Option<&str>,
    join: &Join,
) -> JoinReply {
    let setting = |setting| ctx.links.host.setting_name(setting);
    let Join {
        name,
        address,
        versions,
        ..
    } = join;
    let text = match reason {
        JoinRefusal::WrongGroup => format!(
            "the log of {name} belongs to group {}, this group is {}. To join as a new \
             member, move its synod-*.log files away (of a server, its whole data directory)",
            join.group, ctx.identity.group
        ),
        JoinRefusal::UnknownVersion => format!(
            "the group speaks protocol version {}, and {name} speaks {versions}: run a \
             program there that speaks it",
            ctx.core.config().config.protocol
        ),
        JoinRefusal::NameTaken => {
            let holders = holders(&ctx.core.config().config, from, join)
                .map(|(_, holder)| format!("'{}' at {}", holder.name, holder.address));
            format!(
                "the group has {} already, and this server says that it is '{name}' at {address}: \
                 two members cannot have one name or one address. Give this server a {} and a {} \
                 of its own. If it is that member, without its former data: it is let in once the \
                 group misses its former process",
                holders.collect::<Vec<_>>().join(" and "),
                setting(Setting::MemberName),
                setting(Setting::MemberAddress),
            )
        }
        JoinRefusal::Removed => {
            format!("{name} was removed from the group. To join again, start it again")
        }
        JoinRefusal::GroupFull => {
            format!("the group has {MEMBERS_MAX} members, which is the most")
        }
        JoinRefusal::CertificateMismatch => {
            let config = &ctx.core.config().config;
            let bound = required_certificate(config, from, join).unwrap_or("another one");
            format!(
                "{name} at {address} is bound to the certificate '{bound}', and this server \
                 shows '{}'. Give it a certificate with that subject, or a {} of its own",
                certificate.unwrap_or("none"),
                setting(Setting::MemberName),
            )
        }
    };
    JoinReply::Refused { reason, text }
}

/// Members announce their name, address and program to the leader when they join, and are bound
/// to the certificates that they show it. This is for the leader itself: it may have come back
/// with new ones and lead before it has joined, and it never hears itself.
pub(in crate::driver) fn correct_own_record(ctx: &mut Context) {
    let (config, me) = (&ctx.core.config().config, ctx.identity.me.member);
    let Some(known) = config.members.get(&me) else {
        return;
    };
    let mine = &ctx.identity.config;
    let certificate = mine.certificate.as_deref();
    let certificate =
        certificate.filter(|subject| other_holder(config, me, None, Some(subject)).is_none());
    if ctx.identity.is_recorded_as(known) && (known.certificate.is_some() || certificate.is_none())
    {
        return;
    }
    let change = ConfigChange::Update {
        id: me,
        name: mine.name.clone(),
        address: mine.address.clone(),
        versions: mine.versions,
        certificate: certificate.map(str::to_owned),
    };
    if let Err(error) = ctx.core.change_config(ctx.turns.now, change) {
        // The next tick tries again.
        ctx.log(
            Level::Debug,
            format!("this member's name and address are not announced yet: {error}"),
        );
    }
}

/// An upgrade is over when the last member runs the new program; the leader then raises the
/// version, unless an operator holds it.
pub(in crate::driver) fn raise_protocol(ctx: &mut Context) {
    if let Some(newer) = ctx.core.config().config.due_protocol() {
        // Refused while another change is under way: the next tick tries again.
        let _ = ctx
            .core
            .change_config(ctx.turns.now, ConfigChange::RaiseProtocol(newer));
    }
}

/// The number of a view before which this member's log has none. A whole log has the group's
/// first view. Of what a shortened one has lost, each view was an entry: so their number is at
/// most that of the entries, and numbers never go back.
fn number_of_first_view(ctx: &Context) -> u64 {
    let is_whole = ctx.core.base().last.index == LogIndex(0);
    let index = ctx.core.last_id().index.next();
    if is_whole { 1 } else { index.0 }
}

/// A group without databases has no copy to give to one.
fn refuse_database(join: &Join) -> JoinReply {
    let text = format!(
        "this group keeps a log for its readers, and no database: {} has one, and gets no copy \
         here. Correct the cluster's name or the addresses on that server",
        join.name
    );
    let reason = JoinRefusal::WrongGroup;
    JoinReply::Refused { reason, text }
}

fn retry(text: &str) -> JoinReply {
    JoinReply::Retry {
        text: text.to_owned(),
    }
}
