//! Who is present, as a leader keeps track of it, and the views in the log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use synod_consensus::{Config, EntryKind, LogIndex, MemberId, SessionId, Time};
use synod_log::LogReader;
use synod_wire::{DataState, Report};

use crate::payload::view::{View, ViewMember};

/// A view entry is looked for this far back at start.
const VIEW_SEARCH_ENTRIES: u64 = 50_000;
/// And through at most about so many bytes, which bounds the time a start takes.
const VIEW_SEARCH_BYTES: usize = 256 << 20;
const VIEW_SEARCH_STEP: u64 = 256;
const READ_BYTES: usize = 4 << 20;

/// The leader's picture of the members.
#[derive(Default)]
pub(super) struct Presence {
    present: BTreeMap<MemberId, ViewMember>,
    heard: BTreeMap<MemberId, Time>,
    /// Members in `heard` that said nothing yet: they are granted time.
    granted: BTreeSet<MemberId>,
    reports: BTreeMap<MemberId, Report>,
    /// Whoever has reported since this leadership began.
    fresh: BTreeSet<MemberId>,
    /// Members that asked to leave and still vote, and when they asked.
    pub(super) leaving: BTreeMap<MemberId, Time>,
}

impl Presence {
    /// A message of this member arrived.
    pub(super) fn heard(&mut self, now: Time, member: MemberId) {
        self.granted.remove(&member);
        self.heard.insert(member, now);
    }

    /// Nothing is known of this member yet; it has time to be heard of.
    fn grant(&mut self, now: Time, member: MemberId) {
        self.granted.insert(member);
        self.heard.insert(member, now);
    }

    /// Whether a member that [`Presence::is_alive`] only has the benefit of the doubt.
    pub(super) fn is_granted(&self, member: MemberId) -> bool {
        self.granted.contains(&member)
    }

    /// Whether the member was heard of within `limit`.
    pub(super) fn is_alive(&self, now: Time, member: MemberId, limit: Duration) -> bool {
        self.heard
            .get(&member)
            .is_some_and(|at| now.since(*at) < limit)
    }

    /// Starts from the latest view; each of its members has `limit` from now to be heard of.
    pub(super) fn begin(&mut self, now: Time, view: Option<&View>, me: ViewMember) {
        self.present.clear();
        self.leaving.clear();
        self.fresh.clear();
        for member in view.iter().flat_map(|view| &view.members) {
            self.present.insert(member.member, member.clone());
            self.grant(now, member.member);
        }
        self.enter(now, me);
    }

    /// Starts from those of the latest view that were heard of within `limit`.
    pub(super) fn begin_without_the_silent(
        &mut self,
        now: Time,
        view: Option<&View>,
        me: ViewMember,
        limit: Duration,
    ) {
        self.present.clear();
        self.leaving.clear();
        self.fresh.clear();
        for member in view.iter().flat_map(|view| &view.members) {
            if self.is_alive(now, member.member, limit) {
                self.present.insert(member.member, member.clone());
            }
        }
        self.enter(now, me);
    }

    pub(super) fn enter(&mut self, now: Time, member: ViewMember) {
        self.heard(now, member.member);
        self.leaving.remove(&member.member);
        self.present.insert(member.member, member);
    }

    /// The member goes; false if it is present with another session, or not at all.
    pub(super) fn exit(&mut self, member: MemberId, session: SessionId) -> bool {
        let same = self
            .present
            .get(&member)
            .is_some_and(|p| p.session == session);
        if same {
            self.present.remove(&member);
            self.reports.remove(&member);
        }
        same
    }

    /// Drops whoever was not heard of for `limit`; returns their names.
    pub(super) fn expire(&mut self, now: Time, me: MemberId, limit: Duration) -> Vec<String> {
        let mut gone = Vec::new();
        let heard = &self.heard;
        self.present.retain(|id, member| {
            let alive = *id == me || heard.get(id).is_some_and(|at| now.since(*at) < limit);
            if !alive {
                gone.push(member.name.clone());
            }
            alive
        });
        let present = &self.present;
        self.reports.retain(|id, _| present.contains_key(id));
        gone
    }

    /// Present members in the order of [`View::members`].
    pub(super) fn members(&self) -> Vec<ViewMember> {
        let mut members: Vec<ViewMember> = self.present.values().cloned().collect();
        members.sort_by_key(|m| (m.session, m.member));
        members
    }

    pub(super) fn get(&self, member: MemberId) -> Option<&ViewMember> {
        self.present.get(&member)
    }

    /// The session in which a member is present.
    pub(super) fn session_of(&self, member: MemberId) -> Option<SessionId> {
        self.present.get(&member).map(|present| present.session)
    }

    pub(super) fn report(&mut self, report: Report) {
        self.fresh.insert(report.member);
        self.reports.insert(report.member, report);
    }

    /// Members of the latest view whose hosts have been in it, and were told since that the group
    /// was lost. They need to come back in a view of its own place in the history: what a host gives
    /// up because the group is lost (unfinished transactions of its own and of others) must be given
    /// up everywhere at one position.
    pub(super) fn adrift(&self, latest: &View) -> BTreeSet<MemberId> {
        let is_adrift = |report: &&Report| {
            report.state == DataState::Disconnected
                && report.applied >= latest.seqno
                && latest.contains(report.member, report.session)
        };
        self.reports
            .values()
            .filter(is_adrift)
            .map(|r| r.member)
            .collect()
    }

    /// Whose word counts when an action fails somewhere: present members whose databases follow the
    /// group, or that have not told otherwise. If these are not most of those present, as after a
    /// restart of the whole group, everybody's.
    pub(super) fn electorate(&self, config: &Config) -> BTreeSet<MemberId> {
        let present = self.present.values().filter(|present| {
            let known = config.members.get(&present.member);
            known.is_some_and(|member| member.has_data)
        });
        let (follow, behind): (BTreeSet<_>, BTreeSet<_>) =
            present.map(|p| p.member).partition(|id| self.follows(*id));
        match follow.len() > behind.len() {
            true => follow,
            false => &follow | &behind,
        }
    }

    fn follows(&self, member: MemberId) -> bool {
        let session = self.present.get(&member).map(|present| present.session);
        let report = self.reports.get(&member);
        let report = report.filter(|report| Some(report.session) == session);
        let report = report.filter(|_| self.fresh.contains(&member));
        report.is_none_or(|r| matches!(r.state, DataState::Synced | DataState::Donor))
    }

    /// Whether every present member has reported in its present session.
    pub(super) fn all_reported(&self) -> bool {
        self.present.iter().all(|(id, member)| {
            self.reports
                .get(id)
                .is_some_and(|report| report.session == member.session)
        })
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = &Report> + Clone {
        self.reports.values()
    }
}

/// The views in this member's log that matter: the latest committed one and those after it.
#[derive(Default)]
pub(super) struct ViewTrail {
    views: VecDeque<(LogIndex, View)>,
}

impl ViewTrail {
    /// Finds the newest views in the log: two, for the last one may still be cut off.
    pub(super) fn load(reader: &LogReader) -> ViewTrail {
        let first = reader.first_index();
        let mut views = VecDeque::new();
        let mut end = reader.last_index();
        let (mut entries_left, mut bytes_left) = (VIEW_SEARCH_ENTRIES, VIEW_SEARCH_BYTES);
        while end >= first && end > LogIndex(0) && views.len() < 2 {
            let start = LogIndex(first.0.max(end.0.saturating_sub(VIEW_SEARCH_STEP - 1)));
            let (found, bytes) = views_between(reader, start, end);
            for view in found.into_iter().rev() {
                views.push_front(view);
            }
            entries_left = entries_left.saturating_sub(VIEW_SEARCH_STEP);
            bytes_left = bytes_left.saturating_sub(bytes);
            if entries_left == 0 || bytes_left == 0 {
                break;
            }
            end = start.prev();
        }
        ViewTrail { views }
    }

    pub(super) fn appended(&mut self, index: LogIndex, view: View) {
        self.views.push_back((index, view));
    }

    pub(super) fn truncated(&mut self, from: LogIndex) {
        while self.views.back().is_some_and(|(index, _)| *index >= from) {
            self.views.pop_back();
        }
    }

    pub(super) fn clear(&mut self) {
        self.views.clear();
    }

    pub(super) fn latest(&self) -> Option<&View> {
        self.views.back().map(|(_, view)| view)
    }

    /// The newest view's entry.
    pub(super) fn latest_index(&self) -> Option<LogIndex> {
        self.views.back().map(|(index, _)| *index)
    }

    /// The newest view at or below the commit index, if there is one; older ones are forgotten.
    pub(super) fn committed(&mut self, commit: LogIndex) -> Option<&View> {
        while self.views.get(1).is_some_and(|(index, _)| *index <= commit) {
            self.views.pop_front();
        }
        self.views
            .front()
            .filter(|(index, _)| *index <= commit)
            .map(|(_, view)| view)
    }
}

/// The views between two indexes, and the bytes read.
fn views_between(
    reader: &LogReader,
    start: LogIndex,
    end: LogIndex,
) -> (Vec<(LogIndex, View)>, usize) {
    let mut views = Vec::new();
    let mut bytes = 0;
    let mut next = start;
    while next <= end {
        // What cannot be read here will be reported where it is needed.
        let Ok(entries) = reader.read(next, end, READ_BYTES) else {
            break;
        };
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            next = entry.header.index.next();
            bytes += entry.payload.len();
            if entry.header.kind == EntryKind::View
                && let Ok(view) = View::decode(entry.header.seqno, entry.payload)
            {
                views.push((entry.header.index, view));
            }
        }
    }
    (views, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn members_of_the_latest_view_have_the_benefit_of_the_doubt_until_they_speak() {
        let mut presence = Presence::default();
        presence.heard(Time(7), MemberId(2));
        presence.begin(Time(7), Some(&view(1)), member(1, 1));
        assert!(presence.is_alive(Time(7), MemberId(2), LONG) && presence.is_granted(MemberId(2)));
        presence.heard(Time(7), MemberId(2));
        assert!(presence.is_alive(Time(7), MemberId(2), LONG) && !presence.is_granted(MemberId(2)));
        assert!(!presence.is_granted(MemberId(1)), "the leader itself");
    }

    #[test]
    fn returning_member_replaces_its_former_session() {
        let mut presence = Presence::default();
        presence.begin(Time(5), Some(&view(1)), member(1, 1));
        presence.leaving.insert(MemberId(2), Time(7));
        presence.enter(Time(5), member(2, 5));
        assert!(presence.leaving.is_empty());
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
            "never heard of"
        );
    }

    #[test]
    fn adrift_is_who_was_in_the_view_and_has_lost_the_group_since() {
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
        assert!(presence.adrift(&latest).is_empty(), "not in it yet");
        presence.report(report(2, 1, 7, DataState::Disconnected));
        assert_eq!(presence.adrift(&latest), BTreeSet::from([MemberId(2)]));
        presence.report(report(2, 5, 9, DataState::Disconnected));
        assert!(presence.adrift(&latest).is_empty(), "another session");
    }

    #[test]
    fn word_is_waited_for_of_whoever_has_not_said_that_it_is_behind() {
        let mut config = Config::default();
        for id in 1..=4 {
            let member = Member {
                role: Role::Voter,
                has_data: id != 4,
                name: format!("node{id}"),
                address: String::new(),
                versions: VersionRange { min: 1, max: 1 },
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
        assert_eq!(ids(&presence), [1, 2, 3], "most of them are behind");
        presence.begin(Time(9), Some(&view), member(4, 1));
        presence.report(report(3, 1, DataState::Joining));
        assert_eq!(ids(&presence), [1, 2], "2 has told another leader");
        presence.report(report(2, 7, DataState::Joining));
        assert_eq!(ids(&presence), [1, 2], "said by another session");
    }

    #[test]
    fn trail_follows_commit_and_truncation() {
        let mut trail = ViewTrail::default();
        for number in 1..=3 {
            trail.appended(LogIndex(number * 10), view(number));
        }
        assert_eq!(trail.committed(LogIndex(9)), None);
        assert_eq!(trail.committed(LogIndex(25)).map(|v| v.number), Some(2));
        trail.truncated(LogIndex(30));
        assert_eq!(trail.latest().map(|v| v.number), Some(2));
        assert_eq!(trail.committed(LogIndex(99)).map(|v| v.number), Some(2));
    }
}
