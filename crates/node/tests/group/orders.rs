//! Orders of an operator: configuration changes and leader transfers, and what they answer.

use synod_node::{
    ChangeConfigError, ConfigChange, ConfigError, LeaderTransferError, LogIndex, MemberId,
    StartMode, TransferLeadershipError,
};

use crate::support::{Group, Member, PATIENCE, eventually, seqno_of};

fn id(member: &Member) -> MemberId {
    member.node().identity().0
}

fn change(member: &Member, change: ConfigChange) -> Result<LogIndex, ChangeConfigError> {
    member.node().change_config(change, PATIENCE)
}

fn transfer(member: &Member, to: Option<MemberId>) -> Result<MemberId, TransferLeadershipError> {
    member.node().transfer_leadership(to, PATIENCE)
}

/// A group of two voters, and a member at the end that does not become a voter by itself.
fn with_learner(name: &str) -> Group {
    let mut group = Group::of(2, name);
    let mut learner = Member::new("learner", name);
    learner
        .config
        .seeds
        .clone_from(&group.members[0].config.seeds);
    learner.config.wants_vote = false;
    learner.start(StartMode::Join).unwrap();
    learner.take_part();
    group.members.push(learner);
    group
}

#[test]
fn accepted_changes_name_their_index_and_are_final_once_committed() {
    let group = with_learner("accepted");
    let (leader, learner) = (&group.members[group.leader()], &group.members[2]);
    let wait_final = |index, votes| {
        eventually("its commit", || {
            leader.node().status().commit_index >= index
        });
        eventually("its effect", || learner.node().status().voter == votes);
    };
    let mut promoted = Err(ChangeConfigError::Stopped);
    eventually("a learner that has caught up", || {
        promoted = change(leader, ConfigChange::Promote(id(learner)));
        promoted.is_ok()
    });
    let promoted = promoted.unwrap();
    wait_final(promoted, true);
    let refused = change(leader, ConfigChange::Promote(id(learner))).unwrap_err();
    let already = ConfigError::AlreadySo { id: id(learner) };
    assert_eq!(refused, ChangeConfigError::Refused(already));
    let demoted = change(leader, ConfigChange::Demote(id(learner))).unwrap();
    assert!(demoted > promoted);
    wait_final(demoted, false);
    seqno_of(leader.order("k", "v"));
    group.check_same_history();
}

#[test]
fn follower_refuses_and_names_the_leader_to_ask() {
    let group = Group::of(3, "follower");
    let (leader, follower) = (group.leader(), group.follower());
    let (leader, follower) = (&group.members[leader], &group.members[follower]);
    let refused = change(follower, ConfigChange::Remove(id(leader))).unwrap_err();
    let text = refused.to_string();
    let ChangeConfigError::NotLeader {
        leader: Some(contact),
    } = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(contact.member, id(leader));
    assert_eq!(contact.name, leader.config.name);
    assert_eq!(contact.address, leader.config.address);
    assert!(
        text.contains(&contact.name) && text.contains(&contact.address),
        "{text}"
    );
    let refused = transfer(follower, None).unwrap_err();
    let expected = TransferLeadershipError::NotLeader {
        leader: Some(contact),
    };
    assert_eq!(refused, expected);
}

#[test]
fn second_change_is_refused_until_the_first_is_committed() {
    let group = Group::of(3, "progress");
    let leader = group.leader();
    let others: Vec<MemberId> = (0..3)
        .filter(|at| *at != leader)
        .map(|at| id(&group.members[at]))
        .collect();
    let leader = &group.members[leader];
    // What made the last member a voter is committed before a later action is.
    eventually("three voters", || {
        let members = leader.node().status().members;
        members.iter().filter(|member| member.voter).count() == 3
    });
    seqno_of(leader.order("k", "v"));
    leader.node().set_isolated(true);
    let index = change(leader, ConfigChange::Demote(others[0])).unwrap();
    let refused = change(leader, ConfigChange::Demote(others[1])).unwrap_err();
    let in_progress = ConfigError::InProgress { index };
    assert_eq!(refused, ChangeConfigError::Refused(in_progress));
    leader.node().set_isolated(false);
    group.wait_complete();
    group.check_same_history();
}

#[test]
fn leader_hands_over_to_the_named_voter() {
    let group = Group::of(3, "transfer");
    let (leader, follower) = (group.leader(), group.follower());
    let to = id(&group.members[follower]);
    assert_eq!(transfer(&group.members[leader], Some(to)), Ok(to));
    eventually("the new leader", || group.members[follower].is_leader());
    let chosen = transfer(&group.members[group.leader()], None).unwrap();
    assert_ne!(chosen, to, "another voter");
    eventually("the chosen leader", || {
        group
            .members
            .iter()
            .any(|m| m.is_leader() && id(m) == chosen)
    });
    seqno_of(group.members[follower].order("k", "v"));
    group.check_same_history();
}

#[test]
fn transfer_to_the_leader_or_to_a_learner_is_refused() {
    let group = with_learner("refused");
    let (leader, learner) = (&group.members[group.leader()], &group.members[2]);
    let refused = |to, why| {
        let refused = transfer(leader, Some(to)).unwrap_err();
        assert_eq!(refused, TransferLeadershipError::Refused(why));
    };
    let to = id(leader);
    refused(to, LeaderTransferError::AlreadyLeader { to });
    let to = id(learner);
    refused(to, LeaderTransferError::NotVoter { to });
    assert!(leader.is_leader());
}

#[test]
fn stopped_node_says_so() {
    let mut group = Group::of(1, "stopped");
    let node = group.members[0].node().clone();
    group.members[0].stop();
    let to = node.identity().0;
    let changed = node.change_config(ConfigChange::Demote(to), PATIENCE);
    assert_eq!(changed, Err(ChangeConfigError::Stopped));
    let transferred = node.transfer_leadership(Some(to), PATIENCE);
    assert_eq!(transferred, Err(TransferLeadershipError::Stopped));
}
