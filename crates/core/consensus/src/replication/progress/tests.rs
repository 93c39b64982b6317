//! A peer that is probed, streamed to, and caught up.

use super::*;
use crate::tail::tests::log;
use crate::types::Term;

/// First indexes of the messages that are sent now.
fn sent(peer: &mut Peer, log: &LogView, now: u64) -> Vec<u64> {
    let limits = Limits {
        append_bytes_max: 1,
        ..Limits::default()
    };
    let next = || peer.poll(log, &limits, None, Time(now));
    std::iter::from_fn(next)
        .map(|outgoing| match outgoing {
            Outgoing::Entries { first, .. } => first.0,
            Outgoing::Empty { prev } => prev.index.next().0,
            Outgoing::Install(base) => panic!("{base:?}"),
        })
        .collect()
}

fn refuse(peer: &mut Peer, refused: u64, sent_at: u64) -> bool {
    let term = Term(1);
    let index = LogIndex(1);
    let hint = EntryId { term, index };
    peer.rejected(LogIndex(refused), index, hint, Time(sent_at))
}

fn mode(peer: &Peer) -> ProgressMode {
    peer.snapshot(MemberId(2)).mode
}

/// The headers that a follower lacks are no longer in memory: the leader sends them from its
/// disk, one message at a time, and streams again once the rest is in memory.
#[test]
fn member_far_behind_catches_up_from_disk_and_streams_again() {
    let mut log = log(&[1; 10]);
    log.trim(LogIndex(9), 2);
    let mut peer = Peer::new(LogIndex(4), Time(0));
    assert_eq!(sent(&mut peer, &log, 0), [4], "a probe without entries");
    assert_eq!(mode(&peer), ProgressMode::Probe);
    peer.acknowledged(LogIndex(3), Time(10), &log);
    assert_eq!(sent(&mut peer, &log, 10), [4], "to the end of the log");
    assert_eq!(mode(&peer), ProgressMode::CatchUp);
    // The driver has shortened the message.
    peer.acknowledged(LogIndex(6), Time(20), &log);
    assert_eq!(sent(&mut peer, &log, 20), [7]);
    assert_eq!(mode(&peer), ProgressMode::CatchUp);
    peer.acknowledged(LogIndex(8), Time(30), &log);
    assert_eq!(mode(&peer), ProgressMode::Stream);
    assert_eq!(sent(&mut peer, &log, 30), [9, 10]);
}

/// A payload is left out the first time only, since the member has it in memory. A member that
/// has lost it asks.
#[test]
fn payload_that_a_member_lacks_is_not_left_out_again() {
    let log = log(&[1; 4]);
    let mut peer = Peer::new(LogIndex(2), Time(0));
    let first_times = |peer: &mut Peer, now| -> Vec<(u64, bool)> {
        let limits = Limits {
            append_bytes_max: 1,
            ..Limits::default()
        };
        let next = || peer.poll(&log, &limits, None, Time(now));
        let first_time = |outgoing| match outgoing {
            Outgoing::Entries {
                first,
                is_first_time,
                ..
            } => (first.0, is_first_time),
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(next).map(first_time).collect()
    };
    peer.acknowledged(LogIndex(1), Time(10), &log);
    let streamed = [(2, true), (3, true), (4, true)];
    assert_eq!(first_times(&mut peer, 20), streamed);
    peer.payload_missing(LogIndex(3), Time(20));
    assert_eq!(first_times(&mut peer, 30), [(3, false)]);
    peer.acknowledged(LogIndex(3), Time(40), &log);
    assert_eq!(first_times(&mut peer, 40), [(4, false)]);
}

/// An entry that the leader appends is new to every member, so its acknowledgement tells how
/// long a write takes. What was appended before may be on the member's disk already.
#[test]
fn quick_disk_is_shown_by_new_entries_and_doubted_while_one_waits() {
    let log = log(&[1; 4]);
    let mut peer = Peer::new(LogIndex(4), Time(0));
    let is_quick = |peer: &Peer, now| peer.writes_within(200, Time(now), Time(500));
    peer.acknowledged(LogIndex(1), Time(600), &log);
    assert!(!is_quick(&peer, 600), "it may have had that entry");
    peer.entry_appended(LogIndex(2), Time(600));
    peer.acknowledged(LogIndex(2), Time(700), &log);
    assert!(is_quick(&peer, 700));
    peer.entry_appended(LogIndex(3), Time(700));
    peer.entry_appended(LogIndex(4), Time(800));
    assert!(is_quick(&peer, 900) && !is_quick(&peer, 901));
    peer.acknowledged(LogIndex(4), Time(1000), &log);
    assert!(!is_quick(&peer, 1000), "the first of them took 300");
}

/// Messages overtake each other: the follower refuses those that arrive before their
/// predecessors.
#[test]
fn window_is_sent_once_for_all_refusals_of_an_earlier_one() {
    let log = log(&[1; 6]);
    let mut peer = Peer::new(LogIndex(2), Time(0));
    assert_eq!(sent(&mut peer, &log, 0), [2]);
    peer.acknowledged(LogIndex(1), Time(10), &log);
    assert_eq!(sent(&mut peer, &log, 10), [2, 3, 4, 5, 6]);
    assert!(refuse(&mut peer, 3, 10));
    assert_eq!(sent(&mut peer, &log, 20), [2], "a probe");
    peer.acknowledged(LogIndex(2), Time(30), &log);
    assert_eq!(sent(&mut peer, &log, 30), [3, 4, 5, 6]);
    for refused in [5, 4] {
        assert!(!refuse(&mut peer, refused, 10), "of the window before");
        assert_eq!(sent(&mut peer, &log, 40), [0; 0]);
    }
    assert!(refuse(&mut peer, 5, 30), "of this one");
    assert_eq!(sent(&mut peer, &log, 50), [3]);
}
