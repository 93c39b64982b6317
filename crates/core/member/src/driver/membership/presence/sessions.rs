//! Sessions in which members are present for a leader, with their reports. A new leader starts from
//! the latest view and gives each of its members a grace period.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{Config, MemberId, SessionId, Time};
use synod_wire::{DataState, Report};

use super::Presence;
use crate::payload::view::{View, ViewMember};

impl Presence {
    /// A leadership begins with the members of the latest view. Each of them has a grace period.
    pub(in crate::driver) fn begin(&mut self, now: Time, view: Option<&View>, me: ViewMember) {
        self.clear();
        for member in view.iter().flat_map(|view| &view.members) {
            self.present.insert(member.member, member.clone());
            self.known.entry(member.member).or_default().in_grace = Some(now);
        }
        self.enter(now, me);
    }

    /// A leadership begins with those members of the latest view that sent a message within
    /// `limit`.
    pub(in crate::driver) fn begin_with_live_members(
        &mut self,
        now: Time,
        view: Option<&View>,
        me: ViewMember,
        limit: Duration,
    ) {
        self.clear();
        for member in view.iter().flat_map(|view| &view.members) {
            if self.is_alive(now, member.member, limit) {
                self.present.insert(member.member, member.clone());
            }
        }
        self.enter(now, me);
    }

    fn clear(&mut self) {
        self.silence_counts_from = None;
        self.present.clear();
        self.leavers.clear();
        self.fresh.clear();
        self.left.clear();
    }

    pub(in crate::driver::membership) fn has_left(&self, member: MemberId) -> bool {
        self.left.contains(&member)
    }

    pub(in crate::driver::membership) fn enter(&mut self, now: Time, member: ViewMember) {
        self.heard(now, member.member);
        self.leavers.remove(&member.member);
        self.left.remove(&member.member);
        self.present.insert(member.member, member);
    }

    pub(in crate::driver::membership) fn exit(
        &mut self,
        member: MemberId,
        session: SessionId,
    ) -> bool {
        let same = self
            .present
            .get(&member)
            .is_some_and(|p| p.session == session);
        if same {
            self.present.remove(&member);
            self.reports.remove(&member);
            self.left.insert(member);
        }
        same
    }

    /// Removes members that sent nothing for `limit`, but never `me`; returns their names.
    pub(in crate::driver) fn expire(
        &mut self,
        now: Time,
        me: MemberId,
        limit: Duration,
    ) -> Vec<String> {
        let present = self.present.keys().copied();
        let silent = present.filter(|id| *id != me && !self.is_alive(now, *id, limit));
        let silent: Vec<MemberId> = silent.collect();
        let gone = silent.iter().filter_map(|id| {
            self.reports.remove(id);
            self.present.remove(id)
        });
        gone.map(|member| member.name).collect()
    }

    /// Present members in the order of [`View::members`].
    pub(in crate::driver) fn members(&self) -> Vec<ViewMember> {
        let mut members: Vec<ViewMember> = self.present.values().cloned().collect();
        members.sort_by_key(|m| (m.session, m.member));
        members
    }

    pub(in crate::driver) fn session_of(&self, member: MemberId) -> Option<SessionId> {
        self.present.get(&member).map(|present| present.session)
    }

    pub(in crate::driver) fn report(&mut self, report: Report) {
        self.fresh.insert(report.member);
        self.reports.insert(report.member, report);
    }

    /// Members of the latest view whose hosts have been in it, and have since reported the loss of
    /// the group. The next view must exclude them once: what a host rolls back because the group is
    /// lost (streamed transactions, of its own clients and of others) must be rolled back on all
    /// servers at one seqno.
    pub(in crate::driver::membership) fn lost_quorum_since_view(
        &self,
        latest: &View,
    ) -> BTreeSet<MemberId> {
        let has_lost_it = |report: &&Report| {
            report.state == DataState::Disconnected
                && report.applied >= latest.seqno
                && latest.contains(report.member, report.session)
        };
        self.reports
            .values()
            .filter(has_lost_it)
            .map(|r| r.member)
            .collect()
    }

    /// Members whose outcomes count when an action fails on some member: the present members whose
    /// databases follow the group, or that have not reported otherwise. If these are not most of
    /// those present, as after a restart of the whole group, all present members.
    pub(in crate::driver) fn electorate(&self, config: &Config) -> BTreeSet<MemberId> {
        let present = self.present.values().filter(|present| {
            let known = config.members.get(&present.member);
            known.is_some_and(|member| member.has_data)
        });
        let (following, lagging): (BTreeSet<_>, BTreeSet<_>) =
            present.map(|p| p.member).partition(|id| self.follows(*id));
        if following.len() > lagging.len() {
            following
        } else {
            &following | &lagging
        }
    }

    fn follows(&self, member: MemberId) -> bool {
        let state = self.reported_state(member);
        state.is_none_or(|state| matches!(state, DataState::Synced | DataState::Donor))
    }

    /// Whether a present member has reported to this leader that a full copy is to replace its
    /// database, or that the database has failed.
    pub(in crate::driver) fn awaits_copy(&self, member: MemberId) -> bool {
        let state = self.reported_state(member);
        matches!(state, Some(DataState::Joining | DataState::Error))
    }

    /// Reported to this leader by the member's present process.
    fn reported_state(&self, member: MemberId) -> Option<DataState> {
        let session = self.session_of(member);
        let report = self.reports.get(&member);
        let report = report.filter(|report| Some(report.session) == session);
        let report = report.filter(|_| self.fresh.contains(&member));
        report.map(|report| report.state)
    }

    pub(in crate::driver) fn all_reported(&self) -> bool {
        self.present.iter().all(|(id, member)| {
            self.reports
                .get(id)
                .is_some_and(|report| report.session == member.session)
        })
    }

    pub(in crate::driver) fn reports(&self) -> impl Iterator<Item = &Report> + Clone {
        self.reports.values()
    }

    /// A member asked to leave. What counts is when it asked first.
    pub(in crate::driver::membership) fn asked_to_leave(&mut self, now: Time, member: MemberId) {
        self.leavers.entry(member).or_insert(now);
    }

    pub(in crate::driver) fn leavers(&self) -> &BTreeMap<MemberId, Time> {
        &self.leavers
    }

    pub(in crate::driver::membership) fn let_go(&mut self, member: MemberId) {
        self.leavers.remove(&member);
    }
}
