//! Commits that wait until all databases have applied them.

use synod_node::{CommitWait, DataState, LiveSetting, Seqno};

use crate::support::{Group, Member, seqno_of};

fn waits(member: &Member) {
    member
        .node()
        .set(LiveSetting::CommitWait(CommitWait::Applied));
}

fn wait_everywhere(member: &Member, seqno: Seqno) {
    let is_there = |r: &crate::support::Record| r.is_everywhere(seqno);
    member.host.wait("application everywhere", is_there);
}

/// Seqnos that the member was told, without "nothing has to be waited for".
fn told(member: &Member) -> Vec<Seqno> {
    let everywhere = member.host.lock().everywhere.clone();
    let told = everywhere.into_iter().map(|(_, seqno)| seqno);
    told.filter(|seqno| *seqno < Seqno(i64::MAX)).collect()
}

#[test]
fn every_member_is_told_how_far_all_databases_are() {
    let group = Group::of(3, "everywhere");
    group.members.iter().for_each(waits);
    for round in 0..20 {
        for member in &group.members {
            let seqno = seqno_of(member.order(&format!("row{round}"), "v"));
            wait_everywhere(member, seqno);
            for other in &group.members {
                let applied = other.last();
                let is_own = other.config.name == member.config.name;
                assert!(is_own || applied >= seqno, "{applied} is before {seqno}");
            }
        }
    }
    assert!(group.members.iter().all(|member| !told(member).is_empty()));
}

#[test]
fn nothing_is_told_unless_it_is_asked_for() {
    let group = Group::of(2, "durable");
    let [a, b] = &group.members[..] else {
        unreachable!()
    };
    waits(a);
    seqno_of(b.order("row", "v"));
    let last = seqno_of(a.order("other row", "w"));
    wait_everywhere(a, last);
    a.node().set(LiveSetting::CommitWait(CommitWait::Durable));
    wait_everywhere(a, Seqno(i64::MAX));
    assert_eq!(told(b), []);
}

#[test]
fn desynced_and_lost_members_are_not_waited_for() {
    let mut group = Group::of(3, "gone");
    waits(&group.members[0]);
    let [a, b, c] = &group.members[..] else {
        unreachable!()
    };
    b.hold();
    b.node().set_data_state(DataState::Donor);
    let first = seqno_of(a.order("row", "1"));
    wait_everywhere(a, first);
    c.host.wait("application", |record| record.last() >= first);
    assert!(!a.host.lock().says("commits do not wait for"));
    group.members[2].stop();
    let a = &group.members[0];
    let second = seqno_of(a.order("row", "2"));
    wait_everywhere(a, second);
    // Without a majority, what is committed stays so, and no client waits.
    group.members[1].stop();
    let a = &group.members[0];
    a.host
        .wait("the loss", |record| record.primary == Some(false));
    wait_everywhere(a, Seqno(i64::MAX));
}
