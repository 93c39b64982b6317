//! Attendance: the members that are present, with a database or without, as operators are told. The
//! leader hears every member several times a second, and says to all when it heard each of them. A
//! member that hears no leader has its own ears, and remembers what the leader before said. Nothing
//! is decided by this: views and votes have rules of their own.

use std::time::Duration;

use synod_consensus::MemberId;
use synod_wire::{HeardMember, PeerMessage, PresenceReport};

use super::Membership;
use crate::driver::context::Context;
use crate::shared::{self, MemberPresence, lock};

/// A member of which nothing has come for so long is shown as silent: it misses four reports then.
const SILENT_AFTER: Duration = Duration::from_secs(1);

impl Membership {
    pub(in crate::driver) fn announce_presence(&self, ctx: &Context) {
        let (now, me) = (ctx.turns.now, ctx.identity.me.member);
        let members = &ctx.core.config().config.members;
        let there = members.keys().filter_map(|id| {
            let silent_ms = match *id == me {
                true => 0,
                false if self.presence.has_left(*id) => return None,
                false => now.since_us(self.presence.signs(*id)?.last_heard()?) / 1000,
            };
            Some(HeardMember {
                member: *id,
                silent_ms,
            })
        });
        let report = PresenceReport {
            term: ctx.core.term(),
            members: there.collect(),
        };
        for member in members.keys().filter(|id| **id != me) {
            ctx.send(*member, PeerMessage::Presence(report.clone()));
        }
    }

    pub(in crate::driver) fn handle_presence(
        &mut self,
        ctx: &Context,
        from: MemberId,
        report: &PresenceReport,
    ) {
        if report.term == ctx.core.term() && ctx.core.leader() == Some(from) {
            self.presence.told(ctx.turns.now, report);
        }
    }

    pub(in crate::driver) fn publish_presence(&mut self, ctx: &Context) {
        let members = &ctx.core.config().config.members;
        self.readers_at.retain(|id, _| members.contains_key(id));
        let (me, own) = (ctx.identity.me.member, &ctx.identity.config.incoming);
        self.readers_at.insert(me, own.clone());
        let readers_at = &self.readers_at;
        let all = members.iter().map(|(id, member)| MemberPresence {
            member: *id,
            presence: self.presence_of(ctx, *id),
            silent_for: self.silent_for(ctx, *id),
            readers_at: readers_at.get(id).filter(|_| !member.has_data).cloned(),
        });
        let all = all.collect();
        lock(&ctx.links.shared.status).presence = all;
    }

    /// For how long nothing has come from a member, to this one or to a leader that it followed;
    /// none: since this process began.
    fn silent_for(&self, ctx: &Context, member: MemberId) -> Option<Duration> {
        if member == ctx.identity.me.member {
            return Some(Duration::ZERO);
        }
        let at = self.presence.signs(member)?.last_heard();
        at.map(|at| ctx.turns.now.since(at))
    }

    fn presence_of(&self, ctx: &Context, member: MemberId) -> shared::Presence {
        let leader = ctx.core.leader();
        let is_left_out = match leader {
            _ if member == ctx.identity.me.member => return shared::Presence::Present,
            None => false,
            Some(_) if ctx.core.is_leader() => self.presence.has_left(member),
            Some(_) => self.presence.is_left_out(ctx.core.term(), member),
        };
        match self.silent_for(ctx, member).filter(|_| !is_left_out) {
            Some(silent) if silent < SILENT_AFTER => shared::Presence::Present,
            Some(silent) if silent < ctx.identity.config.suspect => shared::Presence::Silent,
            _ => shared::Presence::Absent,
        }
    }
}
