//! Membership: this member's way in and out of the group, and the leader's care for the others.
//!
//! [`Membership`] has these parts, and none of them knows another:
//!
//! - [`Join`]: this member's way into the group, until it gives up;
//! - [`JoinWatch`]: the time that this has taken, to be logged;
//! - [`Admission`]: the leader's decision about a member that asks to join;
//! - [`Presence`]: which members live: when each was heard, what calls to it have found, in which
//!   session it is present for a leader, and what it has reported (`attendance` tells operators);
//! - [`Views`]: the views in the log, and the one that is committed;
//! - [`Leave`]: the steps of this member's orderly shutdown;
//! - [`ProtocolVersion`]: the group's protocol version, as this member obeys it.

mod admission;
mod as_leader;
mod as_member;
mod attendance;
mod join;
mod join_watch;
mod leave;
mod presence;
mod protocol_version;
mod views;
mod voter_policy;
mod voters;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{Config, MemberId, Seqno};
use synod_log::{LogFormat, LogReader};

use super::context::Context;
use crate::config::StartMode;
use crate::payload::view::View;
use crate::tuning::Tuning;
use admission::Admission;
use join::Join;
use join_watch::JoinWatch;
use leave::Leave;
use presence::Presence;
use protocol_version::ProtocolVersion;

pub(super) use as_leader::{correct_own_record, raise_protocol};
pub(super) use as_member::announce_shared_name;
pub(super) use leave::LEAVE_LIMIT;
pub(super) use presence::{Finding, Signs};
pub(super) use views::Views;
pub use voter_policy::VoterPolicy;

/// Members of the group, as this member knows them, itself included.
pub(super) struct Membership {
    pub(super) join: Join,
    pub(super) join_watch: JoinWatch,
    pub(super) admission: Admission,
    pub(super) presence: Presence,
    /// Addresses at which readers reach members that have reported; empty: no reader does.
    pub(super) readers_at: BTreeMap<MemberId, String>,
    pub(super) leave: Leave,
    pub(super) protocol: ProtocolVersion,
    log_format: LogFormat,
    /// Leader only: the learner for which a dead voter has lost its vote, until it votes.
    pub(super) successor: Option<MemberId>,
    /// A learner that was silent for so long is forgotten.
    pub(super) learner_patience: Duration,
}

impl Membership {
    pub(super) fn new(mode: StartMode, reader: &LogReader, tuning: &Tuning) -> Membership {
        Membership {
            join: Join::new(mode),
            join_watch: JoinWatch::default(),
            admission: Admission::new(tuning.join_backlog),
            presence: Presence::default(),
            readers_at: BTreeMap::new(),
            leave: Leave::new(tuning.slow_tick),
            protocol: ProtocolVersion::default(),
            log_format: reader.format(),
            successor: None,
            learner_patience: tuning.learner_patience,
        }
    }

    /// Leader only: the view that the leader `me` is to announce, if it is another one than the
    /// latest. `unknown` is its number if the log has lost the views before: one above all that
    /// they can have had.
    fn next_view(
        &mut self,
        views: &Views,
        me: MemberId,
        config: &Config,
        unknown: u64,
    ) -> Option<View> {
        let mut members = self.presence.members();
        members.retain(|m| config.members.get(&m.member).is_some_and(|c| c.has_data));
        let latest = views.latest();
        let lost = latest.map_or_else(BTreeSet::new, |view| {
            self.presence.lost_quorum_since_view(view)
        });
        // A member that is taken out of one view is in the next again. If the leader itself has
        // lost the group, no view could be announced without it, and the latest one is repeated.
        let repeats = self.admission.take_repeat() || lost.contains(&me);
        members.retain(|m| repeats || !lost.contains(&m.member));
        if !repeats && latest.is_some_and(|view| view.members == members) {
            return None;
        }
        Some(View {
            seqno: Seqno::UNDEFINED,
            number: latest.map_or(unknown, |view| view.number + 1),
            members,
        })
    }

    pub(super) fn database_seqno(&self, ctx: &Context) -> Seqno {
        let database = ctx.database();
        let at_start = if database.group == ctx.identity.group {
            database.seqno
        } else {
            Seqno(0)
        };
        if self.join.is_completed() {
            ctx.links.shared.applied().max(at_start)
        } else {
            at_start
        }
    }

    /// Whether the member has reported, since it started, that its database is whole; or is to have
    /// none.
    pub(super) fn has_whole_database(&self, ctx: &Context, member: MemberId) -> bool {
        let members = &ctx.core.config().config.members;
        if members.get(&member).is_some_and(|known| !known.has_data) {
            return true;
        }
        let presence = &self.presence;
        let session = presence.session_of(member);
        let mut reports = presence.reports();
        reports.any(|report| {
            let is_current = report.member == member && session == Some(report.session);
            is_current && report.state.is_whole()
        })
    }

    /// Whether this member is looking for its group: it has not joined, or has lost it.
    pub(super) fn is_searching(&self, ctx: &Context) -> bool {
        !self.join.has_joined() || ctx.core.leader().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::example_groups::with_logger;
    use crate::payload::view::ViewMember;
    use synod_consensus::{LogIndex, SessionId, Time};
    use synod_wire::{DataState, Report};

    fn member(id: u64) -> ViewMember {
        ViewMember {
            member: MemberId(id),
            session: SessionId(1),
            name: format!("node{id}"),
            incoming: String::new(),
        }
    }

    fn membership() -> Membership {
        Membership {
            join: Join::new(StartMode::Join),
            join_watch: JoinWatch::default(),
            admission: Admission::new(1000),
            presence: Presence::default(),
            readers_at: BTreeMap::new(),
            leave: Leave::new(Duration::from_millis(250)),
            protocol: ProtocolVersion::default(),
            log_format: LogFormat::default(),
            successor: None,
            learner_patience: Duration::MAX,
        }
    }

    /// Announces the next view; its number and members.
    fn announce(membership: &mut Membership, views: &mut Views) -> Option<(u64, Vec<u64>)> {
        let view = membership.next_view(views, MemberId(1), &with_logger(1..=3), 1)?;
        let ids = view.members.iter().map(|m| m.member.0).collect();
        let number = view.number;
        views.appended(LogIndex(number), view);
        Some((number, ids))
    }

    #[test]
    fn view_has_the_present_members_with_databases_and_is_announced_once() {
        let (mut membership, mut views) = (membership(), Views::default());
        for id in [1, 3] {
            membership.presence.enter(Time(5), member(id));
        }
        assert_eq!(announce(&mut membership, &mut views), Some((1, vec![1])));
        assert_eq!(announce(&mut membership, &mut views), None);
        membership.presence.enter(Time(5), member(2));
        assert_eq!(announce(&mut membership, &mut views), Some((2, vec![1, 2])));
    }

    #[test]
    fn member_that_has_lost_the_group_misses_one_view() {
        let (mut membership, mut views) = (membership(), Views::default());
        for id in [1, 2] {
            membership.presence.enter(Time(5), member(id));
        }
        let report = |id, state| Report {
            member: MemberId(id),
            session: SessionId(1),
            state,
            ..Report::default()
        };
        announce(&mut membership, &mut views);
        membership
            .presence
            .report(report(2, DataState::Disconnected));
        assert_eq!(announce(&mut membership, &mut views), Some((2, vec![1])));
        assert_eq!(announce(&mut membership, &mut views), Some((3, vec![1, 2])));
        membership.presence.report(report(2, DataState::Synced));
        membership
            .presence
            .report(report(1, DataState::Disconnected));
        let repeated = announce(&mut membership, &mut views);
        assert_eq!(repeated, Some((4, vec![1, 2])), "the leader itself");
    }
}
