//! Flow control: one component, [`FlowControl`], decides at which pace actions are admitted.
//!
//! A database applies what is ordered, and may be slower than the group orders. The leader admits
//! actions so that the lag of the majority that keeps up best stays within a bound. A minority that
//! is slower never slows the group: it lags, and says so.
//!
//! ```text
//! every member   own lag     for how long the database has lacked a committed action
//!                            -> beside each acknowledgement, to the leader
//! the leader     appliers    position and lag of the best majority
//!                drain_rate  actions per second that leave its commit order
//!                admission   lag and drain rate -> rate of admission -> token bucket
//!                            -> to all members, with the status
//! every member   announced   how long and how often proposals waited
//!                throttle_watch   tells operators of it
//! ```
//!
//! Rates are integers and time is an argument: equal inputs give equal answers.

mod admission;
mod announced;
mod appliers;
mod drain_rate;
mod throttle_watch;
mod token_bucket;

use std::time::Duration;

use synod_consensus::{Body, MemberId, Message, Seqno, Time};
use synod_wire::{AppliedPosition, MemberLag, PaceReport, PeerMessage};

use super::commit_times::CommitTimes;
use super::context::Context;
use super::membership::Membership;
use super::proposals::Proposals;
use crate::host::{Level, Topic};
use crate::shared::{PaceStatus, lock};
use admission::Admission;
use announced::Announced;
use appliers::{Appliers, Needed};
use throttle_watch::{ThrottleNews, ThrottleWatch};

/// Feedback up to this age describes an applier; what lacks something and is silent for longer is
/// taken to lag more by the rest.
const FEEDBACK_AGE_MAX: Duration = Duration::from_millis(300);
/// The leader looks at the databases this often at most.
const LOOK_PERIOD: Duration = Duration::from_millis(2);

pub(super) struct FlowControl {
    own_lag: CommitTimes,
    appliers: Appliers,
    admission: Admission,
    announced: Announced,
    throttle_watch: ThrottleWatch,
    /// The position that a leader was told last, and that leader.
    told: Option<(MemberId, AppliedPosition)>,
    next_look: Time,
}

impl FlowControl {
    /// `lag_max` zero: the lag is not bounded.
    pub(super) fn new(lag_max: Duration, now: Time) -> FlowControl {
        FlowControl {
            own_lag: CommitTimes::default(),
            appliers: Appliers::default(),
            admission: Admission::new(lag_max),
            announced: Announced::default(),
            throttle_watch: ThrottleWatch::default(),
            told: None,
            next_look: now,
        }
    }

    pub(super) fn set_lag_max(&mut self, lag_max: Duration) {
        self.admission.set_lag_max(lag_max);
    }

    pub(super) fn leader_changed(&mut self, now: Time) {
        self.appliers.clear();
        self.admission.reset(now);
        self.told = None;
    }

    /// The log was reset: what this member's database lacks is not known.
    pub(super) fn log_reset(&mut self) {
        self.own_lag.reset();
    }

    pub(super) fn has_room_for_action(&mut self, now: Time) -> bool {
        self.admission.has_room(now)
    }

    pub(super) fn action_appended(&mut self) {
        self.admission.admitted();
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        self.admission.wake_at()
    }

    fn is_look_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.next_look;
        if is_due {
            self.next_look = now.plus(LOOK_PERIOD);
        }
        is_due
    }
}

impl FlowControl {
    pub(super) fn pace_committed(&mut self, ctx: &Context, seqno: Seqno) {
        let left = ctx.links.shared.left();
        self.own_lag.committed(ctx.turns.now, seqno, left);
    }

    pub(super) fn applied_position(&self, ctx: &Context) -> AppliedPosition {
        let shared = &ctx.links.shared;
        let (left, released) = (shared.left(), shared.applied());
        AppliedPosition {
            session: ctx.identity.me.session,
            state: ctx.data_state,
            left,
            released,
            lag_us: micros(self.own_lag.lag(ctx.turns.now, left)),
        }
    }

    /// A message is about to be sent. If it acknowledges something to the leader, how far the
    /// database is goes with it, in the same flush, unless the leader knows that.
    pub(super) fn tell_position_with(&mut self, ctx: &Context, message: &Message) {
        let acknowledges = matches!(
            message.body,
            Body::AppendReply(_) | Body::HeartbeatReply { .. }
        );
        if acknowledges && ctx.core.leader() == Some(message.to) {
            self.tell_position(ctx, message.to);
        }
    }

    fn tell_position(&mut self, ctx: &Context, leader: MemberId) {
        let position = self.applied_position(ctx);
        let is_same = |last: &AppliedPosition| {
            // A lag that only grows says nothing new: the leader counts on by itself.
            let is_idle = position.lag_us == 0 && last.lag_us == 0;
            let lag_us = if is_idle { 0 } else { position.lag_us };
            *last == AppliedPosition { lag_us, ..position }
        };
        let told = self.told.filter(|(told, _)| *told == leader);
        if told.is_none_or(|(_, last)| !is_same(&last)) {
            self.told = Some((leader, position));
            ctx.send(leader, PeerMessage::AppliedPosition(position));
        }
    }

    /// Says how far the database is, whether that has changed or not: what was sent may be lost.
    pub(super) fn repeat_position(&mut self, ctx: &Context) {
        self.told = None;
        if let Some(leader) = ctx.core.leader() {
            self.tell_position(ctx, leader);
        }
    }

    pub(super) fn note_position(
        &mut self,
        ctx: &Context,
        from: MemberId,
        position: AppliedPosition,
    ) {
        if ctx.core.is_leader() {
            self.appliers.note(ctx.turns.now, from, position);
        }
    }

    pub(super) fn follow_appliers(&mut self, ctx: &Context, membership: &Membership) {
        let now = ctx.turns.now;
        if !ctx.core.is_leader() || !self.is_look_due(now) {
            return;
        }
        let position = self.applied_position(ctx);
        let me = ctx.identity.me.member;
        self.appliers.note(now, me, position);
        let config = &ctx.core.config().config;
        let presence = &membership.presence;
        let voters = config.voters().filter(|id| {
            let member = config.members.get(id);
            member.is_some_and(|member| member.has_data)
        });
        let counted = voters.filter_map(|id| Some((id, presence.session_of(id)?)));
        let committed = ctx.links.shared.commit_seqno();
        self.appliers.look(now, committed);
        let needed = databases_needed(ctx);
        let appliers = &self.appliers;
        let majority = appliers.best_majority(now, committed, counted, needed);
        self.admission.follow(now, majority);
    }

    /// Whether proposals wait for their admission now.
    pub(super) fn note_throttled(&mut self, ctx: &Context, proposals: &Proposals) {
        let now = ctx.turns.now;
        let waits = proposals.ordering.waiting() > 0 && !self.admission.has_room(now);
        self.admission.note_waiting(now, waits);
    }

    pub(super) fn announce_pace(&mut self, ctx: &Context) {
        let admission = &self.admission;
        let (paused, pauses) = admission.pauses();
        let (slowest, slowest_lag) = admission.slowest().unwrap_or_default();
        let committed = ctx.links.shared.commit_seqno();
        let lags = self.appliers.lags(ctx.turns.now, committed);
        let report = PaceReport {
            term: ctx.core.term(),
            rate: admission.rate().unwrap_or(0),
            paused_us: micros(paused),
            pauses,
            slowest,
            slowest_lag_us: micros(slowest_lag),
            members: lags
                .filter(|(id, _, _)| ctx.core.config().config.members.contains_key(id))
                .map(|(member, left, lag)| MemberLag {
                    member,
                    left,
                    lag_us: micros(lag),
                })
                .collect(),
        };
        let me = ctx.identity.me.member;
        let members = ctx.core.config().config.members.keys();
        for member in members.filter(|id| **id != me) {
            ctx.send(*member, PeerMessage::Pace(report.clone()));
        }
        self.announced.note(me, report);
    }

    pub(super) fn handle_pace(&mut self, ctx: &Context, from: MemberId, report: PaceReport) {
        if report.term == ctx.core.term() && ctx.core.leader() == Some(from) {
            self.announced.note(ctx.identity.me.member, report);
        }
    }

    pub(super) fn watch_throttling(&mut self, ctx: &Context) {
        let (paused, pauses, _) = self.announced.counters();
        let news = self.throttle_watch.look(ctx.turns.now, pauses, paused);
        let text = match news {
            None => return,
            Some(ThrottleNews::Begins) => {
                format!("writes are slowed down{}", self.slowest_text(ctx))
            }
            Some(ThrottleNews::Ends(took)) => format!(
                "writes are not slowed down any more; they have waited for {:.1} s in all",
                took.as_secs_f64()
            ),
        };
        ctx.note(Topic::Pace, Level::Info, text);
    }

    fn slowest_text(&self, ctx: &Context) -> String {
        let last = self.announced.last();
        let known = last.filter(|last| last.slowest != MemberId::NONE);
        known.map_or_else(String::new, |last| {
            let lag_ms = last.slowest_lag_us / 1000;
            let name = ctx.name_of(last.slowest);
            format!(": {name} lags {lag_ms} ms and is needed for a majority")
        })
    }

    pub(super) fn publish_pace(&self, ctx: &Context) {
        let own_lag = self.own_lag.lag(ctx.turns.now, ctx.links.shared.left());
        let (paused, pauses, caused) = self.announced.counters();
        let committed = ctx.links.shared.commit_seqno();
        let mut pace = PaceStatus {
            own_lag,
            paused,
            pauses,
            caused,
            ..PaceStatus::default()
        };
        if let Some(last) = self.announced.last() {
            pace.rate = last.rate;
            if last.slowest != MemberId::NONE {
                pace.slowest = ctx.name_of(last.slowest);
            }
            pace.slowest_lag = Duration::from_micros(last.slowest_lag_us);
            let lags = last.members.iter().map(|lag| {
                let actions = committed.0.saturating_sub(lag.left.0).max(0);
                let actions = u64::try_from(actions).unwrap_or(0);
                let time = Duration::from_micros(lag.lag_us);
                (ctx.name_of(lag.member), actions, time)
            });
            pace.lags = lags.collect();
        }
        lock(&ctx.links.shared.status).pace = pace;
    }
}

fn databases_needed(ctx: &Context) -> Needed {
    let config = &ctx.core.config().config;
    let answering = ctx.answering();
    let is_logger = |id: &MemberId| {
        let member = config.members.get(id);
        answering.contains(id) && member.is_some_and(|member| !member.has_data)
    };
    let loggers = config.voters().filter(is_logger).count();
    let patience = ctx.identity.config.suspect;
    Needed::new(config.voters().count(), loggers, patience)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
