//! Leadership: this member hears a leader, leads itself, or serves without a majority by order.
//!
//! The consensus core decides which voter should lead, by the reasons in its
//! `election/succession.rs`. This component tells the core what it cannot know by itself:
//!
//! - [`reported`]: the weights of the members that are fit to lead, and their regions;
//! - [`WriterCounts`]: whether nearly all writes come from another region;
//! - [`DiskWatch`]: whether this member's disk keeps up. If not, it is no candidate either.
//!
//! And it follows what came of it:
//!
//! - [`PrimaryWatch`]: whether this member is primary. A lost majority is noticed there.
//! - [`ForcedPrimary`]: whether it continues without a majority, by order or by policy.
//! - [`Elections`]: the leader before, and the reason why another member is elected.

mod commit_regions;
mod elections;
mod primary;
mod reported;
mod stalled_disk;
mod writers;

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{
    ForceError, LeaderWeight, MemberId, Preferred, Reason, Term, Time, Writers, WritingPlace,
};
use synod_wire::Report;

use super::context::Context;
use super::membership::Membership;
use super::own_log::RepairNews;
use crate::config::MemberConfig;
use crate::host::{Election, Level, Topic};
use crate::tuning::Tuning;
use commit_regions::RegionWatch;
use elections::{Cause, Elections};
use primary::{ForcedPrimary, PrimaryWatch};
use reported::Regions;
use stalled_disk::{DiskNews, DiskWatch};
use writers::{Place, WriterCounts};

pub use primary::QuorumLossPolicy;
pub(super) use primary::has_action;
pub use writers::LeaderPlacement;

pub(super) struct Leadership {
    pub(super) forced_primary: ForcedPrimary,
    pub(super) regions: Regions,
    region_watch: RegionWatch,
    pub(super) writers: WriterCounts,
    /// For how long nearly all writes must come from elsewhere, and for how long a member leads at
    /// least, before leadership follows the writers.
    writers_trial: Duration,
    leader_pause: Duration,
    pub(super) disk_watch: DiskWatch,
    pub(super) primary: PrimaryWatch,
    pub(super) elections: Elections,
    announced: Option<Preferred>,
}

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
            regions: Regions::new(me, config.region.clone()),
            region_watch: RegionWatch::default(),
            writers: WriterCounts::new(tuning, now),
            writers_trial: tuning.writers_trial,
            leader_pause: tuning.leader_pause,
            disk_watch: DiskWatch::new(tuning.disk_patience),
            primary: PrimaryWatch::new(now, step_down),
            elections: Elections::default(),
            announced: None,
        }
    }

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

    pub(super) fn begin_leading(&mut self, ctx: &mut Context) {
        self.writers.forget(ctx.turns.now);
        ctx.core.set_writing_place(None);
        self.place_voters(ctx);
    }

    /// A member reports to this leader, which may not know it as present yet: its commits may have
    /// to wait until it knows the regions.
    pub(super) fn hear_region(&mut self, ctx: &mut Context, from: MemberId, report: &Report) {
        let is_news = ctx.core.is_leader() && report.member == from && self.regions.hear(report);
        if is_news {
            self.place_voters(ctx);
            self.publish_members(ctx);
        }
    }

    fn place_voters(&self, ctx: &mut Context) {
        let now = ctx.turns.now;
        ctx.core.set_regions(now, self.regions.numbers());
    }

    pub(super) fn watch_regions(&mut self, ctx: &mut Context) {
        if ctx.core.is_leader() {
            self.place_voters(ctx);
        }
        self.region_watch.look(ctx, &self.regions);
    }

    pub(super) fn watch_disk(&mut self, ctx: &mut Context) {
        let now = ctx.turns.now;
        match self.disk_watch.look(now) {
            Some(DiskNews::Stalled(oldest)) => {
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
                let text = "the disk of this member's log answers again";
                ctx.note(Topic::Log, Level::Info, text);
            }
            None => {}
        }
        ctx.core.set_stalled_disk(self.disk_watch.stalled());
    }

    /// The weight that this member reports: zero while its disk has stalled.
    pub(super) fn reported_weight(&self, ctx: &Context) -> LeaderWeight {
        let own = ctx.core.leader_preference().weight;
        let none = LeaderWeight::new(0).filter(|_| self.disk_watch.stalled().is_some());
        none.unwrap_or(own)
    }

    pub(super) fn weigh_reports(&mut self, ctx: &mut Context, membership: &Membership) {
        let config = &ctx.core.config().config;
        let reports = || membership.presence.reports();
        let moved = self.regions.note(config, reports());
        let weights = reported::weights(config, reports());
        self.set_leader_weights(ctx, weights, moved);
    }

    pub(super) fn weigh_status(&mut self, ctx: &mut Context, members: &[Report]) {
        let config = &ctx.core.config().config;
        let moved = self.regions.note(config, members.iter());
        let weights = reported::weights(config, members.iter());
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

    /// Leader only: tells the core from where nearly all writes come, if that is elsewhere and an
    /// operator wants leadership there.
    pub(super) fn watch_writers(&mut self, ctx: &mut Context) {
        let (now, me) = (ctx.turns.now, ctx.identity.me.member);
        let config = &ctx.core.config().config;
        let regions = &self.regions;
        let place_of = |id| Place::of(id, regions.of(id));
        if config.settings.writers == Writers::Leader {
            // Whatever others have written before is no reason any more.
            self.writers.forget(now);
        } else {
            self.writers.look(now, &place_of(me), place_of);
        }
        let place = self.writers.found().map(|found| {
            let there = config
                .members
                .keys()
                .filter(|id| place_of(**id) == found.place);
            let writes = |id| (id, found.actions.get(&id).copied().unwrap_or_default());
            WritingPlace {
                writes: there.copied().map(writes).collect(),
                trial_us: self.writers_trial.as_micros() as u64,
                pause_us: self.leader_pause.as_micros() as u64,
            }
        });
        ctx.core.set_writing_place(place);
    }

    /// Logs once that leadership is being transferred, to which member, and why.
    pub(super) fn announce_leader_transfer(&mut self, ctx: &Context) {
        let transfer = ctx.core.leader_transfer();
        let known = std::mem::replace(&mut self.announced, transfer);
        let Some(Preferred { member, because }) = transfer.filter(|_| transfer != known) else {
            return;
        };
        let why = match because {
            Reason::Ordered => String::new(),
            Reason::StalledDisk => ", because the disk of this member's log has stalled".to_owned(),
            Reason::Rank => self.text_of_rank(ctx, member),
            Reason::Writers => self.text_of_writers(ctx),
        };
        let text = format!("handing leadership over to {}{why}", ctx.name_of(member));
        ctx.note(Topic::Leadership, Level::Info, text);
    }

    fn text_of_rank(&self, ctx: &Context, member: MemberId) -> String {
        let own = ctx.core.leader_preference().weight;
        let weight = ctx.core.weight_of(member).filter(|weight| *weight > own);
        weight.map_or_else(
            || ", because this member has no database".to_owned(),
            |weight| format!(", whose weight is {weight}; that of this member is {own}"),
        )
    }

    fn text_of_writers(&self, ctx: &Context) -> String {
        self.writers.found().map_or_else(String::new, |found| {
            let place = match &found.place {
                Place::Region(region) => format!("region {region}"),
                Place::Member(member) => ctx.name_of(*member),
            };
            let percent = found.percent;
            format!(", because {percent} % of the transactions come from {place}")
        })
    }
}
