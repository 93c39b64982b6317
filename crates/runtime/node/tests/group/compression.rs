//! Members that compress what they send to each other.

use synod_node::{CompressionChoice, NodeConfig};

use crate::support::{Group, seqno_of};

const ACTIONS: usize = 40;
const ROW_BYTES: usize = 20_000;

/// An action of rows that look alike.
fn text(i: usize) -> Vec<u8> {
    let row = format!("row {i} of the table of accounts, all of which look alike; ");
    row.bytes().cycle().take(ROW_BYTES).collect()
}

/// Orders on a follower, so that messages with rows go both ways; bytes that compression saved on
/// all members.
fn saved_by(choice: CompressionChoice) -> u64 {
    let with_choice = |config: &mut NodeConfig| config.compression = choice;
    let group = Group::prepared_by(3, "compression", with_choice).begin();
    let at = group.follower();
    for i in 0..ACTIONS {
        seqno_of(group.members[at].order(&format!("k{i}"), text(i)));
    }
    group.wait_complete();
    group.check_same_history();
    let statuses = group.members.iter().map(|m| m.node().compression());
    statuses.map(|s| s.plain_bytes - s.sent_bytes).sum()
}

#[test]
fn members_that_always_compress_have_the_same_history_for_fewer_bytes() {
    // The leader sends each action to two members, or to one of them its header alone.
    let sent = (ACTIONS * ROW_BYTES) as u64;
    let saved = saved_by(CompressionChoice::Always);
    assert!(saved > sent, "saved {saved} of more than {sent} bytes");
}

#[test]
fn members_that_never_compress_save_nothing() {
    assert_eq!(saved_by(CompressionChoice::Never), 0);
}
