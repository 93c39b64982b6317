//! Groups that begin from databases which hold a history already: as servers that come from Galera
//! do, which take over its group, and as copies of the past do, which must not.

use synod_node::{DataState, DatabasePosition, GroupId, Seqno, StartMode};

use crate::support::{Member, seqno_of};

/// The history that the databases hold.
const HISTORY: GroupId = GroupId([7; 16]);

/// A member whose database is at `seqno` of that history; it finds the group at `seed`.
fn member(name: &str, cluster: &str, seqno: i64, seed: Option<&Member>) -> Member {
    let mut member = Member::new(name, cluster);
    let seeds = seed.map(|seed| seed.config.address.clone());
    member.config.seeds = seeds.into_iter().collect();
    member.config.database = DatabasePosition::new(HISTORY, Seqno(seqno));
    member
}

/// Starts a member and waits until the group has it.
fn start(member: &mut Member, mode: StartMode) {
    member.start(mode).unwrap();
    member.node().set_applied(member.node().database().seqno);
    member.host.wait("joining", |record| record.joined > 0);
}

/// Has a member apply what follows its database.
fn apply(member: &Member) {
    let position = member.node().database().seqno;
    member.node().set_data_state(DataState::Synced);
    member.node().deliver_after(position).unwrap();
    member.host.wait("its view", |r| r.last() > position);
}

#[test]
fn members_at_the_position_where_the_group_begins_need_no_copy() {
    let mut first = member("first", "migrated", 2, None);
    start(&mut first, StartMode::TakeOver);
    apply(&first);
    let mut others = ["second", "third"].map(|name| member(name, "migrated", 2, Some(&first)));
    for other in &mut others {
        start(other, StartMode::Join);
        assert!(other.node().can_deliver_after(Seqno(2)));
        apply(other);
        other.wait_voter();
    }
    let seqno = seqno_of(first.order("k", "the first action of the group"));
    assert!(seqno > Seqno(2), "the history continues: {seqno}");
    for member in [&first].into_iter().chain(&others) {
        member.host.wait("the action", |r| r.last() >= seqno);
        assert_eq!(member.node().status().group, HISTORY);
    }
}

#[test]
fn member_before_the_position_where_the_group_begins_needs_a_copy() {
    let mut first = member("first", "older", 9, None);
    start(&mut first, StartMode::TakeOver);
    apply(&first);
    let mut older = member("older", "older", 8, Some(&first));
    start(&mut older, StartMode::Join);
    assert!(!older.node().can_deliver_after(Seqno(8)));
}

#[test]
fn group_that_began_from_a_database_is_found_again_after_a_restart() {
    let mut first = member("first", "again", 2, None);
    start(&mut first, StartMode::TakeOver);
    apply(&first);
    let seqno = seqno_of(first.order("k", "before"));
    first.host.wait("the action", |r| r.last() >= seqno);
    first.stop();
    first.start(StartMode::Join).unwrap();
    first.take_part();
    assert!(seqno_of(first.order("k", "after")) > seqno);
}

/// Databases and logs of the former group hold other actions with the same numbers after the copy.
#[test]
fn group_begun_with_a_copy_is_another_one_than_that_of_the_copy() {
    let mut first = member("first", "copied", 2, None);
    start(&mut first, StartMode::Bootstrap);
    apply(&first);
    let group = first.node().status().group;
    assert_ne!(group, HISTORY);
    assert_eq!(first.node().database().group, group, "it is the new one's");
    let words = "up to 2. That group is over for this server";
    first.host.wait("the words", |record| record.says(words));
    let mut other = member("other", "copied", 9, Some(&first));
    start(&mut other, StartMode::Join);
    assert_eq!(other.node().status().group, group);
    assert_eq!(other.node().database().group, HISTORY, "its host compares");
}
