//! An action fails on some members: all members learn the same decision, and no other member waits.

use std::time::{Duration, Instant};

use synod_node::{ApplyOutcome, DataState, DecisionSearch, OutcomeDecision, Seqno, StartMode};

use crate::support::{Group, Member, PATIENCE, SUSPECT, eventually, seqno_of};

const X: ApplyOutcome = ApplyOutcome(77);

/// Waits until a member knows a decision.
fn decision(member: &Member, seqno: Seqno) -> OutcomeDecision {
    let is_about = |decision: &&OutcomeDecision| decision.seqno == seqno;
    member.host.wait("a decision", |record| {
        record.decisions.iter().any(|d| is_about(&d))
    });
    let record = member.host.lock();
    let mut about = record.decisions.iter().filter(is_about);
    let found = about.next().unwrap().clone();
    assert_eq!(about.count(), 0, "there is one");
    found
}

fn knows_nothing(member: &Member, seqno: Seqno) -> bool {
    let record = member.host.lock();
    record.decisions.iter().all(|d| d.seqno != seqno)
}

/// Waits until all running members know the decision, and compares. Returns the outcome that wins.
fn winner(group: &Group, seqno: Seqno) -> ApplyOutcome {
    let decisions: Vec<OutcomeDecision> = group.running().map(|m| decision(m, seqno)).collect();
    for other in &decisions {
        assert_eq!(other, &decisions[0]);
    }
    decisions[0].outcome
}

/// Has an action ordered that the members at these places cannot apply; the others can. Its seqno.
fn order_failing(group: &Group, failing: &[usize], by: usize) -> Seqno {
    for at in failing {
        group.members[*at].hold();
    }
    let seqno = seqno_of(group.members[by].order("k", "v"));
    for at in failing {
        let member = &group.members[*at];
        member.host.wait("the action", |r| r.last() >= seqno);
        member.node().report_failure(seqno, X);
    }
    seqno
}

#[test]
fn member_that_fails_alone_learns_it_as_soon_as_the_others_have_answered() {
    let group = Group::of(3, "alone");
    for failing in [group.leader(), group.follower()] {
        let by = (failing + 1) % 3;
        let began = Instant::now();
        let seqno = order_failing(&group, &[failing], by);
        assert_eq!(winner(&group, seqno), ApplyOutcome::SUCCESS);
        assert!(began.elapsed() < SUSPECT, "nothing was waited for");
        let answers = decision(&group.members[by], seqno).answers;
        let member = group.members[failing].node().identity().0;
        for answer in answers {
            let failed = answer.member == member;
            assert_eq!(answer.outcome == X, failed, "{answer:?}");
        }
        group.members[failing].resume();
    }
}

/// One outcome of three decides nothing, however long: the two others may both have succeeded.
#[test]
fn minority_decides_nothing_until_a_majority_has_answered() {
    let group = Group::of(3, "minority");
    let leader = group.leader();
    let (failing, other) = ((leader + 1) % 3, (leader + 2) % 3);
    group.members[leader].hold();
    group.members[other].hold();
    let seqno = order_failing(&group, &[failing], leader);
    let until = Instant::now() + SUSPECT + Duration::from_secs(1);
    let mut written = 0;
    eventually("the bound", || {
        written += 1;
        seqno_of(group.members[leader].order(&format!("row {written}"), "continues"));
        assert!(knows_nothing(&group.members[failing], seqno));
        Instant::now() > until
    });
    group.members[other].resume();
    assert_eq!(winner(&group, seqno), ApplyOutcome::SUCCESS);
}

#[test]
fn member_that_catches_up_is_not_waited_for() {
    let group = Group::of(3, "lagging");
    let leader = group.leader();
    let (failing, lagging) = ((leader + 1) % 3, (leader + 2) % 3);
    group.members[lagging].hold();
    group.members[lagging]
        .node()
        .set_data_state(DataState::Joined);
    // Whichever reports the leader has when it asks for outcomes, this one reaches it before the
    // limit.
    let began = Instant::now();
    let seqno = order_failing(&group, &[failing], leader);
    assert_eq!(winner(&group, seqno), ApplyOutcome::SUCCESS);
    assert!(began.elapsed() < SUSPECT, "no member was waited for");
}

/// Its outcome counts only where most members lag: after the whole group was restarted.
/// Its donor may be the very member that waits for the decision.
#[test]
fn member_that_waits_for_a_copy_is_not_waited_for_by_the_only_database() {
    let group = Group::of(2, "awaits-copy");
    let (failing, joiner) = (group.leader(), group.follower());
    group.members[joiner].hold();
    group.members[joiner]
        .node()
        .set_data_state(DataState::Joining);
    let seqno = order_failing(&group, &[failing], failing);
    assert_eq!(winner(&group, seqno), X);
}

#[test]
fn error_of_a_member_that_catches_up_counts_only_where_most_do() {
    let group = Group::of(3, "restart");
    let leader = group.leader();
    let (one, two) = ((leader + 1) % 3, (leader + 2) % 3);
    let (alone, both) = (ApplyOutcome::SUCCESS, X);
    for (lagging, expected) in [(vec![one], alone), (vec![one, two], both)] {
        for at in &lagging {
            group.members[*at].node().set_data_state(DataState::Joined);
        }
        // The leader cannot decide without that outcome before it knows which members lag.
        group.members[leader].hold();
        let seqno = order_failing(&group, &lagging, leader);
        assert_eq!(winner(&group, seqno), expected);
        for member in &group.members {
            member.resume();
        }
    }
}

#[test]
fn outcome_query_survives_its_leader() {
    let mut group = Group::of(3, "newleader");
    let leader = group.leader();
    let (failing, other) = ((leader + 1) % 3, (leader + 2) % 3);
    group.members[other].hold();
    group.members[leader].hold();
    let seqno = order_failing(&group, &[failing], leader);
    group.members[leader]
        .host
        .wait("the question", |record| record.says("asking the others"));
    group.members[leader].stop();
    group.leader();
    assert!(knows_nothing(&group.members[failing], seqno));
    group.members[other].resume();
    assert_eq!(winner(&group, seqno), ApplyOutcome::SUCCESS);
}

/// The member may have the other outcome, or fail only now: either way it must know.
#[test]
fn member_that_was_away_gets_the_decision_in_its_place_and_finds_it() {
    let mut group = Group::of(3, "away");
    let leader = group.leader();
    let away = (leader + 1) % 3;
    group.members[away].stop();
    let seqno = {
        let others: Vec<usize> = (0..3).filter(|at| *at != away).collect();
        order_failing(&group, &others, leader)
    };
    assert_eq!(winner(&group, seqno), X);
    group.members[leader].resume();
    let later = seqno_of(group.members[leader].order("later", "v"));
    group.members[away].start(StartMode::Join).unwrap();
    group.members[away].take_part();
    let host = &group.members[away].host;
    host.wait("what came later", |record| record.last() >= later);
    let delivered = host.lock().delivered_decisions.clone();
    let expected = decision(&group.members[leader], seqno);
    assert_eq!(
        delivered.as_slice(),
        std::slice::from_ref(&expected),
        "in its place"
    );
    let node = group.members[away].node();
    let find = |seqno| {
        node.continue_search(&mut DecisionSearch::new(seqno))
            .unwrap()
    };
    assert_eq!(find(seqno), Some(expected));
    assert_eq!(find(later), None);
}

/// The member's database is useless, but the others would have no majority without its vote.
#[test]
fn member_that_cannot_be_spared_votes_until_it_can() {
    let mut group = Group::of(3, "spared");
    let leader = group.leader();
    let (leaver, dead) = ((leader + 1) % 3, (leader + 2) % 3);
    group.members[dead].stop();
    let node = group.members[leaver].node().clone();
    let leaving = std::thread::spawn(move || node.leave_when_not_needed());
    group.members[leader]
        .host
        .wait("the view without it", |r| r.view_names().len() == 1);
    // Longer than an orderly shutdown would wait.
    let until = Instant::now() + Duration::from_secs(5);
    let mut written = 0;
    eventually("some time", || {
        written += 1;
        seqno_of(group.members[leader].order(&format!("row {written}"), "has a majority"));
        assert!(!leaving.is_finished());
        Instant::now() > until
    });
    group.members[dead].start(StartMode::Join).unwrap();
    group.members[dead].take_part();
    let deadline = Instant::now() + PATIENCE;
    while !leaving.is_finished() {
        assert!(Instant::now() < deadline, "it can be spared now");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    leaving.join().unwrap();
    group.members[leaver].stop();
    seqno_of(group.members[leader].order("last", "v"));
}

/// A server that is evicted and stopped at the same time orders both from its node.
#[test]
fn leaving_in_a_hurry_is_not_ended_by_leaving_patiently() {
    let mut group = Group::of(3, "hurry");
    let leader = group.leader();
    let (leaver, dead) = ((leader + 1) % 3, (leader + 2) % 3);
    group.members[dead].stop();
    let node = group.members[leaver].node().clone();
    let gone = format!("node{}", leaver + 1);
    let began = Instant::now();
    let hurried = node.clone();
    let leaving = std::thread::spawn(move || hurried.leave());
    group.members[leader]
        .host
        .wait("the view without it", |r| !r.view_names().contains(&gone));
    assert!(!leaving.is_finished());
    node.leave_when_not_needed();
    leaving.join().unwrap();
    // It cannot be spared, so it waits for an answer that does not come.
    assert!(began.elapsed() > Duration::from_secs(1));
}
