//! Members without a database: they keep the log and vote.

use bytes::Bytes;
use synod_node::{
    Command, LeaderWeight, MemberPresence, NodeError, Presence, RefusalReason, Seqno, StartMode,
    StateTransferEvent,
};

use crate::support::{Group, Member, PATIENCE, eventually, seqno_of};

const LOGGER: usize = 2;

/// A group of two members with data, and a logger that votes.
fn with_logger(name: &str) -> Group {
    let group = with_new_logger(name, true);
    for member in &group.members {
        member.wait_voter();
    }
    group
}

/// A group of two members with data, and a logger that has started a moment ago.
fn with_new_logger(name: &str, wants_vote: bool) -> Group {
    let mut group = Group::prepared(3, name);
    let config = &mut group.members[LOGGER].config;
    (config.has_data, config.wants_vote) = (false, wants_vote);
    group.members[0].start(StartMode::Bootstrap).unwrap();
    group.members[0].take_part();
    group.members[1].start(StartMode::Join).unwrap();
    group.members[1].take_part();
    group.members[LOGGER].start(StartMode::Join).unwrap();
    group
}

/// Waits until the logger knows the commit of an action, which its own log then has.
fn wait_committed(group: &Group, seqno: Seqno) {
    let logger = group.members[LOGGER].node();
    eventually("the commit at the logger", || {
        logger.commit_seqno() >= seqno
    });
}

#[test]
fn group_commits_with_a_logger_and_one_member_with_data() {
    let mut group = with_logger("logger");
    let seqno = seqno_of(group.members[0].order("k", "all"));
    wait_committed(&group, seqno);
    group.members[1].stop();
    let seqno = seqno_of(group.members[0].order("k", "two of three"));
    wait_committed(&group, seqno);

    // Without the logger there is no majority: its acknowledgement counts.
    group.members[LOGGER].stop();
    let pending = group.members[0].submit("k", "one of three");
    assert_eq!(pending.result(), None);
    group.members[LOGGER].start(StartMode::Join).unwrap();
    let seqno = seqno_of(pending.wait_for_result());
    wait_committed(&group, seqno);

    group.members[1].start(StartMode::Join).unwrap();
    group.members[1].take_part();
    let data = &group.members[1];
    data.host
        .wait("what it missed", |record| record.last() >= seqno);
    let host = group.members[LOGGER].host.lock();
    assert!(host.deliveries.is_empty() && host.joined == 0);
    assert!(host.failed.is_none(), "{:?}", host.failed);
}

#[test]
fn logger_does_not_lead_by_order_and_hands_over_when_it_had_to_lead() {
    let mut group = with_logger("leads");
    let to = Some(group.members[LOGGER].config.name.clone());
    let transfer = Command::TransferLeadership { to };
    let leader = &group.members[group.leader()];
    let refusal = leader.node().administrate(transfer, PATIENCE).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Unfit);
    assert!(refusal.text.contains("has no database"), "{refusal}");
    let member = group.members[LOGGER].config.name.clone();
    let weight = LeaderWeight::default();
    let weigh = Command::SetWeight { member, weight };
    let refusal = leader.node().administrate(weigh, PATIENCE).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Unfit, "{refusal}");

    // Only the logger has this action, when the server that led is gone.
    let leads = group.leader();
    let lags = 1 - leads;
    group.members[lags].node().set_isolated(true);
    let seqno = seqno_of(group.members[leads].order("k", "v"));
    wait_committed(&group, seqno);
    group.members[leads].stop();
    group.members[lags].node().set_isolated(false);
    let (logger, server) = (&group.members[LOGGER], &group.members[lags]);
    eventually("the logger leads", || logger.is_leader());
    server
        .host
        .wait("the action", |record| record.last() >= seqno);
    let text = format!("handing leadership over to {}", server.config.name);
    logger
        .host
        .wait("the handover", |record| record.says(&text));
    eventually("the server leads", || server.is_leader());
    assert!(!logger.host.lock().says("waiting to join"));
    group.members[leads].start(StartMode::Join).unwrap();
    group.members[leads].take_part();
    for member in &group.members[..LOGGER] {
        member.host.wait("both servers", |record| {
            record.view_names() == ["node1", "node2"]
        });
    }
}

#[test]
fn logger_that_was_promoted_keeps_its_vote_over_restarts_though_its_file_says_no() {
    let mut group = with_new_logger("promoted", false);
    group.members[1].wait_voter();
    let member = group.members[LOGGER].config.name.clone();
    let promote = Command::Promote { member };
    eventually("it has the log and is promoted", || {
        let leader = group.members[group.leader()].node();
        leader.administrate(promote.clone(), PATIENCE).is_ok()
    });
    group.members[LOGGER].wait_voter();
    group.members[LOGGER].stop();
    group.members[LOGGER].start(StartMode::Join).unwrap();
    group.members[LOGGER].wait_voter();
    // Its acknowledgement counts.
    let leads = group.leader();
    group.members[1 - leads].node().set_isolated(true);
    seqno_of(group.members[leads].order("k", "two of three"));
}

/// Presence of the logger, as a member knows it.
fn known_to(group: &Group, at: usize) -> Option<MemberPresence> {
    let logger = group.members[LOGGER].config.name.clone();
    let status = group.members[at].node().status();
    let known = status.members.iter().find(|member| member.name == logger)?;
    let mut seen = status.presence.into_iter();
    seen.find(|seen| seen.member == known.member)
}

/// Presence of the logger, as these members state it.
fn seen_by(group: &Group, members: &[usize]) -> Vec<Presence> {
    let known = members.iter().map(|at| known_to(group, *at));
    known
        .map(|seen| seen.map_or(Presence::Absent, |seen| seen.presence))
        .collect()
}

/// This tells a relay from a logger.
#[test]
fn address_of_readers_is_known_to_the_group_and_to_its_member_without_the_group() {
    for address in ["relay:3310", ""] {
        let mut group = with_new_logger("readers", false);
        group.members[LOGGER].stop();
        group.members[LOGGER].config.incoming = address.to_owned();
        group.members[LOGGER].start(StartMode::Join).unwrap();
        let knows = |group: &Group, at: usize| {
            let known = known_to(group, at).and_then(|seen| seen.readers_at);
            known.as_deref() == Some(address)
        };
        for at in 0..=LOGGER {
            eventually("what it has reported", || knows(&group, at));
        }
        for member in &mut group.members {
            member.stop();
        }
        group.members[LOGGER].start(StartMode::Join).unwrap();
        eventually("what its file says", || knows(&group, LOGGER));
    }
}

#[test]
fn logger_is_present_to_all_until_it_leaves_or_is_lost() {
    let mut group = with_logger("presence");
    let all = [0, 1, LOGGER];
    eventually("it is present", || {
        seen_by(&group, &all) == [Presence::Present; 3]
    });
    group.members[LOGGER].stop();
    eventually("it is gone", || {
        seen_by(&group, &[0, 1]) == [Presence::Absent; 2]
    });
    group.members[LOGGER].start(StartMode::Join).unwrap();
    eventually("it is back", || {
        seen_by(&group, &all) == [Presence::Present; 3]
    });
    // A member that hears no leader has its own ears.
    let follower = 1 - group.leader();
    group.members[follower].node().set_isolated(true);
    eventually("the one cut off hears no member", || {
        seen_by(&group, &[follower]) == [Presence::Absent]
    });
    assert_eq!(seen_by(&group, &[1 - follower]), [Presence::Present]);
}

#[test]
fn removed_logger_stops_and_stays_removed_until_it_is_started_again() {
    let mut group = with_logger("logger-out");
    let remove = Command::Remove {
        member: "node3".to_owned(),
        force: true,
    };
    let leader = &group.members[group.leader()];
    eventually("the removal", || {
        leader.node().administrate(remove.clone(), PATIENCE).is_ok()
    });
    let logger = &group.members[LOGGER];
    logger
        .host
        .wait("its end", |record| record.failed.is_some());
    let why = logger.host.lock().failed.clone().unwrap();
    assert!(why.contains("has removed this member"), "{why}");
    assert_eq!(leader.node().status().members.len(), 2);
    group.members[LOGGER].stop();
    group.members[LOGGER].start(StartMode::Join).unwrap();
    group.members[LOGGER].wait_voter();
}

#[test]
fn logger_continues_no_log_of_another_member() {
    let mut group = with_logger("kinds");
    group.members[1].stop();
    group.members[1].config.has_data = false;
    let refused = group.members[1].start(StartMode::Join).unwrap_err();
    assert!(matches!(refused, NodeError::OtherKind { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("of 'node2', which has a database"), "{text}");

    let logger = &mut group.members[LOGGER];
    logger.stop();
    logger.config.has_data = true;
    let refused = logger.start(StartMode::Join).unwrap_err();
    assert!(matches!(refused, NodeError::OtherKind { .. }), "{refused}");

    logger.config.has_data = false;
    "witness2".clone_into(&mut logger.config.name);
    let refused = logger.start(StartMode::Join).unwrap_err();
    assert!(
        matches!(refused, NodeError::OtherMember { .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("set member name to that"),
        "{refused}"
    );
    "node3".clone_into(&mut logger.config.name);
    logger.start(StartMode::Join).unwrap();
    eventually("taking part", || group.members[LOGGER].node().is_primary());
}

#[test]
fn logger_is_never_asked_for_a_state_transfer() {
    let mut group = with_logger("copy");
    group.members[1].stop();
    let mut joiner = Member::new("joiner", "copy");
    joiner
        .config
        .seeds
        .clone_from(&group.members[0].config.seeds);
    joiner.start(StartMode::Join).unwrap();
    joiner.host.wait("joining", |record| record.joined > 0);
    let ask = |preferred: &[&str], any_donor| {
        let preferred = preferred.iter().map(|&name| name.to_owned()).collect();
        let request = Bytes::from_static(b"me");
        joiner
            .node()
            .request_state(Seqno(1), preferred, any_donor, request)
    };
    let only = ask(&["node3"], false);
    joiner.host.wait("a refusal", |record| {
        let is_refusal =
            |news: &StateTransferEvent| matches!(news, StateTransferEvent::NoDonor { .. });
        record
            .news
            .iter()
            .any(|(id, news)| *id == only && is_refusal(news))
    });
    // A data state that its host states does not make it a donor.
    let logger = &group.members[LOGGER];
    logger.node().set_data_state(synod_node::DataState::Synced);
    eventually("a donor is asked", || {
        ask(&["node3"], true);
        !group.members[0].host.lock().donations.is_empty()
    });
    assert!(logger.host.lock().donations.is_empty());
}

#[test]
fn logger_cannot_begin_a_group() {
    let mut member = Member::new("logger", "alone");
    member.config.has_data = false;
    let refused = member.start(StartMode::Bootstrap).unwrap_err();
    assert!(matches!(refused, NodeError::BeginWithoutData), "{refused}");
}
