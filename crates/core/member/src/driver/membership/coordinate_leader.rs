//! The driver's dealings with [`super::Membership`] as the leader: it admits joiners, announces
//! views, lets leavers go, and raises the protocol version.

use std::collections::BTreeSet;

use synod_consensus::{
    CERTIFICATES_SINCE, ConfigChange, EntryId, EntryKind, GroupId, LogBase, LogIndex, MemberId,
    SessionId, Time,
};
use synod_planted::planted;
use synod_wire::{Join, JoinRefusal, JoinReply, PeerMessage};

use super::admission::{Admit, MEMBERS_MAX, Standing, admit, required_certificate};
use super::voter_policy::{Departure, Others, departure};
use crate::driver::Driver;
use crate::driver::authorization::other_holder;
use crate::host::{Level, Topic};
use crate::payload::view::ViewMember;
use crate::setting::Setting;

impl Driver {
    /// A member wants to be present.
    pub(in crate::driver) fn handle_join(
        &mut self,
        from: MemberId,
        certificate: Option<&str>,
        join: Join,
    ) {
        let reply = self.answer_join(from, certificate, join);
        self.send(from, PeerMessage::JoinReply(reply));
    }

    fn answer_join(&mut self, from: MemberId, certificate: Option<&str>, join: Join) -> JoinReply {
        if !self.core.is_leader() {
            return self.name_the_leader();
        }
        if !self.core.is_ready_leader() {
            return retry("the leader has just been elected");
        }
        if join.group != GroupId::NONE && join.group != self.identity.group {
            return self.refuse_join(JoinRefusal::WrongGroup, from, certificate, &join);
        }
        if join.has_data && self.identity.config.in_relay_group {
            return refuse_database(&join);
        }
        if let Some(reply) = self.refuse_removed(from, certificate, &join) {
            return reply;
        }
        if let Err(reply) = self.configure(from, certificate, &join) {
            return reply;
        }
        let (now, suspect) = (self.turns.now, self.identity.config.suspect);
        let membership = &mut self.membership;
        let latest = membership.views.latest_entry();
        let joiner = (from, join.session);
        let last = join.last.index;
        membership
            .admission
            .asked(now, joiner, last, latest, suspect);
        let member = ViewMember {
            member: from,
            session: join.session,
            name: join.name,
            incoming: join.incoming,
        };
        if membership.presence.session_of(from) != Some(member.session) {
            // Its new process has not heard what operators ordered the former one.
            self.commands.forget_demotion(from);
        }
        membership.presence.enter(now, member);
        self.update_view();
        JoinReply::Accepted {
            group: self.identity.group,
        }
    }

    fn name_the_leader(&self) -> JoinReply {
        let members = &self.core.config().config.members;
        let named = |id| members.get(&id).map(|member| (id, member.address.clone()));
        let leader = self.core.leader().and_then(named);
        JoinReply::NotLeader { leader }
    }

    /// A process that had joined, and is in no configuration any more, was removed. It may not have
    /// heard so, and would come back by asking to join.
    fn refuse_removed(
        &self,
        from: MemberId,
        certificate: Option<&str>,
        join: &Join,
    ) -> Option<JoinReply> {
        let at = self.core.config();
        let was_removed = join.has_joined && !at.config.members.contains_key(&from);
        if !planted!(AdmitRemoved, was_removed, else false) {
            return None;
        }
        if at.index > self.core.commit_index() {
            return Some(retry("a change of the group is not committed yet"));
        }
        Some(self.refuse_join(JoinRefusal::Removed, from, certificate, join))
    }

    /// Sees to it that the configuration has the joiner; otherwise, the answer to it.
    fn configure(
        &mut self,
        from: MemberId,
        certificate: Option<&str>,
        join: &Join,
    ) -> Result<(), JoinReply> {
        let config = &self.core.config().config;
        let change = match admit(config, from, join, certificate, |id| self.standing(id)) {
            Admit::AsItIs => return Ok(()),
            Admit::Change(change) => change,
            Admit::Wait => {
                return Err(retry(
                    "this leader does not know yet if the namesake is live",
                ));
            }
            Admit::Refuse(JoinRefusal::GroupFull) if self.make_room() => {
                return Err(retry("a learner that is gone makes room"));
            }
            Admit::Refuse(reason) => {
                return Err(self.refuse_join(reason, from, certificate, join));
            }
            Admit::RefuseCertificateOf(holder) => {
                return Err(self.refuse_certificate_of(holder, certificate, join));
            }
        };
        self.core
            .change_config(self.now(), change)
            .map_err(|error| retry(&error.to_string()))?;
        // Before the effects of the change are performed, which send it.
        if join.last == EntryId::default() {
            let base = self.base_for(join);
            self.core.set_install_base(from, base);
        }
        // Not before: as long as the change is impossible, the joiner asks again and again.
        let text = format!("{} joins from {}", join.name, join.address);
        self.note(Topic::Membership, Level::Info, text);
        Ok(())
    }

    fn standing(&self, id: MemberId) -> Standing {
        if id == self.identity.me.member {
            Standing::Live
        } else if !self.is_alive(id) {
            Standing::Silent
        } else if self.membership.presence.in_grace_period(id) {
            Standing::InGracePeriod
        } else {
            Standing::Live
        }
    }

    fn refuse_join(
        &self,
        reason: JoinRefusal,
        from: MemberId,
        certificate: Option<&str>,
        join: &Join,
    ) -> JoinReply {
        let setting = |setting| self.links.host.setting_name(setting);
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
                join.group, self.identity.group
            ),
            JoinRefusal::UnknownVersion => format!(
                "the group speaks protocol version {}, and {name} speaks {versions}: run a \
                 program there that speaks it",
                self.core.config().config.protocol
            ),
            JoinRefusal::NameTaken => format!(
                "a live member is called '{name}' and reached at {address} already: give this \
                 server a {} and a {} of its own",
                setting(Setting::MemberName),
                setting(Setting::MemberAddress),
            ),
            JoinRefusal::Removed => {
                format!("{name} was removed from the group. To join again, start it again")
            }
            JoinRefusal::GroupFull => {
                format!("the group has {MEMBERS_MAX} members, which is the most")
            }
            JoinRefusal::CertificateMismatch => {
                let config = &self.core.config().config;
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

    /// The joiner shows the certificate of another member, and is not in its place.
    fn refuse_certificate_of(
        &self,
        holder: MemberId,
        certificate: Option<&str>,
        join: &Join,
    ) -> JoinReply {
        let members = &self.core.config().config.members;
        let (name, address) = members.get(&holder).map_or(("", ""), |holder| {
            (holder.name.as_str(), holder.address.as_str())
        });
        // A server that has moved: its former self may be silent soon.
        let is_live = self.standing(holder) != Standing::Silent;
        let reason = if is_live && name == join.name {
            JoinRefusal::NameTaken
        } else {
            JoinRefusal::CertificateMismatch
        };
        let text = format!(
            "{} at {} shows the certificate '{}', to which {name} at {address} (member {holder}) \
             is bound. Give this server a certificate with a subject of its own; if it is that \
             member without its former log, start it with that member's {}",
            join.name,
            join.address,
            certificate.unwrap_or("none"),
            self.links.host.setting_name(Setting::MemberName),
        );
        JoinReply::Refused { reason, text }
    }

    /// Base of a new member's log: late, but early enough for the actions that its database lacks.
    /// In a group of relays the log starts where this one does: readers need all of it, and it is
    /// what the group keeps.
    fn base_for(&self, join: &Join) -> LogBase {
        if self.identity.config.in_relay_group {
            return self.core.base().clone();
        }
        let oldest = self.core.base().last.index;
        let before = |index| self.membership.admission.backlog_before(index);
        let mut index = before(self.core.commit_index());
        if join.db_group == self.identity.group
            && join.db_seqno.0 > 0
            // The first action that it lacks. The last one that it has may be purged here.
            && let Ok(next) = self.links.reader.seek_seqno(join.db_seqno.next())
        {
            index = index.min(before(next.prev()));
        }
        if let Some(entry) = self.links.reader.summary(index) {
            let log = self.certified_log();
            if let Some(chunk) = self.retention.first_chunk_after(&log, entry.seqno) {
                index = index.min(chunk.prev());
            }
        }
        if index <= oldest {
            return self.core.base().clone();
        }
        let entry = self.links.reader.summary(index);
        let config = self.core.config_at(index).cloned();
        match (entry, config) {
            (Some(entry), Some(config)) => LogBase {
                last: entry.id,
                seqno: entry.seqno,
                config,
            },
            _ => self.core.base().clone(),
        }
    }

    /// Members announce their name, address and program to the leader when they join, and are bound
    /// to the certificates that they show it. This is for the leader itself: it may have come back
    /// with new ones and lead before it has joined, and it never hears itself.
    pub(in crate::driver) fn correct_own_record(&mut self) {
        let (config, me) = (&self.core.config().config, self.identity.me.member);
        let Some(known) = config.members.get(&me) else {
            return;
        };
        let mine = &self.identity.config;
        let certificate = mine.certificate.as_deref().filter(|subject| {
            config.protocol >= CERTIFICATES_SINCE
                && other_holder(config, me, None, Some(subject)).is_none()
        });
        if self.identity.is_recorded_as(known)
            && (known.certificate.is_some() || certificate.is_none())
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
        if let Err(error) = self.core.change_config(self.now(), change) {
            // The next tick tries again.
            self.log(
                Level::Debug,
                format!("this member's name and address are not announced yet: {error}"),
            );
        }
    }

    /// An upgrade is over when the last member runs the new program; the leader then raises the
    /// version, unless an operator holds it.
    pub(in crate::driver) fn raise_protocol(&mut self) {
        if let Some(newer) = self.core.config().config.due_protocol() {
            // Refused while another change is under way: the next tick tries again.
            let _ = self
                .core
                .change_config(self.now(), ConfigChange::RaiseProtocol(newer));
        }
    }

    /// Announces who is present, if that has changed.
    pub(in crate::driver) fn update_view(&mut self) {
        if !self.core.is_ready_leader() {
            return;
        }
        let (me, suspect) = (self.identity.me.member, self.identity.config.suspect);
        for name in self.membership.presence.expire(self.turns.now, me, suspect) {
            let text = format!("{name} has sent nothing for {suspect:?}: it counts as absent");
            self.note(Topic::Membership, Level::Info, text);
        }
        let own = self.own_report();
        self.membership.presence.report(own);
        let config = &self.core.config().config;
        let unknown = self.number_of_first_view();
        if let Some(view) = self.membership.next_view(me, config, unknown) {
            // If it is refused, the next tick tries again.
            let _ = self.append_own(EntryKind::View, &view.encode());
        }
    }

    /// The number of a view before which this member's log has none. A whole log has the group's
    /// first view. Of what a shortened one has lost, each view was an entry: so their number is at
    /// most that of the entries, and numbers never go back.
    fn number_of_first_view(&self) -> u64 {
        let is_whole = self.core.base().last.index == LogIndex(0);
        let index = self.core.last_id().index.next();
        if is_whole { 1 } else { index.0 }
    }

    /// Whether a member has sent a message lately, or is within its grace period.
    pub(in crate::driver) fn is_alive(&self, member: MemberId) -> bool {
        let suspect = self.identity.config.suspect;
        self.membership
            .presence
            .is_alive(self.turns.now, member, suspect)
    }

    /// A member asks to leave. If it is not present, whatever its session is: one that was silent
    /// for too long leaves, too, and this leader may be too new to know in which session it was.
    pub(in crate::driver) fn handle_leave(&mut self, from: MemberId, session: SessionId) {
        if !self.core.is_ready_leader() {
            return;
        }
        let presence = &mut self.membership.presence;
        if presence
            .session_of(from)
            .is_some_and(|present| present != session)
        {
            // Stale: sent by the member's previous session.
            return;
        }
        if presence.exit(from, session) {
            let text = format!("{} leaves", self.name_of(from));
            self.note(Topic::Membership, Level::Info, text);
            self.core.set_eligible(from, false);
            self.update_view();
        }
        self.membership
            .presence
            .asked_to_leave(self.turns.now, from);
        self.continue_leaves();
    }

    /// Lets leavers go, after one of the voters was taken out for them, if that is needed.
    pub(in crate::driver) fn continue_leaves(&mut self) {
        for (member, asked) in self.membership.presence.leavers().clone() {
            let config = self.core.config();
            if !config.config.is_voter(member) {
                if config.index <= self.core.commit_index() {
                    self.let_go(member);
                }
                continue;
            }
            match self.departure_of(member, asked) {
                Departure::Goes => self.let_go(member),
                // Refused while another change is under way: the next tick tries again.
                Departure::TakeOut(voter) => {
                    let _ = self
                        .core
                        .change_config(self.now(), ConfigChange::Demote(voter));
                }
                Departure::Needed => {}
            }
        }
    }

    fn departure_of(&self, leaver: MemberId, asked: Time) -> Departure {
        let me = self.identity.me.member;
        let followers = self.core.progress();
        let answered: BTreeSet<MemberId> = followers
            .filter(|progress| progress.last_heard.is_some_and(|at| at > asked))
            .map(|progress| progress.member)
            .chain([me])
            .collect();
        let leavers = self.membership.presence.leavers();
        let leaves = |id: MemberId| {
            leavers.contains_key(&id) || id == me && self.membership.leave.is_under_way()
        };
        let voters: BTreeSet<MemberId> = self.core.config().config.voters().collect();
        let stays = voters.intersection(&answered).any(|id| !leaves(*id));
        let answering = self.answering();
        let presence = &self.membership.presence;
        let is_absent = |id: &MemberId| {
            let is_known = presence.session_of(*id).is_some() || leavers.contains_key(id);
            !is_known && !answering.contains(id)
        };
        let others = Others {
            answered: &answered,
            absent: &voters.iter().copied().filter(is_absent).collect(),
            stays,
        };
        let policy = &self.identity.config.voter_policy;
        departure(policy, &voters, leaver, others)
    }

    fn let_go(&mut self, member: MemberId) {
        self.membership.presence.let_go(member);
        self.membership.leave.stay_for_others(self.turns.now);
        self.send(member, PeerMessage::LeaveReply);
    }
}

/// A group of relays has no copy to give to a database.
fn refuse_database(join: &Join) -> JoinReply {
    let text = format!(
        "this is a group of relays, which keeps the binlog of an upstream and no database: {} has \
         one, and gets no copy here. Correct the cluster's name or the addresses on that server",
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
