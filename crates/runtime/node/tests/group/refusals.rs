//! Peers and disks that do not belong here.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use synod_node::{GroupId, NodeConfig, NodeError, StartMode, VersionRange};

use crate::support::{Group, Member, eventually, seqno_of};

#[test]
fn log_of_another_group_is_refused_with_both_groups_named() {
    let home = Group::of(1, "foreign");
    let mut stray = Member::new("stray", "foreign");
    stray.start(StartMode::Bootstrap).unwrap();
    stray.take_part();
    stray.stop();
    stray.config.seeds = vec![home.members[0].config.address.clone()];
    // Its own single-member group would form again: it must be another's log that needs others.
    let mut pair = Group::of(2, "foreign");
    let mut lost = pair.members.pop().unwrap();
    lost.stop();
    pair.members[0].stop();
    lost.config.seeds = vec![home.members[0].config.address.clone()];
    lost.start(StartMode::Join).unwrap();
    lost.host.wait("refusal", |record| record.failed.is_some());
    let why = lost.host.lock().failed.clone().unwrap();
    let group = home.members[0].node().status().group.to_string();
    assert!(why.contains("two groups") && why.contains(&group), "{why}");
    seqno_of(home.members[0].order("k", "v"));
}

/// Each of two groups of one name would serve clients, with data of its own.
#[test]
fn group_is_not_begun_where_a_member_of_one_answers() {
    let home = Group::of(1, "beside");
    let (address, group) = {
        let member = &home.members[0];
        (member.config.address.clone(), member.node().status().group)
    };
    let mut second = Member::new("second", "beside");
    second.config.seeds = vec![second.config.address.clone(), address.clone()];
    let error = second.start(StartMode::Bootstrap).unwrap_err();
    assert!(matches!(error, NodeError::GroupRuns { .. }), "{error}");
    let text = error.to_string();
    for words in [address.as_str(), &group.to_string(), "without bootstrap"] {
        assert!(text.contains(words), "{text}");
    }
    second.start(StartMode::Join).unwrap();
    second.take_part();
    assert_eq!(second.node().status().group, group, "nothing was begun");
}

#[test]
fn group_is_begun_beside_one_of_another_name_and_a_member_that_waits() {
    let home = Group::of(1, "another-name");
    let mut first = Member::new("first", "begun");
    let mut second = Member::new("second", "begun");
    second.config.seeds = vec![first.config.address.clone()];
    second.start(StartMode::Join).unwrap();
    let others = [&home.members[0].config, &second.config];
    first.config.seeds = others.map(|config| config.address.clone()).into();
    first.start(StartMode::Bootstrap).unwrap();
    first.take_part();
    second.take_part();
    assert_ne!(
        first.node().status().group,
        home.members[0].node().status().group
    );
}

#[test]
fn wrong_cluster_name_is_refused_and_only_the_group_names_both() {
    let home = Group::of(1, "right");
    let mut stray = Member::new("stray", "wrong");
    stray.config.seeds = vec![home.members[0].config.address.clone()];
    stray.start(StartMode::Join).unwrap();
    stray.host.wait("refusal", |record| record.failed.is_some());
    let why = stray.host.lock().failed.clone().unwrap();
    assert!(!why.contains("right") && why.contains("'wrong'"), "{why}");
    let both = "the cluster name here is 'right', that of stray is 'wrong'";
    assert!(home.members[0].host.lock().says(both));
}

const OLDEST: VersionRange = VersionRange { min: 5, max: 5 };
const NEWER: VersionRange = VersionRange { min: 6, max: 7 };

fn speak_the_oldest_version(config: &mut NodeConfig) {
    config.versions = OLDEST;
}

#[test]
fn program_that_does_not_speak_the_groups_version_is_refused() {
    let mut home = Group::prepared_by(1, "versions", speak_the_oldest_version).begin();
    let mut newer = Member::new("newer", "versions");
    newer.config.versions = NEWER;
    newer.config.seeds = vec![home.members[0].config.address.clone()];
    newer.start(StartMode::Join).unwrap();
    newer.host.wait("refusal", |record| record.failed.is_some());
    let why = newer.host.lock().failed.clone().unwrap();
    let expected = "the group speaks protocol version 5, and newer speaks versions 6 to 7";
    assert!(why.contains(expected), "{why}");

    // Nor does the group's own member come back with such a program.
    let member = &mut home.members[0];
    member.stop();
    member.config.versions = NEWER;
    member.start(StartMode::Join).unwrap();
    member
        .host
        .wait("refusal", |record| record.failed.is_some());
    let why = member.host.lock().failed.clone().unwrap();
    let expected = "protocol version 5, and this program speaks versions 6 to 7";
    assert!(why.contains(expected), "{why}");
}

#[test]
fn one_server_of_another_group_does_not_keep_a_member_from_its_group() {
    let foreign = Group::of(1, "another");
    let mut group = Group::of(3, "majority");
    for member in &mut group.members {
        member.stop();
        member
            .config
            .seeds
            .insert(0, foreign.members[0].config.address.clone());
    }
    for at in 0..3 {
        group.members[at].start(StartMode::Join).unwrap();
    }
    for member in &mut group.members {
        member.take_part();
    }
    group.wait_complete();
    seqno_of(group.members[0].order("k", "v"));
    group.check_same_history();
}

#[test]
fn port_in_use_is_named() {
    let home = Group::of(1, "port");
    let mut second = Member::new("second", "port");
    second
        .config
        .listen
        .clone_from(&home.members[0].config.listen);
    let error = second.start(StartMode::Join).unwrap_err();
    assert!(matches!(error, NodeError::Listen { .. }), "{error}");
    assert!(error.to_string().contains(&second.config.listen), "{error}");
}

#[test]
fn bootstrap_over_another_history_is_refused() {
    let mut member = Member::new("one", "history");
    member.start(StartMode::Bootstrap).unwrap();
    member.take_part();
    member.stop();
    member.config.database.group = GroupId([7; 16]);
    let error = member.start(StartMode::Bootstrap).unwrap_err();
    assert!(matches!(error, NodeError::OtherHistory { .. }), "{error}");
}

/// Sends bytes and waits until the other side hangs up.
fn say(address: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // It may have hung up before all was said.
    let _ = stream.write_all(bytes);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}

fn frame(kind: u8, length: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = b"Sy".to_vec();
    frame.extend([kind, 0]);
    frame.extend(length.to_le_bytes());
    frame.extend(crc32c::crc32c(body).to_le_bytes());
    frame.extend(crc32c::crc32c(&frame).to_le_bytes());
    frame.extend(body);
    frame
}

fn hello(cluster_name: &str, versions: std::ops::RangeInclusive<u16>, lane: u8) -> Vec<u8> {
    let mut body = b"SYNODpr\n".to_vec();
    body.extend(versions.start().to_le_bytes());
    body.extend(versions.end().to_le_bytes());
    body.push(lane);
    body.extend([0; 16]);
    body.extend(77_u64.to_le_bytes());
    body.extend(78_u64.to_le_bytes());
    for text in [cluster_name, "stranger", "127.0.0.1:1"] {
        body.extend((text.len() as u16).to_le_bytes());
        body.extend(text.as_bytes());
    }
    frame(1, body.len() as u32, &body)
}

#[test]
fn garbage_of_strangers_is_refused_with_a_line_and_the_group_keeps_serving() {
    let group = Group::of(3, "noise");
    let leader = &group.members[group.leader()];
    let address = &leader.config.address;
    let says = |text: &str| {
        leader.host.wait(text, |record| record.says(text));
    };
    say(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    says("refused");
    leader.host.lock().lines.clear();
    say(address, &hello("noise", 900..=901, 0));
    says("protocol versions");
    leader.host.lock().lines.clear();
    say(address, &frame(1, 1 << 30, b"x"));
    says("refused");
    leader.host.lock().lines.clear();
    let mut oversized = hello("noise", 5..=5, 0);
    oversized.extend(frame(9, 512 << 20, b"x"));
    say(address, &oversized);
    says("closing the connection from stranger");
    leader.host.lock().lines.clear();
    for kind in 0..40 {
        let mut noise = hello("noise", 5..=5, kind % 2);
        noise.extend(frame(kind, 200, &[kind; 200]));
        say(address, &noise);
    }
    says("closing the connection from stranger");
    assert!(leader.host.lock().failed.is_none());
    seqno_of(group.members[0].order("k", "v"));
    group.check_same_history();
}

#[test]
fn caller_that_drips_its_greeting_is_disconnected() {
    let group = Group::of(1, "drip");
    let address = group.members[0].config.address.clone();
    let hello = hello("drip", 5..=5, 0);
    let mut stream = TcpStream::connect(&address).unwrap();
    let began = Instant::now();
    let mut sent = 0;
    eventually("the disconnection", || {
        // One byte at a time, often enough that no single read takes long.
        sent += 1;
        thread::park_timeout(Duration::from_millis(100));
        sent < hello.len() - 1 && stream.write_all(&hello[sent - 1..sent]).is_err()
            || group.members[0].host.lock().says("took too long")
    });
    assert!(began.elapsed() < Duration::from_secs(10));
    seqno_of(group.members[0].order("k", "v"));
}
