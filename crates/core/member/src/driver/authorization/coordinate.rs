//! The driver's dealings with [`super::Authorization`]: judges every message, introduces members to
//! each other, and tells the network which members it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_consensus::{CERTIFICATES_SINCE, ConfigChange, Member, MemberId};
use synod_planted::planted;
use synod_wire::{IntroducedMember, Introduction, PeerMessage};

use super::bound_certificate::{is_bound_otherwise, other_holder, taken_subjects};
use super::duplicate_identity::Report;
use super::table::{Judgement, Kind, Sender};
use crate::driver::Driver;
use crate::host::Level;
use crate::io::KnownPeer;
use crate::shared::lock;

impl Driver {
    // --- judging messages --------------------------------------------------------------------

    /// Whether a message is to be handled. A refused one is counted, and changes nothing else.
    pub(in crate::driver) fn may_send(
        &mut self,
        from: MemberId,
        certificate: Option<&Arc<str>>,
        message: &PeerMessage,
    ) -> bool {
        let kind = Kind::of(from, message);
        let sender = self.sender(from, certificate);
        let judgement = if from == self.ctx.identity.me.member {
            // Another process that claims to be this member.
            Judgement::Refused
        } else {
            sender.judge(kind.right())
        };
        if judgement == Judgement::Refused {
            self.refused(from, certificate, kind);
        }
        let is_heard = sender.is_known() && judgement != Judgement::Refused;
        if planted!(HeardFromStrangers, is_heard, else true) {
            self.membership.presence.heard(self.ctx.turns.now, from);
            self.membership.silence.heard(self.ctx.turns.now, from);
        }
        if sender.is_configured && judgement == Judgement::Allowed {
            self.note_certificate(from, certificate);
        }
        judgement == Judgement::Allowed
    }

    /// Knowledge of this member about a sender. A connection that shows another certificate than
    /// the one that the member is bound to is not that member's.
    fn sender(&self, from: MemberId, certificate: Option<&Arc<str>>) -> Sender {
        let leader = self.ctx.core.leader();
        let sender = Sender {
            has_leader: leader.is_some(),
            ..Sender::default()
        };
        if self.is_another_process(from, certificate) {
            return sender;
        }
        Sender {
            is_configured: self.is_configured(from),
            is_leaving: self.ctx.core.progress().any(|peer| peer.member == from),
            is_introduced: self.introduction_of(from).is_some(),
            is_asked: !self.has_found_group() && self.authorization.known_peers.is_asked(from),
            is_followed: leader == Some(from),
            ..sender
        }
    }

    /// The member as the latest configuration names it; if that does not, as the latest committed
    /// one does: another leader may truncate the latest.
    fn configured(&self, member: MemberId) -> Option<&Member> {
        let latest = &self.ctx.core.config().config;
        let committed = || {
            let at = self.ctx.core.config_at(self.ctx.core.commit_index())?;
            at.config.members.get(&member)
        };
        latest.members.get(&member).or_else(committed)
    }

    fn is_configured(&self, member: MemberId) -> bool {
        self.configured(member).is_some()
    }

    fn introduction_of(&self, member: MemberId) -> Option<&IntroducedMember> {
        let committed = self.ctx.core.commit_index();
        self.authorization.known_peers.introduced(member, committed)
    }

    /// Whether this member has joined and follows a leader that its own configuration names: it
    /// needs no members that it asked.
    fn has_found_group(&self) -> bool {
        let leader = self.ctx.core.leader();
        let follows = leader.is_some_and(|leader| self.is_configured(leader));
        follows && self.membership.join.has_joined()
    }

    /// Subject of the certificate that a member is bound to.
    fn bound_certificate(&self, member: MemberId) -> Option<&str> {
        match self.configured(member) {
            Some(configured) => configured.certificate.as_deref(),
            None => self.introduction_of(member)?.certificate.as_deref(),
        }
    }

    fn is_bound_otherwise(&self, member: MemberId, shown: Option<&Arc<str>>) -> bool {
        let shown = shown.map(|shown| &**shown);
        is_bound_otherwise(self.bound_certificate(member), shown)
    }

    /// Whether a connection in this member's name is not the member's: it shows another certificate
    /// than the member is bound to, or one that another member is bound to.
    fn is_another_process(&self, member: MemberId, shown: Option<&Arc<str>>) -> bool {
        self.is_bound_otherwise(member, shown) || self.holder_of(member, shown).is_some()
    }

    /// The member that is bound to the certificate that a configured one shows.
    fn holder_of(&self, member: MemberId, shown: Option<&Arc<str>>) -> Option<MemberId> {
        let config = &self.ctx.core.config().config;
        let shown = shown.map(|shown| &**shown);
        let is_configured = config.members.contains_key(&member);
        other_holder(config, member, None, shown).filter(|_| is_configured)
    }

    fn refused(&mut self, from: MemberId, certificate: Option<&Arc<str>>, kind: Kind) {
        let is_news = self.authorization.refused.refused(self.ctx.turns.now, from);
        lock(&self.ctx.links.shared.status).refused_messages = self.authorization.refused.count();
        if !is_news {
            return;
        }
        let why = match self.bound_certificate(from) {
            Some(bound) if self.is_bound_otherwise(from, certificate) => {
                let shown = certificate.map_or("none", |shown| &**shown);
                format!(
                    "its connection shows the certificate '{shown}', and the member is bound to \
                     '{bound}'. If its certificate was replaced, issue one with the former \
                     subject; otherwise another process uses the member's identity"
                )
            }
            _ => match self.holder_of(from, certificate) {
                Some(holder) => format!(
                    "its connection shows the certificate of {}. Give each member a certificate \
                     of its own; if it has one, another process uses the member's identity",
                    self.ctx.name_of(holder)
                ),
                None => "it is not in the group, as far as this member knows. If it should be, \
                         look at its own log; otherwise find out which process connects to this \
                         port"
                    .to_owned(),
            },
        };
        let name = self.ctx.name_of(from);
        // Normal: a member that has not joined knows few others, and a member without a leader
        // introduces itself to all that it knows, also if it was removed.
        let is_normal = !self.membership.join.has_joined() || kind == Kind::Introduction;
        let level = if is_normal {
            Level::Info
        } else {
            Level::Warning
        };
        self.ctx.log(
            level,
            format!("refusing messages of {name} (the first is {kind:?}): {why}"),
        );
    }

    /// Remembers the certificate of a member that is bound to none, for the leader to bind it.
    fn note_certificate(&mut self, from: MemberId, certificate: Option<&Arc<str>>) {
        if let Some(certificate) = certificate
            && self.bound_certificate(from).is_none()
        {
            self.authorization.unbound.insert(from, certificate.clone());
        }
    }

    // --- introductions -----------------------------------------------------------------------

    /// Introduces the members of this member's configuration to one of them.
    pub(in crate::driver) fn introduce_to(&self, member: MemberId) {
        if self.is_configured(member) {
            let introduction = PeerMessage::Introduction(self.introduction());
            self.ctx.send(member, introduction);
        }
    }

    fn introduction(&self) -> Introduction {
        let config = self.ctx.core.config();
        let members = config.config.members.iter();
        let members = members.map(|(id, member)| IntroducedMember {
            member: *id,
            address: member.address.clone(),
            certificate: member.certificate.clone(),
        });
        Introduction {
            index: config.index,
            members: members.collect(),
        }
    }

    /// A member names the members of its configuration. If this member's is newer, it answers with
    /// that: a member without a leader asks in this way who may lead.
    pub(in crate::driver) fn handle_introduction(
        &mut self,
        from: MemberId,
        introduction: Introduction,
    ) {
        if introduction.index < self.ctx.core.config().index {
            self.introduce_to(from);
        }
        let committed = self.ctx.core.commit_index();
        let named = introduction.members.clone();
        let known_peers = &mut self.authorization.known_peers;
        if !known_peers.introduced_by(from, introduction, committed) {
            return;
        }
        for introduced in named {
            if introduced.member != self.ctx.identity.me.member {
                self.ctx
                    .links
                    .peers
                    .connect(introduced.member, &introduced.address);
            }
        }
        self.publish_known();
    }

    /// The slow work: forgets what this member's own log says better, and looks for a leader that
    /// this member does not know.
    pub(in crate::driver) fn rights_tick(&mut self) {
        if self.has_found_group() {
            self.authorization.known_peers.found_group();
        }
        if self.ctx.core.leader().is_none() {
            let members = self.ctx.core.config().config.members.keys();
            let others = members.filter(|id| **id != self.ctx.identity.me.member);
            others.for_each(|other| self.introduce_to(*other));
        }
        let known_peers = &self.authorization.known_peers;
        let introducers: BTreeSet<MemberId> = known_peers
            .asked()
            .chain(self.ctx.core.config().config.members.keys().copied())
            .collect();
        let committed = self.ctx.core.commit_index();
        self.authorization
            .known_peers
            .forget(|by| introducers.contains(&by), committed);
        let members = &self.ctx.core.config().config.members;
        self.authorization.unbound.retain(|id, _| {
            let member = members.get(id);
            member.is_some_and(|member| member.certificate.is_none())
        });
        self.publish_known();
    }

    // --- what the network is told ------------------------------------------------------------

    /// Tells the network which members may exchange messages with this one.
    pub(in crate::driver) fn publish_known(&self) {
        let latest = &self.ctx.core.config().config;
        let committed = self.ctx.core.config_at(self.ctx.core.commit_index());
        let committed = committed.map(|at| &at.config);
        let known_peers = &self.authorization.known_peers;
        let configured = [Some(latest), committed].into_iter().flatten();
        let ids = configured
            .flat_map(|config| config.members.keys().copied())
            .chain(known_peers.all_introduced())
            .chain(known_peers.asked())
            .chain(self.ctx.core.leader())
            // They are asked next.
            .chain(self.membership.join.contacts());
        let known = ids
            .filter(|id| *id != self.ctx.identity.me.member)
            .map(|id| {
                let certificate = self.bound_certificate(id).map(str::to_owned);
                let is_free = certificate.is_none() && latest.members.contains_key(&id);
                let taken = is_free.then(|| taken_subjects(latest, id));
                let peer = KnownPeer {
                    certificate,
                    taken: taken.unwrap_or_default(),
                };
                (id, peer)
            })
            .collect::<BTreeMap<_, _>>();
        self.ctx.links.peers.set_known(&known);
    }

    /// Whether a connection to this member is worth keeping.
    pub(in crate::driver) fn is_wanted(&self, member: MemberId) -> bool {
        let known_peers = &self.authorization.known_peers;
        self.is_configured(member)
            || known_peers.is_asked(member)
            || self.introduction_of(member).is_some()
            || self.is_searching() && self.membership.join.is_contact(member)
    }

    /// Whether this member is looking for its group: it has not joined, or has lost it.
    pub(in crate::driver) fn is_searching(&self) -> bool {
        !self.membership.join.has_joined() || self.ctx.core.leader().is_none()
    }

    // --- identity ----------------------------------------------------------------------------

    /// A member says that another process has this member's identity.
    pub(in crate::driver) fn duplicate_identity(&mut self, by: MemberId, text: &str) {
        let me = self.ctx.identity.me.member;
        let config = &self.ctx.core.config().config;
        let others = config.voters().filter(|id| *id != me);
        let has_joined = self.membership.join.has_joined();
        let report = self.authorization.duplicate_identity.reported(
            self.ctx.turns.now,
            by,
            others,
            has_joined,
        );
        match report {
            Report::Nothing => {}
            Report::TooFew => {
                let name = self.ctx.name_of(by);
                let text = format!(
                    "{name} says that another process has this member's identity. This member \
                     stops if most of the other voters say so. {text}"
                );
                self.ctx.log(Level::Warning, text);
            }
            Report::Enough => self.ctx.fail(text),
        }
    }

    /// Leader only: binds members to the certificates that they show, for instance after the
    /// group has moved to certificates. One at a time; the next tick continues.
    pub(in crate::driver) fn bind_certificates(&mut self) {
        let config = &self.ctx.core.config().config;
        if config.protocol < CERTIFICATES_SINCE {
            return;
        }
        let unbound = self
            .authorization
            .unbound
            .iter()
            .find_map(|(id, certificate)| {
                let member = config.members.get(id)?;
                let is_free = member.certificate.is_none()
                    && other_holder(config, *id, None, Some(&**certificate)).is_none();
                is_free.then_some((*id, member, certificate))
            });
        let Some((id, member, certificate)) = unbound else {
            return;
        };
        let change = ConfigChange::Update {
            id,
            name: member.name.clone(),
            address: member.address.clone(),
            versions: member.versions,
            certificate: Some(certificate.to_string()),
        };
        // Refused while another change is under way: the next tick tries again.
        let _ = self.ctx.core.change_config(self.ctx.turns.now, change);
    }
}
