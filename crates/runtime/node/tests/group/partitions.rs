//! Members separated from each other, and members that continue without a majority by order.

use std::sync::atomic::Ordering;

use synod_node::{ForceError, LiveSetting, QuorumLossPolicy};

use crate::support::{Group, Member, PATIENCE, eventually, seqno_of};

fn wait_primary(member: &Member, primary: bool) {
    let what = format!("{} primary: {primary}", member.config.name);
    member
        .host
        .wait(&what, |record| record.primary == Some(primary));
}

fn wait_view(member: &Member, size: usize) {
    member
        .host
        .wait("the view", |record| record.view_names().len() == size);
}

/// The host does what a server does in its handler of fatal signals: the node is not told.
#[test]
fn leader_whose_host_has_cut_itself_off_exchanges_nothing() {
    let group = Group::of(3, "cutoff");
    let at = group.leader();
    let (leader, other) = (&group.members[at], &group.members[(at + 1) % 3]);
    leader.host.isolated.store(true, Ordering::Relaxed);
    let pending = leader.submit("k", "of a server that is dying");
    wait_primary(leader, false);
    wait_view(other, 2);
    assert_ne!(
        other.node().status().leader,
        Some(leader.node().identity().0)
    );
    let seqno = seqno_of(other.order("k", "meanwhile"));
    assert!(leader.last() < seqno, "it takes nothing");
    assert!(!leader.is_leader());
    leader.host.isolated.store(false, Ordering::Relaxed);
    wait_primary(leader, true);
    pending.wait_for_result();
    group.wait_complete();
    group.check_same_history();
}

#[test]
fn one_of_two_continues_where_that_was_ordered_and_the_other_joins_it() {
    let group = Group::of(2, "half");
    let (survivor, lost) = (&group.members[0], &group.members[1]);
    survivor.node().set(LiveSetting::QuorumLossPolicy(
        QuorumLossPolicy::ContinueWithHalf,
    ));
    lost.node().set_isolated(true);
    // Proposed before the loss is noticed: its client gets its answer.
    let pending = survivor.submit("k", "waits");
    seqno_of(pending.wait_for_result());
    wait_view(survivor, 1);
    let never_lost = survivor.host.lock().primary != Some(false);
    assert!(never_lost, "clients were not thrown out");
    wait_primary(lost, false);
    seqno_of(survivor.order("k", "alone"));
    lost.node().set_isolated(false);
    wait_primary(lost, true);
    group.wait_complete();
    group.check_same_history();
}

#[test]
fn member_continues_by_order_and_only_without_a_leader() {
    let mut group = Group::of(3, "forced");
    let survivor = group.follower();
    assert!(matches!(
        group.members[survivor].node().force_primary(),
        Err(ForceError::HasLeader { .. })
    ));
    for at in (0..3).filter(|at| *at != survivor) {
        group.members[at].stop();
    }
    wait_primary(&group.members[survivor], false);
    group.members[survivor].node().force_primary().unwrap();
    wait_primary(&group.members[survivor], true);
    seqno_of(group.members[survivor].order("k", "alone"));
    let status = group.members[survivor].node().status();
    assert_eq!(status.members.iter().filter(|m| m.voter).count(), 1);
}

#[test]
fn majority_stops_and_names_both_histories_when_it_meets_a_forced_primary() {
    let group = Group::of(3, "apart");
    let at = group.follower();
    let (alone, other) = (&group.members[at], &group.members[(at + 1) % 3]);
    alone.node().set_isolated(true);
    wait_primary(alone, false);
    wait_view(other, 2);
    let committed = seqno_of(other.order("k", "the majority's"));
    alone.node().force_primary().unwrap();
    wait_primary(alone, true);
    seqno_of(alone.order("k", "alone"));
    alone.node().set_isolated(false);
    let stopped = |member: &Member| member.host.lock().failed.clone();
    let mut why = None;
    eventually("the end of one history", || {
        let ends = group.members.iter().filter_map(stopped);
        why = ends.reduce(|first, _| first);
        why.is_some()
    });
    let why = why.unwrap();
    let expected = format!("to {committed} here, which is committed, too");
    assert!(why.contains(&expected), "{why}");
    assert!(why.contains(&alone.config.name), "{why}");
}

#[test]
fn connection_that_ends_while_idle_is_opened_again() {
    let mut group = Group::prepared_by(3, "idle", |config| config.suspect = PATIENCE);
    let gate = group.gate(2);
    let _group = group.begin();
    let before = gate.forwarded();
    gate.hang_up();
    // Two lanes from each of the others, of which only the leader sends messages.
    eventually("all connections", || gate.forwarded() >= before + 4);
}
