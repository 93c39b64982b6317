//! Damaged logs, on real files: they are repaired from the others, or refused with the reason.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use synod_log::{Entry, Log, LogOptions, RealFiles};
use synod_node::{LogIndex, NodeError, OpenError, ProposalResult, Seqno, StartMode};

use crate::support::{Group, Member, eventually, seqno_of};

const PAYLOAD_BYTES: usize = 2000;
const PAYLOAD_BYTE: u8 = 7;
const DAMAGED_BYTES: usize = 16;

fn fill(group: &Group, at: usize, count: usize) {
    for i in 0..count {
        seqno_of(group.members[at].order(&format!("k{i}"), vec![PAYLOAD_BYTE; PAYLOAD_BYTES]));
    }
}

fn segment(member: &Member, number: u64) -> PathBuf {
    member.dir.path().join(format!("synod-{number:016x}.log"))
}

/// Changes some bytes of an entry's payload, so far into a segment's content or soon after. Not of
/// a batch's header: reading an entry passes over those.
fn damage(member: &Member, number: u64, at: f64) -> PathBuf {
    let path = segment(member, number);
    let content = std::fs::read(&path).unwrap();
    let used = content.iter().rposition(|byte| *byte != 0).unwrap();
    let from = 4096 + ((used - 4096) as f64 * at) as usize;
    let found = content[from..]
        .windows(DAMAGED_BYTES)
        .position(|bytes| bytes.iter().all(|byte| *byte == PAYLOAD_BYTE));
    let from = from + found.expect("an entry of the test from there on");
    let bad = [PAYLOAD_BYTE ^ 0x10; DAMAGED_BYTES];
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&bad, from as u64).unwrap();
    path
}

/// The entries of a member's log; it does not run.
fn entries(member: &Member) -> Vec<Entry> {
    let files = Arc::new(RealFiles);
    let opened = Log::open(files, member.dir.path(), LogOptions::default()).unwrap();
    assert_eq!(opened.recovered.repair, None, "it is whole");
    let first = opened.reader.first_index();
    opened
        .reader
        .read(first, LogIndex(u64::MAX), usize::MAX)
        .unwrap()
}

fn check_same_logs(group: &mut Group) {
    let last = group.members[0].node().status().commit_index;
    for member in &group.members {
        eventually("the whole log", || {
            member.node().status().commit_index >= last
        });
    }
    for member in &mut group.members {
        member.stop();
    }
    let first = entries(&group.members[0]);
    let upto = usize::try_from(last.0).unwrap();
    for other in &group.members[1..] {
        assert!(entries(other)[..upto] == first[..upto], "logs differ");
    }
}

fn wait_repaired(member: &Member) {
    member.host.wait("the end of the repair", |record| {
        record.says("log is repaired")
    });
}

#[test]
fn damaged_log_is_repaired_while_clients_write() {
    let mut group = Group::of(3, "repair");
    let at = group.follower();
    fill(&group, at, 700);
    group.members[at].stop();
    let had = group.members[at].last();
    let path = damage(&group.members[at], 1, 0.4);
    let leader = group.leader();
    let mut damaged = group.members.remove(at);
    let writer = if leader > at { leader - 1 } else { leader };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let group = &group;
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                seqno_of(group.members[writer].order("k", "meanwhile"));
            }
        });
        damaged.start(StartMode::Join).unwrap();
        {
            let record = damaged.host.lock();
            let named =
                |line: &str| line.contains("damaged") && line.contains(path.to_str().unwrap());
            assert!(
                record.lines.iter().any(|(_, line)| named(line)),
                "{:?}",
                record.lines
            );
            assert_eq!(record.last(), had, "the database is ahead of the log");
        }
        damaged.take_part();
        wait_repaired(&damaged);
        damaged.host.wait("what was written meanwhile", |record| {
            record.last() > had.next().next()
        });
        stop.store(true, Ordering::Release);
    });
    group.members.insert(at, damaged);
    group.wait_complete();
    assert_eq!(group.leader(), leader, "the group was not disturbed");
    group.check_same_history();
    check_same_logs(&mut group);
}

#[test]
fn two_of_three_damaged_at_different_records_are_repaired_from_the_third() {
    let mut group = Group::of(3, "two");
    let leader = group.leader();
    fill(&group, leader, 500);
    let last = group.members[leader].last();
    for member in &group.members {
        member.host.wait("all", |record| record.last() >= last);
    }
    for member in &mut group.members {
        member.stop();
    }
    damage(&group.members[0], 1, 0.3);
    damage(&group.members[1], 1, 0.6);
    for member in &mut group.members {
        member.start(StartMode::Join).unwrap();
    }
    for member in &mut group.members {
        member.take_part();
    }
    wait_repaired(&group.members[0]);
    wait_repaired(&group.members[1]);
    group.wait_complete();
    seqno_of(group.members[0].order("k", "after"));
    assert!(group.members[2].last() >= last);
    group.check_same_history();
    check_same_logs(&mut group);
}

#[test]
fn only_voter_with_a_damaged_log_is_refused_and_left_as_it_is() {
    let mut group = Group::of(1, "alone");
    fill(&group, 0, 50);
    group.members[0].stop();
    let path = damage(&group.members[0], 1, 0.5);
    let before = std::fs::read(&path).unwrap();
    let refused = group.members[0].start(StartMode::Join).unwrap_err();
    assert!(
        matches!(refused, NodeError::Open(OpenError::SoleVoterDamaged { .. })),
        "{refused}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("only voter") && text.contains(path.to_str().unwrap()),
        "{text}"
    );
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn damage_met_while_serving_stops_the_member_and_its_restart_repairs_it() {
    let mut group = Group::prepared(3, "serving");
    for member in &mut group.members {
        member.config.log.cache_bytes = 64 << 10;
    }
    let mut group = group.begin();
    let leader = group.leader();
    let at = group.follower();
    group.members[at].stop();
    // More than the leader keeps at hand, so that it has to read its disk.
    for i in 0..90 {
        seqno_of(group.members[leader].order(&format!("k{i}"), vec![PAYLOAD_BYTE; 500_000]));
    }
    let path = damage(&group.members[leader], 2, 0.5);
    group.members[at].start(StartMode::Join).unwrap();
    group.members[leader]
        .host
        .wait("the leader to stop", |record| record.failed.is_some());
    let why = group.members[leader].host.lock().failed.clone().unwrap();
    assert!(
        why.contains(path.to_str().unwrap()) && why.contains("Restart"),
        "{why}"
    );
    group.members[leader].stop();
    group.members[at].take_part();
    eventually("an action without it", || {
        // Refused as too old until this member, which lagged far, has caught up.
        matches!(
            group.members[at].order("k", "v"),
            ProposalResult::Ordered { .. }
        )
    });
    group.members[leader].start(StartMode::Join).unwrap();
    group.members[leader].take_part();
    wait_repaired(&group.members[leader]);
    group.wait_complete();
    group.check_same_history();
    check_same_logs(&mut group);
}

#[test]
fn damage_met_while_delivering_stops_the_member_before_it_is_delivered() {
    let mut group = Group::prepared(3, "delivering");
    for member in &mut group.members {
        member.config.log.cache_bytes = 64 << 10;
    }
    let mut group = group.begin();
    let at = group.follower();
    fill(&group, at, 700);
    group.members[at].stop();
    let kept = group.members[at].last();
    // Its database forgets what it has; it needs the log for that again.
    group.members[at].forget_after(Seqno(5));
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at]
        .host
        .wait("joining", |record| record.joined > 0);
    let path = damage(&group.members[at], 1, 0.5);
    let node = group.members[at].node().clone();
    node.deliver_after(Seqno(5)).unwrap();
    group.members[at]
        .host
        .wait("the member to stop", |record| record.failed.is_some());
    let why = group.members[at].host.lock().failed.clone().unwrap();
    assert!(why.contains(path.to_str().unwrap()), "{why}");
    assert!(group.members[at].last() < kept);
    drop(node);
    group.members[at].stop();
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at].take_part();
    wait_repaired(&group.members[at]);
    group.wait_complete();
    group.check_same_history();
}
