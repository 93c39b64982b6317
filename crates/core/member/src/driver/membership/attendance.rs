//! Attendance: the members that are present, with a database or without, as operators are told. The
//! leader hears every member several times a second, and says to all when it heard each of them. A
//! member that hears no leader has its own ears, and remembers what the leader before said. Nothing
//! is decided by this: views and votes have rules of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{MemberId, Term, Time};
use synod_wire::{HeardMember, PeerMessage, PresenceReport, Report};

use super::{Membership, Presence};
use crate::driver::context::Context;
use crate::shared::{self, MemberPresence, lock};

/// A member of which nothing has come for so long is shown as silent: it misses four reports then.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// The component that remembers what leaders have said about the members' presence.
#[derive(Default)]
pub(in crate::driver) struct Attendance {
    /// When a leader heard a member last, by its word.
    told: BTreeMap<MemberId, Time>,
    /// Members that the leader of this term has listed lately as present.
    listed: Option<(Term, BTreeSet<MemberId>)>,
    /// Addresses at which readers reach members, of those that have reported one.
    readers_at: BTreeMap<MemberId, String>,
}

impl Attendance {
    fn told(&mut self, now: Time, report: &PresenceReport) {
        for heard in &report.members {
            let silent_us = heard.silent_ms.saturating_mul(1000);
            let at = Time(now.0.saturating_sub(silent_us));
            let told = self.told.entry(heard.member).or_insert(at);
            *told = at.max(*told);
        }
        let listed = report.members.iter().map(|heard| heard.member).collect();
        self.listed = Some((report.term, listed));
    }

    pub(in crate::driver) fn reported(&mut self, reports: &[Report]) {
        for report in reports.iter().filter(|report| !report.incoming.is_empty()) {
            let known = self.readers_at.entry(report.member).or_default();
            if *known != report.incoming {
                known.clone_from(&report.incoming);
            }
        }
    }

    fn keep_only(&mut self, is_kept: impl Fn(MemberId) -> bool) {
        self.told.retain(|id, _| is_kept(*id));
        self.readers_at.retain(|id, _| is_kept(*id));
    }

    /// Since when a member has been silent, to this member and to the leaders that it followed.
    fn last_heard(&self, presence: &Presence, member: MemberId) -> Option<Time> {
        let told = self.told.get(&member).copied();
        told.max(presence.last_heard(member))
    }

    /// Whether the leader that this member hears counts the member among the absent.
    fn is_left_out(&self, term: Term, member: MemberId) -> bool {
        let listed = self.listed.as_ref().filter(|(of, _)| *of == term);
        listed.is_some_and(|(_, members)| !members.contains(&member))
    }
}

impl Membership {
    pub(in crate::driver) fn announce_presence(&self, ctx: &Context) {
        let (now, me) = (ctx.turns.now, ctx.identity.me.member);
        let members = &ctx.core.config().config.members;
        let there = members.keys().filter_map(|id| {
            let silent_ms = match *id == me {
                true => 0,
                false if self.presence.has_left(*id) => return None,
                false => {
                    let at = self.attendance.last_heard(&self.presence, *id);
                    now.since_us(at?) / 1000
                }
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
            self.attendance.told(ctx.turns.now, report);
        }
    }

    pub(in crate::driver) fn publish_presence(&mut self, ctx: &Context) {
        let members = &ctx.core.config().config.members;
        let is_kept = |id| members.contains_key(&id);
        self.attendance.keep_only(is_kept);
        let readers_at = &self.attendance.readers_at;
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
    pub(in crate::driver) fn silent_for(
        &self,
        ctx: &Context,
        member: MemberId,
    ) -> Option<Duration> {
        if member == ctx.identity.me.member {
            return Some(Duration::ZERO);
        }
        let at = self.attendance.last_heard(&self.presence, member);
        at.map(|at| ctx.turns.now.since(at))
    }

    fn presence_of(&self, ctx: &Context, member: MemberId) -> shared::Presence {
        let leader = ctx.core.leader();
        let is_left_out = match leader {
            _ if member == ctx.identity.me.member => return shared::Presence::Present,
            None => false,
            Some(_) if ctx.core.is_leader() => self.presence.has_left(member),
            Some(_) => self.attendance.is_left_out(ctx.core.term(), member),
        };
        match self.silent_for(ctx, member).filter(|_| !is_left_out) {
            Some(silent) if silent < SILENT_AFTER => shared::Presence::Present,
            Some(silent) if silent < ctx.identity.config.suspect => shared::Presence::Silent,
            _ => shared::Presence::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: MemberId = MemberId(2);
    const TERM: Term = Term(7);

    fn at(ms: u64) -> Time {
        Time(10_000_000).plus(Duration::from_millis(ms))
    }

    fn report(members: &[(u64, u64)]) -> PresenceReport {
        let heard = members.iter().map(|(id, silent_ms)| HeardMember {
            member: MemberId(*id),
            silent_ms: *silent_ms,
        });
        PresenceReport {
            term: TERM,
            members: heard.collect(),
        }
    }

    #[test]
    fn member_was_heard_when_anybody_heard_it_last() {
        let (mut attendance, mut presence) = (Attendance::default(), Presence::default());
        assert_eq!(attendance.last_heard(&presence, OTHER), None);
        attendance.told(at(900), &report(&[(2, 300)]));
        assert_eq!(attendance.last_heard(&presence, OTHER), Some(at(600)));
        presence.heard(at(700), OTHER);
        assert_eq!(attendance.last_heard(&presence, OTHER), Some(at(700)));
        attendance.told(at(1000), &report(&[(2, 600)]));
        assert_eq!(attendance.last_heard(&presence, OTHER), Some(at(700)));
        attendance.keep_only(|_| false);
        presence.forget_others(|_| false);
        assert_eq!(attendance.last_heard(&presence, OTHER), None);
    }

    #[test]
    fn leader_leaves_out_who_is_gone_for_its_own_term_only() {
        let mut attendance = Attendance::default();
        assert!(!attendance.is_left_out(TERM, OTHER), "nothing was said");
        attendance.told(at(0), &report(&[(1, 0)]));
        assert!(attendance.is_left_out(TERM, OTHER));
        assert!(!attendance.is_left_out(TERM.next(), OTHER));
        attendance.told(at(0), &report(&[(1, 0), (2, 9)]));
        assert!(!attendance.is_left_out(TERM, OTHER));
    }

    #[test]
    fn report_of_a_stranger_to_time_is_bounded() {
        let (mut attendance, presence) = (Attendance::default(), Presence::default());
        attendance.told(at(0), &report(&[(2, u64::MAX)]));
        assert_eq!(attendance.last_heard(&presence, OTHER), Some(Time(0)));
    }
}
