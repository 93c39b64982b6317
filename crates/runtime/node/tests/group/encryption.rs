//! Groups whose members encrypt, and members that do not fit in.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use synod_node::{Command, Credentials, NodeConfig, NodeError, StartMode, TlsConfig};

use crate::certificates::{Authority, Kind};
use crate::support::{CHUNK_BYTES, Group, Member, PATIENCE, eventually, seqno_of};

fn encrypted(authority: &Authority, name: &str, kind: Kind) -> Option<TlsConfig> {
    Some(TlsConfig {
        credentials: Credentials::Certificates(authority.issue(name, kind)),
        accept_plain: false,
    })
}

pub(crate) fn encrypt(authority: &Authority) -> impl FnMut(&mut NodeConfig) {
    |config| config.tls = encrypted(authority, &config.name, Kind::Good)
}

/// A new member that knows an address of the group.
fn stray(group: &Group, name: &str) -> Member {
    let mut stray = Member::new("stray", name);
    stray.config.seeds = vec![group.members[0].config.address.clone()];
    stray
}

#[test]
fn encrypted_group_orders_large_and_small_and_forms_again() {
    let authority = Authority::new("ca");
    let mut group = Group::prepared_by(3, "tls", encrypt(&authority)).begin();
    for member in &group.members {
        let host = member.host.lock();
        assert!(host.says("encrypted by TLS 1.3") && host.says(&member.config.name));
    }
    for round in 0..20_usize {
        let data = vec![round as u8; 1 + round * CHUNK_BYTES / 4];
        seqno_of(group.members[round % 3].order(&format!("k{round}"), data));
    }
    let leader = group.leader();
    group.members[leader].stop();
    seqno_of(group.members[group.leader()].order("after", "the leader's end"));
    group.members[leader].start(StartMode::Join).unwrap();
    group.members[leader].take_part();
    group.wait_complete();
    group.check_same_history();
}

#[test]
fn member_of_another_authority_is_refused_and_both_sides_say_so() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let home = Group::prepared_by(1, "authority", encrypt(&ours)).begin();
    let mut stray = stray(&home, "authority");
    stray.config.tls = encrypted(&other, "stray", Kind::Good);
    stray.start(StartMode::Join).unwrap();
    stray.host.wait("the refusal", |record| {
        record.says("its certificate is refused: none of the authorities")
    });
    home.members[0].host.wait("the refusal", |record| {
        record.says("it refuses this member's certificate")
    });
    seqno_of(home.members[0].order("k", "v"));
    assert_eq!(stray.host.lock().joined, 0);
}

#[test]
fn member_in_clear_is_refused_by_an_encrypted_group() {
    let authority = Authority::new("ca");
    let home = Group::prepared_by(1, "strict", encrypt(&authority)).begin();
    let mut stray = stray(&home, "strict");
    stray.start(StartMode::Join).unwrap();
    stray.host.wait("refusal", |record| record.failed.is_some());
    let why = stray.host.lock().failed.clone().unwrap();
    assert!(why.contains("encryption there"), "{why}");
    assert!(stray.host.lock().says("are not encrypted"));
    home.members[0].host.wait("the refusal", |record| {
        record.says("it does not encrypt its connections, this member does")
    });
    seqno_of(home.members[0].order("k", "v"));
}

#[test]
fn encrypting_member_is_refused_by_a_group_in_clear() {
    let authority = Authority::new("ca");
    let home = Group::of(1, "clear");
    let mut stray = stray(&home, "clear");
    stray.config.tls = encrypted(&authority, "stray", Kind::Good);
    stray.start(StartMode::Join).unwrap();
    stray.host.wait("the refusal", |record| {
        record.says("it does not encrypt its connections, this member does")
    });
    home.members[0].host.wait("the refusal", |record| {
        record.says("it encrypts its connections (encryption there), this member does not")
    });
    assert_eq!(stray.host.lock().joined, 0);
}

#[test]
fn expired_certificate_is_refused_until_a_new_one_is_loaded() {
    let authority = Authority::new("ca");
    let mut group = Group::prepared_by(2, "expiry", encrypt(&authority));
    let life = Duration::from_secs(8);
    group.members[1].config.tls = encrypted(&authority, "node2", Kind::ValidFor(life));
    let expiry = Instant::now() + life + Duration::from_secs(2);
    let mut group = group.begin();
    eventually("expiry", || Instant::now() > expiry);
    // Connections that are open stay so.
    seqno_of(group.members[0].order("k", "1"));
    group.members[0].stop();
    group.members[0].start(StartMode::Join).unwrap();
    group.members[0].host.wait("the refusal", |record| {
        record.says("its certificate is refused: it has expired")
    });
    group.members[1].host.wait("the refusal", |record| {
        record.says("it refuses this member's certificate (the certificate file): it has expired")
    });

    // With the old files there is nothing to load, and nothing is lost.
    let error = group.members[1].node().reload_tls().unwrap_err();
    assert!(error.to_string().contains("expired at"), "{error}");
    authority.issue("node2", Kind::Good);
    group.members[1].node().reload_tls().unwrap();
    group.members[0].take_part();
    group.wait_complete();
    seqno_of(group.members[0].order("after", "2"));
    group.check_same_history();
}

#[test]
fn member_keeps_the_subject_that_it_joined_with() {
    let authority = Authority::new("ca");
    let mut group = Group::prepared_by(2, "subject", encrypt(&authority)).begin();
    let other = authority.issue("other", Kind::Good);
    for (from, to) in [(&other.certificate, "node2.pem"), (&other.key, "node2.key")] {
        fs::copy(from, from.with_file_name(to)).unwrap();
    }
    let error = group.members[1].node().reload_tls().unwrap_err();
    assert!(error.to_string().contains("'CN=other'"), "{error}");

    group.members[1].stop();
    let error = group.members[1].start(StartMode::Join).unwrap_err();
    assert!(matches!(error, NodeError::OtherSubject { .. }), "{error}");
    authority.issue("node2", Kind::Good);
    group.members[1].start(StartMode::Join).unwrap();
    group.members[1].take_part();
    group.wait_complete();
    seqno_of(group.members[0].order("k", "v"));
}

/// A leader hears all members but itself, so it binds itself.
#[test]
fn founder_is_bound_to_the_certificate_with_which_it_leads() {
    let authority = Authority::new("ca");
    let mut alone = Group::prepared_by(1, "founder", encrypt(&authority)).begin();
    alone.members[0].stop();
    alone.members[0].config.tls = encrypted(&authority, "other", Kind::Good);
    let error = alone.members[0].start(StartMode::Join).unwrap_err();
    assert!(matches!(error, NodeError::OtherSubject { .. }), "{error}");

    let mut moved = Group::of(1, "moved");
    let leader = &mut moved.members[0];
    leader.stop();
    leader.config.tls = encrypted(&authority, "node1", Kind::Good);
    leader.start(StartMode::Join).unwrap();
    leader.take_part();
    eventually("its binding", || {
        leader.stop();
        leader.config.tls = encrypted(&authority, "other", Kind::Good);
        let refused = leader.start(StartMode::Join).is_err();
        if !refused {
            leader.stop();
            leader.config.tls = encrypted(&authority, "node1", Kind::Good);
            leader.start(StartMode::Join).unwrap();
            leader.take_part();
        }
        refused
    });
}

/// Member 3 is bound to nothing yet, and shows the certificate of member 2, which is bound.
#[test]
fn certificate_of_one_member_does_not_speak_for_another_one() {
    let authority = Authority::new("ca");
    let tls = |name: &str| {
        let mut tls = encrypted(&authority, name, Kind::Good);
        tls.as_mut().unwrap().accept_plain = true;
        tls
    };
    // Member 2 is bound by its join. A certificate that it showed later would be bound at a time
    // that nothing here could wait for.
    let prepare = |config: &mut NodeConfig| {
        if config.name != "node3" {
            config.tls = tls(&config.name);
        }
    };
    let mut group = Group::prepared_by(3, "two-names", prepare).begin();
    group.members[2].stop();
    group.members[2].config.tls = tls("node2");
    group.members[2].start(StartMode::Join).unwrap();
    eventually("the refusal", || {
        let says = |member: &Member| member.host.lock().says("to which another member is bound");
        group.members[..2].iter().any(says)
    });
    group.members[2].stop();
    group.members[2].config.tls = tls("node3");
    group.members[2].start(StartMode::Join).unwrap();
    group.members[2].take_part();
    group.wait_complete();
    group.check_same_history();
}

#[test]
fn unbound_member_is_bound_to_the_next_certificate_that_it_shows() {
    let authority = Authority::new("ca");
    let mut group = Group::prepared_by(3, "unbind", encrypt(&authority)).begin();
    for member in &group.members {
        member.wait_voter();
    }
    let at = group.follower();
    let name = group.members[at].config.name.clone();
    group.members[at].stop();
    let unbind = Command::Unbind {
        member: name.clone(),
    };
    let leader = group.leader();
    let order = || {
        group.members[leader]
            .node()
            .administrate(unbind.clone(), PATIENCE)
    };
    eventually("the order", || order().is_ok());
    let refused = order().unwrap_err();
    assert!(
        refused.text.contains("bound to no certificate already"),
        "{refused}"
    );

    let former = &group.members[at].config;
    let mut fresh = Member::new(&name, "unbind");
    fresh.config.listen.clone_from(&former.address);
    fresh.config.address.clone_from(&former.address);
    fresh.config.seeds.clone_from(&former.seeds);
    fresh.config.tls = encrypted(&authority, "renamed", Kind::Good);
    group.members[at] = fresh;
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at].take_part();
    group.wait_complete();
    group.members[at].stop();
    group.members[at].config.tls = encrypted(&authority, &name, Kind::Good);
    let error = group.members[at].start(StartMode::Join).unwrap_err();
    assert!(matches!(error, NodeError::OtherSubject { .. }), "{error}");
}

#[test]
fn group_changes_from_clear_to_encrypted_one_member_at_a_time() {
    let authority = Authority::new("ca");
    let mut group = Group::of(3, "rolling");
    group.encrypt_one_by_one(|name| encrypted(&authority, name, Kind::Good));
    group.check_same_history();
    let mut late = stray(&group, "rolling");
    late.start(StartMode::Join).unwrap();
    late.host.wait("refusal", |record| record.failed.is_some());
}

#[test]
fn member_that_should_encrypt_and_cannot_does_not_start() {
    let authority = Authority::new("ca");
    let mut member = Member::new("one", "missing");
    let files = authority.issue("one", Kind::Good);
    fs::remove_file(&files.key).unwrap();
    member.config.tls = Some(TlsConfig {
        credentials: Credentials::Certificates(files),
        accept_plain: false,
    });
    let error = member.start(StartMode::Bootstrap).unwrap_err();
    assert!(matches!(error, NodeError::Tls(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("one.key") && text.contains("(the key file)"),
        "{text}"
    );
}

#[test]
fn caller_that_begins_a_handshake_and_waits_is_disconnected() {
    let authority = Authority::new("ca");
    let home = Group::prepared_by(1, "slow", encrypt(&authority)).begin();
    let began = Instant::now();
    let mut slow = TcpStream::connect(&home.members[0].config.address).unwrap();
    slow.write_all(&[0x16, 3, 1, 1, 0]).unwrap();
    let silent = TcpStream::connect(&home.members[0].config.address).unwrap();
    home.members[0].host.wait("the disconnection", |record| {
        let lines = record.lines.iter().map(|(_, line)| line);
        lines.filter(|line| line.contains("took too long")).count() == 2
    });
    assert!(began.elapsed() < Duration::from_secs(10));
    drop((slow, silent));
    seqno_of(home.members[0].order("k", "v"));
}
