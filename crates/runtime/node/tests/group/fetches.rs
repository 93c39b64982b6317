//! Entries that a member's own log lacks come from the others.

use bytes::Bytes;
use synod_node::{DataState, NodeConfig, NotFetched, Seqno, StartMode};

use crate::support::{Group, eventually, seqno_of};

/// The log of node3 keeps little, and that of the others too if `all`.
fn with_small_logs(name: &str, all: bool) -> Group {
    let small = |config: &mut NodeConfig| {
        if all || config.name == "node3" {
            config.log.segment_bytes = 128 << 10;
            config.log.retain_bytes = 512 << 10;
            // However large the disk of the test is.
            config.log.free_percent_min = 100;
        }
    };
    Group::prepared_by(3, name, small).begin()
}

/// Node 3 is started again, and delivers nothing until its log has lost what it needs next. Returns
/// the last action that it has.
fn outlast_log_of_node3(group: &mut Group) -> Seqno {
    group.members[2].stop();
    let had = group.members[2].last();
    group.members[2].start(StartMode::Join).unwrap();
    group.members[2]
        .host
        .wait("joining", |record| record.joined > 0);
    let leader = group.leader();
    for i in 0..40 {
        seqno_of(group.members[leader].order(&format!("k{i}"), vec![7; 100_000]));
    }
    eventually("the log to drop old entries", || {
        !group.members[2].node().can_deliver_after(had)
    });
    had
}

#[test]
fn what_the_own_log_lacks_is_fetched_and_delivered_in_order() {
    let mut group = with_small_logs("fetch", false);
    let had = outlast_log_of_node3(&mut group);
    let node = group.members[2].node().clone();
    let up_to = node.commit_seqno();
    assert_eq!(node.find_actions_after(had), Ok(()));
    let sessions = node.sessions_between(had, up_to).unwrap();
    let leader = group.members[group.leader()].node().identity();
    assert!(sessions.contains(&leader), "{sessions:?}");
    node.set_data_state(DataState::Synced);
    node.deliver_after(had).unwrap();
    group.wait_complete();
    seqno_of(group.members[2].order("after", Bytes::from_static(b"v")));
    group.check_same_history();
}

#[test]
fn member_is_told_where_the_logs_begin_if_no_member_has_what_it_lacks() {
    let mut group = with_small_logs("fetch-none", true);
    let had = outlast_log_of_node3(&mut group);
    for member in group.running() {
        eventually("the log to drop old entries", || {
            member.node().status().first_seqno > had.next()
        });
    }
    let NotFetched { asked } = group.members[2].node().find_actions_after(had).unwrap_err();
    for name in ["node1", "node2"] {
        let said = format!("the log of {name} begins with");
        assert!(asked.contains(&said), "{asked}");
    }
}
