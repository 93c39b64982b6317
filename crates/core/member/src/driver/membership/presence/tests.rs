//! Tests of presence: hearing, silence, calls, sessions, and the words of others.

use super::*;
use crate::driver::event::{FailedCall, SignOfLife};
use crate::driver::example_groups::with_logger;
use crate::payload::view::View;
use synod_consensus::{Seqno, SessionId};
use synod_wire::{DataState, HeardMember};

const LONG: Duration = Duration::from_secs(3600);
const DB1: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);
const TERM: Term = Term(7);
const PAUSE_MAX: Duration = Duration::from_secs(5);

fn at(ms: u64) -> Time {
    Time(10_000_000).plus(Duration::from_millis(ms))
}

#[test]
fn members_that_only_pass_by_are_forgotten() {
    let mut presence = Presence::default();
    let member = MemberId(5);
    for stranger in 1000..5000 {
        presence.heard(Time(stranger), MemberId(stranger));
        presence.heard(Time(stranger), member);
    }
    assert_eq!(presence.known.len(), KNOWN_MAX);
    assert!(presence.is_alive(Time(5000), member, Duration::from_secs(1)));
}

#[test]
fn silence_of_a_forgotten_member_does_not_count_from_before_its_last_message() {
    let mut presence = Presence::default();
    presence.look(at(0), PAUSE_MAX);
    presence.heard(at(1000), DB1);
    for stranger in 0..KNOWN_MAX as u64 {
        presence.heard(at(2000), MemberId(1000 + stranger));
    }
    assert!(presence.signs(DB1).is_none());
    assert_eq!(presence.silence(at(3000), DB1), Duration::from_secs(2));
}
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
    assert!(presence.is_alive(Time(7), MemberId(2), LONG) && presence.in_grace_period(MemberId(2)));
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
    let config = with_logger(1..=4);
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

fn call(member: Option<MemberId>, sign: SignOfLife) -> FailedCall {
    FailedCall {
        address: "db1:4567".to_owned(),
        member,
        why: "does not answer".to_owned(),
        sign,
    }
}

#[test]
fn silence_is_no_sign_that_the_program_has_ended() {
    let mut calls = Presence::default();
    let mut found = |at, sign| {
        calls.call_failed(Time(at), call(Some(DB1), sign));
        calls.finding(DB1).unwrap().answered
    };
    assert_eq!(found(5, SignOfLife::Silence), None);
    assert_eq!(found(7, SignOfLife::Listens), Some(Time(7)));
    assert_eq!(found(9, SignOfLife::Silence), Some(Time(7)));
    assert_eq!(found(11, SignOfLife::NoneListens), None);
}

#[test]
fn connection_ends_what_a_call_has_found() {
    let mut calls = Presence::default();
    calls.call_failed(Time(5), call(Some(DB1), SignOfLife::NoneListens));
    calls.link_up(DB1);
    assert!(calls.is_linked(DB1) && calls.finding(DB1).is_none());
    calls.link_down(DB1);
    assert!(!calls.is_linked(DB1) && calls.finding(DB1).is_none());
    calls.call_failed(Time(5), call(None, SignOfLife::Distrust));
    assert_eq!(calls.listed().count(), 1);
    calls.found("db1:4567");
    assert_eq!(calls.listed().count(), 0);
}

#[test]
fn report_of_a_survivor_counts_for_a_moment() {
    let mut presence = Presence::default();
    presence.survives(at(0), DB1, SurvivorReport::default());
    assert!(presence.survivor(at(2999), DB1).is_some());
    assert!(presence.survivor(at(3000), DB1).is_none());
    presence.forget_others(|_| false);
    assert!(presence.survivor(at(0), DB1).is_none());
}

#[test]
fn silence_counts_from_the_first_look_and_from_the_last_message() {
    let mut presence = Presence::default();
    presence.heard(at(0), DB1);
    assert_eq!(presence.silence(at(9), DB1), Duration::ZERO, "never looked");
    presence.look(at(10), PAUSE_MAX);
    assert_eq!(presence.silence(at(13), DB1), Duration::from_millis(3));
    presence.heard(at(14), DB1);
    presence.look(at(15), PAUSE_MAX);
    assert_eq!(presence.silence(at(16), DB1), Duration::from_millis(2));
    presence.begin(at(17), None, member(9, 9));
    assert_eq!(presence.silence(at(17), DB1), Duration::ZERO);
}

#[test]
fn no_member_is_silent_after_this_process_stood_still() {
    let mut presence = Presence::default();
    presence.look(at(0), PAUSE_MAX);
    presence.look(at(5000), PAUSE_MAX);
    assert_eq!(presence.silence(at(5000), DB1), PAUSE_MAX);
    presence.look(at(10_001), PAUSE_MAX);
    assert_eq!(presence.silence(at(10_001), DB1), Duration::ZERO);
}

fn presence_report(members: &[(u64, u64)]) -> PresenceReport {
    let heard = members.iter().map(|(id, silent_ms)| HeardMember {
        member: MemberId(*id),
        silent_ms: *silent_ms,
    });
    PresenceReport {
        term: TERM,
        members: heard.collect(),
    }
}

#[test]
fn member_was_heard_when_anybody_heard_it_last() {
    let mut presence = Presence::default();
    let last_heard = |presence: &Presence| presence.signs(OTHER).and_then(Signs::last_heard);
    assert_eq!(last_heard(&presence), None);
    presence.told(at(900), &presence_report(&[(2, 300)]));
    assert_eq!(last_heard(&presence), Some(at(600)));
    presence.heard(at(700), OTHER);
    assert_eq!(last_heard(&presence), Some(at(700)));
    presence.told(at(1000), &presence_report(&[(2, 600)]));
    assert_eq!(last_heard(&presence), Some(at(700)));
    presence.forget_others(|_| false);
    assert_eq!(last_heard(&presence), None);
}

#[test]
fn leader_leaves_out_who_is_gone_for_its_own_term_only() {
    let mut presence = Presence::default();
    assert!(!presence.is_left_out(TERM, OTHER), "nothing was said");
    presence.told(at(0), &presence_report(&[(1, 0)]));
    assert!(presence.is_left_out(TERM, OTHER));
    assert!(!presence.is_left_out(TERM.next(), OTHER));
    presence.told(at(0), &presence_report(&[(1, 0), (2, 9)]));
    assert!(!presence.is_left_out(TERM, OTHER));
}

#[test]
fn report_of_a_stranger_to_time_is_bounded() {
    let mut presence = Presence::default();
    presence.told(at(0), &presence_report(&[(2, u64::MAX)]));
    assert_eq!(presence.signs(OTHER).unwrap().told, Some(Time(0)));
}
