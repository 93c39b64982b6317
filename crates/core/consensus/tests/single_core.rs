//! One core alone: exact inputs, exact effects.
//!
//! Situations of whole groups are scripts (`scripts.rs`); random faults are the simulator's. Here a
//! test hands a core single messages and completions, and looks at what it answers and when.

use std::collections::BTreeMap;

use synod_consensus::{
    Append, AppendOutcome, AppendReply, Body, BootstrapError, Config, ConfigAt, ConfigChange,
    ConfigError, Core, CoreParams, Effect, EntryHeader, EntryId, EntryKind, ForceError, HardState,
    LeaderTransferError, Limits, LogBase, LogIndex, Member, MemberId, Message, Origin, Proposal,
    ProposeError, Recovered, Role, RoleName, Seqno, Term, Time, Timing, VersionRange, WriteOp,
    WriteTicket,
};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

fn id(n: u64) -> MemberId {
    MemberId(n)
}

fn member(n: u64) -> Member {
    Member {
        role: Role::Voter,
        has_data: true,
        name: format!("node{n}"),
        address: format!("node{n}:4567"),
        versions: VersionRange { min: 1, max: 1 },
        certificate: None,
    }
}

/// A core alone, for exact messages.
fn lone(vote: HardState, terms: &[u64], now: Time) -> Core {
    lone_with(Limits::default(), vote, terms, now)
}

fn lone_with(limits: Limits, vote: HardState, terms: &[u64], now: Time) -> Core {
    let params = CoreParams {
        id: id(1),
        timing: Timing::default(),
        limits,
        seed: 1,
    };
    Core::new(params, recovered(vote, terms), now)
}

/// Log of a member of three voters, as read at a start.
fn recovered(vote: HardState, terms: &[u64]) -> Recovered {
    let mut recovered = Recovered {
        vote,
        ..Recovered::default()
    };
    let mut config = Config {
        protocol: 1,
        ..Config::default()
    };
    for n in 1..=3 {
        config.members.insert(id(n), member(n));
    }
    recovered.base.config.config = config;
    for (i, term) in terms.iter().enumerate() {
        let header = no_op(*term, i as u64 + 1);
        if recovered
            .term_starts
            .last()
            .is_none_or(|(last, _)| *last != header.term)
        {
            recovered.term_starts.push((header.term, header.index));
        }
        recovered.tail.push(header);
    }
    recovered
}

fn no_op(term: u64, index: u64) -> EntryHeader {
    EntryHeader {
        term: Term(term),
        index: LogIndex(index),
        seqno: Seqno(0),
        kind: EntryKind::NoOp,
        origin: Origin {
            member: id(2),
            ..Origin::default()
        },
        depends_on: Seqno::UNDEFINED,
        payload_len: 0,
        payload_crc: 0,
    }
}

fn entry_id(term: u64, index: u64) -> EntryId {
    EntryId::new(Term(term), LogIndex(index))
}

fn hard(term: u64) -> HardState {
    HardState::new(Term(term), None)
}

fn from(sender: u64, term: u64, body: Body) -> Message {
    Message::new(id(sender), id(1), Term(term), body)
}

fn append(term: u64, prev: EntryId, entries: Vec<EntryHeader>, commit: u64) -> Message {
    let commit = LogIndex(commit);
    let append = Append {
        prev,
        entries,
        commit,
        sent_at: Time(1),
    };
    from(2, term, Body::Append(append))
}

fn effects(core: &mut Core) -> Vec<Effect> {
    std::iter::from_fn(|| core.poll_effect()).collect()
}

fn sent(effects: &[Effect]) -> Vec<Body> {
    let bodies = effects.iter().filter_map(|effect| match effect {
        Effect::Send(message) => Some(message.body.clone()),
        _ => None,
    });
    bodies.collect()
}

fn last_ticket(effects: &[Effect]) -> WriteTicket {
    let mut tickets = effects.iter().filter_map(|effect| match effect {
        Effect::Write { ticket, .. } => Some(*ticket),
        _ => None,
    });
    tickets.next_back().expect("a write")
}

fn vote(term: u64, last: EntryId, transfer: bool) -> Message {
    from(3, term, Body::Vote { last, transfer })
}

fn durable(index: u64) -> Body {
    let outcome = AppendOutcome::Durable {
        index: LogIndex(index),
    };
    Body::AppendReply(AppendReply {
        outcome,
        sent_at: Time(1),
    })
}

/// Performs all effects with a disk that syncs at once; returns what was sent and the writes'
/// number.
fn perform(core: &mut Core, now: Time) -> (Vec<Message>, usize) {
    let (mut messages, mut writes) = (Vec::new(), 0);
    loop {
        let mut ticket = None;
        let mut is_idle = true;
        for effect in effects(core) {
            is_idle = false;
            match effect {
                Effect::Write { ticket: latest, .. } => {
                    ticket = Some(latest);
                    writes += 1;
                }
                Effect::Send(message) => messages.push(message),
                _ => {}
            }
        }
        if is_idle {
            return (messages, writes);
        }
        if let Some(ticket) = ticket {
            core.persisted(now, ticket);
        }
    }
}

fn bodies(messages: &[Message]) -> Vec<Body> {
    messages
        .iter()
        .map(|message| message.body.clone())
        .collect()
}

/// The only voter of a new group, leading it.
fn sole_leader() -> Core {
    let params = CoreParams {
        id: id(1),
        timing: Timing::default(),
        limits: Limits::default(),
        seed: 1,
    };
    let mut core = Core::new(params, Recovered::default(), Time(0));
    core.bootstrap(Time(0), member(1)).expect("an empty log");
    perform(&mut core, Time(0));
    assert!(core.is_ready_leader());
    core
}

/// When [`leader_of_three`] was elected.
const ELECTED: Time = Time(10 * SECOND);

/// The leader of term 2 of three voters, without a commit; member 2 has voted for it.
fn new_leader(limits: Limits) -> Core {
    let mut core = lone_with(limits, hard(1), &[1], Time(0));
    core.handle_tick(ELECTED);
    core.handle_message(ELECTED, from(2, 2, Body::PreVoteReply { granted: true }));
    perform(&mut core, ELECTED);
    core.handle_message(ELECTED, from(2, 2, Body::VoteReply { granted: true }));
    perform(&mut core, ELECTED);
    assert!(core.is_leader());
    core
}

fn acknowledge(core: &mut Core, now: Time, sender: u64, index: u64) {
    let index = LogIndex(index);
    let outcome = AppendOutcome::Durable { index };
    let reply = AppendReply {
        outcome,
        sent_at: now,
    };
    core.handle_message(now, from(sender, 2, Body::AppendReply(reply)));
}

/// Like [`new_leader`], with a commit of its term: both others have its log.
fn leader_of_three(limits: Limits) -> Core {
    let mut core = new_leader(limits);
    acknowledge(&mut core, ELECTED, 2, 2);
    acknowledge(&mut core, ELECTED, 3, 2);
    perform(&mut core, ELECTED);
    assert!(core.is_ready_leader());
    core
}

fn proposal(payload_len: u32) -> Proposal {
    Proposal {
        kind: EntryKind::View,
        origin: Origin {
            member: id(1),
            ..Origin::default()
        },
        depends_on: Seqno(0),
        payload_len,
        payload_crc: 0,
    }
}

// --- elections --------------------------------------------------------------------------------

/// A follower whose timer fires a second late stood still: heartbeats may wait to be read.
#[test]
fn member_that_stood_still_reads_what_came_before_it_stands() {
    let mut core = lone(hard(1), &[1], Time(0));
    let heartbeat = || Body::Heartbeat {
        commit: LogIndex(0),
        sent_at: Time(1),
        read_round: 0,
    };
    core.handle_message(Time(1), from(2, 1, heartbeat()));
    effects(&mut core);
    let late = Time(4 * SECOND);
    core.handle_tick(late);
    assert_eq!(sent(&effects(&mut core)), []);
    let again = core.poll_timeout().expect("it waits");
    assert!(again > late && again <= late.plus_us(200 * MS));
    core.handle_message(late, from(2, 1, heartbeat()));
    core.handle_tick(again);
    assert_eq!(core.leader(), Some(id(2)), "it has read a heartbeat");
    // Without one it stands, however late it is again.
    core.handle_tick(again.plus_us(4 * SECOND));
    let again = core.poll_timeout().expect("it waits");
    core.handle_tick(again.plus_us(SECOND));
    let asked = sent(&effects(&mut core));
    assert!(matches!(asked[..], [.., Body::PreVote { .. }]), "{asked:?}");
}

#[test]
fn vote_leaves_when_it_is_durable_and_only_one_per_term() {
    let mut core = lone(hard(1), &[1], Time(0));
    let later = Time(SECOND);
    core.handle_message(later, vote(2, entry_id(1, 1), false));
    let done = effects(&mut core);
    assert_eq!(sent(&done), []);
    let expected = HardState::new(Term(2), Some(id(3)));
    assert!(done.iter().any(|e| matches!(
        e, Effect::Write { op: WriteOp::Vote(vote), .. } if *vote == expected)));
    core.persisted(later, last_ticket(&done));
    assert_eq!(
        sent(&effects(&mut core)),
        [Body::VoteReply { granted: true }]
    );

    let mut rival = vote(2, entry_id(9, 9), false);
    rival.from = id(2);
    core.handle_message(later, rival);
    assert_eq!(
        sent(&effects(&mut core)),
        [Body::VoteReply { granted: false }]
    );
}

#[test]
fn voter_compares_the_last_entries_not_the_lengths() {
    let table = [
        (entry_id(1, 9), false),
        (entry_id(2, 1), false),
        (entry_id(2, 2), true),
        (entry_id(2, 3), true),
        (entry_id(3, 1), true),
    ];
    for (last, expected) in table {
        let mut core = lone(hard(3), &[1, 2], Time(0));
        core.handle_message(Time(SECOND), vote(4, last, false));
        let done = effects(&mut core);
        core.persisted(Time(SECOND), last_ticket(&done));
        let granted = sent(&effects(&mut core));
        assert_eq!(granted, [Body::VoteReply { granted: expected }], "{last}");
    }
}

#[test]
fn voter_keeps_its_promise_except_for_a_leader_transfer() {
    let mut core = lone(hard(1), &[1], Time(0));
    let heard = Time(SECOND);
    core.handle_message(heard, append(1, entry_id(1, 1), vec![], 0));
    effects(&mut core);
    let within = heard.plus_us(Timing::default().promise_us - 1);
    core.handle_message(within, vote(2, entry_id(1, 1), false));
    let pre_vote = Body::PreVote {
        last: entry_id(1, 1),
    };
    core.handle_message(within, from(3, 2, pre_vote));
    assert_eq!(
        sent(&effects(&mut core)),
        [Body::PreVoteReply { granted: false }]
    );
    assert_eq!((core.term(), core.counters().promised), (Term(1), 1));
    core.handle_message(within, vote(2, entry_id(1, 1), true));
    assert_eq!(core.term(), Term(2));
}

/// A member that says that the leader has ordered an election is believed only where that can be.
#[test]
fn promise_is_not_broken_for_an_election_that_no_leader_can_have_ordered() {
    let mut core = lone(hard(1), &[1], Time(0));
    let heard = Time(SECOND);
    core.handle_message(heard, append(1, entry_id(1, 1), vec![], 0));
    effects(&mut core);
    let of_a_stranger = Message {
        from: id(9),
        ..vote(2, entry_id(1, 1), true)
    };
    core.handle_message(heard, of_a_stranger);
    core.handle_message(heard, vote(3, entry_id(1, 1), true));
    assert_eq!((core.term(), core.counters().promised), (Term(1), 2));
    assert_eq!(effects(&mut core), [], "as if the requests never came");

    let mut leader = leader_of_three(Limits::default());
    let request = vote(leader.term().0 + 1, leader.last_id(), true);
    leader.handle_message(ELECTED, request.clone());
    assert!(leader.is_leader(), "it knows that it has given no order");
    let now = ELECTED.plus_us(MS);
    let last = leader.last_id().index.0;
    acknowledge(&mut leader, now, request.from.0, last);
    leader
        .transfer_leadership(now, Some(request.from))
        .expect("it has all entries");
    leader.handle_message(now, request);
    assert!(!leader.is_leader());
}

/// Only the leader that was asked knows the group's position.
#[test]
fn read_is_answered_by_the_leader_only() {
    let mut core = lone(hard(1), &[1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 1), vec![], 0));
    core.read(Time(5), 77);
    let (messages, _) = perform(&mut core, Time(5));
    let number = questions(&messages)[0];
    let reply = Body::ReadReply {
        id: number,
        index: LogIndex(1),
        seqno: Seqno(0),
    };
    core.handle_message(Time(5), from(3, 1, reply.clone()));
    assert_eq!(effects(&mut core), []);
    assert_eq!(core.counters().malformed, 1);
    core.handle_message(Time(5), from(2, 1, reply));
    assert!(matches!(
        effects(&mut core)[..],
        [Effect::ReadReady { id: 77, .. }]
    ));
}

#[test]
fn promise_survives_a_change_of_term() {
    let mut core = lone(hard(1), &[1], Time(0));
    let heard = Time(SECOND);
    core.handle_message(heard, append(1, entry_id(1, 1), vec![], 0));
    core.handle_message(heard, from(3, 5, Body::VoteReply { granted: false }));
    assert_eq!(core.term(), Term(5));
    effects(&mut core);
    core.handle_message(heard.plus_us(10), vote(5, entry_id(1, 1), false));
    let done = effects(&mut core);
    assert!(
        !done.iter().any(|e| matches!(e, Effect::Write { .. })),
        "no vote: {done:?}"
    );
}

#[test]
fn learner_without_a_configuration_votes_and_is_never_a_candidate() {
    let params = CoreParams {
        id: id(1),
        timing: Timing::default(),
        limits: Limits::default(),
        seed: 3,
    };
    let mut core = Core::new(params, Recovered::default(), Time(0));
    core.handle_tick(Time(20 * SECOND));
    assert_eq!((core.role(), core.term()), (RoleName::Follower, Term(0)));
    core.handle_message(Time(20 * SECOND), vote(1, entry_id(0, 0), false));
    let done = effects(&mut core);
    core.persisted(Time(20 * SECOND), last_ticket(&done));
    assert_eq!(
        sent(&effects(&mut core)),
        [Body::VoteReply { granted: true }]
    );
}

#[test]
fn bootstrap_needs_an_empty_log() {
    let mut core = sole_leader();
    let again = core.bootstrap(Time(1), member(1));
    assert_eq!(again, Err(BootstrapError::NotEmpty));
    let mut restarted = lone(hard(1), &[1], Time(0));
    let again = restarted.bootstrap(Time(1), member(1));
    assert_eq!(again, Err(BootstrapError::NotEmpty));
}

#[test]
fn forced_member_is_the_only_voter_in_a_term_out_of_reach() {
    let mut core = lone(hard(5), &[1], Time(0));
    core.force(Time(SECOND)).expect("a voter without a leader");
    perform(&mut core, Time(SECOND));
    assert!(core.is_ready_leader());
    assert!(core.config().config.is_sole_voter(id(1)));
    assert_eq!(
        core.config().config.members.len(),
        3,
        "the others are learners"
    );
    // No elections of the lost voters lead there: an entry's name stays unique.
    assert!(core.term() >= Term(5 + (1 << 34)), "{}", core.term());
}

#[test]
fn forced_learner_is_the_only_voter_and_keeps_its_log() {
    let mut recovered = recovered(hard(5), &[1, 5]);
    let members = &mut recovered.base.config.config.members;
    members.get_mut(&id(1)).unwrap().role = Role::Learner;
    let params = CoreParams {
        id: id(1),
        timing: Timing::default(),
        limits: Limits::default(),
        seed: 1,
    };
    let mut core = Core::new(params, recovered, Time(0));
    core.force(Time(SECOND))
        .expect("a learner without a leader");
    perform(&mut core, Time(SECOND));
    assert!(core.is_ready_leader());
    assert!(core.config().config.is_sole_voter(id(1)));
    assert_eq!(core.term_at(LogIndex(2)), Some(Term(5)));
}

#[test]
fn member_with_a_leader_or_without_a_group_is_not_forced() {
    let mut core = lone(hard(1), &[1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 1), vec![], 0));
    let refused = core.force(Time(6));
    assert_eq!(refused, Err(ForceError::HasLeader { leader: id(2) }));
    let mut leader = sole_leader();
    let refused = leader.force(Time(6));
    assert_eq!(refused, Err(ForceError::HasLeader { leader: id(1) }));
    let params = CoreParams {
        id: id(9),
        timing: Timing::default(),
        limits: Limits::default(),
        seed: 1,
    };
    let mut stranger = Core::new(params, Recovered::default(), Time(0));
    assert_eq!(stranger.force(Time(6)), Err(ForceError::NotConfigured));
}

// --- following --------------------------------------------------------------------------------

#[test]
fn follower_acknowledges_only_what_is_durable() {
    let mut core = lone(hard(1), &[1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 1), vec![no_op(1, 2)], 0));
    let first = last_ticket(&effects(&mut core));
    core.handle_message(Time(6), append(1, entry_id(1, 2), vec![no_op(1, 3)], 0));
    let done = effects(&mut core);
    assert_eq!(sent(&done), []);
    core.persisted(Time(7), first);
    assert_eq!(sent(&effects(&mut core)), [durable(2)]);
    core.persisted(Time(8), last_ticket(&done));
    assert_eq!(sent(&effects(&mut core)), [durable(3)]);
}

#[test]
fn acknowledgement_names_only_what_the_leader_has() {
    let mut core = lone(hard(1), &[1, 1, 1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 1), vec![], 0));
    assert_eq!(
        sent(&effects(&mut core)),
        [durable(1)],
        "entries 2 and 3 may not be the leader's"
    );
}

#[test]
fn nothing_is_acknowledged_before_the_term_is_durable() {
    let mut core = lone(hard(1), &[1], Time(0));
    core.handle_message(Time(5), append(2, entry_id(1, 1), vec![], 0));
    let (commit, sent_at, read_round) = (LogIndex(0), Time(1), 4);
    let heartbeat = Body::Heartbeat {
        commit,
        sent_at,
        read_round,
    };
    core.handle_message(Time(5), from(2, 2, heartbeat));
    core.handle_message(Time(5), append(2, entry_id(2, 9), vec![], 0));
    let done = effects(&mut core);
    assert_eq!(sent(&done), []);
    core.persisted(Time(6), last_ticket(&done));
    assert_eq!(sent(&effects(&mut core)).len(), 3);
}

#[test]
fn conflicting_entries_are_replaced_and_duplicates_change_nothing() {
    let mut core = lone(hard(1), &[1, 1, 1], Time(0));
    let message = append(2, entry_id(1, 1), vec![no_op(2, 2)], 0);
    core.handle_message(Time(5), message.clone());
    let done = effects(&mut core);
    let ops: Vec<_> = done
        .iter()
        .filter_map(|effect| match effect {
            Effect::Write { op, .. } => Some(op.clone()),
            _ => None,
        })
        .collect();
    let truncate = WriteOp::Truncate { from: LogIndex(2) };
    assert_eq!(ops[1..], [truncate, WriteOp::Append(vec![no_op(2, 2)])]);
    core.persisted(Time(6), last_ticket(&done));
    effects(&mut core);

    core.handle_message(Time(7), append(2, entry_id(2, 2), vec![no_op(2, 3)], 0));
    effects(&mut core);
    core.handle_message(Time(8), message);
    let again = effects(&mut core);
    assert!(
        !again.iter().any(|e| matches!(e, Effect::Write { .. })),
        "{again:?}"
    );
    assert_eq!(
        core.last_id(),
        entry_id(2, 3),
        "an old message truncates nothing"
    );
}

#[test]
fn commit_stops_where_the_log_is_not_known_to_be_the_leaders() {
    let mut core = lone(hard(1), &[1, 1, 1], Time(0));
    core.handle_message(Time(5), append(2, entry_id(1, 1), vec![], 3));
    assert_eq!(core.commit_index(), LogIndex(1));
    core.handle_message(Time(5), append(2, entry_id(1, 2), vec![], 2));
    assert_eq!(core.commit_index(), LogIndex(2));
}

#[test]
#[should_panic(expected = "is committed")]
fn follower_refuses_to_truncate_committed_entries() {
    let mut core = lone(hard(1), &[1, 1, 1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 3), vec![], 3));
    core.handle_message(Time(6), append(2, entry_id(1, 1), vec![no_op(2, 2)], 0));
}

#[test]
fn malformed_appends_are_ignored_and_counted() {
    let ordered = |seqno| EntryHeader {
        kind: EntryKind::Action,
        seqno: Seqno(seqno),
        depends_on: Seqno(0),
        ..no_op(1, 2)
    };
    let cases = [
        vec![no_op(1, 3)],
        vec![no_op(1, 2), no_op(1, 4)],
        vec![no_op(2, 2)],
        vec![no_op(0, 2)],
        vec![ordered(2)],
        vec![ordered(0)],
        vec![EntryHeader {
            seqno: Seqno(5),
            ..no_op(1, 2)
        }],
        vec![EntryHeader {
            depends_on: Seqno(1),
            ..ordered(1)
        }],
    ];
    for entries in cases {
        let mut core = lone(hard(1), &[1], Time(0));
        core.handle_message(Time(5), append(1, entry_id(1, 1), entries.clone(), 0));
        let done = effects(&mut core);
        assert!(
            !done.iter().any(|e| matches!(e, Effect::Write { .. })),
            "{entries:?}: {done:?}"
        );
        assert_eq!(core.counters().malformed, 1, "{entries:?}");
    }
    let mut core = lone(hard(1), &[1], Time(0));
    let config = EntryHeader {
        kind: EntryKind::Config,
        ..no_op(1, 2)
    };
    core.handle_message(Time(5), append(1, entry_id(1, 1), vec![config], 0));
    assert_eq!(
        (core.counters().config_missing, core.last_id()),
        (1, entry_id(1, 1))
    );
}

#[test]
fn second_leader_of_a_term_is_ignored() {
    let mut core = lone(hard(1), &[1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 1), vec![], 0));
    effects(&mut core);
    let mut other = append(1, entry_id(1, 1), vec![no_op(1, 2)], 0);
    other.from = id(3);
    core.handle_message(Time(5), other);
    assert_eq!(effects(&mut core), []);
    assert_eq!((core.leader(), core.counters().malformed), (Some(id(2)), 1));
}

/// The leader of `term` orders to begin the log at its entry of that term and index.
fn install_of(term: u64, index: u64) -> Message {
    let mut config = Config::default();
    config.members.insert(id(2), member(2));
    let config = ConfigAt {
        index: LogIndex(1),
        config,
    };
    let base = LogBase {
        last: entry_id(term, index),
        seqno: Seqno(index as i64),
        config,
    };
    let sent_at = Time(1);
    from(2, term, Body::InstallBase { base, sent_at })
}

#[test]
fn base_of_another_history_is_not_acknowledged() {
    let mut core = lone(hard(1), &[1, 1, 1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 3), vec![], 3));
    effects(&mut core);
    assert_eq!(core.commit_index(), LogIndex(3));
    for index in [2, 3] {
        core.handle_message(Time(6), install_of(9, index));
        let done = effects(&mut core);
        if let Some(Effect::Write { ticket, .. }) = done.first() {
            // The new term.
            core.persisted(Time(7), *ticket);
        }
        assert_eq!(sent(&effects(&mut core)), [], "index {index}");
        assert_eq!(core.last_id(), entry_id(1, 3));
    }
    assert_eq!(core.counters().malformed, 2);
}

/// A forced primary may lack what is committed here. Its probe shows that it has the entry before,
/// and no more.
#[test]
fn leader_is_acknowledged_no_more_than_it_has_shown() {
    let mut core = lone(hard(1), &[1, 1, 1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 3), vec![], 3));
    effects(&mut core);
    assert_eq!(core.commit_index(), LogIndex(3));
    core.handle_message(Time(6), append(9, entry_id(1, 2), vec![], 0));
    let done = effects(&mut core);
    core.persisted(Time(7), last_ticket(&done));
    assert_eq!(sent(&effects(&mut core)), [durable(2)]);
}

#[test]
fn base_is_taken_if_unknown_and_left_if_known() {
    let install = |index| install_of(1, index);
    let mut core = lone(hard(1), &[1, 1, 1], Time(0));
    core.handle_message(Time(5), install(2));
    let done = effects(&mut core);
    assert_eq!(sent(&done), [durable(2)]);
    assert_eq!(
        (core.last_id(), core.commit_index()),
        (entry_id(1, 3), LogIndex(2))
    );

    core.handle_message(Time(6), install(10));
    let done = effects(&mut core);
    assert_eq!(sent(&done), []);
    assert_eq!(
        (core.last_id(), core.commit_index()),
        (entry_id(1, 10), LogIndex(10))
    );
    core.persisted(Time(7), last_ticket(&done));
    assert_eq!(sent(&effects(&mut core)), [durable(10)]);
    assert_eq!(core.last_seqno(), Seqno(10));
}

// --- reads of a follower ----------------------------------------------------------------------

fn questions(messages: &[Message]) -> Vec<u64> {
    let numbers = messages.iter().filter_map(|message| match message.body {
        Body::Read { id } => Some(id),
        _ => None,
    });
    numbers.collect()
}

fn answer(core: &mut Core, number: u64) -> Vec<u64> {
    let (index, seqno) = (LogIndex(1), Seqno(0));
    let reply = Body::ReadReply {
        id: number,
        index,
        seqno,
    };
    core.handle_message(Time(9), from(2, 1, reply));
    let answered = effects(core).into_iter().filter_map(|effect| match effect {
        Effect::ReadReady { id, .. } => Some(id),
        _ => None,
    });
    answered.collect()
}

#[test]
fn reads_share_questions() {
    let mut core = lone(hard(1), &[1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 1), vec![], 0));
    perform(&mut core, Time(5));
    (0..100).for_each(|read| core.read(Time(6), read));
    let (messages, _) = perform(&mut core, Time(6));
    let [first] = questions(&messages)[..] else {
        panic!("one question: {messages:?}");
    };
    let (index, seqno) = (LogIndex(1), Seqno(0));
    let reply = Body::ReadReply {
        id: first,
        index,
        seqno,
    };
    core.handle_message(Time(7), from(2, 1, reply));
    let (messages, _) = perform(&mut core, Time(7));
    let [second] = questions(&messages)[..] else {
        panic!("a second question: {messages:?}");
    };
    assert_eq!(answer(&mut core, second), (1..100).collect::<Vec<u64>>());
}

#[test]
fn cancelled_reads_are_not_answered() {
    let mut core = lone(hard(1), &[1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 1), vec![], 0));
    perform(&mut core, Time(5));
    core.read(Time(6), 1);
    let (messages, _) = perform(&mut core, Time(6));
    core.read(Time(6), 2);
    core.cancel_read(1);
    core.cancel_read(2);
    assert_eq!(answer(&mut core, questions(&messages)[0]), []);
    assert_eq!(core.poll_effect(), None, "no second question");
}

#[test]
fn read_waits_for_a_leader() {
    let mut core = lone(hard(1), &[1], Time(0));
    core.read(Time(5), 7);
    assert_eq!(effects(&mut core), []);
    core.handle_message(Time(6), append(1, entry_id(1, 1), vec![], 0));
    let (messages, _) = perform(&mut core, Time(6));
    let numbers = questions(&messages);
    assert_eq!(answer(&mut core, numbers[0]), [7]);
}

// --- leading ----------------------------------------------------------------------------------

/// Raft, figure 8: an entry of an older term on a majority is not committed by counting.
#[test]
fn entry_of_an_older_term_commits_only_with_one_of_the_own_term() {
    // Term 2's entry is on this member's disk and becomes known to be on a second of three.
    let mut core = lone(hard(2), &[1, 2], Time(0));
    core.handle_tick(Time(10 * SECOND));
    effects(&mut core);
    let now = Time(10 * SECOND);
    core.handle_message(now, from(2, 3, Body::PreVoteReply { granted: true }));
    let ticket = last_ticket(&effects(&mut core));
    core.persisted(now, ticket);
    core.handle_message(now, from(2, 3, Body::VoteReply { granted: true }));
    let done = effects(&mut core);
    assert!(core.is_leader());
    assert_eq!(core.last_id(), entry_id(3, 3), "the no-op of the term");
    let reply = |index| {
        let outcome = AppendOutcome::Durable {
            index: LogIndex(index),
        };
        from(
            2,
            3,
            Body::AppendReply(AppendReply {
                outcome,
                sent_at: now,
            }),
        )
    };
    core.handle_message(now, reply(2));
    assert_eq!(
        core.commit_index(),
        LogIndex(0),
        "on a majority, but of term 2"
    );
    core.handle_message(now, reply(3));
    assert_eq!(
        core.commit_index(),
        LogIndex(0),
        "the leader's own disk lacks it"
    );
    core.persisted(now, last_ticket(&done));
    assert_eq!(core.commit_index(), LogIndex(3));
}

/// Every read takes a round; reads that come while one is under way share the next.
#[test]
fn reads_share_rounds() {
    let mut core = leader_of_three(Limits::default());
    let round_of = |messages: &[Message]| {
        let rounds = messages.iter().filter_map(|message| match message.body {
            Body::Heartbeat { read_round, .. } if message.to == id(2) => Some(read_round),
            _ => None,
        });
        rounds.collect::<Vec<u64>>()
    };
    core.read(ELECTED, 1);
    assert_eq!(round_of(&perform(&mut core, ELECTED).0), [1]);
    for read in 2..=100 {
        core.read(ELECTED, read);
    }
    assert_eq!(round_of(&perform(&mut core, ELECTED).0), [0; 0]);

    let mut answered = Vec::new();
    for round in 1..=2 {
        let reply = Body::HeartbeatReply {
            sent_at: ELECTED,
            read_round: round,
        };
        core.handle_message(ELECTED, from(2, 2, reply));
        let done = effects(&mut core);
        let ready = done.iter().filter_map(|effect| match effect {
            Effect::ReadReady { id, .. } => Some(*id),
            _ => None,
        });
        answered.push(ready.collect::<Vec<u64>>());
    }
    assert_eq!(answered, [vec![1], (2..=100).collect::<Vec<u64>>()]);
}

#[test]
fn gathered_proposals_share_one_write_and_one_message_per_follower() {
    let mut core = leader_of_three(Limits::default());
    for _ in 0..100 {
        core.propose(ELECTED, proposal(10)).expect("leads");
    }
    let done = effects(&mut core);
    let writes = done.iter().filter(|e| matches!(e, Effect::Write { .. }));
    assert_eq!(writes.count(), 1);
    let messages = done.iter().filter(|e| matches!(e, Effect::SendEntries(_)));
    assert_eq!(messages.count(), 2);
}

#[test]
fn followers_receive_a_commit_without_waiting_for_the_next_heartbeat() {
    let mut core = leader_of_three(Limits::default());
    core.propose(ELECTED, proposal(10)).expect("leads");
    perform(&mut core, ELECTED);
    acknowledge(&mut core, ELECTED, 2, 3);
    assert_eq!(core.commit_index(), LogIndex(3));
    let (messages, _) = perform(&mut core, ELECTED);
    let notice = Body::CommitNotice {
        commit: LogIndex(3),
    };
    let to_both = [notice.clone(), notice];
    assert_eq!(bodies(&messages), to_both, "one of them has not answered");
}

#[test]
fn leader_refuses_more_uncommitted_bytes_than_allowed() {
    let limits = Limits {
        uncommitted_bytes_max: 10_000,
        ..Limits::default()
    };
    let mut core = leader_of_three(limits);
    let mut propose = || core.propose(ELECTED, proposal(4_000)).map(|_| ());
    let results = [propose(), propose(), propose()];
    assert_eq!(results, [Ok(()), Ok(()), Err(ProposeError::Busy)]);
    perform(&mut core, ELECTED);
    acknowledge(&mut core, ELECTED, 3, 4);
    core.propose(ELECTED, proposal(4_000)).expect("committed");
}

#[test]
fn idle_leader_is_quiet() {
    let mut core = leader_of_three(Limits::default());
    let end = ELECTED.plus_us(10 * SECOND);
    let (mut now, mut sent, mut written) = (ELECTED, 0, 0);
    loop {
        let (messages, writes) = perform(&mut core, now);
        (sent, written) = (sent + messages.len(), written + writes);
        now = core.poll_timeout().expect("a heartbeat");
        if now > end {
            break;
        }
        for Message { to, body, .. } in messages {
            match body {
                Body::Heartbeat {
                    sent_at,
                    read_round,
                    ..
                } => {
                    let reply = Body::HeartbeatReply {
                        sent_at,
                        read_round,
                    };
                    core.handle_message(now, from(to.0, 2, reply));
                }
                Body::Append(append) => acknowledge(&mut core, now, to.0, append.prev.index.0),
                other => panic!("{other:?}"),
            }
        }
        core.handle_tick(now);
    }
    // Two followers: a heartbeat each every 100 ms, and a probe each every second.
    assert!((200..=250).contains(&sent), "{sent} messages in 10 s");
    assert_eq!(written, 0);
}

#[test]
fn leader_transfer_stops_proposals_and_changes() {
    let mut core = leader_of_three(Limits::default());
    core.propose(ELECTED, proposal(10)).expect("leads");
    perform(&mut core, ELECTED);
    let to_itself = core.transfer_leadership(ELECTED, Some(id(1)));
    let already = LeaderTransferError::AlreadyLeader { to: id(1) };
    assert_eq!(to_itself, Err(already));
    let to_a_stranger = core.transfer_leadership(ELECTED, Some(id(9)));
    let no_voter = LeaderTransferError::NotVoter { to: id(9) };
    assert_eq!(to_a_stranger, Err(no_voter));

    assert_eq!(core.transfer_leadership(ELECTED, Some(id(3))), Ok(id(3)));
    assert_eq!(core.leader_transfer().map(|to| to.member), Some(id(3)));
    let again = core.transfer_leadership(ELECTED, None);
    let in_progress = LeaderTransferError::InProgress { to: id(3) };
    assert_eq!(again, Err(in_progress));
    let change = core.change_config(ELECTED, ConfigChange::Demote(id(2)));
    assert_eq!(change, Err(ConfigError::LeaderTransfer));
    let proposed = core.propose(ELECTED, proposal(10));
    assert_eq!(proposed, Err(ProposeError::LeaderTransfer));
    // Member 3 lacks the entry, and never acknowledges it: the leader gives up.
    let given_up = ELECTED.plus_us(Timing::default().election_timeout_min_us);
    core.handle_tick(given_up);
    assert_eq!(core.leader_transfer(), None);
    core.propose(given_up, proposal(10)).expect("leads again");
}

#[test]
fn leader_transfer_without_a_target_takes_a_voter_that_answers() {
    let mut core = leader_of_three(Limits::default());
    let now = ELECTED.plus_us(2 * SECOND);
    acknowledge(&mut core, now, 3, 2);
    perform(&mut core, now);
    assert_eq!(core.transfer_leadership(now, None), Ok(id(3)));
    let (messages, _) = perform(&mut core, now);
    let orders = messages.iter().filter(|m| m.body == Body::TimeoutNow);
    assert_eq!(orders.map(|m| m.to).collect::<Vec<_>>(), [id(3)]);

    let mut follower = lone(hard(1), &[1], Time(0));
    let refused = follower.transfer_leadership(Time(5), None);
    let not_leader = LeaderTransferError::NotLeader { leader: None };
    assert_eq!(refused, Err(not_leader));
}

// --- membership -------------------------------------------------------------------------------

#[test]
fn one_change_at_a_time_and_only_by_a_leader_that_committed() {
    let demote = |n| ConfigChange::Demote(id(n));
    let mut follower = lone(hard(1), &[1], Time(0));
    let refused = follower.change_config(Time(5), demote(3));
    assert_eq!(refused, Err(ConfigError::NotLeader { leader: None }));

    let mut fresh = new_leader(Limits::default());
    let refused = fresh.change_config(ELECTED, demote(3));
    assert_eq!(refused, Err(ConfigError::NotReady));

    let mut core = leader_of_three(Limits::default());
    let index = core.change_config(ELECTED, demote(3)).expect("ready");
    let refused = core.change_config(ELECTED, demote(2));
    assert_eq!(refused, Err(ConfigError::InProgress { index }));
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    let mut core = sole_leader();
    let mut refused = |change| core.change_config(Time(1), change).expect_err("refused");
    let no_voter_left = ConfigError::NoVoterLeft;
    assert_eq!(refused(ConfigChange::Demote(id(1))), no_voter_left);
    assert_eq!(refused(ConfigChange::Remove(id(1))), no_voter_left);
    let unknown = ConfigError::UnknownMember { id: id(9) };
    assert_eq!(refused(ConfigChange::Promote(id(9))), unknown);
    let already_so = ConfigError::AlreadySo { id: id(1) };
    assert_eq!(refused(ConfigChange::Promote(id(1))), already_so);
    let add = |id, n| ConfigChange::AddLearner {
        id,
        member: member(n),
    };
    let taken = ConfigError::SeatTaken {
        name: "node1".to_owned(),
        address: "node1:4567".to_owned(),
        id: id(1),
    };
    assert_eq!(refused(add(id(9), 1)), taken);
    assert_eq!(refused(add(id(1), 8)), already_so);
    let invalid = refused(add(MemberId::NONE, 8));
    assert!(matches!(invalid, ConfigError::Invalid { .. }), "{invalid}");
}

#[test]
fn member_changes_name_address_and_program() {
    let mut core = sole_leader();
    let update = ConfigChange::Update {
        id: id(1),
        name: "other".to_owned(),
        address: "there:1".to_owned(),
        versions: VersionRange { min: 1, max: 2 },
        certificate: None,
    };
    core.change_config(Time(1), update.clone()).expect("valid");
    let expected = Member {
        name: "other".to_owned(),
        address: "there:1".to_owned(),
        versions: VersionRange { min: 1, max: 2 },
        ..member(1)
    };
    let members = BTreeMap::from([(id(1), expected)]);
    assert_eq!(core.config().config.members, members);
    perform(&mut core, Time(1));
    let again = core.change_config(Time(2), update);
    assert_eq!(again, Err(ConfigError::AlreadySo { id: id(1) }));
}
