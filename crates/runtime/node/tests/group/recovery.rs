//! A majority is lost for good, and an operator orders a survivor to continue.

use std::net::TcpListener;

use synod_node::{
    Command, CommandRefusal, DatabasePosition, Done, NodeError, NodeStatus, RefusalReason, Seqno,
    StartMode,
};

use crate::secret::{Files, secret};
use crate::support::{Group, Member, PATIENCE, Record, eventually, seqno_of};

fn recover(member: &Member) -> Result<Done, CommandRefusal> {
    member.node().administrate(Command::Recover, PATIENCE)
}

fn refused(member: &Member) -> (RefusalReason, String) {
    let refusal = recover(member).unwrap_err();
    (refusal.reason, refusal.text)
}

fn wait_primary(member: &Member, primary: bool) {
    let what = format!("{} primary: {primary}", member.config.name);
    eventually(&what, || member.node().is_primary() == primary);
}

/// Waits until a member knows what another one has.
fn wait_heard(member: &Member, other: &Member) {
    let other = other.node().identity().0;
    let knows = |status: NodeStatus| {
        let mut survivors = status.survivors.into_iter();
        survivors.any(|s| s.member == other && s.report.is_some())
    };
    eventually("the other survivor's report", || {
        knows(member.node().status())
    });
}

fn continues(member: &Member) {
    let name = member.config.name.clone();
    assert_eq!(recover(member), Ok(Done::Continues { member: name }));
    wait_primary(member, true);
}

#[test]
fn group_that_lives_is_not_recovered() {
    let mut group = Group::of(3, "lives");
    let at = group.follower();
    let (why, text) = refused(&group.members[at]);
    assert_eq!(why, RefusalReason::NotLost);
    assert!(text.contains("leads the group"), "{text}");
    let (why, _) = refused(&group.members[group.leader()]);
    assert_eq!(why, RefusalReason::NotLost);
    for other in (0..3).filter(|other| *other != at) {
        group.members[other].stop();
    }
    wait_primary(&group.members[at], false);
    continues(&group.members[at]);
    let status = group.members[at].node().status();
    assert_eq!(status.members.iter().filter(|m| m.voter).count(), 1);
}

/// Waits until an order is refused for another reason than that it comes too soon.
fn refused_at_last(member: &Member) -> String {
    let mut last = String::new();
    eventually("the reason", || {
        let (why, text) = refused(member);
        assert_eq!(why, RefusalReason::NotLost, "{text}");
        last = text;
        !last.contains("a moment ago") && !last.contains("being called")
    });
    last
}

/// A member that no other lets in hears as little of a group that runs as of one that is lost.
#[test]
fn member_with_another_secret_does_not_continue_while_the_others_run() {
    let files = Files::new();
    let mut group = files.group("other-secret", &secret(1));
    let at = group.follower();
    // Or it names one by its address in the list only.
    eventually("three voters", || {
        let status = group.members[at].node().status();
        status.members.iter().filter(|m| m.voter).count() == 3
    });
    group.members[at].stop();
    files.write(&group.members[at].config.name.clone(), &[&secret(2)]);
    group.members[at].start(StartMode::Join).unwrap();
    let text = refused_at_last(&group.members[at]);
    let others: Vec<usize> = (0..3).filter(|other| *other != at).collect();
    for other in &others {
        let config = &group.members[*other].config;
        let named = format!("{} at {} does not let", config.name, config.address);
        assert!(text.contains(&named), "{text}");
    }
    assert!(text.contains("group secret differs"), "{text}");
    assert!(!text.contains("hangs"), "only what is known: {text}");
    let status = group.members[at].node().status();
    assert!(
        text.contains(&status.unheard.join(". ")),
        "one rule: {text}"
    );
    let host = &group.members[at].host;
    host.wait("the line about the wait", |record| {
        record.says("waiting to join for")
    });
    assert!(!host.lock().says("synod recover"), "it names the wrong way");
    // Two of three secrets that differ are no majority either.
    group.members[others[0]].stop();
    refused_at_last(&group.members[at]);
    group.members[others[1]].stop();
    eventually("the others are gone", || {
        recover(&group.members[at]).is_ok()
    });
    wait_primary(&group.members[at], true);
}

#[test]
fn program_that_hangs_at_the_address_of_a_voter_may_be_the_voter() {
    let mut group = Group::of(3, "hangs");
    let at = group.follower();
    let others: Vec<usize> = (0..3).filter(|other| *other != at).collect();
    for other in &others {
        group.members[*other].stop();
    }
    // The system accepts connections for a process that is stopped.
    let hung = &group.members[others[0]].config;
    let listener = TcpListener::bind(&hung.address).unwrap();
    let named = format!("{} at {} takes connections", hung.name, hung.address);
    wait_primary(&group.members[at], false);
    // A call may have found no program there before it began to hang.
    eventually("a call has ended", || {
        let unheard = group.members[at].node().status().unheard;
        unheard.iter().any(|line| line.contains(&named))
    });
    let text = refused_at_last(&group.members[at]);
    assert!(text.contains("stop it, or cut its machine off"), "{text}");
    drop(listener);
    let name = Ok(Done::Continues {
        member: group.members[at].config.name.clone(),
    });
    eventually("the program is gone", || {
        recover(&group.members[at]) == name
    });
}

/// All others call it at the wrong place, so it hears none of them.
#[test]
fn member_with_the_address_of_another_one_does_not_start() {
    let mut group = Group::of(3, "other-address");
    let at = group.follower();
    let others: Vec<usize> = (0..3).filter(|other| *other != at).collect();
    group.members[at].stop();
    let own = group.members[at].config.address.clone();
    let taken = group.members[others[0]].config.address.clone();
    group.members[at].config.listen = own;
    group.members[at].config.address = taken.clone();
    let error = group.members[at].start(StartMode::Join).unwrap_err();
    assert!(matches!(error, NodeError::AddressOfOther { .. }), "{error}");
    let text = error.to_string();
    let other = &group.members[others[0]].config.name;
    assert!(text.contains(other) && text.contains(&taken), "{text}");
}

/// The learner's site got what the voter that is left did not.
#[test]
fn learner_with_more_than_the_voter_continues() {
    const LEARNER: usize = 3;
    let mut group = Group::prepared(4, "learner-more");
    group.members[LEARNER].config.wants_vote = false;
    group.members[0].start(StartMode::Bootstrap).unwrap();
    group.members[0].take_part();
    for at in 1..4 {
        group.members[at].start(StartMode::Join).unwrap();
        group.members[at].take_part();
        if at != LEARNER {
            group.members[at].wait_voter();
        }
    }
    let leader = group.leader();
    let voter = (leader + 1) % 3;
    group.members[voter].node().set_isolated(true);
    let last = seqno_of(group.members[leader].order("k", "the voter lacks it"));
    let applied = |record: &Record| record.last() >= last;
    group.members[LEARNER].host.wait("the action", applied);
    for lost in (0..3).filter(|at| *at != voter) {
        group.members[lost].stop();
    }
    group.members[voter].node().set_isolated(false);
    let (voter, learner) = (&group.members[voter], &group.members[LEARNER]);
    for member in [voter, learner] {
        wait_primary(member, false);
    }
    wait_heard(voter, learner);
    let (why, text) = refused(voter);
    assert_eq!(why, RefusalReason::OtherHasMore);
    assert!(text.contains(&learner.config.name), "{text}");
    continues(learner);
    voter.host.wait("what the learner had", applied);
    voter.wait_voter();
    assert!(seqno_of(voter.order("k", "after")) > last);
    group.check_same_history();
}

#[test]
fn logger_with_more_leads_until_the_server_has_it() {
    const SERVER: usize = 0;
    const LOGGER: usize = 3;
    let mut group = Group::prepared(4, "logger-first");
    group.members[LOGGER].config.has_data = false;
    group.members[0].start(StartMode::Bootstrap).unwrap();
    group.members[0].take_part();
    for at in 1..4 {
        group.members[at].start(StartMode::Join).unwrap();
        if at != LOGGER {
            group.members[at].take_part();
        }
        group.members[at].wait_voter();
    }
    let status = group.members[1].node().status();
    if status.leader == Some(group.members[SERVER].node().identity().0) {
        let transfer = Command::TransferLeadership {
            to: Some("node2".to_owned()),
        };
        group.members[1]
            .node()
            .administrate(transfer, PATIENCE)
            .unwrap();
    }
    group.members[SERVER].node().set_isolated(true);
    let last = seqno_of(group.members[1].order("k", "the server lacks it"));
    let logger = group.members[LOGGER].node();
    eventually("the commit at the logger", || logger.commit_seqno() >= last);
    for lost in [1, 2] {
        group.members[lost].stop();
    }
    group.members[SERVER].node().set_isolated(false);
    let (server, logger) = (&group.members[SERVER], &group.members[LOGGER]);
    wait_primary(server, false);
    wait_primary(logger, false);
    wait_heard(server, logger);
    wait_heard(logger, server);
    let (why, text) = refused(logger);
    assert_eq!(why, RefusalReason::Unfit);
    assert!(text.contains("no database"), "{text}");
    let name = logger.config.name.clone();
    assert_eq!(recover(server), Ok(Done::Continues { member: name }));
    server
        .host
        .wait("what the logger had", |record| record.last() >= last);
    eventually("the server leads", || server.is_leader());
    assert!(seqno_of(server.order("k", "after")) > last);
}

/// The database of a lost server was kept, and its log was not: nothing shows which history it
/// holds.
#[test]
fn database_without_its_log_is_copied_after_a_recovery() {
    let mut group = Group::of(3, "kept-database");
    let survivor = group.follower();
    let lost = (0..3).find(|at| *at != survivor && *at != group.leader());
    let lost = lost.unwrap();
    let applied = group.members[lost].last();
    for other in (0..3).filter(|at| *at != survivor) {
        group.members[other].stop();
    }
    wait_primary(&group.members[survivor], false);
    continues(&group.members[survivor]);
    // The group comes further than the database, which then proves nothing by its position.
    for number in 0..5 {
        let data = format!("after {number}");
        assert!(seqno_of(group.members[survivor].order("k", data)) > applied);
    }
    assert_ne!(applied, Seqno(0));
    let survivor = &group.members[survivor];
    let mut back = Member::new("kept", &survivor.config.cluster_name);
    back.config.seeds = vec![survivor.config.address.clone()];
    back.config.database = DatabasePosition::new(survivor.node().status().group, applied);
    back.start(StartMode::Join).unwrap();
    back.host.wait("joining", |record| record.joined > 0);
    assert_eq!(back.node().database(), DatabasePosition::NONE);
}
