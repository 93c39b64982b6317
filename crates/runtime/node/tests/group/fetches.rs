//! Entries that a member's own log lacks come from the others.

use std::thread;

use bytes::Bytes;
use synod_consensus::{Body, EntryHeader, EntryKind, LogIndex, Message, Term};
use synod_node::{DataState, MemberId, NodeConfig, NotFetched, Seqno, StartMode};
use synod_wire::{FetchAnswer, FetchedEntries, PeerMessage};

use crate::feeding::send_as;
use crate::support::{Group, Member, eventually, seqno_of};

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

/// Answers to the first question of a member: one that fits nothing, and an invented entry that
/// looks like the one after `had`. The message behind them shows that both were judged.
fn forged(asker: &Member, had: Seqno) -> [PeerMessage; 3] {
    let data = Bytes::from_static(b"invented");
    let (status, (member, session)) = (asker.node().status(), asker.node().identity());
    let header = EntryHeader {
        payload_len: data.len() as u32,
        payload_crc: crc32c::crc32c(&data),
        ..EntryHeader::bare(Term(1), LogIndex(1), had.next(), EntryKind::Action)
    };
    let answer = |headers: Vec<EntryHeader>| {
        let payloads = headers.iter().map(|_| Some(data.clone())).collect();
        PeerMessage::Fetched(FetchAnswer {
            session,
            number: 1,
            result: Ok(FetchedEntries { headers, payloads }),
        })
    };
    let odd = PeerMessage::Consensus(Message::new(
        MemberId(member.0 ^ 1),
        member,
        status.term,
        Body::TimeoutNow,
    ));
    [answer(Vec::new()), answer(vec![header]), odd]
}

/// The same answers of the member that was asked are judged by what is in them.
#[test]
fn entries_of_a_member_that_was_not_asked_are_not_even_looked_at() {
    let mut group = with_small_logs("not-asked", false);
    // No other member is asked during the test.
    group.members[2].config.timing.retry_us = 2_000_000;
    let had = outlast_log_of_node3(&mut group);
    let ids = [0, 1].map(|at: usize| {
        let id = group.members[at].node().identity();
        group.members[at].stop();
        (id.0.0, id.1.0 + 1)
    });
    let [asked, other, asker] = &group.members[..] else {
        panic!("three members");
    };
    asker
        .host
        .wait("no majority", |record| record.primary == Some(false));
    let node = asker.node().clone();
    let _asked = send_as(asked, ids[0], asker, &[]);
    let search = thread::spawn(move || node.find_actions_after(had));
    asker
        .host
        .wait("the question", |record| record.says("asking node1 for"));
    let ignored = |name| format!("ignoring entries that {name} sent");
    let _other = send_as(other, ids[1], asker, &forged(asker, had));
    asker.host.wait("the last message", |record| {
        record.says("names other parties")
    });
    assert!(!asker.host.lock().says(&ignored("node2")));
    assert!(!search.is_finished());
    let _again = send_as(asked, ids[0], asker, &forged(asker, had)[..2]);
    assert_eq!(search.join().unwrap(), Ok(()), "it would have been taken");
    assert!(asker.host.lock().says(&ignored("node1")));
}
