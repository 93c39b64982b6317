//! Two processes with one identity: the log directory was copied, as when a machine is cloned.

use synod_node::{NodeError, Seqno, StartMode};

use crate::support::{Group, Member, free_address, seqno_of};

/// A member with a copy of another's log; its database is a copy, too.
fn clone_of(original: &Member, seeds: &[String]) -> Member {
    let mut copy = Member::new(&original.config.name, &original.config.cluster_name);
    for entry in std::fs::read_dir(original.dir.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "synod-lock.log" {
            std::fs::copy(entry.path(), copy.dir.path().join(entry.file_name())).unwrap();
        }
    }
    copy.config.seeds = seeds.to_vec();
    copy.config.database = original.config.database;
    copy.copy_database(original);
    copy
}

fn check_undisturbed(group: &Group, leader: usize, had: Seqno) {
    for at in 0..group.members.len() {
        seqno_of(group.members[at].order(&format!("after{at}"), "v"));
    }
    assert_eq!(group.leader(), leader);
    assert!(group.members.iter().all(|m| m.host.lock().failed.is_none()));
    assert!(group.members[leader].last() > had);
    group.check_same_history();
}

#[test]
fn copied_log_is_refused_while_the_original_answers_at_its_address() {
    let mut group = Group::of(3, "clone");
    let (leader, at) = (group.leader(), group.follower());
    seqno_of(group.members[at].order("k", "v"));
    let had = group.members[leader].last();
    group.members[at].stop();
    let seeds = group.members[leader].config.seeds.clone();
    let mut copy = clone_of(&group.members[at], &seeds);
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at].take_part();
    let refused = copy.start(StartMode::Join).unwrap_err();
    assert!(
        matches!(refused, NodeError::DuplicateIdentity { .. }),
        "{refused}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("copied") && text.contains("delete the synod-*.log"),
        "{text}"
    );
    group.wait_complete();
    check_undisturbed(&group, leader, had);
    // Without the original, the copy is the member.
    group.members[at].stop();
    copy.start(StartMode::Join).unwrap();
    copy.host.wait("joining", |record| record.joined > 0);
}

#[test]
fn copied_log_is_refused_by_the_others_while_they_hear_the_original() {
    let mut group = Group::of(3, "hidden");
    let (leader, at) = (group.leader(), group.follower());
    seqno_of(group.members[at].order("k", "v"));
    let had = group.members[leader].last();
    group.members[at].stop();
    let seeds = group.members[leader].config.seeds.clone();
    let mut copy = clone_of(&group.members[at], &seeds);
    // It claims the same address, which it cannot have: only the original answers there.
    copy.config.address = group.members[at].config.address.clone();
    copy.config.listen = free_address(std::net::Ipv4Addr::LOCALHOST.into());
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at].take_part();
    group.wait_complete();
    copy.start(StartMode::Join).unwrap();
    copy.host.wait("refusal", |record| record.failed.is_some());
    let why = copy.host.lock().failed.clone().unwrap();
    assert!(why.contains("copied"), "{why}");
    assert_eq!(copy.host.lock().joined, 0, "it never took part");
    copy.stop();
    check_undisturbed(&group, leader, had);
}
