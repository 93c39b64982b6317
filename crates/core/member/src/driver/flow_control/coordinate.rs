//! The driver's dealings with [`super::FlowControl`]: how far this member's database is goes to the
//! leader beside acknowledgements; the leader admits actions at the databases' pace, and says so.

use std::time::Duration;

use synod_consensus::{Body, MemberId, Message, Seqno};
use synod_wire::{AppliedPosition, MemberLag, PaceReport, PeerMessage};

use super::appliers::Needed;
use super::throttle_watch::ThrottleNews;
use crate::driver::Driver;
use crate::host::{Level, Topic};
use crate::shared::{PaceStatus, lock};

impl Driver {
    // --- feedback ----------------------------------------------------------------------------

    /// Actions up to `seqno` are committed.
    pub(in crate::driver) fn pace_committed(&mut self, seqno: Seqno) {
        let left = self.ctx.links.shared.left();
        self.flow_control
            .own_lag
            .committed(self.ctx.turns.now, seqno, left);
    }

    /// This member's database, as other members are told of it.
    pub(in crate::driver) fn applied_position(&self) -> AppliedPosition {
        let shared = &self.ctx.links.shared;
        let (left, released) = (shared.left(), shared.applied());
        AppliedPosition {
            session: self.ctx.identity.me.session,
            state: self.ctx.data_state,
            left,
            released,
            lag_us: micros(self.flow_control.own_lag.lag(self.ctx.turns.now, left)),
        }
    }

    /// A message is about to be sent. If it acknowledges something to the leader, how far the
    /// database is goes with it, in the same flush, unless the leader knows that.
    pub(in crate::driver) fn tell_position_with(&mut self, message: &Message) {
        let acknowledges = matches!(
            message.body,
            Body::AppendReply(_) | Body::HeartbeatReply { .. }
        );
        if acknowledges && self.ctx.core.leader() == Some(message.to) {
            self.tell_position(message.to);
        }
    }

    fn tell_position(&mut self, leader: MemberId) {
        let position = self.applied_position();
        let is_same = |last: &AppliedPosition| {
            // A lag that only grows says nothing new: the leader counts on by itself.
            let is_idle = position.lag_us == 0 && last.lag_us == 0;
            let lag_us = if is_idle { 0 } else { position.lag_us };
            *last == AppliedPosition { lag_us, ..position }
        };
        let told = self.flow_control.told.filter(|(told, _)| *told == leader);
        if told.is_none_or(|(_, last)| !is_same(&last)) {
            self.flow_control.told = Some((leader, position));
            self.ctx
                .send(leader, PeerMessage::AppliedPosition(position));
        }
    }

    /// Says how far the database is, whether that has changed or not: what was sent may be lost.
    pub(in crate::driver) fn repeat_position(&mut self) {
        self.flow_control.told = None;
        if let Some(leader) = self.ctx.core.leader() {
            self.tell_position(leader);
        }
    }

    /// How far the database of a member is, for the leader, or because this member has asked.
    pub(in crate::driver) fn handle_applied_position(
        &mut self,
        from: MemberId,
        position: AppliedPosition,
    ) {
        if self.ctx.core.is_leader() {
            self.flow_control
                .appliers
                .note(self.ctx.turns.now, from, position);
        }
        self.position_told(from, position);
    }

    // --- admission, as the leader ------------------------------------------------------------

    /// Brings the rate of admission up to date.
    pub(in crate::driver) fn follow_appliers(&mut self) {
        let now = self.ctx.turns.now;
        if !self.ctx.core.is_leader() || !self.flow_control.is_look_due(now) {
            return;
        }
        let position = self.applied_position();
        let me = self.ctx.identity.me.member;
        self.flow_control.appliers.note(now, me, position);
        let config = &self.ctx.core.config().config;
        let presence = &self.membership.presence;
        let voters = config.voters().filter(|id| {
            let member = config.members.get(id);
            member.is_some_and(|member| member.has_data)
        });
        let counted = voters.filter_map(|id| Some((id, presence.session_of(id)?)));
        let committed = self.ctx.links.shared.commit_seqno();
        self.flow_control.appliers.look(now, committed);
        let needed = self.databases_needed();
        let appliers = &self.flow_control.appliers;
        let majority = appliers.best_majority(now, committed, counted, needed);
        self.flow_control.admission.follow(now, majority);
    }

    fn databases_needed(&self) -> Needed {
        let config = &self.ctx.core.config().config;
        let answering = self.answering();
        let is_logger = |id: &MemberId| {
            let member = config.members.get(id);
            answering.contains(id) && member.is_some_and(|member| !member.has_data)
        };
        let loggers = config.voters().filter(is_logger).count();
        let patience = self.ctx.identity.config.suspect;
        Needed::new(config.voters().count(), loggers, patience)
    }

    /// Whether proposals wait for their admission now.
    pub(in crate::driver) fn note_throttled(&mut self) {
        let now = self.ctx.turns.now;
        let waits =
            self.proposals.ordering.waiting() > 0 && !self.flow_control.admission.has_room(now);
        self.flow_control.admission.note_waiting(now, waits);
    }

    /// Leader only: says to all members at which pace actions are admitted, and why.
    pub(in crate::driver) fn announce_pace(&mut self) {
        let admission = &self.flow_control.admission;
        let (paused, pauses) = admission.pauses();
        let (slowest, slowest_lag) = admission.slowest().unwrap_or_default();
        let committed = self.ctx.links.shared.commit_seqno();
        let lags = self
            .flow_control
            .appliers
            .lags(self.ctx.turns.now, committed);
        let report = PaceReport {
            term: self.ctx.core.term(),
            rate: admission.rate().unwrap_or(0),
            paused_us: micros(paused),
            pauses,
            slowest,
            slowest_lag_us: micros(slowest_lag),
            members: lags
                .filter(|(id, _, _)| self.ctx.core.config().config.members.contains_key(id))
                .map(|(member, left, lag)| MemberLag {
                    member,
                    left,
                    lag_us: micros(lag),
                })
                .collect(),
        };
        let me = self.ctx.identity.me.member;
        let members = self.ctx.core.config().config.members.keys();
        for member in members.filter(|id| **id != me) {
            self.ctx.send(*member, PeerMessage::Pace(report.clone()));
        }
        self.flow_control.announced.note(me, report);
    }

    /// The leader's pace.
    pub(in crate::driver) fn handle_pace(&mut self, from: MemberId, report: PaceReport) {
        if report.term == self.ctx.core.term() && self.ctx.core.leader() == Some(from) {
            self.flow_control
                .announced
                .note(self.ctx.identity.me.member, report);
        }
    }

    // --- status ------------------------------------------------------------------------------

    /// Says when writes begin to wait for databases, and when they do not any more.
    pub(in crate::driver) fn watch_throttling(&mut self) {
        let (paused, pauses, _) = self.flow_control.announced.counters();
        let news = self
            .flow_control
            .throttle_watch
            .look(self.ctx.turns.now, pauses, paused);
        let text = match news {
            None => return,
            Some(ThrottleNews::Begins) => format!("writes are slowed down{}", self.slowest_text()),
            Some(ThrottleNews::Ends(took)) => format!(
                "writes are not slowed down any more; they have waited for {:.1} s in all",
                took.as_secs_f64()
            ),
        };
        self.ctx.note(Topic::Pace, Level::Info, text);
    }

    fn slowest_text(&self) -> String {
        let last = self.flow_control.announced.last();
        let known = last.filter(|last| last.slowest != MemberId::NONE);
        known.map_or_else(String::new, |last| {
            let lag_ms = last.slowest_lag_us / 1000;
            let name = self.ctx.name_of(last.slowest);
            format!(": {name} lags {lag_ms} ms and is needed for a majority")
        })
    }

    pub(in crate::driver) fn publish_pace(&mut self) {
        let own_lag = self
            .flow_control
            .own_lag
            .lag(self.ctx.turns.now, self.ctx.links.shared.left());
        let (paused, pauses, caused) = self.flow_control.announced.counters();
        let committed = self.ctx.links.shared.commit_seqno();
        let mut pace = PaceStatus {
            own_lag,
            paused,
            pauses,
            caused,
            ..PaceStatus::default()
        };
        if let Some(last) = self.flow_control.announced.last() {
            pace.rate = last.rate;
            if last.slowest != MemberId::NONE {
                pace.slowest = self.ctx.name_of(last.slowest);
            }
            pace.slowest_lag = Duration::from_micros(last.slowest_lag_us);
            let lags = last.members.iter().map(|lag| {
                let actions = committed.0.saturating_sub(lag.left.0).max(0);
                let actions = u64::try_from(actions).unwrap_or(0);
                let time = Duration::from_micros(lag.lag_us);
                (self.ctx.name_of(lag.member), actions, time)
            });
            pace.lags = lags.collect();
        }
        lock(&self.ctx.links.shared.status).pace = pace;
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
