//! The driver's dealings with [`super::Recovery`]: survivors report to each other, and one of them
//! is ordered to continue.

use std::time::Duration;

use synod_consensus::{ForceError, LogIndex, MemberId};
use synod_wire::{CommandRefusal, Done, PeerMessage, RefusalReason, SurvivorReport};

use super::choice::{Facts, choose};
use crate::config::DatabasePosition;
use crate::driver::Driver;
use crate::driver::commands::refuse;
use crate::shared::{SurvivorStatus, lock};

impl Driver {
    // --- reports -----------------------------------------------------------------------------

    /// Reports to all other members while no leader is heard, and shows what they have reported.
    /// At each slow tick.
    pub(in crate::driver) fn recovery_tick(&mut self) {
        if self.ctx.core.is_ready_leader() {
            let commit = self.ctx.core.commit_index();
            self.leader_states_commit(commit);
        }
        let commit = self.ctx.core.commit_index();
        self.recovery.completeness.reached(commit);
        let members = &self.ctx.core.config().config.members;
        let is_kept = |id| members.contains_key(&id);
        self.recovery.survivors.keep_only(is_kept);
        if !self.ctx.links.shared.is_primary() && self.ctx.core.leader().is_none() {
            let report = self.survivor_report();
            for member in self.others() {
                self.ctx.send(member, PeerMessage::Survivor(report));
            }
        }
        self.publish_survivors();
    }

    fn others(&self) -> Vec<MemberId> {
        let members = self.ctx.core.config().config.members.keys().copied();
        members
            .filter(|id| *id != self.ctx.identity.me.member)
            .collect()
    }

    /// A survivor reports. A member that hears a leader tells it so.
    pub(in crate::driver) fn handle_survivor(&mut self, from: MemberId, report: SurvivorReport) {
        let now = self.ctx.turns.now;
        self.recovery.survivors.report(now, from, report);
        if report.leader.is_none() && self.ctx.core.leader().is_some() {
            let report = self.survivor_report();
            self.ctx.send(from, PeerMessage::Survivor(report));
        }
    }

    /// A leader states its commit index.
    pub(in crate::driver) fn leader_states_commit(&mut self, commit: LogIndex) {
        let now = self.ctx.turns.now;
        self.recovery.completeness.stated(now, commit);
    }

    fn survivor_report(&self) -> SurvivorReport {
        let (completeness, core) = (&self.recovery.completeness, &self.ctx.core);
        let longest_us = self.ctx.identity.config.timing.election_timeout_max_us;
        let deposed = Duration::from_micros(longest_us);
        let incomplete = completeness.incomplete_for(self.ctx.turns.now, deposed);
        // One that is before the log's beginning waits for a copy, or for what others have.
        let has_database = self.ctx.identity.config.has_data
            && (self.membership.join.is_completed() || self.database() != DatabasePosition::NONE)
            && self.database_seqno() >= core.base().seqno;
        SurvivorReport {
            last: core.last_id(),
            durable: core.durable_index(),
            commit: core.commit_index(),
            stated: completeness.highest_stated(),
            incomplete_us: incomplete.map(micros),
            applied: if has_database {
                self.database_seqno()
            } else {
                DatabasePosition::NONE.seqno
            },
            is_under_repair: core.repairing_until().is_some(),
            leader: core.leader(),
        }
    }

    /// Publishes the reports of the survivors, for operators.
    fn publish_survivors(&self) {
        let now = self.ctx.turns.now;
        let me = self.ctx.identity.me.member;
        let survivors = &self.recovery.survivors;
        let others = self.others().into_iter().map(|member| SurvivorStatus {
            member,
            report: survivors.current(now, member).map(|(_, report)| report),
        });
        let own = SurvivorStatus {
            member: me,
            report: Some(self.survivor_report()),
        };
        let all = others.chain([own]).collect();
        lock(&self.ctx.links.shared.status).survivors = all;
    }

    // --- the order ---------------------------------------------------------------------------

    /// The member that continues, if this one is asked.
    pub(in crate::driver) fn choose_survivor(
        &self,
        is_passed_on: bool,
    ) -> Result<MemberId, CommandRefusal> {
        let now = self.ctx.turns.now;
        let leaderless = self.leadership.primary.leaderless_for(now);
        let survivors = &self.recovery.survivors;
        choose(&Facts {
            me: self.ctx.identity.me.member,
            config: &self.ctx.core.config().config,
            own: self.survivor_report(),
            report_of: &|id| survivors.current(now, id).map(|(_, report)| report),
            leaderless_for: leaderless.unwrap_or_default(),
            patience: self.group_patience(),
            is_passed_on,
        })
    }

    /// This member continues as the only voter.
    pub(in crate::driver) fn recover(
        &mut self,
        is_passed_on: bool,
    ) -> Result<Done, CommandRefusal> {
        let chosen = self.choose_survivor(is_passed_on)?;
        if chosen != self.ctx.identity.me.member {
            // The order is for the other one, which reported a moment ago.
            let text = format!(
                "{} has more of the log since: repeat the order",
                self.ctx.name_of(chosen)
            );
            return Err(refuse(RefusalReason::OtherHasMore, text));
        }
        self.force_new_primary().map_err(refused)?;
        let member = self.ctx.identity.config.name.clone();
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
