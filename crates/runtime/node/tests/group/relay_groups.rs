//! Groups of relays: no member has a database, and the log is what the group keeps.

use std::collections::BTreeMap;

use synod_node::{Action, Class, Followed, KeySet, NodeError, ProposalResult, Seqno, StartMode};

use crate::support::{Group, Member, eventually, seqno_of};

fn prepared(name: &str) -> Group {
    Group::prepared_by(3, name, |config| {
        config.has_data = false;
        config.keeps_log_only = true;
    })
}

fn three(name: &str) -> Group {
    let mut group = prepared(name);
    group.members[0].start(StartMode::Bootstrap).unwrap();
    for member in &mut group.members[1..] {
        member.start(StartMode::Join).unwrap();
    }
    for member in &group.members {
        member.wait_voter();
    }
    group
}

/// Submits an action as a relay does: without keys, so it cannot conflict.
fn submit(member: &Member, text: &str) -> ProposalResult {
    let action = Action {
        class: Class::TotalOrder,
        keys: KeySet::new(),
        last_seen: member.node().commit_seqno().0,
        data: text.to_owned().into(),
    };
    member.node().submit(&action).wait_for_result()
}

/// Submits until the group takes it: a new leader has to see what preceded its term.
fn write(member: &Member, text: &str) -> Seqno {
    let mut written = None;
    eventually("a leader that writes", || {
        if let ProposalResult::Ordered { seqno, .. } = submit(member, text) {
            written = Some(seqno);
        }
        written.is_some()
    });
    written.unwrap()
}

/// The actions in a member's log up to `last`.
fn log_of(member: &Member, last: Seqno) -> BTreeMap<i64, String> {
    let log = member.node().committed_log();
    eventually("the commit", || log.commit_seqno() >= last);
    let mut follower = log.follow(Seqno(0)).unwrap();
    let mut found = BTreeMap::new();
    eventually("the end of the log", || {
        while let Some(followed) = follower.advance().unwrap() {
            if let Followed::Action(action) = followed {
                let text = String::from_utf8_lossy(&action.last).into_owned();
                found.insert(action.seqno.0, text);
            }
        }
        follower.last() >= last
    });
    found
}

#[test]
fn relays_begin_a_group_and_only_the_leader_writes() {
    let mut group = three("relays");
    let leader = group.leader();
    let first = write(&group.members[leader], "first");
    let other = (leader + 1) % 3;
    assert_eq!(
        submit(&group.members[other], "not mine"),
        ProposalResult::NotWriter
    );
    group.members[leader].stop();
    eventually("another leader", || {
        let running = group.members.iter().filter(|member| member.runs());
        running.filter(|member| member.is_leader()).count() == 1
    });
    let second = write(&group.members[group.leader()], "second");
    group.members[leader].start(StartMode::Join).unwrap();
    for member in &group.members {
        let found = log_of(member, second);
        assert_eq!(found[&first.0], "first");
        assert_eq!(found[&second.0], "second");
        assert!(!found.values().any(|text| text == "not mine"), "{found:?}");
    }
}

#[test]
fn relay_alone_continues_after_a_kill() {
    let mut group = prepared("alone");
    let alone = &mut group.members[0];
    alone.config.seeds.clear();
    alone.start(StartMode::Bootstrap).unwrap();
    alone.wait_voter();
    eventually("the leader", || alone.is_leader());
    let first = write(alone, "first");
    alone.stop();
    // An order to begin the group again does nothing: there is one.
    alone.start(StartMode::Bootstrap).unwrap();
    eventually("the leader", || alone.is_leader());
    let second = write(alone, "second");
    let found = log_of(alone, second);
    assert_eq!(found[&first.0], "first");
    assert_eq!(found[&second.0], "second");
}

#[test]
fn new_relay_gets_the_whole_log() {
    let mut group = three("whole");
    let leader = group.leader();
    let first = write(&group.members[leader], "first");
    let mut last = first;
    for number in 0..1500 {
        last = seqno_of(submit(&group.members[leader], &number.to_string()));
    }
    let mut new = Member::new("node4", "whole");
    new.config.has_data = false;
    new.config.keeps_log_only = true;
    new.config.seeds = vec![group.members[leader].config.address.clone()];
    new.start(StartMode::Join).unwrap();
    let found = log_of(&new, last);
    assert_eq!(found[&first.0], "first");
    group.members.push(new);
}

#[test]
fn database_is_refused_by_a_group_of_relays() {
    let group = three("no-data");
    let mut server = Member::new("server", "no-data");
    server.config.seeds = vec![group.members[0].config.address.clone()];
    server.start(StartMode::Join).unwrap();
    let host = server.host.clone();
    host.wait("the refusal", |record| {
        let failed = record.failed.as_deref().unwrap_or_default();
        let refusal = "keeps a log for its readers, and no database";
        failed.contains(refusal) || record.says(refusal)
    });
}

#[test]
fn only_relays_begin_a_group_without_a_database() {
    let mut group = prepared("kinds");
    group.members[0].config.keeps_log_only = false;
    let refused = group.members[0].start(StartMode::Bootstrap).unwrap_err();
    assert!(matches!(refused, NodeError::BeginWithoutData), "{refused}");
}
