//! Orders of an operator: changes of the group and leader transfers, given to any member, and what
//! they answer.

use synod_node::{
    Command, CommandRefusal, Done, LeaderWeight, NodeConfig, RefusalReason, StartMode,
};

use crate::support::{Group, Member, PATIENCE, Record, SUSPECT, eventually, seqno_of};

fn name(member: &Member) -> String {
    member.config.name.clone()
}

fn order(member: &Member, command: Command) -> Result<Done, CommandRefusal> {
    member.node().administrate(command, PATIENCE)
}

/// Reason and text of the refusal of a command.
fn refused(member: &Member, command: Command) -> (RefusalReason, String) {
    let refusal = order(member, command).unwrap_err();
    (refusal.reason, refusal.text)
}

fn remove(member: String, force: bool) -> Command {
    Command::Remove { member, force }
}

fn demote(member: String) -> Command {
    Command::Demote {
        member,
        force: true,
    }
}

fn promote(member: String) -> Command {
    Command::Promote { member }
}

fn transfer(to: Option<String>) -> Command {
    Command::TransferLeadership { to }
}

fn voters(member: &Member) -> usize {
    let members = member.node().status().members;
    members.iter().filter(|member| member.voter).count()
}

/// Repeats an order while another change, which the group made by itself, is under way, or the
/// leader is new.
fn carried_out(member: &Member, command: &Command) -> Done {
    let mut answer = None;
    eventually("the order's answer", || {
        match order(member, command.clone()) {
            Ok(done) => answer = Some(done),
            Err(refusal) => assert!(
                matches!(
                    refusal.reason,
                    RefusalReason::InProgress
                        | RefusalReason::NotCaughtUp
                        | RefusalReason::NoLeader
                ),
                "{refusal}"
            ),
        }
        answer.is_some()
    });
    answer.unwrap()
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
fn any_member_takes_orders_and_answers_when_they_are_committed() {
    let group = with_learner("accepted");
    let (leader, learner) = (&group.members[group.leader()], &group.members[2]);
    let follower = &group.members[group.follower()];
    let promoted = carried_out(follower, &promote(name(learner)));
    let Done::Committed { index } = promoted else {
        panic!("{promoted:?}");
    };
    assert!(leader.node().status().commit_index >= index);
    eventually("its effect", || learner.node().status().voter);
    let (reason, text) = refused(learner, promote(name(learner)));
    assert_eq!(reason, RefusalReason::AlreadySo);
    assert!(text.contains("learner is a voter already"), "{text}");
    let demoted = carried_out(learner, &demote(name(learner)));
    assert!(matches!(demoted, Done::Committed { index: later } if later > index));
    eventually("its effect", || !learner.node().status().voter);
    seqno_of(leader.order("k", "v"));
    group.check_same_history();
}

/// The member reports that it wants to vote, and would be promoted again.
#[test]
fn demoted_voter_stays_a_learner_under_another_leader_until_it_is_promoted() {
    let group = Group::of(4, "demoted");
    let leader = group.leader();
    let follower = group.follower();
    eventually("four voters", || voters(&group.members[leader]) == 4);
    carried_out(
        &group.members[leader],
        &demote(name(&group.members[follower])),
    );
    carried_out(&group.members[follower], &transfer(None));
    let new = group.leader();
    assert!(new != leader && new != follower);
    for i in 0..10 {
        seqno_of(group.members[follower].order(&format!("k{i}"), "v"));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(voters(&group.members[new]), 3);
    carried_out(
        &group.members[leader],
        &promote(name(&group.members[follower])),
    );
    assert_eq!(voters(&group.members[new]), 4);
    group.check_same_history();
}

/// Another leader has promoted the member since, by a later order.
#[test]
fn leader_that_leads_again_does_not_hold_an_old_demotion_against_a_member() {
    let settings = |config: &mut NodeConfig| config.voter_policy.dead_after = SUSPECT * 2;
    let group = Group::prepared_by(4, "leads-again", settings).begin();
    let first = group.leader();
    let mut rest = (0..4).filter(|at| *at != first);
    let [leader, other, demoted, absent] = [
        first,
        rest.next().unwrap(),
        rest.next().unwrap(),
        rest.next().unwrap(),
    ]
    .map(|at| &group.members[at]);
    eventually("four voters", || voters(leader) == 4);

    // It hears of the second order only.
    demoted.node().set_isolated(true);
    carried_out(leader, &demote(name(demoted)));
    carried_out(leader, &transfer(Some(name(other))));
    eventually("another leader", || other.is_leader());
    demoted.node().set_isolated(false);
    eventually("the promotion", || {
        let promoted = order(other, promote(name(demoted)));
        promoted.is_err_and(|refusal| refusal.reason == RefusalReason::AlreadySo)
    });

    // It loses its vote by silence, and has none while another voter is absent.
    demoted.node().set_isolated(true);
    eventually("the loss of its vote", || voters(other) == 3);
    absent.node().set_isolated(true);
    eventually("two in view", || other.host.lock().view_names().len() == 2);
    demoted.node().set_isolated(false);
    eventually("three in view", || {
        other.host.lock().view_names().len() == 3
    });
    carried_out(other, &transfer(Some(name(leader))));
    eventually("the first leader", || leader.is_leader());
    absent.node().set_isolated(false);
    eventually("four voters again", || voters(leader) == 4);
    group.check_same_history();
}

#[test]
fn removed_member_is_not_counted_and_does_not_come_back_by_itself() {
    let mut group = Group::of(3, "removed");
    let at = group.follower();
    let gone = name(&group.members[at]);
    eventually("three voters", || voters(&group.members[0]) == 3);
    let (reason, text) = refused(&group.members[at], remove(gone.clone(), false));
    assert_eq!(reason, RefusalReason::WouldLoseTolerance);
    assert!(
        text.contains(&format!("without the vote of {gone}")),
        "{text}"
    );
    carried_out(&group.members[at], &remove(gone, true));
    group.members[at]
        .host
        .wait("its end", |record| record.failed.is_some());
    let why = group.members[at].host.lock().failed.clone().unwrap();
    assert!(why.contains("has removed this member"), "{why}");
    group.members[at].stop();
    let leader = group.leader();
    assert_eq!(group.members[leader].node().status().members.len(), 2);
    seqno_of(group.members[leader].order("k", "v"));
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at].take_part();
    group.wait_complete();
    group.check_same_history();
}

/// The member gets no log any more, so it cannot learn of its removal from that.
#[test]
fn member_that_was_cut_off_when_it_was_removed_is_told_and_stops() {
    let group = Group::of(3, "cut-off");
    eventually("three voters", || voters(&group.members[0]) == 3);
    let at = group.follower();
    let gone = &group.members[at];
    gone.node().set_isolated(true);
    gone.host
        .wait("its isolation", |record| record.primary == Some(false));
    let others = || {
        group
            .members
            .iter()
            .filter(|member| member.config.name != gone.config.name)
    };
    let leader = others().find(|member| member.is_leader()).unwrap();
    carried_out(leader, &remove(name(gone), true));
    gone.node().set_isolated(false);
    gone.host.wait("its end", |record| record.failed.is_some());
    let why = gone.host.lock().failed.clone().unwrap();
    assert!(why.contains("has removed this member"), "{why}");
    assert_eq!(leader.node().status().members.len(), 2);
}

/// A group of which one member was removed while it was away, and of the others one runs; the
/// places of these two.
fn removed_while_away(cluster: &str) -> (Group, usize, usize) {
    let mut group = Group::of(3, cluster);
    for member in &group.members {
        eventually("three voters", || voters(member) == 3);
    }
    let at = group.follower();
    group.members[at].stop();
    let leader = group.leader();
    let gone = name(&group.members[at]);
    carried_out(&group.members[leader], &remove(gone, true));
    let other = (0..3).find(|other| ![at, leader].contains(other)).unwrap();
    let knows = || group.members[other].node().status().members.len() == 2;
    eventually("the other one knows", knows);
    let committed = group.members[leader].node().status().commit_index;
    let has_it = || group.members[other].node().status().commit_index >= committed;
    eventually("the other one knows that it is committed", has_it);
    group.members[leader].stop();
    let survivor = group.members[other].node();
    eventually("a loss of the majority", || !survivor.is_primary());
    (group, at, other)
}

#[test]
fn removed_member_that_starts_without_a_majority_is_told_that_it_was_removed() {
    let (mut group, at, other) = removed_while_away("away");
    group.members[at].start(StartMode::Join).unwrap();
    let told = format!(
        "Their answer to the request to join: {} was removed from the group, by {}'s log",
        name(&group.members[at]),
        name(&group.members[other])
    );
    let member = &group.members[at];
    let waits = |record: &Record| record.says(&told);
    member.host.wait("what it waits for", waits);
    let unheard = member.node().status().unheard.join(". ");
    assert!(unheard.contains(&told), "{unheard}");
    assert!(!unheard.contains("firewall"), "{unheard}");
}

/// After a restart the other one does not know any more what is committed.
#[test]
fn member_that_no_other_can_tell_is_told_of_both_causes() {
    let (mut group, at, other) = removed_while_away("untold");
    group.members[other].stop();
    group.members[other].start(StartMode::Join).unwrap();
    group.members[at].start(StartMode::Join).unwrap();
    let unheard = || group.members[at].node().status().unheard.join(". ");
    let both = "Either this member was removed from the group, or";
    eventually("both causes", || unheard().contains(both));
    let remedy = "'synod member list' on one of them shows which";
    assert!(unheard().contains(remedy), "{}", unheard());
}

#[test]
fn dead_voter_is_replaced_by_a_learner_in_one_order() {
    let mut group = Group::of(3, "replaced");
    let mut spare = Member::new("spare", "replaced");
    spare
        .config
        .seeds
        .clone_from(&group.members[0].config.seeds);
    spare.config.wants_vote = false;
    spare.start(StartMode::Join).unwrap();
    spare.take_part();
    eventually("three voters", || voters(&group.members[0]) == 3);
    let at = group.follower();
    let dead = name(&group.members[at]);
    group.members[at].stop();
    group.members.swap_remove(at);
    group.members.push(spare);
    let leader = &group.members[group.leader()];
    let replace = Command::Replace {
        old: dead.clone(),
        new: "spare".to_owned(),
        force: false,
    };
    let (reason, _) = refused(
        leader,
        Command::Replace {
            old: dead,
            new: "stranger".to_owned(),
            force: false,
        },
    );
    assert_eq!(reason, RefusalReason::UnknownMember);
    eventually("the leader misses it", || {
        order(&group.members[2], replace.clone()).is_ok()
    });
    let members = leader.node().status().members;
    assert_eq!(members.len(), 3);
    assert!(members.iter().all(|member| member.voter));
    group.check_same_history();
}

#[test]
fn second_order_is_refused_until_the_first_is_answered() {
    let group = Group::of(3, "progress");
    let (leader, follower) = (&group.members[group.leader()], group.follower());
    let follower = name(&group.members[follower]);
    eventually("three voters", || voters(leader) == 3);
    seqno_of(leader.order("k", "v"));
    leader.node().set_isolated(true);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| order(leader, demote(follower.clone())));
        eventually("the first order is under way", || {
            let (reason, text) = refused(leader, promote(follower.clone()));
            reason == RefusalReason::InProgress && text.contains("another order of an operator")
        });
        leader.node().set_isolated(false);
        let first = first.join().unwrap();
        let is_known = |refusal: &CommandRefusal| refusal.reason == RefusalReason::Unsure;
        assert!(first.as_ref().err().is_none_or(is_known), "{first:?}");
    });
    group.check_same_history();
}

#[test]
fn learner_without_a_whole_database_is_not_promoted() {
    let mut group = Group::of(2, "whole");
    let mut learner = Member::new("learner", "whole");
    let seeds = &mut learner.config.seeds;
    seeds.clone_from(&group.members[0].config.seeds);
    learner.config.wants_vote = false;
    learner.start(StartMode::Join).unwrap();
    let leader = &group.members[group.leader()];
    eventually("two voters", || voters(leader) == 2);
    let promote = promote(name(&learner));
    eventually("it says that the copy is missing", || {
        let (reason, text) = refused(leader, promote.clone());
        reason == RefusalReason::NotCaughtUp && text.contains("until its full copy is complete")
    });
    learner.take_part();
    carried_out(leader, &promote);
    eventually("it votes", || voters(leader) == 3);
    group.members.push(learner);
    group.check_same_history();
}

#[test]
fn weight_is_set_on_the_member_that_it_is_for() {
    let group = Group::of(2, "weight");
    let weight = LeaderWeight::new(70).unwrap();
    let (one, other) = (&group.members[0], &group.members[1]);
    let command = Command::SetWeight {
        member: name(other),
        weight,
    };
    let member = name(other);
    assert_eq!(order(one, command), Ok(Done::WeightSet { member, weight }));
    assert_eq!(other.node().status().leader_weight, weight);
}

#[test]
fn stopped_node_says_so() {
    let mut group = Group::of(1, "stopped");
    let node = group.members[0].node().clone();
    let me = name(&group.members[0]);
    group.members[0].stop();
    let refusal = node.administrate(promote(me), PATIENCE).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Stopped);
}
