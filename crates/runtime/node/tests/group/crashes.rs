//! Members that stop without sending a message, one, two or all of them, and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use synod_log::files::{Fault, FaultKind, Op};
use synod_log::{FaultyFiles, RealFiles};
use synod_node::{DataState, Node, NodeConfig, ProposalResult, Seqno, StartMode, WaitPolicy};

use crate::support::{Group, PATIENCE, SUSPECT, eventually, seqno_of};

/// So that a test comes to the bound of the log.
fn small_log(config: &mut NodeConfig) {
    config.log.segment_bytes = 128 << 10;
    config.log.retain_bytes = 512 << 10;
    // However large the disk of the test is.
    config.log.free_percent_min = 100;
}

fn rejoin(group: &mut Group, at: usize) {
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at].take_part();
}

#[test]
fn losing_the_quorum_ends_what_is_pending_and_its_return_restores_the_group() {
    let mut group = Group::of(3, "quorum");
    let survivor = group.leader();
    let down: Vec<usize> = (0..3).filter(|at| *at != survivor).collect();
    for at in &down {
        group.members[*at].stop();
    }
    let began = Instant::now();
    let pending = group.members[survivor].submit("k", "alone");
    let patient = {
        let member = &group.members[survivor];
        let action = crate::support::action("p", member.last(), "patient");
        member.node().submit_with(&action, WaitPolicy::UntilKnown)
    };
    group.members[survivor]
        .host
        .wait("no primary any more", |record| {
            record.primary == Some(false)
        });
    assert_eq!(pending.wait_for_result(), ProposalResult::Unknown);
    assert!(began.elapsed() < SUSPECT * 3, "took {:?}", began.elapsed());
    assert_eq!(patient.result(), None, "it waits for what becomes of it");
    let late = group.members[survivor].order("k", "late");
    assert_eq!(
        late,
        ProposalResult::NotProposed,
        "nothing is taken without a group"
    );
    rejoin(&mut group, down[0]);
    group.members[survivor]
        .host
        .wait("primary again", |record| record.primary == Some(true));
    seqno_of(patient.wait_for_result());
    seqno_of(group.members[survivor].order("k2", "v"));
    rejoin(&mut group, down[1]);
    group.wait_complete();
    group.check_same_history();
}

#[test]
fn member_with_a_full_disk_says_so_and_the_others_keep_serving() {
    let mut group = Group::of(3, "full");
    let at = group.follower();
    group.members[at].stop();
    let files = FaultyFiles::new(Arc::new(RealFiles));
    let disk = files.clone();
    group.members[at]
        .start_by(|config, host| Node::start_on(Arc::new(disk), config, StartMode::Join, host))
        .unwrap();
    group.members[at].take_part();
    group.wait_complete();
    files.plan(Fault {
        op: Op::Write,
        nth: 1,
        kind: FaultKind::Always(std::io::ErrorKind::StorageFull),
    });
    let leader = group.leader();
    seqno_of(group.members[leader].order("k", "v"));
    group.members[at]
        .host
        .wait("failure", |record| record.failed.is_some());
    let why = group.members[at].host.lock().failed.clone().unwrap();
    assert!(why.contains("no space"), "{why}");
    assert_eq!(
        group.members[at].order("k3", "v"),
        ProposalResult::Unknown,
        "no client waits for ever"
    );
    group.members[at].stop();
    seqno_of(group.members[leader].order("k2", "v"));
    files.heal();
    rejoin(&mut group, at);
    group.wait_complete();
    group.check_same_history();
}

#[test]
fn stopping_frees_clients_that_wait_for_room_or_for_an_outcome() {
    let mut group = Group::of(3, "stopping");
    let at = group.follower();
    for other in (0..3).filter(|other| *other != at) {
        group.members[other].stop();
    }
    let node = group.members[at].node().clone();
    let began = Instant::now();
    let results: Vec<ProposalResult> = thread::scope(|scope| {
        let clients: Vec<_> = (0..12)
            .map(|client| {
                let node = node.clone();
                scope.spawn(move || {
                    let data = vec![1_u8; 1 << 20];
                    let action = crate::support::action(&format!("c{client}"), Seqno(0), data);
                    node.submit(&action).wait_for_result()
                })
            })
            .collect();
        eventually("pending actions", || node.status().pending > 0);
        group.members[at].stop();
        clients.into_iter().map(|c| c.join().unwrap()).collect()
    });
    assert_eq!(results.len(), 12);
    for result in results {
        assert!(
            matches!(
                result,
                ProposalResult::Unknown | ProposalResult::NotProposed
            ),
            "{result:?}"
        );
    }
    assert!(began.elapsed() < SUSPECT * 4);
    assert_eq!(node.read_position(SUSPECT), None);
}

#[test]
fn member_that_was_away_too_long_gets_the_end_of_the_log_and_continues_from_a_copy() {
    let mut group = Group::prepared_by(3, "away", small_log).begin();
    let at = group.follower();
    group.members[at].stop();
    let leader = group.leader();
    for i in 0..40 {
        seqno_of(group.members[leader].order(&format!("k{i}"), vec![7; 100_000]));
    }
    let had = group.members[at].last();
    for member in group.running() {
        eventually("the log to drop old entries", || {
            member.node().status().first_seqno > had.next()
        });
    }
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at]
        .host
        .wait("joining", |record| record.joined > 0);
    assert!(!group.members[at].node().can_deliver_after(had));
    let seqno = seqno_of(group.members[leader].order("k", "v"));
    group.members[leader]
        .host
        .wait("delivery", |r| r.last() >= seqno);
    group.members[at].copy_database(&group.members[leader]);
    group.members[at].take_part();
    group.wait_complete();
    // What was left of the log is enough for all of them to start again.
    for member in &mut group.members {
        member.stop();
    }
    for at in 0..3 {
        group.members[at].start(StartMode::Join).unwrap();
    }
    for member in &mut group.members {
        member.take_part();
    }
    group.wait_complete();
    seqno_of(group.members[at].order("after", "v"));
    group.check_same_history();
}

/// The member's log is lost, and the others' begins with the very next action.
#[test]
fn database_that_ends_where_the_log_begins_needs_no_copy() {
    let mut group = Group::prepared_by(3, "edge", small_log).begin();
    let leader = group.leader();
    for i in 0..60 {
        seqno_of(group.members[leader].order(&format!("k{i}"), vec![7; 20_000]));
    }
    eventually("the log to drop old entries", || {
        group.members[leader].node().status().first_seqno > Seqno(1)
    });
    // The log of a new member would start later than this one's, if it needed no more.
    let small: Vec<_> = (0..1100)
        .map(|i| group.members[leader].submit(&format!("s{i}"), "v"))
        .collect();
    for pending in small {
        seqno_of(pending.wait_for_result());
    }
    group.wait_complete();
    let at = group.follower();
    group.members[at].stop();
    let first_seqno = || group.members[leader].node().status().first_seqno;
    // Segments are dropped one after the other, as the databases flush.
    let mut first = (first_seqno(), Instant::now());
    eventually("the log to keep what it has", || {
        if first.0 != first_seqno() {
            first = (first_seqno(), Instant::now());
        }
        first.1.elapsed() > Duration::from_secs(3)
    });
    let (first, _) = first;
    let member = &mut group.members[at];
    member.forget_after(first.prev());
    member.dir = tempfile::tempdir().unwrap();
    member.config.log_dir = member.dir.path().to_owned();
    member.start(StartMode::Join).unwrap();
    member.take_part();
    group.wait_complete();
    group.check_same_history();
}

/// The log begins in the middle of an action: by its seqnos alone, the database could continue from
/// it.
#[test]
fn member_whose_next_action_is_incomplete_learns_that_only_a_copy_helps() {
    // No member is counted as dead: a view would come before the action.
    let group = Group::prepared_by(3, "cut", |config| {
        config.suspect = PATIENCE;
        small_log(config);
    });
    let mut group = group.begin();
    let at = group.follower();
    let leader = group.leader();
    group.members[at].stop();
    let had = group.members[at].last();
    assert_eq!(had, group.members[leader].last());
    // With what comes after it the log reaches its bound, and not before its last chunk is there.
    seqno_of(group.members[leader].order("large", vec![7; 700_000]));
    for i in 0..6 {
        seqno_of(group.members[leader].order(&format!("k{i}"), vec![7; 100_000]));
    }
    for member in group.running() {
        member.host.wait("the log to drop old entries", |record| {
            record.says("the log has reached its disk bound")
        });
        let first = member.node().status().first_seqno;
        assert_eq!(first, had.next(), "and with them chunks only");
    }
    let member = &mut group.members[at];
    member.start(StartMode::Join).unwrap();
    member.take_part();
    member.host.wait("the news", |record| record.needs_copy);
    let why = member.host.lock().failed.clone().unwrap();
    assert!(
        why.contains("incomplete") && why.contains("full copy"),
        "{why}"
    );
}

#[test]
fn full_log_keeps_what_no_database_has_and_clients_wait_for_room() {
    let mut group = Group::prepared_by(1, "bounded", small_log);
    let member = &mut group.members[0];
    member.start(StartMode::Bootstrap).unwrap();
    member.host.wait("joining", |record| record.joined > 0);
    let member = &*member;
    let ordered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..18 {
                seqno_of(member.order(&format!("k{i}"), vec![7; 100_000]));
                ordered.fetch_add(1, Ordering::SeqCst);
            }
        });
        // No delivery to the database has begun yet.
        member.host.wait("a full log", |record| {
            record.says("nothing new is taken until they have")
        });
        assert!(member.node().status().log_bytes < 2 << 20);
        assert!(ordered.load(Ordering::SeqCst) < 18);
        member.node().set_data_state(DataState::Synced);
        member.node().deliver_after(member.last()).unwrap();
        member
            .host
            .wait("room", |record| record.says("the log has room again"));
    });
    assert_eq!(ordered.load(Ordering::SeqCst), 18);
    assert!(member.node().status().log_bytes < 2 << 20);
    assert!(member.host.lock().failed.is_none());
}
