//! Large actions, and actions that are withdrawn, interrupted or late.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use synod_node::{
    Action, Class, Delivery, KeySet, KeyType, ProposalResult, Seqno, WaitPolicy, WaitResult,
};

use crate::support::{CHUNK_BYTES, Group, action, data_at, eventually, seqno_of};

fn big(keys: usize, bytes: usize, last_seen: Seqno, seed: u8) -> Action {
    let mut set = KeySet::new();
    for key in 0..keys {
        let name = format!("{seed}-{key}");
        set.append(&[b"db", b"big", name.as_bytes()], KeyType::Exclusive);
    }
    let data: Vec<u8> = (0..bytes).map(|i| (i / 1000) as u8 ^ seed).collect();
    Action {
        class: Class::WriteSet { pa_unsafe: false },
        keys: set,
        last_seen: last_seen.0,
        data: data.into(),
    }
}

#[test]
fn large_actions_arrive_whole_while_small_ones_pass_between_their_chunks() {
    let group = Group::of(3, "large");
    let leader = group.leader();
    let done = AtomicBool::new(false);
    let large: Vec<(Seqno, Bytes)> = thread::scope(|scope| {
        let small = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Acquire) {
                seqno_of(group.members[leader].order("small", "s"));
                count += 1;
            }
            count
        });
        let large: Vec<_> = group
            .members
            .iter()
            .enumerate()
            .map(|(seed, member)| {
                scope.spawn(move || {
                    let mut action = big(10_000, 5 << 20, Seqno(0), seed as u8);
                    action.last_seen = member.last().0;
                    assert!(
                        action.keys.encode().len() > 2 * CHUNK_BYTES,
                        "keys in chunks, too"
                    );
                    let result = member.node().submit(&action).wait_for_result();
                    (seqno_of(result), action.data)
                })
            })
            .collect();
        let large: Vec<_> = large
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, Ordering::Release);
        let large = large.into_iter().map(Result::unwrap).collect();
        assert!(small.join().unwrap() > 0);
        large
    });
    group.check_same_history();
    for (seqno, data) in &large {
        let mut whole = 0;
        for member in &group.members {
            if let Some(delivered) = data_at(&member.host.lock(), *seqno) {
                assert!(delivered == *data, "{seqno} differs");
                whole += 1;
            }
        }
        assert_eq!(whole, 2, "all but its origin get the data");
    }
    // Their keys were taken in, wherever the verdict falls from now on.
    let blind = big(
        1,
        10,
        Seqno(large.iter().map(|(s, _)| s.0).min().unwrap() - 1),
        1,
    );
    let result = group.members[0].node().submit(&blind).wait_for_result();
    // Too old, if every member has applied them by now.
    assert!(
        matches!(
            result,
            ProposalResult::Conflict { .. } | ProposalResult::TooOld
        ),
        "{result:?}"
    );
}

/// Otherwise every log keeps the chunks, and every member the keys, until the leader finds that
/// nothing has come for a minute.
#[test]
fn what_the_group_has_of_a_withdrawn_action_is_discarded_at_once() {
    let group = Group::of(3, "withdrawn");
    let leader = &group.members[group.leader()];
    for member in &group.members {
        let discards = || leader.host.lock().times_said("refused or withdrawn");
        let before = discards();
        let action = big(10_000, 1 << 20, member.last(), 1);
        let pending = member.node().pending(WaitPolicy::default());
        member.node().hand_over(&action, &pending, || {
            assert!(pending.withdraw(), "its last piece is not made yet");
            member.last()
        });
        assert_eq!(pending.wait_for_result(), ProposalResult::Withdrawn);
        eventually("its discard", || discards() > before);
    }
    seqno_of(group.members[0].order("after", "v"));
    group.check_same_history();
}

#[test]
fn interrupted_wait_leaves_the_outcome_to_the_group() {
    let group = Group::of(1, "interrupt");
    let member = &group.members[0];
    let pending = member.submit("k", "v");
    pending.interrupt();
    match pending.wait() {
        WaitResult::Interrupted | WaitResult::ProposalResult(ProposalResult::Ordered { .. }) => {}
        other => panic!("{other:?}"),
    }
    let result = pending.give_up();
    let after = seqno_of(member.order("other", "w"));
    group.check_same_history();
    let record = member.host.lock();
    let without_data: Vec<Seqno> = record
        .deliveries
        .iter()
        .filter(|d| matches!(d, Delivery::Action { data: None, .. }))
        .map(Delivery::seqno)
        .collect();
    match result {
        // If it was ordered after all, it was delivered with its data.
        Some(ProposalResult::Unknown) => assert_eq!(without_data, [after]),
        result => assert_eq!(without_data, [seqno_of(result.unwrap()), after]),
    }
}

#[test]
fn action_that_takes_long_to_arrive_is_not_too_old_for_that() {
    let group = Group::of(3, "slow");
    let done = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        let (done, group) = (&done, &group);
        for member in &group.members {
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    member.order(&member.config.name, "s");
                }
            });
        }
        // More than its member may have on the way at once, while all members apply the others'.
        let mut large = big(10, 48 << 20, Seqno(0), 1);
        large.last_seen = group.members[1].last().0;
        let result = group.members[1].node().submit(&large).wait_for_result();
        done.store(true, Ordering::Release);
        result
    });
    seqno_of(result);
    group.check_same_history();
}

#[test]
fn ordered_action_is_read_from_the_log_of_any_member_if_it_is_in_one_piece() {
    let group = Group::of(2, "read-back");
    let member = &group.members[group.leader()];
    let small = seqno_of(member.order("key", "small"));
    let large = seqno_of(member.order("large", vec![7; 3 * CHUNK_BYTES]));
    let proposer = member.node().identity();
    for member in &group.members {
        eventually("both actions", || member.last() >= large);
        let read = |seqno| member.node().ordered_action(seqno);
        let found = read(small).expect("in the log");
        assert_eq!((found.origin.member, found.origin.session), proposer);
        assert_eq!(found.data, "small");
        let keys = action("key", Seqno(0), "").keys;
        assert_eq!(found.keys.encode(), keys.encode());
        assert!(read(large).is_none(), "its keys came before its last piece");
        assert!(read(large.next()).is_none() && read(Seqno(-1)).is_none());
    }
}
