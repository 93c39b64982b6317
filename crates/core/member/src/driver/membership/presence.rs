//! Presence of members, as a leader keeps track of it: their latest messages and reports. Every
//! member notes when others sent their last message; only a leader uses the rest. A new leader
//! starts from the latest view and gives each of its members a grace period.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{Config, MemberId, SessionId, Time};
use synod_wire::{DataState, Report};

use crate::payload::view::{View, ViewMember};

/// Most members whose last message is remembered. More than a group has: others only pass by, each
/// with an id of its own.
const HEARD_MAX: usize = 2048;

/// The component that knows which members are present. Invariant: a member that is present is not a
/// leaver.
#[derive(Default)]
pub(in crate::driver) struct Presence {
    present: BTreeMap<MemberId, ViewMember>,
    heard: BTreeMap<MemberId, Time>,
    /// When the grace period of a member began that has sent no message since.
    in_grace: BTreeMap<MemberId, Time>,
    /// Members that have left this leader, and have not asked to be present again.
    left: BTreeSet<MemberId>,
    reports: BTreeMap<MemberId, Report>,
    /// Members that have reported since this leadership began.
    fresh: BTreeSet<MemberId>,
    /// Members that asked to leave and still vote, and when they asked.
    leavers: BTreeMap<MemberId, Time>,
}

impl Presence {
    pub(in crate::driver) fn heard(&mut self, now: Time, member: MemberId) {
        self.in_grace.remove(&member);
        self.heard.insert(member, now);
        if self.heard.len() > HEARD_MAX
            && let Some(silent) = self.silent_for_longest()
        {
            self.heard.remove(&silent);
        }
    }

    fn silent_for_longest(&self) -> Option<MemberId> {
        let last_heard = self.heard.iter().map(|(id, at)| (*at, *id));
        last_heard.min().map(|(_, id)| id)
    }

    /// Members that were heard, and then those that are within their grace period.
    pub(in crate::driver) fn heard_members(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.heard.keys().chain(self.in_grace.keys()).copied()
    }

    pub(super) fn last_heard(&self, member: MemberId) -> Option<Time> {
        self.heard.get(&member).copied()
    }

    pub(super) fn has_left(&self, member: MemberId) -> bool {
        self.left.contains(&member)
    }

    pub(in crate::driver) fn forget_others(&mut self, is_kept: impl Fn(MemberId) -> bool) {
        let present = &self.present;
        self.heard
            .retain(|id, _| present.contains_key(id) || is_kept(*id));
        self.in_grace
            .retain(|id, _| present.contains_key(id) || is_kept(*id));
        self.left.retain(|id| is_kept(*id));
    }

    fn grant(&mut self, now: Time, member: MemberId) {
        self.in_grace.insert(member, now);
    }

    /// Whether the member is within its grace period: no message from it since this leader was
    /// elected. It may be alive or not.
    pub(super) fn in_grace_period(&self, member: MemberId) -> bool {
        self.in_grace.contains_key(&member)
    }

    /// Whether a message of the member came, or its grace period began, within `limit`.
    pub(in crate::driver) fn is_alive(&self, now: Time, member: MemberId, limit: Duration) -> bool {
        let signs = [self.heard.get(&member), self.in_grace.get(&member)];
        let mut signs = signs.into_iter().flatten();
        signs.any(|at| now.since(*at) < limit)
    }

    /// A leadership begins with the members of the latest view. Each of them has a grace period.
    pub(in crate::driver) fn begin(&mut self, now: Time, view: Option<&View>, me: ViewMember) {
        self.clear();
        for member in view.iter().flat_map(|view| &view.members) {
            self.present.insert(member.member, member.clone());
            self.grant(now, member.member);
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
        self.present.clear();
        self.leavers.clear();
        self.fresh.clear();
        self.left.clear();
    }

    pub(super) fn enter(&mut self, now: Time, member: ViewMember) {
        self.heard(now, member.member);
        self.leavers.remove(&member.member);
        self.left.remove(&member.member);
        self.present.insert(member.member, member);
    }

    /// The member leaves the view; false if it is present with another session, or not at all.
    pub(super) fn exit(&mut self, member: MemberId, session: SessionId) -> bool {
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
    pub(super) fn lost_quorum_since_view(&self, latest: &View) -> BTreeSet<MemberId> {
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
    pub(super) fn asked_to_leave(&mut self, now: Time, member: MemberId) {
        self.leavers.entry(member).or_insert(now);
    }

    pub(in crate::driver) fn leavers(&self) -> &BTreeMap<MemberId, Time> {
        &self.leavers
    }

    pub(super) fn let_go(&mut self, member: MemberId) {
        self.leavers.remove(&member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_only_pass_by_are_forgotten() {
        let mut presence = Presence::default();
        let member = MemberId(5);
        for stranger in 1000..5000 {
            presence.heard(Time(stranger), MemberId(stranger));
            presence.heard(Time(stranger), member);
        }
        assert_eq!(presence.heard.len(), HEARD_MAX);
        assert!(presence.is_alive(Time(5000), member, Duration::from_secs(1)));
    }
    use synod_consensus::{Member, Role, Seqno, VersionRange};

    const LONG: Duration = Duration::from_secs(3600);

    fn member(id: u64, session: u64) -> ViewMember {
        ViewMember {
            member: MemberId(id),
            session: SessionId(session),
            name: format!("node{id}"),
            incoming: String::new(),
        }
    }

    fn view(number: u64) -> View {
        View {
            seqno: Seqno(number as i64),
            number,
            members: vec![member(1, 1), member(2, 1)],
        }
    }

    fn present(presence: &Presence) -> Vec<(u64, u64)> {
        presence
            .members()
            .iter()
            .map(|m| (m.member.0, m.session.0))
            .collect()
    }

    #[test]
    fn new_leader_starts_from_the_latest_view_and_itself() {
        let mut presence = Presence::default();
        presence.enter(Time(5), member(9, 9));
        presence.begin(Time(5), Some(&view(4)), member(2, 7));
        assert_eq!(present(&presence), [(1, 1), (2, 7)]);
    }

    #[test]
    fn members_of_the_latest_view_have_a_grace_period_until_they_send_a_message() {
        let mut presence = Presence::default();
        presence.heard(Time(7), MemberId(2));
        presence.begin(Time(7), Some(&view(1)), member(1, 1));
        assert!(
            presence.is_alive(Time(7), MemberId(2), LONG) && presence.in_grace_period(MemberId(2))
        );
        presence.heard(Time(7), MemberId(2));
        assert!(
            presence.is_alive(Time(7), MemberId(2), LONG) && !presence.in_grace_period(MemberId(2))
        );
        assert!(!presence.in_grace_period(MemberId(1)), "the leader itself");
    }

    #[test]
    fn returning_member_replaces_its_former_session() {
        let mut presence = Presence::default();
        presence.begin(Time(5), Some(&view(1)), member(1, 1));
        presence.asked_to_leave(Time(7), MemberId(2));
        presence.enter(Time(5), member(2, 5));
        assert!(presence.leavers().is_empty());
        assert!(!presence.exit(MemberId(2), SessionId(1)), "an old session");
        assert_eq!(present(&presence), [(1, 1), (2, 5)]);
        assert!(presence.exit(MemberId(2), SessionId(5)));
        assert_eq!(present(&presence), [(1, 1)]);
    }

    #[test]
    fn members_are_in_the_order_in_which_their_sessions_began() {
        let mut presence = Presence::default();
        presence.begin(Time(5), None, member(7, 100));
        presence.enter(Time(5), member(9, 200));
        presence.enter(Time(5), member(3, 300));
        assert_eq!(present(&presence), [(7, 100), (9, 200), (3, 300)]);
        presence.exit(MemberId(7), SessionId(100));
        presence.enter(Time(6), member(7, 100));
        let (is_back, restarted) = ([(7, 100), (9, 200), (3, 300)], (7, 400));
        assert_eq!(present(&presence), is_back);
        presence.enter(Time(7), member(7, 400));
        assert_eq!(present(&presence), [(9, 200), (3, 300), restarted]);
    }

    #[test]
    fn silent_members_expire_but_never_the_leader_itself() {
        let mut presence = Presence::default();
        presence.begin(Time(5), Some(&view(1)), member(1, 1));
        presence.report(Report {
            member: MemberId(2),
            ..Report::default()
        });
        assert!(presence.expire(Time(7), MemberId(1), LONG).is_empty());
        assert_eq!(
            presence.expire(Time(7), MemberId(1), Duration::ZERO),
            ["node2"]
        );
        assert_eq!(present(&presence), [(1, 1)]);
        assert_eq!(presence.reports().count(), 0);
        assert!(
            !presence.is_alive(Time(7), MemberId(3), LONG),
            "it has never sent a message"
        );
    }

    #[test]
    fn members_of_the_view_that_have_lost_the_group_since_are_known_by_their_reports() {
        let mut presence = Presence::default();
        let latest = view(7);
        let report = |id, session, applied, state| Report {
            member: MemberId(id),
            session: SessionId(session),
            applied: Seqno(applied),
            state,
            ..Report::default()
        };
        presence.report(report(1, 1, 7, DataState::Synced));
        presence.report(report(2, 1, 6, DataState::Disconnected));
        assert!(
            presence.lost_quorum_since_view(&latest).is_empty(),
            "not in it yet"
        );
        presence.report(report(2, 1, 7, DataState::Disconnected));
        assert_eq!(
            presence.lost_quorum_since_view(&latest),
            BTreeSet::from([MemberId(2)])
        );
        presence.report(report(2, 5, 9, DataState::Disconnected));
        assert!(
            presence.lost_quorum_since_view(&latest).is_empty(),
            "another session"
        );
    }

    #[test]
    fn electorate_has_the_members_that_have_not_reported_to_lag() {
        let mut config = Config::default();
        for id in 1..=4 {
            let member = Member {
                role: Role::Voter,
                has_data: id != 4,
                name: format!("node{id}"),
                address: String::new(),
                versions: VersionRange { min: 1, max: 1 },
                certificate: None,
            };
            config.members.insert(MemberId(id), member);
        }
        let mut view = view(1);
        view.members.push(member(3, 1));
        let mut presence = Presence::default();
        presence.begin(Time(5), Some(&view), member(4, 1));
        let ids = |presence: &Presence| -> Vec<u64> {
            presence.electorate(&config).iter().map(|id| id.0).collect()
        };
        assert_eq!(ids(&presence), [1, 2, 3], "the logger leads");
        let report = |id, session, state| Report {
            member: MemberId(id),
            session: SessionId(session),
            state,
            ..Report::default()
        };
        for (state, counts) in [
            (DataState::Disconnected, false),
            (DataState::Joining, false),
            (DataState::Donor, true),
            (DataState::Joined, false),
            (DataState::Synced, true),
            (DataState::Error, false),
        ] {
            presence.report(report(2, 1, state));
            assert_eq!(ids(&presence).contains(&2), counts, "{state:?}");
        }
        presence.report(report(2, 1, DataState::Joining));
        assert_eq!(ids(&presence), [1, 3]);
        presence.report(report(3, 1, DataState::Joining));
        assert_eq!(ids(&presence), [1, 2, 3], "most of them lag");
        presence.begin(Time(9), Some(&view), member(4, 1));
        presence.report(report(3, 1, DataState::Joining));
        assert_eq!(ids(&presence), [1, 2], "2 has reported to another leader");
        presence.report(report(2, 7, DataState::Joining));
        assert_eq!(ids(&presence), [1, 2], "reported by another session");
    }
}
