//! Learners of another region get the leader's log from a member there.

use std::io::Write;
use std::net::TcpStream;

use synod_consensus::{Append, Body, EntryHeader, EntryId, EntryKind, Message, Time};
use synod_member::StartMode;
use synod_wire::{Lane, PeerMessage};

use crate::strangers::{hello, welcomed};
use crate::support::{Group, Member, eventually, seqno_of};

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

/// An entry after the learner's last one, committed, as if its leader had sent it by way of another
/// member.
fn forged(leader: &Member, learner: &Member) -> PeerMessage {
    let at = learner.node().status();
    let prev = EntryId::new(at.term, at.last_index);
    let entry = EntryHeader {
        payload_crc: crc32c::crc32c(&[]),
        ..EntryHeader::bare(
            at.term,
            at.last_index.next(),
            at.commit_seqno,
            EntryKind::NoOp,
        )
    };
    PeerMessage::Fed {
        message: Message::new(
            leader.node().identity().0,
            at.member,
            at.term,
            Body::Append(Append {
                prev,
                commit: entry.index,
                entries: vec![entry],
                sent_at: Time(1),
            }),
        ),
        payloads: vec![Some(bytes::Bytes::new())],
    }
}

/// Sends messages in the name of a member, which does not run.
pub(crate) fn send_as(
    name: &Member,
    id: (u64, u64),
    to: &Member,
    messages: &[PeerMessage],
) -> TcpStream {
    let config = &name.config;
    let mut hello = hello(id.0, &config.cluster_name, &config.address, Lane::Bulk);
    hello.group = to.node().status().group;
    hello.session = synod_consensus::SessionId(id.1);
    let mut open = welcomed(&to.config.address, &hello);
    for message in messages {
        let mut bytes = Vec::new();
        message.encode(5, &mut bytes).unwrap();
        open.write_all(&bytes.concat()).unwrap();
    }
    open
}

/// The other member in the learner's region may feed it: what it sends shows that the message would
/// do harm.
#[test]
fn member_of_another_region_does_not_speak_for_the_leader() {
    let mut group = with_far_readers("not-its-feeder");
    let mut near = Member::new("near", "not-its-feeder");
    near.config.seeds.clone_from(&group.members[1].config.seeds);
    near.config.wants_vote = false;
    near.config.region = Some("near".parse().unwrap());
    near.start(StartMode::Join).unwrap();
    near.take_part();
    group.members.push(near);
    order_and_wait(&group, "before");
    // Members tell their regions to the leader, which tells the learner.
    eventually("regions", || {
        let members = group.members[1].node().status().members;
        members.len() == 4 && members.iter().all(|member| member.region.is_some())
    });
    let ids = [2, 3].map(|at: usize| {
        let id = group.members[at].node().identity();
        group.members[at].leave();
        (id.0.0, id.1.0 + 1)
    });
    let [leader, learner, far, near] = &group.members[..] else {
        panic!("four members");
    };
    learner
        .host
        .wait("the view of two", |r| r.view_names().len() == 2);
    eventually("rest", || {
        let at = learner.node().status();
        at.last_index == leader.node().status().last_index && at.last_index == at.commit_index
    });
    let had = learner.node().status().commit_index;
    let fed = forged(leader, learner);
    // Comes after it, and shows that it was judged.
    let PeerMessage::Fed { message, .. } = fed.clone() else {
        panic!("an append");
    };
    let odd = PeerMessage::Consensus(Message {
        body: Body::TimeoutNow,
        ..message
    });
    let _near = send_as(near, ids[1], learner, &[fed.clone(), odd]);
    learner
        .host
        .wait("the next message", |r| r.says("that names other parties"));
    let leads = leader.node().status().commit_index;
    assert!(learner.node().status().commit_index <= leads);
    assert_eq!(leads, had, "the group is at rest");
    let _far = send_as(far, ids[0], learner, &[fed]);
    eventually("the forged entry", || {
        learner.node().status().commit_index > had
    });
    assert_eq!(leader.node().status().commit_index, had);
}
