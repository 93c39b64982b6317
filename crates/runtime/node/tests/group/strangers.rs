//! Callers from outside, which know the cluster name and the protocol: none of them stops a member,
//! makes one call a third address, or keeps the group's own members out.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use synod_consensus::SessionId;
use synod_node::{GroupId, MemberId, OUR_VERSIONS, StartMode};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    FrameReader, FrameWriter, Hello, HelloReply, Lane, RefuseReason, read_hello, read_reply,
    write_hello, write_reply,
};

use crate::support::{Group, Member, seqno_of};

/// A hello of a member that no configuration names.
pub(crate) fn hello(id: u64, cluster_name: &str, address: &str, lane: Lane) -> Hello {
    Hello {
        versions: OUR_VERSIONS,
        group: GroupId::NONE,
        cluster_name: cluster_name.to_owned(),
        member: MemberId(id),
        session: SessionId(id),
        name: "stranger".to_owned(),
        address: address.to_owned(),
        lane,
    }
}

/// Calls a member; the answer, and the connection.
fn call(address: &str, hello: &Hello) -> (TcpStream, HelloReply) {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write_hello(&mut FrameWriter::new(&stream, HANDSHAKE_FRAME_MAX), hello).unwrap();
    let reply = read_reply(
        &mut FrameReader::new(&stream, HANDSHAKE_FRAME_MAX),
        OUR_VERSIONS,
    );
    (stream, reply.unwrap())
}

pub(crate) fn welcomed(address: &str, hello: &Hello) -> TcpStream {
    let (stream, reply) = call(address, hello);
    assert!(matches!(reply, HelloReply::Welcome { .. }), "{reply:?}");
    stream
}

/// Answers one call: this very member runs already.
fn deny_identity(listener: &TcpListener) {
    let (stream, _) = listener.accept().unwrap();
    read_hello(&mut FrameReader::new(&stream, HANDSHAKE_FRAME_MAX)).unwrap();
    let reply = HelloReply::Refused {
        reason: RefuseReason::DuplicateIdentity,
        text: "a process that runs somewhere else is this very member".to_owned(),
    };
    write_reply(&mut FrameWriter::new(&stream, HANDSHAKE_FRAME_MAX), &reply).unwrap();
}

#[test]
fn stranger_that_calls_itself_every_members_original_stops_none() {
    let group = Group::of(3, "denied");
    for member in &group.members {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let hello = hello(77, "denied", &own, Lane::Control);
        let open = welcomed(&member.config.address, &hello);
        // Both lanes call back, and again after the refusal.
        for _ in 0..3 {
            deny_identity(&listener);
        }
        drop(open);
    }
    for (at, member) in group.members.iter().enumerate() {
        seqno_of(member.order(&format!("k{at}"), "v"));
        assert_eq!(member.host.lock().failed, None);
    }
    group.check_same_history();
}

#[test]
fn stranger_that_names_another_host_gets_no_call_made_there() {
    let group = Group::of(1, "third");
    let home = &group.members[0];
    let elsewhere = TcpListener::bind("127.0.0.2:0").unwrap();
    let third = elsewhere.local_addr().unwrap().to_string();
    let _open = welcomed(
        &home.config.address,
        &hello(77, "third", &third, Lane::Control),
    );
    home.host.wait("the reason", |record| {
        record.says(&format!("not calling {third}"))
    });
    elsewhere.set_nonblocking(true).unwrap();
    let called = elsewhere.accept().unwrap_err();
    assert_eq!(called.kind(), ErrorKind::WouldBlock);
}

/// Stops a follower and starts it, then has a new member join.
fn come_and_go(group: &mut Group) {
    let at = group.follower();
    group.members[at].stop();
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at].take_part();
    let mut newcomer = Member::new("newcomer", &group.members[0].config.cluster_name);
    newcomer.config.seeds = group.members[0].config.seeds.clone();
    newcomer.start(StartMode::Join).unwrap();
    newcomer.take_part();
    group.members.push(newcomer);
    group.wait_complete();
    for (at, member) in group.members.iter().enumerate() {
        seqno_of(member.order(&format!("after{at}"), "v"));
    }
    group.check_same_history();
}

#[test]
fn idle_connections_keep_no_member_out() {
    let mut group = Group::of(3, "idle");
    let mut idle = Vec::new();
    for member in &group.members {
        for _ in 0..600 {
            idle.push(TcpStream::connect(&member.config.address).unwrap());
        }
    }
    come_and_go(&mut group);
    let host = group.members[group.leader()].host.lock();
    let lines = host.lines.iter().map(|(_, line)| line);
    let said = lines.filter(|line| line.contains("too many connections"));
    assert!((1..5).contains(&said.count()));
}

#[test]
fn welcomed_strangers_keep_no_member_out() {
    let mut group = Group::of(3, "greeted");
    let mut open = Vec::new();
    for member in &group.members {
        for id in 0..600 {
            let hello = hello(1000 + id, "greeted", "127.0.0.1:1", Lane::Bulk);
            open.push(welcomed(&member.config.address, &hello));
        }
    }
    come_and_go(&mut group);
    let over = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        !matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    };
    let kept = open
        .iter_mut()
        .filter_map(|stream| (!over(stream)).then_some(()));
    assert!(kept.count() <= 3 * 32);
}

#[test]
fn connections_of_a_stranger_that_becomes_a_member_carry_large_messages() {
    let mut group = Group::of(1, "rises");
    let mut newcomer = Member::new("newcomer", "rises");
    newcomer.config.seeds = vec![group.members[0].config.address.clone()];
    newcomer.config.chunk_bytes = 1 << 20;
    newcomer.start(StartMode::Join).unwrap();
    newcomer.take_part();
    group.members.push(newcomer);
    group.wait_complete();
    let newcomer = &group.members[1];
    seqno_of(newcomer.order("large", vec![7; 1 << 20]));
    assert!(!group.members[0].host.lock().says("closing the connection"));
    assert!(!newcomer.host.lock().says("broke"));
    group.check_same_history();
}

#[test]
fn stranger_gets_no_room_for_a_large_message() {
    let group = Group::of(1, "small");
    let home = &group.members[0];
    let hello = hello(77, "small", "127.0.0.1:1", Lane::Bulk);
    let mut open = welcomed(&home.config.address, &hello);
    let mut header = b"Sy".to_vec();
    header.extend([18, 0]);
    header.extend((65 * 1024_u32).to_le_bytes());
    header.extend([0; 4]);
    header.extend(crc32c::crc32c(&header).to_le_bytes());
    std::io::Write::write_all(&mut open, &header).unwrap();
    assert_eq!(open.read(&mut [0]).unwrap_or(0), 0, "it was hung up on");
    home.host.wait("the reason", |record| {
        record.says("closing the connection from stranger")
    });
    seqno_of(home.order("k", "v"));
}

/// One at a time, as fast as they are taken.
#[test]
fn flood_of_callers_keeps_no_member_out() {
    let mut group = Group::of(3, "flood");
    let targets: Vec<String> = group
        .members
        .iter()
        .map(|member| member.config.address.clone())
        .collect();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let flood = thread::spawn(move || {
        let mut calls = 0_u64;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let target = &targets[calls as usize % targets.len()];
            drop(TcpStream::connect(target));
            calls += 1;
        }
        calls
    });
    come_and_go(&mut group);
    drop(stop);
    assert!(flood.join().unwrap() > 100);
    assert!(group.members[0].host.lock().lines.len() < 500);
}
