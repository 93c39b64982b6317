//! Authorization of senders: every message of another process is judged here before it does
//! anything.
//!
//! ```text
//!  Event::Peer ──► sender (what this member knows of it) ──► rights ──► handled, late or refused
//! ```
//!
//! [`message_rights`] says which standing a message needs. [`UnconfiguredPeers`] knows the members
//! that are in no configuration of this member and still may speak: those that it asked to join,
//! and those that configured members have introduced. [`RefusedMessages`] counts what was refused,
//! and says when that is to be logged. [`DuplicateIdentity`] counts members that say that another
//! process has this member's identity.
//!
//! Invariant: a refused message changes nothing but the count of refused messages.

mod bound_certificate;
mod duplicate_identity;
mod message_rights;
mod refused_messages;
mod unconfigured_peers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_consensus::{ConfigChange, MemberId};
use synod_planted::planted;
use synod_wire::{IntroducedMember, Introduction, PeerMessage};

use super::context::Context;
use super::membership::Membership;
use crate::host::Level;
use crate::io::KnownPeer;
use crate::shared::lock;
use bound_certificate::taken_subjects;
use duplicate_identity::{DuplicateIdentity, Report};
use message_rights::{Judgement, Kind, Sender};
use refused_messages::RefusedMessages;
use unconfigured_peers::UnconfiguredPeers;

pub(super) use bound_certificate::{is_bound_otherwise, other_holder};

/// State by which this member judges a sender, beside its configuration and its leader.
#[derive(Default)]
pub(super) struct Authorization {
    pub(super) unconfigured_peers: UnconfiguredPeers,
    pub(super) refused: RefusedMessages,
    pub(super) duplicate_identity: DuplicateIdentity,
    /// Certificates that configured members have shown and are not bound to yet.
    pub(super) unbound: BTreeMap<MemberId, Arc<str>>,
}

impl Authorization {
    pub(super) fn may_send(
        &mut self,
        ctx: &Context,
        membership: &mut Membership,
        from: MemberId,
        certificate: Option<&Arc<str>>,
        message: &PeerMessage,
    ) -> bool {
        let kind = Kind::of(from, message);
        let sender = self.sender(ctx, membership, from, certificate);
        let judgement = if from == ctx.identity.me.member {
            // Another process that claims to be this member.
            Judgement::Refused
        } else {
            sender.judge(kind.right())
        };
        if judgement == Judgement::Refused {
            self.refused(ctx, membership, from, certificate, kind);
        }
        let is_heard = sender.is_known() && judgement != Judgement::Refused;
        if planted!(HeardFromStrangers, is_heard, else true) {
            membership.presence.heard(ctx.turns.now, from);
        }
        if sender.is_configured && judgement == Judgement::Allowed {
            self.note_certificate(ctx, from, certificate);
        }
        judgement == Judgement::Allowed
    }

    /// A connection that shows another certificate than the one that the member is bound to is not
    /// that member's.
    fn sender(
        &self,
        ctx: &Context,
        membership: &Membership,
        from: MemberId,
        certificate: Option<&Arc<str>>,
    ) -> Sender {
        let leader = ctx.core.leader();
        let sender = Sender {
            has_leader: leader.is_some(),
            ..Sender::default()
        };
        if self.is_another_process(ctx, from, certificate) {
            return sender;
        }
        Sender {
            is_configured: ctx.is_configured(from),
            is_leaving: ctx.core.progress().any(|peer| peer.member == from),
            is_introduced: self.introduction_of(ctx, from).is_some(),
            is_asked: !has_found_group(ctx, membership) && self.unconfigured_peers.is_asked(from),
            is_followed: leader == Some(from),
            ..sender
        }
    }

    fn introduction_of(&self, ctx: &Context, member: MemberId) -> Option<&IntroducedMember> {
        let committed = ctx.core.commit_index();
        self.unconfigured_peers.introduced(member, committed)
    }

    fn bound_certificate<'a>(&'a self, ctx: &'a Context, member: MemberId) -> Option<&'a str> {
        match ctx.configured(member) {
            Some(configured) => configured.certificate.as_deref(),
            None => self.introduction_of(ctx, member)?.certificate.as_deref(),
        }
    }

    fn is_bound_otherwise(
        &self,
        ctx: &Context,
        member: MemberId,
        shown: Option<&Arc<str>>,
    ) -> bool {
        let shown = shown.map(|shown| &**shown);
        is_bound_otherwise(self.bound_certificate(ctx, member), shown)
    }

    /// Whether a connection in this member's name is not the member's: it shows another certificate
    /// than the member is bound to, or one that another member is bound to.
    fn is_another_process(
        &self,
        ctx: &Context,
        member: MemberId,
        shown: Option<&Arc<str>>,
    ) -> bool {
        self.is_bound_otherwise(ctx, member, shown) || holder_of(ctx, member, shown).is_some()
    }

    fn refused(
        &mut self,
        ctx: &Context,
        membership: &Membership,
        from: MemberId,
        certificate: Option<&Arc<str>>,
        kind: Kind,
    ) {
        let is_news = self.refused.refused(ctx.turns.now, from);
        lock(&ctx.links.shared.status).refused_messages = self.refused.count();
        if !is_news {
            return;
        }
        let why = match self.bound_certificate(ctx, from) {
            Some(bound) if self.is_bound_otherwise(ctx, from, certificate) => {
                let shown = certificate.map_or("none", |shown| &**shown);
                format!(
                    "its connection shows the certificate '{shown}', and the member is bound to \
                     '{bound}'. If its certificate was replaced, issue one with the former \
                     subject; otherwise another process uses the member's identity"
                )
            }
            _ => match holder_of(ctx, from, certificate) {
                Some(holder) => format!(
                    "its connection shows the certificate of {}. Give each member a certificate \
                     of its own; if it has one, another process uses the member's identity",
                    ctx.name_of(holder)
                ),
                None => "it is not in the group, as far as this member knows. If it should be, \
                         look at its own log; otherwise find out which process connects to this \
                         port"
                    .to_owned(),
            },
        };
        let name = ctx.name_of(from);
        // Normal: a member that has not joined knows few others, and a member without a leader
        // introduces itself to all that it knows, also if it was removed.
        let is_normal = !membership.join.has_joined() || kind == Kind::Introduction;
        let level = if is_normal {
            Level::Info
        } else {
            Level::Warning
        };
        ctx.log(
            level,
            format!("refusing messages of {name} (the first is {kind:?}): {why}"),
        );
    }

    fn note_certificate(&mut self, ctx: &Context, from: MemberId, certificate: Option<&Arc<str>>) {
        if let Some(certificate) = certificate
            && self.bound_certificate(ctx, from).is_none()
        {
            self.unbound.insert(from, certificate.clone());
        }
    }

    /// A member names the members of its configuration. If this member's is newer, it answers with
    /// that: a member without a leader asks in this way who may lead.
    pub(super) fn handle_introduction(
        &mut self,
        ctx: &Context,
        membership: &Membership,
        from: MemberId,
        introduction: Introduction,
    ) {
        if introduction.index < ctx.core.config().index {
            introduce_to(ctx, from);
        }
        let committed = ctx.core.commit_index();
        let named = introduction.members.clone();
        let unconfigured_peers = &mut self.unconfigured_peers;
        if !unconfigured_peers.introduced_by(from, introduction, committed) {
            return;
        }
        for introduced in named {
            if introduced.member != ctx.identity.me.member {
                ctx.links
                    .peers
                    .connect(introduced.member, &introduced.address);
            }
        }
        self.publish_known(ctx, membership);
    }

    /// The slow work: forgets what this member's own log says better, and looks for a leader that
    /// this member does not know.
    pub(super) fn rights_tick(&mut self, ctx: &Context, membership: &Membership) {
        if has_found_group(ctx, membership) {
            self.unconfigured_peers.found_group();
        }
        if ctx.core.leader().is_none() {
            let members = ctx.core.config().config.members.keys();
            let others = members.filter(|id| **id != ctx.identity.me.member);
            others.for_each(|other| introduce_to(ctx, *other));
        }
        let unconfigured_peers = &self.unconfigured_peers;
        let introducers: BTreeSet<MemberId> = unconfigured_peers
            .asked()
            .chain(ctx.core.config().config.members.keys().copied())
            .collect();
        let committed = ctx.core.commit_index();
        self.unconfigured_peers
            .forget(|by| introducers.contains(&by), committed);
        let members = &ctx.core.config().config.members;
        self.unbound.retain(|id, _| {
            let member = members.get(id);
            member.is_some_and(|member| member.certificate.is_none())
        });
        self.publish_known(ctx, membership);
    }

    pub(super) fn publish_known(&self, ctx: &Context, membership: &Membership) {
        let latest = &ctx.core.config().config;
        let committed = ctx.core.config_at(ctx.core.commit_index());
        let committed = committed.map(|at| &at.config);
        let unconfigured_peers = &self.unconfigured_peers;
        let configured = [Some(latest), committed].into_iter().flatten();
        let ids = configured
            .flat_map(|config| config.members.keys().copied())
            .chain(unconfigured_peers.all_introduced())
            .chain(unconfigured_peers.asked())
            .chain(ctx.core.leader())
            // They are asked next.
            .chain(membership.join.contacts());
        let known = ids
            .filter(|id| *id != ctx.identity.me.member)
            .map(|id| {
                let certificate = self.bound_certificate(ctx, id).map(str::to_owned);
                let is_free = certificate.is_none() && latest.members.contains_key(&id);
                let taken = is_free.then(|| taken_subjects(latest, id));
                let peer = KnownPeer {
                    certificate,
                    taken: taken.unwrap_or_default(),
                };
                (id, peer)
            })
            .collect::<BTreeMap<_, _>>();
        ctx.links.peers.set_known(&known);
    }

    /// Whether a connection to this member is worth keeping.
    pub(super) fn is_wanted(
        &self,
        ctx: &Context,
        membership: &Membership,
        member: MemberId,
    ) -> bool {
        let unconfigured_peers = &self.unconfigured_peers;
        ctx.is_configured(member)
            || unconfigured_peers.is_asked(member)
            || self.introduction_of(ctx, member).is_some()
            || membership.is_searching(ctx) && membership.join.is_contact(member)
    }

    pub(super) fn duplicate_identity(
        &mut self,
        ctx: &mut Context,
        membership: &Membership,
        by: MemberId,
        text: &str,
    ) {
        let me = ctx.identity.me.member;
        let config = &ctx.core.config().config;
        let others = config.voters().filter(|id| *id != me);
        let has_joined = membership.join.has_joined();
        let report = self
            .duplicate_identity
            .reported(ctx.turns.now, by, others, has_joined);
        match report {
            Report::Nothing => {}
            Report::TooFew => {
                let name = ctx.name_of(by);
                let text = format!(
                    "{name} says that another process has this member's identity. This member \
                     stops if most of the other voters say so. {text}"
                );
                ctx.log(Level::Warning, text);
            }
            Report::Enough => ctx.fail(text),
        }
    }

    /// Leader only: binds members to the certificates that they show, for instance after the
    /// group has moved to certificates. One at a time; the next tick continues.
    pub(super) fn bind_certificates(&self, ctx: &mut Context) {
        let config = &ctx.core.config().config;
        let unbound = self.unbound.iter().find_map(|(id, certificate)| {
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
        let _ = ctx.core.change_config(ctx.turns.now, change);
    }
}

/// Needs no members that it asked: its own configuration names the leader that it follows.
fn has_found_group(ctx: &Context, membership: &Membership) -> bool {
    let leader = ctx.core.leader();
    let follows = leader.is_some_and(|leader| ctx.is_configured(leader));
    follows && membership.join.has_joined()
}

fn holder_of(ctx: &Context, member: MemberId, shown: Option<&Arc<str>>) -> Option<MemberId> {
    let config = &ctx.core.config().config;
    let shown = shown.map(|shown| &**shown);
    let is_configured = config.members.contains_key(&member);
    other_holder(config, member, None, shown).filter(|_| is_configured)
}

pub(super) fn introduce_to(ctx: &Context, member: MemberId) {
    if ctx.is_configured(member) {
        let introduction = PeerMessage::Introduction(introduction(ctx));
        ctx.send(member, introduction);
    }
}

fn introduction(ctx: &Context) -> Introduction {
    let config = ctx.core.config();
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
