//! The members whose writes the group takes: all of them, or the leader only.

use std::time::Duration;

use synod_node::{
    Action, Class, GroupSetting, KeySet, ProposalResult, SettingError, StartMode, WritePermission,
    Writers,
};

use crate::support::{Group, Member, eventually, seqno_of};

const LIMIT: Duration = Duration::from_secs(20);
const LEADER: GroupSetting = GroupSetting::Writers(Writers::Leader);

fn may_write(member: &Member) -> Option<WritePermission> {
    member.host.lock().permissions.last().copied()
}

/// The leader, once all running members know it, and have it as the writer.
fn writer_of(group: &Group) -> usize {
    let mut writer = None;
    eventually("one writer", || {
        let position = group.members.iter().position(|member| {
            let here = |permission| matches!(permission, WritePermission::Here { .. });
            member.runs() && may_write(member).is_some_and(here)
        });
        let Some(at) = position else { return false };
        let id = group.members[at].node().status().member;
        let elsewhere = WritePermission::Elsewhere { writer: Some(id) };
        writer = Some(at);
        let mut others = group.running().filter(|m| m.node().status().member != id);
        others.all(|member| may_write(member) == Some(elsewhere))
    });
    writer.expect("waited for")
}

#[test]
fn any_member_sets_it_and_only_the_leader_writes_then() {
    let mut group = Group::of(3, "writers");
    let [a, b, c] = &group.members[..] else {
        unreachable!()
    };
    b.node().set_for_group(LEADER, LIMIT, LIMIT).unwrap();
    assert_eq!(b.node().status().settings.writers, Writers::Leader);
    b.node().set_for_group(LEADER, LIMIT, LIMIT).unwrap();
    let writer = writer_of(&group);
    seqno_of(group.members[writer].order("row", "v"));
    for (at, member) in [a, b, c].into_iter().enumerate() {
        if at == writer {
            continue;
        }
        let large = vec![7; 3 * crate::support::CHUNK_BYTES];
        for _ in 0..2 {
            assert_eq!(member.order("row", "w"), ProposalResult::NotWriter);
        }
        assert_eq!(member.order("other", large), ProposalResult::NotWriter);
        // The end of a streamed transaction that was begun when this member was the writer.
        let rollback = Action {
            class: Class::Barrier,
            keys: KeySet::new(),
            last_seen: member.last().0,
            data: "rollback".into(),
        };
        seqno_of(member.node().submit(&rollback).wait_for_result());
    }
    // Who joins later, or again, learns it.
    let rest = (writer + 1) % 3;
    group.members[rest].stop();
    group.members[rest].start(StartMode::Join).unwrap();
    group.members[rest].take_part();
    group.wait_complete();
    assert_eq!(
        group.members[rest].order("row", "w"),
        ProposalResult::NotWriter
    );
    let member = &group.members[rest];
    member
        .node()
        .set_for_group(GroupSetting::Writers(Writers::Any), LIMIT, LIMIT)
        .unwrap();
    seqno_of(member.order("row", "w"));
}

#[test]
fn caller_without_a_majority_has_its_answer_in_time_and_the_group_is_asked_on() {
    let mut group = Group::of(2, "no_majority");
    group.members[1].stop();
    let node = group.members[0].node();
    let patience = Duration::from_millis(100);
    let refused = node.set_for_group(LEADER, LIMIT, patience);
    assert_eq!(refused, Err(SettingError::NotInTime { patience }));
    group.members[1].start(StartMode::Join).unwrap();
    group.members[1].take_part();
    eventually("the setting is made", || {
        group.members[1].node().status().settings.writers == Writers::Leader
    });
}
