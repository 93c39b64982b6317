//! Learners of another region get the leader's log from a member there.

use synod_member::StartMode;

use crate::support::{Group, Member, seqno_of};

/// Log line of the leader about a learner that has a feeder, before the feeder's name.
const BY_WAY_OF: &str = "gets the log by way of ";

/// A leader in one region, and two learners in another one.
fn with_far_readers(cluster: &str) -> Group {
    let mut group = Group::of(1, cluster);
    let leader = &mut group.members[0];
    leader.stop();
    leader.config.region = Some("near".parse().unwrap());
    leader.start(StartMode::Join).unwrap();
    leader.take_part();
    let seed = leader.config.address.clone();
    for name in ["reader1", "reader2"] {
        let mut member = Member::new(name, cluster);
        member.config.seeds = vec![seed.clone()];
        member.config.wants_vote = false;
        member.config.region = Some("far".parse().unwrap());
        member.start(StartMode::Join).unwrap();
        member.take_part();
        group.members.push(member);
    }
    group
}

/// Orders some actions, and waits until all members that run have them.
fn order_and_wait(group: &Group, text: &str) {
    let order = |n: u32| seqno_of(group.members[0].order("k", format!("{text} {n}")));
    let last = (0..50).map(order).max().expect("some");
    for member in group.members.iter().filter(|member| member.runs()) {
        member.host.wait("what was ordered", |r| r.last() >= last);
    }
}

/// How often the leader has begun to have a learner fed.
fn times_begun(group: &Group) -> usize {
    group.members[0].host.lock().times_said(BY_WAY_OF)
}

#[test]
fn learners_far_away_are_fed_by_one_of_them_until_it_fails() {
    let mut group = with_far_readers("feeding");
    let leader = &group.members[0].host;
    leader.wait("a feeder", |r| r.says(BY_WAY_OF));
    order_and_wait(&group, "fed");
    let is_feeder = |name: &str| leader.lock().says(&format!("{BY_WAY_OF}{name}"));
    let feeder = 1 + usize::from(is_feeder("reader2"));
    let fed = 3 - feeder;
    assert!(
        !is_feeder(&group.members[fed].config.name),
        "one feeds the other"
    );

    group.members[feeder].stop();
    order_and_wait(&group, "by the leader itself");
    let begun = times_begun(&group);
    let again = &mut group.members[feeder];
    again.start(StartMode::Join).unwrap();
    again.take_part();
    let leader = &group.members[0].host;
    leader.wait("a feeder again", |r| r.times_said(BY_WAY_OF) > begun);
    order_and_wait(&group, "fed again");
    group.check_same_history();
}
