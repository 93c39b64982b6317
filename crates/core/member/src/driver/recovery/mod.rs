//! Recovery from the loss of a majority: which of the members that are left should continue, and
//! what is lost with that.
//!
//! A *survivor* is a member that runs and hears no leader. Survivors tell each other what they have
//! ([`synod_wire::SurvivorReport`]), for as long as that lasts, so an operator may ask any of them.
//! None of them does anything by itself: to continue without a majority is an order
//! (`Command::Recover`), which this folder refuses where it is not called for.
//!
//! - [`Completeness`]: since when this member's log may lack something that is committed;
//! - `unheard`: voters that run, or may, and say nothing to this member: then nothing is lost;
//! - `choice`: the rule that allows or refuses the order;
//! - `histories`: a database that may be of a history that the group has left.

mod choice;
mod completeness;
mod histories;
mod unheard;

use std::time::Duration;

use synod_consensus::{ForceError, LogIndex, MemberId};
use synod_wire::{CommandRefusal, Done, PeerMessage, RefusalReason, SurvivorReport};

use super::commands::refuse;
use super::context::Context;
use super::leadership::Leadership;
use super::membership::Membership;
use crate::config::DatabasePosition;
use crate::shared::{SurvivorStatus, lock};
use choice::{Facts, choose};
use completeness::Completeness;
use unheard::{is_calling, unheard};

pub(super) use histories::{may_join, may_obey, may_write};

#[derive(Default)]
pub(super) struct Recovery {
    completeness: Completeness,
    /// At the start the log did not hold the position of the database.
    is_unproven: bool,
}

impl Recovery {
    /// Reports to all other members while no leader is heard, and shows what they have reported.
    /// At each slow tick.
    pub(super) fn recovery_tick(&mut self, ctx: &Context, membership: &Membership) {
        if ctx.core.is_ready_leader() {
            let commit = ctx.core.commit_index();
            self.leader_states_commit(ctx, commit);
        }
        let commit = ctx.core.commit_index();
        self.completeness.reached(commit);
        if !ctx.links.shared.is_primary() && ctx.core.leader().is_none() {
            let report = self.survivor_report(ctx, membership);
            for member in ctx.other_members() {
                ctx.send(member, PeerMessage::Survivor(report));
            }
        }
        self.publish_survivors(ctx, membership);
    }

    /// A survivor reports. A member that hears a leader tells it so.
    pub(super) fn handle_survivor(
        &mut self,
        ctx: &Context,
        membership: &mut Membership,
        from: MemberId,
        report: SurvivorReport,
    ) {
        membership.presence.survives(ctx.turns.now, from, report);
        if report.leader.is_none() && ctx.core.leader().is_some() {
            let report = self.survivor_report(ctx, membership);
            ctx.send(from, PeerMessage::Survivor(report));
        }
    }

    pub(super) fn leader_states_commit(&mut self, ctx: &Context, commit: LogIndex) {
        let now = ctx.turns.now;
        self.completeness.stated(now, commit);
    }

    fn survivor_report(&self, ctx: &Context, membership: &Membership) -> SurvivorReport {
        let (completeness, core) = (&self.completeness, &ctx.core);
        let longest_us = ctx.identity.config.timing.election_timeout_max_us;
        let deposed = Duration::from_micros(longest_us);
        let incomplete = completeness.incomplete_for(ctx.turns.now, deposed);
        // One that is before the log's beginning waits for a copy, or for what others have.
        let has_database = ctx.identity.config.has_data
            && (membership.join.is_completed() || ctx.database() != DatabasePosition::NONE)
            && membership.database_seqno(ctx) >= core.base().seqno;
        SurvivorReport {
            last: core.last_id(),
            durable: core.durable_index(),
            commit: core.commit_index(),
            stated: completeness.highest_stated(),
            incomplete_us: incomplete.map(micros),
            applied: if has_database {
                membership.database_seqno(ctx)
            } else {
                DatabasePosition::NONE.seqno
            },
            is_under_repair: core.repairing_until().is_some(),
            leader: core.leader(),
        }
    }

    fn publish_survivors(&self, ctx: &Context, membership: &Membership) {
        let now = ctx.turns.now;
        let me = ctx.identity.me.member;
        let presence = &membership.presence;
        let others = ctx
            .other_members()
            .into_iter()
            .map(|member| SurvivorStatus {
                member,
                report: presence.survivor(now, member),
            });
        let own = SurvivorStatus {
            member: me,
            report: Some(self.survivor_report(ctx, membership)),
        };
        let all = others.chain([own]).collect();
        let unheard = self.unheard(ctx, membership);
        let is_calling = is_calling(ctx, membership);
        let mut status = lock(&ctx.links.shared.status);
        status.survivors = all;
        status.unheard = unheard;
        status.is_calling = is_calling;
    }

    /// Why the group may run although this member does not hear it, and what to do, in sentences.
    /// None while it hears a leader, or if the other voters are gone.
    pub(super) fn unheard(&self, ctx: &Context, membership: &Membership) -> Vec<String> {
        if ctx.core.leader().is_some() {
            return Vec::new();
        }
        let now = ctx.turns.now;
        let reports = |id| membership.presence.survivor(now, id).is_some();
        unheard(ctx, membership, reports)
    }

    pub(super) fn advice(&self, ctx: &Context, membership: &Membership) -> String {
        match self.unheard(ctx, membership).as_slice() {
            [] => "If most of them are lost for good: 'synod recover --plan'".to_owned(),
            lines => lines.join(". "),
        }
    }

    pub(super) fn choose_survivor(
        &self,
        ctx: &Context,
        membership: &Membership,
        leadership: &Leadership,
        is_passed_on: bool,
    ) -> Result<MemberId, CommandRefusal> {
        let now = ctx.turns.now;
        let leaderless = leadership.primary.leaderless_for(now);
        choose(&Facts {
            me: ctx.identity.me.member,
            config: &ctx.core.config().config,
            own: self.survivor_report(ctx, membership),
            report_of: &|id| membership.presence.survivor(now, id),
            leaderless_for: leaderless.unwrap_or_default(),
            patience: ctx.group_patience(),
            unheard: self.unheard(ctx, membership),
            is_passed_on,
        })
    }

    pub(super) fn recover(
        &self,
        ctx: &mut Context,
        membership: &Membership,
        leadership: &mut Leadership,
        is_passed_on: bool,
    ) -> Result<Done, CommandRefusal> {
        let chosen = self.choose_survivor(ctx, membership, leadership, is_passed_on)?;
        if chosen != ctx.identity.me.member {
            let text = format!(
                "{} has more of the log since: repeat the order",
                ctx.name_of(chosen)
            );
            return Err(refuse(RefusalReason::OtherHasMore, text));
        }
        leadership.force_new_primary(ctx).map_err(refused)?;
        let member = ctx.identity.config.name.clone();
        Ok(Done::Continues { member })
    }
}

fn refused(error: ForceError) -> CommandRefusal {
    let reason = match error {
        ForceError::HasLeader { .. } => RefusalReason::NotLost,
        ForceError::NotConfigured | ForceError::UnderRepair { .. } => RefusalReason::Unfit,
    };
    refuse(
        reason,
        format!("this member does not continue alone: {error}"),
    )
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
