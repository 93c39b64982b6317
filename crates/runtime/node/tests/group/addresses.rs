//! The allowlist of addresses that may call, members with IPv6 addresses, and members that state
//! the name or the address of another one.

use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use synod_node::{Level, NodeError, StartMode};

use crate::support::{Group, Member, free_address, seqno_of};

#[test]
fn group_on_ipv6_forms_orders_and_forms_again() {
    let mut group = Group::prepared_by(3, "six", |config| {
        config.address = free_address(Ipv6Addr::LOCALHOST.into());
        config.listen = config.address.clone();
        assert!(config.address.starts_with("[::1]:"));
    })
    .begin();
    seqno_of(group.members[1].order("a", "before"));
    let at = group.follower();
    group.members[at].stop();
    seqno_of(group.members[group.leader()].order("b", "meanwhile"));
    group.members[at].start(StartMode::Join).unwrap();
    group.members[at].take_part();
    group.wait_complete();
    group.check_same_history();
    let asked = group.members[at].host.lock().callers.clone();
    assert!(asked.iter().all(|ip| ip == "::1"), "{asked:?}");
}

#[test]
fn caller_that_is_not_on_the_list_is_refused_and_both_sides_say_so() {
    let home = Group::of(1, "list");
    home.members[0].host.lock().allows_none = true;
    let mut stray = Member::new("stray", "list");
    stray.config.seeds = vec![home.members[0].config.address.clone()];
    stray.start(StartMode::Join).unwrap();
    stray.host.wait("refusal", |record| record.failed.is_some());
    let why = stray.host.lock().failed.clone().unwrap();
    assert!(why.contains("127.0.0.1 is not in the allowlist"), "{why}");
    let host = home.members[0].host.lock();
    let lines = host.lines.iter().map(|(_, line)| line);
    let said = lines.filter(|line| line.contains("127.0.0.1 is not in the allowlist"));
    // It has called many times meanwhile.
    assert_eq!(said.count(), 1);
    assert!(host.says("connection from stray"));
    assert!(host.callers.len() > 1);
}

#[test]
fn member_with_an_empty_allowlist_still_hears_the_members_it_calls() {
    let mut home = Group::of(1, "own-call");
    let mut shy = Member::new("shy", "own-call");
    shy.host.lock().allows_none = true;
    shy.config.seeds = vec![home.members[0].config.address.clone()];
    shy.start(StartMode::Join).unwrap();
    shy.take_part();
    home.members.push(shy);
    home.wait_complete();
    seqno_of(home.members[1].order("k", "from the shy one"));
    let mut stray = Member::new("stray", "own-call");
    stray.config.seeds = vec![home.members[1].config.address.clone()];
    stray.start(StartMode::Join).unwrap();
    stray.host.wait("refusal", |record| record.failed.is_some());
    let why = stray.host.lock().failed.clone().unwrap();
    assert!(why.contains("is not in the allowlist"), "{why}");
}

#[test]
fn member_that_the_group_cannot_reach_is_told_its_own_address() {
    let home = Group::of(1, "no-way-back");
    let mut stray = Member::new("stray", "no-way-back");
    stray.config.seeds = vec![home.members[0].config.address.clone()];
    stray.config.address = free_address(Ipv4Addr::LOCALHOST.into());
    stray.start(StartMode::Join).unwrap();
    let said = format!("reach this member at {}", stray.config.address);
    stray.host.wait("the address", |record| record.says(&said));
}

/// A member that is still called would still receive the group's data.
#[test]
fn member_that_may_not_call_any_more_is_not_called_either() {
    let mut group = Group::of(3, "taken-off");
    let (leader, out) = (group.leader(), group.follower());
    group.members[out].stop();
    let others: Vec<usize> = (0..3).filter(|at| *at != out).collect();
    for at in &others {
        group.members[*at].host.lock().allows_none = true;
    }
    group.members[out].start(StartMode::Join).unwrap();
    for at in &others {
        let refusal = "connection from";
        let host = &group.members[*at].host;
        host.wait("a refused call", |record| record.says(refusal));
    }
    // It has messages to send; the other one need not notice that its connection is over.
    group.members[leader]
        .host
        .wait("a call not made", |record| record.says("cannot call"));
    seqno_of(group.members[others[0]].order("k", "not for all"));
    let status = group.members[out].node().status();
    assert_eq!(status.leader_name, "", "it hears no leader");
    let leader = group.members[others[0]].node().status();
    assert!(status.commit_index < leader.commit_index);
}

#[test]
fn list_is_asked_for_the_ipv4_address_of_a_caller_of_both() {
    let mut home = Group::prepared_by(1, "both", |config| {
        let port = config.address.rsplit_once(':').unwrap().1.to_owned();
        config.listen = format!("[::]:{port}");
    })
    .begin();
    let mut second = Member::new("second", "both");
    second.config.seeds = vec![home.members[0].config.address.clone()];
    second.start(StartMode::Join).unwrap();
    second.take_part();
    home.members.push(second);
    home.wait_complete();
    let asked = home.members[0].host.lock().callers.clone();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|ip| ip == "127.0.0.1"), "{asked:?}");
}

const DOUBLE: &str = "two members cannot have one name or one address";

/// A new member that knows all addresses of a group.
fn newcomer(group: &Group, name: &str) -> Member {
    let of_group = &group.members[0].config;
    let mut newcomer = Member::new(name, &of_group.cluster_name);
    newcomer.config.seeds.clone_from(&of_group.seeds);
    newcomer
}

/// The member that is live is warned once of a newcomer with its name or its address.
fn is_warned_once(holder: &Member) {
    holder.host.wait("a warning", |record| record.says(DOUBLE));
    let record = holder.host.lock();
    assert_eq!(record.times_said(DOUBLE), 1, "{:?}", record.lines);
    let is_warning = |(level, line): &(Level, String)| {
        *level == Level::Warning && line.contains(DOUBLE) && line.contains(&holder.config.address)
    };
    assert!(record.lines.iter().any(is_warning), "{:?}", record.lines);
}

#[test]
fn newcomer_with_the_name_of_a_live_member_is_refused_and_both_are_told() {
    let group = Group::of(3, "taken-name");
    let holder = &group.members[group.follower()];
    let mut double = newcomer(&group, &holder.config.name);
    double.start(StartMode::Join).unwrap();
    double
        .host
        .wait("refusal", |record| record.failed.is_some());
    let why = double.host.lock().failed.clone().unwrap();
    let (name, address) = (&holder.config.name, &holder.config.address);
    let named = format!("the group has '{name}' at {address} already");
    for words in [named.as_str(), DOUBLE, "member name", "member address"] {
        assert!(why.contains(words), "{why}");
    }
    is_warned_once(holder);
    let status = group.members[group.leader()].node().status();
    assert_eq!(status.members.len(), 3, "it left no trace");
}

#[test]
fn newcomer_with_the_address_of_a_live_member_does_not_start_and_both_are_told() {
    let group = Group::of(3, "taken-address");
    let holder = &group.members[group.follower()];
    let mut double = newcomer(&group, "another");
    double.config.address.clone_from(&holder.config.address);
    let error = double.start(StartMode::Join).unwrap_err();
    assert!(matches!(error, NodeError::AddressOfOther { .. }), "{error}");
    let text = error.to_string();
    let words = [&holder.config.name, &holder.config.address];
    assert!(words.iter().all(|words| text.contains(*words)), "{text}");
    is_warned_once(holder);
}

#[test]
fn newcomer_with_the_address_of_a_member_that_is_down_is_told_which_one_it_states() {
    let mut group = Group::of(3, "address-of-a-dead-one");
    let dead = group.follower();
    group.members[dead].stop();
    let mut double = newcomer(&group, "another");
    let address = group.members[dead].config.address.clone();
    double.config.address.clone_from(&address);
    double.start(StartMode::Join).unwrap();
    let at_once = format!("nothing answers at {address} when called from here");
    double
        .host
        .wait("the address", |record| record.says(&at_once));
    let later = format!("at {address} (member address): see that this is its own address");
    double.host.wait("the cause", |record| record.says(&later));
}

/// Behind address translation, packets to a member's own address may be dropped.
#[test]
fn own_address_that_swallows_calls_does_not_delay_a_start() {
    let swallowing = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    swallowing.bind(&any.into()).unwrap();
    swallowing.listen(0).unwrap();
    let at = swallowing.local_addr().unwrap().as_socket().unwrap();
    let limit = Duration::from_millis(100);
    let queued: Vec<TcpStream> =
        std::iter::from_fn(|| TcpStream::connect_timeout(&at, limit).ok()).collect();
    assert!(!queued.is_empty(), "the queue of the socket is full");
    let mut member = Member::new("alone", "swallowed");
    member.config.address = at.to_string();
    let begun = Instant::now();
    member.start(StartMode::Bootstrap).unwrap();
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(1800), "{took:?}");
    member.take_part();
}
