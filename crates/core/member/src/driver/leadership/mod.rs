//! Leadership: this member hears a leader, leads itself, or serves without a majority by order.
//!
//! - [`PrimaryWatch`]: whether this member is primary. A lost majority is noticed there.
//! - [`Elections`]: the leader before, and the reason why another member is elected.
//! - [`ForcedPrimary`]: whether it continues without a majority, by order or by policy.
//! - [`LeaderPriority`]: the members that are fit to lead, and their weights.
//! - [`FollowWriters`]: whether nearly all writes come from another region.
//! - [`Regions`]: the region of each member.
//! - [`DiskWatch`]: whether this member's disk keeps up. If not, it hands over, and is no
//!   candidate.

mod disk_watch;
mod elections;
mod follow_writers;
mod forced_primary;
mod leader_priority;
mod primary_watch;
mod regions;

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{ForceError, LeaderWeight, LogIndex, MemberId, Role, Term, Time, Writers};
use synod_planted::planted;
use synod_wire::Report;

use super::context::Context;
use super::membership::Membership;
use super::own_log::RepairNews;
use crate::config::MemberConfig;
use crate::host::{Election, Level, Topic};
use crate::tuning::Tuning;
use disk_watch::{DiskNews, DiskWatch};
use elections::{Cause, Elections};
use follow_writers::{FitVoter, FollowWriters, Place, WritingPlace};
use forced_primary::ForcedPrimary;
use leader_priority::LeaderPriority;
use primary_watch::PrimaryWatch;
use regions::Regions;

pub use follow_writers::LeaderPlacement;
pub use forced_primary::QuorumLossPolicy;
pub(super) use forced_primary::has_action;

/// The component that knows who leads and who should, and whether this member is primary.
pub(super) struct Leadership {
    pub(super) forced_primary: ForcedPrimary,
    pub(super) leader_priority: LeaderPriority,
    pub(super) regions: Regions,
    pub(super) follow_writers: FollowWriters,
    pub(super) disk_watch: DiskWatch,
    pub(super) primary: PrimaryWatch,
    pub(super) elections: Elections,
}

/// Longest election timeouts between two attempts to hand over because of a disk.
const HANDOVER_PAUSE: u64 = 4;

impl Leadership {
    pub(super) fn new(
        me: MemberId,
        config: &MemberConfig,
        tuning: &Tuning,
        now: Time,
    ) -> Leadership {
        let step_down = Duration::from_micros(config.timing.election_timeout_max_us);
        Leadership {
            forced_primary: ForcedPrimary::default(),
            leader_priority: LeaderPriority::default(),
            regions: Regions::new(me, config.region.clone()),
            follow_writers: FollowWriters::new(tuning, now),
            disk_watch: DiskWatch::new(tuning.disk_patience),
            primary: PrimaryWatch::new(now, step_down),
            elections: Elections::default(),
        }
    }

    /// Says who leads, and why it is this member now.
    pub(super) fn announce_leader(&mut self, ctx: &Context, term: Term, leader: MemberId) {
        let Some(cause) = self.elections.elected(term, leader) else {
            return;
        };
        let leader = ctx.name_of(leader);
        let why = match cause {
            Cause::First => "the first leader that this server hears since its start".to_owned(),
            Cause::HandedOver { by } => {
                format!("{} has handed leadership over", ctx.name_of(by))
            }
            Cause::Lost { before } => format!(
                "{} led before, and was silent for an election timeout or had lost its majority",
                ctx.name_of(before)
            ),
            Cause::Again => "it led before, and was not heard by a majority meanwhile".to_owned(),
        };
        let text = format!("term {term}: the leader is {leader} ({why})");
        ctx.note(Topic::Leadership, Level::Info, text);
        ctx.links.host.elected(&Election { term, leader, why });
    }

    // --- without a majority ------------------------------------------------------------------

    /// Makes this member the only voter.
    pub(super) fn force_new_primary(&mut self, ctx: &mut Context) -> Result<(), ForceError> {
        ctx.core.force(ctx.turns.now)?;
        self.forced_primary.ordered();
        ctx.note(
            Topic::Leadership,
            Level::Info,
            "continuing without the other voters, as ordered: what they have committed and this \
             member has not seen is lost",
        );
        Ok(())
    }

    /// Follows the quorum loss policy at the moment when this member would stop being primary:
    /// clients that wait for a commit keep waiting, and get it.
    pub(super) fn watch_quorum_loss(&mut self, ctx: &mut Context, membership: &Membership) {
        let (now, suspect) = (ctx.turns.now, ctx.identity.config.suspect);
        let is_lost = self.primary.has_lost_group(now, ctx.group_patience());
        if !is_lost || membership.leave.is_under_way() || !membership.join.is_completed() {
            return;
        }
        let voters: Vec<MemberId> = ctx.core.config().config.voters().collect();
        let is_connected = |id| membership.presence.is_alive(now, id, suspect / 2);
        let me = ctx.identity.me.member;
        let continues = self.forced_primary.continues(me, &voters, is_connected);
        if continues && ctx.core.leader().is_none() {
            self.primary.wait_again(now);
            if let Err(error) = self.force_new_primary(ctx) {
                ctx.log(Level::Info, format!("cannot continue alone: {error}"));
            }
        }
    }

    /// Says when a damaged log is repaired, and when it waits in vain for a leader.
    pub(super) fn watch_repair(&self, ctx: &mut Context) {
        let now = ctx.turns.now;
        let is_alone = self.primary.has_lost_group(now, ctx.group_patience());
        let until = ctx.core.repairing_until();
        match ctx.own_log.repair.news(now, until, is_alone) {
            None => {}
            Some(RepairNews::Repaired) => {
                ctx.note(Topic::Log, Level::Info, "this member's log is repaired");
            }
            Some(RepairNews::Waiting(until)) => {
                let text = format!(
                    "this member's log was damaged and lacks entries that may have been \
                     acknowledged, up to {until}. It waits for a leader that has them; none is \
                     known, so the group is not primary as long as too few members with whole \
                     logs are running. 'When logs are damaged' in \
                     docs/operating/shutdown-and-recovery.md says what can be done"
                );
                ctx.note(Topic::Log, Level::Error, text);
            }
        }
    }

    // --- a disk that has stalled -------------------------------------------------------------

    /// Looks whether this member's disk keeps up. If it does not, this member is no candidate, and
    /// hands leadership over if it leads.
    pub(super) fn watch_disk(&mut self, ctx: &mut Context) {
        let now = ctx.turns.now;
        match self.disk_watch.look(now) {
            Some(DiskNews::Stalled(oldest)) => {
                ctx.core.set_disk_stalled(true);
                let text = format!(
                    "a write of this member's log has not finished for {:.1} s: its disk hangs or \
                     is overloaded. Until it has, this member acknowledges nothing and is no \
                     candidate. If it leads, it hands leadership over to a member with a quicker \
                     disk; the others keep serving. If this lasts or comes again, check that disk \
                     (dmesg, iostat), or move the log",
                    oldest.as_secs_f64()
                );
                ctx.note(Topic::Log, Level::Warning, text);
            }
            Some(DiskNews::Recovered) => {
                ctx.core.set_disk_stalled(false);
                let text = "the disk of this member's log answers again";
                ctx.note(Topic::Log, Level::Info, text);
            }
            None => {}
        }
        if self.disk_watch.is_stalled() {
            self.hand_over_for_disk(ctx);
        }
    }

    /// Hands leadership over, if a majority of the others has written what this member has not, and
    /// one of them has shown a quicker disk meanwhile. Where all disks are slow, an election takes
    /// many syncs, and its winner is no better.
    fn hand_over_for_disk(&mut self, ctx: &mut Context) {
        let (durable, commit) = (ctx.core.durable_index(), ctx.core.commit_index());
        let is_behind = ctx.core.is_leader() && durable < commit;
        if !planted!(KeepStalledLeader, is_behind, else false)
            || ctx.core.leader_transfer_target().is_some()
        {
            return;
        }
        let now = ctx.turns.now;
        let Some(to) = self.successor_for_disk(ctx, now) else {
            return;
        };
        let longest_us = ctx.identity.config.timing.election_timeout_max_us;
        let pause = Duration::from_micros(HANDOVER_PAUSE * longest_us);
        if self.disk_watch.takes_turn(now, pause) {
            // Refused if that voter cannot take over; tried again after the pause.
            let _ = ctx.core.transfer_leadership(now, Some(to));
        }
    }

    fn successor_for_disk(&self, ctx: &mut Context, now: Time) -> Option<MemberId> {
        let since = self.disk_watch.oldest_since()?;
        let quick_us = self.disk_watch.quick().as_micros() as u64;
        let within_us = planted!(HandOverToSlow, quick_us, else u64::MAX);
        ctx.core.successor_with_quick_disk(now, since, within_us)
    }

    /// The weight that this member reports: zero while its disk has stalled.
    pub(super) fn reported_weight(&self, ctx: &Context) -> LeaderWeight {
        let own = ctx.core.leader_preference().weight;
        let none = LeaderWeight::new(0).filter(|_| self.disk_watch.is_stalled());
        none.unwrap_or(own)
    }

    /// Leader only: takes weights and regions from the members' reports.
    pub(super) fn weigh_reports(&mut self, ctx: &mut Context, membership: &Membership) {
        let config = &ctx.core.config().config;
        let reports = || membership.presence.reports();
        let moved = self.regions.note(config, reports());
        let weights = LeaderPriority::weights(config, reports());
        self.set_leader_weights(ctx, weights, moved);
    }

    /// Follower only: takes weights and regions from the leader's status.
    pub(super) fn weigh_status(&mut self, ctx: &mut Context, members: &[Report]) {
        let config = &ctx.core.config().config;
        let moved = self.regions.note(config, members.iter());
        let weights = LeaderPriority::weights(config, members.iter());
        self.set_leader_weights(ctx, weights, moved);
    }

    /// `moved`: a member has reported another region.
    fn set_leader_weights(
        &self,
        ctx: &mut Context,
        weights: BTreeMap<MemberId, LeaderWeight>,
        moved: bool,
    ) {
        let weighed = ctx.core.set_leader_weights(weights);
        if weighed || moved {
            self.publish_members(ctx);
        }
    }

    /// Leader only: moves leadership to where nearly all writes come from, if that is elsewhere
    /// and an operator wants it.
    pub(super) fn follow_writers(&mut self, ctx: &mut Context) {
        let (now, me) = (ctx.turns.now, ctx.identity.me.member);
        let config = ctx.core.config();
        let is_committed = config.index <= ctx.core.commit_index();
        if config.config.writers == Writers::Leader {
            // Whatever others have written before is no reason any more.
            return self.follow_writers.forget(now);
        }
        let regions = &self.regions;
        let place_of = |id| Place::of(id, regions.of(id));
        let committed = ctx.core.commit_index();
        let follow = &mut self.follow_writers;
        let found = follow.look(now, committed, &place_of(me), place_of);
        // A change of the configuration has precedence.
        let Some(found) = found.filter(|_| is_committed) else {
            return;
        };
        let own_weight = ctx.core.leader_preference().weight;
        let voters = fit_voters(ctx, found.committed_before);
        let Some(to) = found.choose(own_weight, voters, place_of) else {
            return;
        };
        if ctx.core.transfer_leadership(now, Some(to)).is_ok() {
            let reason = writing_reason(ctx, &found);
            self.follow_writers.moves_to(now, to, reason);
        }
    }

    /// Logs once that leadership is being transferred, and to which member.
    pub(super) fn announce_leader_transfer(&mut self, ctx: &Context) {
        let target = ctx.core.leader_transfer_target();
        let Some(to) = self.leader_priority.transfer_to_announce(target) else {
            return;
        };
        let name = ctx.name_of(to);
        let own = ctx.core.leader_preference().weight;
        let heavier = ctx.core.weight_of(to).filter(|weight| *weight > own);
        let weights = heavier.map_or_else(String::new, |weight| {
            format!(", whose weight is {weight}; that of this member is {own}")
        });
        let disk = if self.disk_watch.is_stalled() {
            ", because the disk of this member's log has stalled"
        } else {
            ""
        };
        let writers = self.follow_writers.take_reason(to).unwrap_or_default();
        let text = format!("handing leadership over to {name}{weights}{disk}{writers}");
        ctx.note(Topic::Leadership, Level::Info, text);
    }
}

/// Voters with a database that could lead now: their logs have reached `committed`.
fn fit_voters(ctx: &Context, committed: LogIndex) -> impl Iterator<Item = FitVoter> + '_ {
    let (core, answering) = (&ctx.core, ctx.answering());
    core.progress().filter_map(move |progress| {
        let member = core.config().config.members.get(&progress.member)?;
        let is_voter = member.role == Role::Voter && member.has_data;
        let answers = answering.contains(&progress.member);
        let is_fit = is_voter && answers && progress.match_index >= committed;
        is_fit.then_some(FitVoter {
            member: progress.member,
            weight: core.weight_of(progress.member)?,
            log_end: progress.match_index,
        })
    })
}

fn writing_reason(ctx: &Context, found: &WritingPlace) -> String {
    let place = match &found.place {
        Place::Region(region) => format!("region {region}"),
        Place::Member(member) => ctx.name_of(*member),
    };
    format!(
        ", because {} % of the transactions come from {place}",
        found.percent
    )
}
