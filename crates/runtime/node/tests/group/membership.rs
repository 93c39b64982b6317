//! Members that leave, return, lack their group, or share a name.

use std::time::Duration;

use bytes::Bytes;
use synod_node::{Delivery, Level, Seqno, StartMode};

use crate::support::{Group, Member, eventually, free_address, seqno_of};

fn voters(member: &Member) -> usize {
    let status = member.node().status();
    status.members.iter().filter(|m| m.voter).count()
}

#[test]
fn leaver_leaves_the_view_at_once_and_one_of_three_keeps_its_vote() {
    let mut group = Group::of(3, "leave");
    let leaver = group.follower();
    group.members[leaver].leave();
    let other = group.leader();
    assert_eq!(voters(&group.members[other]), 3);
    group.members[other]
        .host
        .wait("the view without it", |r| r.view_names().len() == 2);
    let text = "it counts as absent";
    assert!(
        !group.members[other].host.lock().says(text),
        "stated, not guessed"
    );
    seqno_of(group.members[other].order("k", "v"));

    group.members[leaver].start(StartMode::Join).unwrap();
    group.members[leaver].take_part();
    group.wait_complete();
    group.check_same_history();
    assert_eq!(voters(&group.members[other]), 3);
}

/// By order of the operator, as in Galera.
#[test]
fn group_serves_down_to_the_last_if_one_voter_is_wanted() {
    let mut group =
        Group::prepared_by(3, "tolast", |config| config.voter_policy.wanted = 1).begin();
    let first = group.follower();
    group.members[first].leave();
    assert_eq!(voters(&group.members[group.leader()]), 3, "no need yet");
    let second = group.follower();
    group.members[second].leave();
    let last = group.leader();
    seqno_of(group.members[last].order("k", "alone"));
    assert_eq!(voters(&group.members[last]), 1);
    for at in [first, second] {
        group.members[at].start(StartMode::Join).unwrap();
        group.members[at].take_part();
        group.members[at].wait_voter();
    }
    group.check_same_history();
}

/// Each would hand leadership to the other, which leaves as well and hands it back. How often,
/// depends on which of their ticks comes first, so they leave at different distances.
#[test]
fn members_that_leave_at_once_let_each_other_go() {
    for apart_ms in [0, 60, 125, 190] {
        let group = Group::of(2, "allgo");
        let leader = group.leader();
        let leave = |at: usize| {
            group.members[at].node().leave();
            group.members[at].node().stop();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| leave(leader));
            std::thread::sleep(Duration::from_millis(apart_ms));
            scope.spawn(|| leave(1 - leader));
        });
        for member in &group.members {
            let record = member.host.lock();
            assert!(!record.says("without the group's consent"));
            let lines = record.lines.iter();
            let elections = lines.filter(|(_, line)| line.contains("the leader is"));
            let count = elections.count();
            assert!(count <= 3, "{count} elections, {apart_ms} ms apart");
        }
    }
}

/// The leader may have lost its database and kept its log, as any member may.
#[test]
fn leader_that_needs_a_full_copy_finds_a_donor() {
    let group = Group::of(3, "leadercopy");
    let leader = group.leader();
    let node = group.members[leader].node();
    let donor_asked = || {
        let others = group
            .members
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != leader);
        let asked = |m: &Member| m.host.lock().donations.first().map(|d| d.joiner);
        others.filter_map(|(_, m)| asked(m)).next()
    };
    eventually("a donor is asked", || {
        // There is none until all members have reported to the leader that they are synced.
        node.request_state(Seqno(1), Vec::new(), true, Bytes::from_static(b"me"));
        donor_asked().is_some()
    });
    assert_eq!(donor_asked(), Some(node.identity().0));
}

/// The member was ordered to continue without a majority, or its database is of another group.
#[test]
fn database_that_is_further_than_the_group_is_refused_by_its_own_member() {
    let group = Group::of(1, "ahead");
    let mut member = Member::new("ahead", "ahead");
    member.config.seeds = vec![group.members[0].config.address.clone()];
    member.config.database = synod_node::DatabasePosition {
        group: group.members[0].node().status().group,
        seqno: Seqno(1000),
    };
    member.start(StartMode::Join).unwrap();
    member.host.wait("its end", |r| r.failed.is_some());
    let why = member.host.lock().failed.clone().unwrap_or_default();
    assert!(
        why.contains("to 1000 that are in this member's database"),
        "{why}"
    );
}

/// A server may wait for its group without end: its error log says which servers it lacks.
#[test]
fn member_that_waits_for_its_group_names_the_members_that_it_lacks() {
    let mut group = Group::of(2, "lonely");
    let absent = group.members[1].config.address.clone();
    group.members[1].stop();
    group.members[0].stop();
    let member = &mut group.members[0];
    member.start(StartMode::Join).unwrap();
    // With what its call has found there.
    let line = format!(
        "1 of 2 voters are connected, and 2 must be; missing: node2 ({absent}: does not answer"
    );
    member
        .host
        .wait("a line about what is missing", |r| r.says(&line));
}

#[test]
fn member_that_looks_for_a_group_says_so() {
    let mut member = Member::new("seeker", "nowhere");
    member.config.seeds = vec![member.config.address.clone()];
    member.start(StartMode::Join).unwrap();
    member.host.wait("a line about what is missing", |r| {
        r.says("no address in group address leads to a member of a group")
    });
}

#[test]
fn member_that_shall_not_vote_follows_and_never_counts() {
    let mut group = Group::of(1, "learner");
    let seed = group.members[0].config.address.clone();
    for (name, wants_vote) in [("reader", false), ("second", true)] {
        let mut member = Member::new(name, "learner");
        member.config.seeds = vec![seed.clone()];
        member.config.wants_vote = wants_vote;
        member.start(StartMode::Join).unwrap();
        member.take_part();
        group.members.push(member);
    }
    group.members[2].wait_voter();
    // The member that came after it is a voter by now.
    assert_eq!(voters(&group.members[0]), 2);
    let seqno = seqno_of(group.members[1].order("k", "from the reader"));
    for member in &group.members {
        member.host.wait("the action", |r| r.last() >= seqno);
    }
    group.members[1].stop();
    seqno_of(group.members[0].order("k", "without it"));
    group.check_same_history();
}

#[test]
fn last_member_leaves_without_waiting() {
    let mut group = Group::of(1, "last");
    group.members[0].leave();
    group.members[0].start(StartMode::Join).unwrap();
    group.members[0].take_part();
    seqno_of(group.members[0].order("k", "v"));
    group.check_same_history();
}

/// A name may be taken over while its member is away; an older program let a live one's be taken.
#[test]
fn members_that_have_come_to_share_a_name_are_warned() {
    let mut group = Group::of(3, "shared");
    let (leader, absent) = (group.leader(), group.follower());
    let renamed = 3 - leader - absent;
    group.members[absent].stop();
    eventually("its absence is noticed", || {
        group.members[leader].host.lock().view_names().len() == 2
    });
    group.members[renamed].stop();
    let name = group.members[absent].config.name.clone();
    group.members[renamed].config.name = name.clone();
    group.members[renamed].start(StartMode::Join).unwrap();
    group.members[renamed].take_part();
    group.members[absent].start(StartMode::Join).unwrap();
    group.members[absent].take_part();
    let text = format!("another member is called '{name}'");
    let lines = group.members[absent].host.lock().lines.clone();
    let warns = |(level, line): &(Level, String)| *level == Level::Warning && line.contains(&text);
    assert!(lines.iter().any(warns), "{lines:?}");
    group.check_same_history();
}

#[test]
fn member_of_two_groups_with_one_name_stays_in_the_first() {
    let first = Group::of(1, "twice");
    let second = Group::of(1, "twice");
    let mut joiner = Member::new("joiner", "twice");
    joiner.config.seeds = vec![
        first.members[0].config.address.clone(),
        second.members[0].config.address.clone(),
    ];
    joiner.start(StartMode::Join).unwrap();
    joiner.take_part();
    let group = joiner.node().status().group;
    let home = [&first, &second]
        .into_iter()
        .find(|g| g.members[0].node().status().group == group)
        .unwrap();
    let seqno = seqno_of(home.members[0].order("k", "home"));
    joiner
        .host
        .wait("its own group's action", |r| r.last() >= seqno);
    assert!(joiner.host.lock().failed.is_none());
}

#[test]
fn lone_member_that_moved_announces_its_new_address() {
    let mut group = Group::of(1, "moved");
    let member = &mut group.members[0];
    member.stop();
    let moved = free_address(std::net::Ipv4Addr::LOCALHOST.into());
    member.config.address.clone_from(&moved);
    member.config.listen.clone_from(&moved);
    member.start(StartMode::Join).unwrap();
    member.take_part();
    eventually("the new address", || {
        let status = member.node().status();
        status.members.iter().all(|m| m.address == moved)
    });
}

#[test]
fn member_that_leaves_as_it_becomes_a_voter_leaves_no_member_without_a_majority() {
    for orders in 0..3 {
        let mut group = Group::prepared(2, "brief");
        group.members[0].start(StartMode::Bootstrap).unwrap();
        group.members[0].take_part();
        group.members[1].start(StartMode::Join).unwrap();
        group.members[1].take_part();
        for i in 0..orders {
            seqno_of(group.members[0].order(&format!("k{i}"), vec![1; 20_000]));
        }
        group.members[1].leave();
        seqno_of(group.members[0].order("after", "v"));
    }
}

/// The newest view in the log of a restarted member has its former session.
#[test]
fn restarted_member_that_leads_at_once_keeps_the_live_one_in_view() {
    let mut group = Group::of(3, "keeps");
    let (first, at) = (group.leader(), group.follower());
    let live = 3 - first - at;
    group.wait_complete();
    // It lacks an entry, so it cannot lead.
    group.members[live].node().set_isolated(true);
    seqno_of(group.members[first].order("k", "of two"));
    group.members[at].stop();
    group.members[first].stop();
    group.members[live].node().set_isolated(false);
    let before = group.members[live].host.lock().view().unwrap().number;
    group.members[at].start(StartMode::Join).unwrap();
    assert_eq!(group.leader(), at);
    group.members[at].take_part();
    let name = &group.members[live].config.name;
    seqno_of(group.members[live].order("k", "v"));
    let record = group.members[live].host.lock();
    let views = record.deliveries.iter().filter_map(|d| match d {
        Delivery::View(view) => Some(view),
        Delivery::Action { .. } => None,
    });
    let mut last = 0;
    for view in views.skip_while(|view| view.number <= before) {
        assert!(view.members.iter().any(|member| member.name == *name));
        last = view.number;
    }
    assert!(last > before, "the numbers continue");
}
