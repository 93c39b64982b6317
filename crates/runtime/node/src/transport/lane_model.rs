//! One lane with its thread and two threads that drive, under schedules that are chosen.

use std::net::TcpListener;
use std::sync::Arc;

use synod_consensus::{EntryKind, MemberId, Origin, Term};
use synod_planted::Bug;
use synod_wire::{FrameReader, OUR_VERSIONS, Propose};

use super::super::channel::TimedSocket;
use super::*;
use crate::sync::{model, thread};

const SENDERS: u64 = 2;
const EACH: u64 = 3;
/// How often a thread lets the others run until what they do must be done.
const YIELDS_MAX: usize = 2_000;

fn numbered(sender: u64, number: u64) -> PeerMessage {
    PeerMessage::Propose(Propose {
        tag: Term(1),
        origin: Origin {
            member: MemberId(sender + 1),
            session: SessionId(1),
            number,
        },
        kind: EntryKind::Action,
        oldest_outstanding: 0,
        payload: Bytes::new(),
    })
}

fn open_lane() -> (Arc<LaneQueue>, LaneWriter, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    let lane = Arc::new(LaneQueue::default());
    lane.opened(OpenLane {
        stream: stream.try_clone().unwrap(),
        connection: 1,
        session: SessionId(1),
        group: GroupId::NONE,
        shown: PeerCredential::None,
    });
    let channel = Channel::Plain(TimedSocket::new(stream, Duration::ZERO));
    let writer = LaneWriter::new(channel, OUR_VERSIONS.max, u32::MAX, None);
    (lane, writer, other)
}

fn serve(lane: &LaneQueue, mut writer: LaneWriter) -> LaneEnd {
    loop {
        match lane.take(writer) {
            Ok((messages, taken)) => {
                writer = taken;
                assert!(writer.push(&messages).errors.is_empty());
                writer.flush().unwrap();
            }
            Err(end) => return end,
        }
    }
}

fn send(lane: &LaneQueue, sender: u64) {
    for number in 0..EACH {
        assert_eq!(
            lane.push(numbered(sender, number), None),
            PushResult::Queued
        );
        match (sender + number) % 3 {
            0 => lane.send_by_thread(),
            1 => drop(lane.send_now(|| true)),
            _ => drop(lane.send_now(|| false)),
        }
    }
}

fn wait_sent(lane: &LaneQueue) {
    for _ in 0..YIELDS_MAX {
        let state = lock(&lane.state);
        if state.queue.is_empty() && state.writer.is_some() {
            return;
        }
        drop(state);
        thread::yield_now();
    }
    panic!("messages are left in the queue, and no thread sends them");
}

/// All messages are sent, in the order of each thread, and closing ends the lane's thread.
fn messages_are_sent_in_order() {
    let (lane, writer, other) = open_lane();
    let thread = thread::spawn({
        let lane = lane.clone();
        move || serve(&lane, writer)
    });
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let lane = lane.clone();
            thread::spawn(move || send(&lane, sender))
        })
        .collect();
    for sender in senders {
        sender.join().unwrap();
    }
    wait_sent(&lane);
    lane.close();
    assert_eq!(thread.join().unwrap(), LaneEnd::GivenUp);
    lane.shut();
    let mut reader = FrameReader::new(other, u32::MAX);
    let mut next = [0; SENDERS as usize];
    while let Some(frame) = reader.read_frame().unwrap() {
        let message = PeerMessage::decode(OUR_VERSIONS.max, frame).unwrap();
        let PeerMessage::Propose(propose) = message else {
            panic!("{message:?} was not sent");
        };
        let next = &mut next[propose.origin.member.0 as usize - 1];
        assert_eq!(propose.origin.number, *next, "of {:?}", propose.origin);
        *next += 1;
    }
    assert_eq!(next, [EACH; SENDERS as usize]);
}

#[test]
fn no_message_is_left_in_every_schedule() {
    model::holds(messages_are_sent_in_order);
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::SendUnwoken, Bug::TakeUnlocked] {
        model::finds(bug, messages_are_sent_in_order);
    }
}
