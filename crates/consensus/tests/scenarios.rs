//! One behaviour per test, in good weather unless the test makes it bad.

mod harness;

use harness::{MS, Options, SECOND, Sim, id, member};
use synod_consensus::{
    Append, AppendOutcome, AppendReply, Body, BootstrapError, Config, ConfigChange, ConfigError,
    Core, CoreParams, Effect, EntryHeader, EntryId, EntryKind, ForceError, HardState,
    LeaderTransferError, Limits, LogBase, LogIndex, MemberId, Message, Origin, ProgressMode,
    Proposal, ProposeError, Recovered, Role, RoleName, Seqno, Term, Time, Timing, VersionRange,
    WriteOp, WriteTicket,
};

fn three() -> Sim {
    Sim::group(7, 3, Options::default())
}

fn work(sim: &mut Sim, node: MemberId, count: u64) {
    for _ in 0..count {
        sim.submit(node);
    }
    sim.expect("commits", 5 * SECOND, |sim| {
        sim.node(node).outbox.oldest_outstanding().is_none()
    });
}

fn settle(sim: &mut Sim) {
    sim.expect("level logs", 10 * SECOND, Sim::is_level);
}

fn wait_for_other_leader(sim: &mut Sim, old: MemberId, limit_us: u64) -> MemberId {
    sim.expect("new leader", limit_us, |sim| {
        sim.ready_leader().is_some_and(|new| new != old)
    });
    sim.leader().expect("just seen")
}

// --- elections --------------------------------------------------------------------------------

#[test]
fn single_voter_leads_at_once_and_again_one_promise_after_a_restart() {
    let mut sim = Sim::group(1, 1, Options::default());
    work(&mut sim, id(1), 10);
    sim.crash(id(1));
    sim.start(id(1));
    let start = sim.now;
    sim.expect("leader", SECOND, |sim| sim.core(id(1)).is_ready_leader());
    let promise = Timing::default().promise_us;
    let took = sim.now - start;
    assert!((promise..promise + 20 * MS).contains(&took), "{took} us");
    assert!(sim.core(id(1)).lease_valid(sim.local(id(1))));
}

#[test]
fn single_voter_with_a_very_slow_disk_leads_in_the_end() {
    let sync_us = (5 * SECOND, 5 * SECOND);
    let mut sim = Sim::new(
        1,
        Options {
            sync_us,
            ..Options::default()
        },
    );
    sim.add_node(id(1));
    sim.with(id(1), |core, now| core.bootstrap(now, member(1)))
        .expect("blank");
    sim.expect("leader", 30 * SECOND, |sim| {
        sim.core(id(1)).is_ready_leader()
    });
    assert_eq!(sim.core(id(1)).term(), Term(1));
}

#[test]
fn bootstrap_needs_a_blank_log() {
    let mut sim = Sim::group(1, 1, Options::default());
    let again = sim.with(id(1), |core, now| core.bootstrap(now, member(1)));
    assert_eq!(again, Err(BootstrapError::NotEmpty));
    sim.crash(id(1));
    sim.start(id(1));
    let again = sim.with(id(1), |core, now| core.bootstrap(now, member(1)));
    assert_eq!(again, Err(BootstrapError::NotEmpty));
}

#[test]
fn dead_leader_is_replaced_soon_after_the_promise_when_its_connections_break() {
    for seed in 1..30 {
        let mut sim = Sim::group(seed, 3, Options::default());
        work(&mut sim, id(2), 5);
        sim.crash(id(1));
        let since = sim.now;
        wait_for_other_leader(&mut sim, id(1), 3 * SECOND);
        let took = sim.now - since;
        assert!(took < 1800 * MS, "seed {seed}: {took} us");
    }
}

#[test]
fn dead_leader_is_replaced_without_hints_too() {
    let mut sim = Sim::group(
        3,
        3,
        Options {
            hints: false,
            ..Options::default()
        },
    );
    sim.crash(id(1));
    wait_for_other_leader(&mut sim, id(1), 6 * SECOND);
}

#[test]
fn cut_off_follower_does_not_disturb_when_it_returns() {
    let mut sim = three();
    let term = sim.core(id(1)).term();
    sim.isolate(&[id(3)]);
    sim.run_for(20 * SECOND);
    assert_eq!(sim.core(id(3)).role(), RoleName::PreCandidate);
    assert_eq!(sim.core(id(3)).term(), term, "pre-votes raise no term");
    sim.heal_network();
    sim.run_for(5 * SECOND);
    assert_eq!(sim.leader(), Some(id(1)));
    assert_eq!(sim.core(id(1)).term(), term);
    assert_eq!(sim.core(id(3)).leader(), Some(id(1)));
}

#[test]
fn leader_without_quorum_steps_down() {
    let mut sim = three();
    sim.isolate(&[id(1)]);
    sim.expect("resignation", 4 * SECOND, |sim| {
        !sim.core(id(1)).is_leader()
    });
    assert_eq!(sim.core(id(1)).leader(), None);
}

#[test]
fn even_and_odd_groups_elect_and_commit() {
    for voters in [2, 4, 5] {
        let mut sim = Sim::group(voters, voters, Options::default());
        sim.crash(id(1));
        if voters > 2 {
            wait_for_other_leader(&mut sim, id(1), 5 * SECOND);
        }
        sim.start(id(1));
        work(&mut sim, id(2), 20);
        settle(&mut sim);
    }
}

#[test]
fn whole_group_restarts_by_itself() {
    let mut sim = three();
    work(&mut sim, id(2), 50);
    let seqno = sim.seqno();
    (1..=3).for_each(|n| sim.crash(id(n)));
    (1..=3).for_each(|n| sim.start(id(n)));
    sim.expect("leader", 6 * SECOND, |sim| sim.ready_leader().is_some());
    settle(&mut sim);
    assert_eq!(sim.seqno(), seqno);
    work(&mut sim, id(3), 10);
}

/// A core alone, for exact messages.
fn lone(vote: HardState, terms: &[u64], now: Time) -> Core {
    let mut recovered = Recovered {
        vote,
        ..Recovered::default()
    };
    let mut config = Config::default();
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
    let (timing, limits) = (Timing::default(), Limits::default());
    Core::new(
        CoreParams {
            id: id(1),
            timing,
            limits,
            seed: 1,
        },
        recovered,
        now,
    )
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
    EntryId {
        term: Term(term),
        index: LogIndex(index),
    }
}

fn hard(term: u64) -> HardState {
    HardState {
        term: Term(term),
        voted_for: None,
    }
}

fn from(sender: u64, term: u64, body: Body) -> Message {
    Message {
        from: id(sender),
        to: id(1),
        term: Term(term),
        body,
    }
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

#[test]
fn vote_leaves_when_it_is_durable_and_only_one_per_term() {
    let mut core = lone(hard(1), &[1], Time(0));
    let later = Time(SECOND);
    core.handle_message(later, vote(2, entry_id(1, 1), false));
    let done = effects(&mut core);
    assert_eq!(sent(&done), []);
    let expected = HardState {
        term: Term(2),
        voted_for: Some(id(3)),
    };
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
fn restarted_voter_waits_one_promise() {
    let promise = Timing::default().promise_us;
    let mut core = lone(hard(1), &[1], Time(0));
    core.handle_message(Time(promise - 1), vote(2, entry_id(1, 1), false));
    assert_eq!(effects(&mut core), [], "as if the request never came");
    assert_eq!(core.term(), Term(1));
    core.handle_message(Time(promise), vote(2, entry_id(1, 1), false));
    assert_eq!(core.term(), Term(2));
}

/// A leader that votes itself out leads until that is committed, and reads by its lease. The voter that
/// is left alone may have made a promise to it and then have lost its memory.
#[test]
fn restarted_sole_voter_keeps_its_promise_to_a_leader_that_voted_itself_out() {
    let mut sim = Sim::group(7, 2, Options::default());
    settle(&mut sim);
    let (old, alone) = (id(1), id(2));
    assert!(sim.core(old).lease_valid(sim.local(old)));
    sim.blocked.insert((alone, old));
    sim.change(old, ConfigChange::Demote(old));
    sim.expect("a durable configuration", 50 * MS, |sim| {
        sim.core(alone).durable_index() == sim.core(old).last_id().index
    });
    assert!(sim.core(alone).config().config.is_sole_voter(alone));
    assert!(sim.core(old).lease_valid(sim.local(old)), "does not know");
    sim.crash(alone);
    sim.blocked.insert((old, alone));
    sim.start(alone);
    // The harness sees to it that nobody is elected beside a valid lease.
    sim.expect("leader", SECOND, |sim| sim.core(alone).is_ready_leader());
}

#[test]
fn voter_keeps_its_promise_to_the_leader_except_for_a_transfer() {
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
fn learner_without_config_votes_but_never_stands() {
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

// --- following --------------------------------------------------------------------------------

fn durable(index: u64) -> Body {
    let outcome = AppendOutcome::Durable {
        index: LogIndex(index),
    };
    Body::AppendReply(AppendReply {
        outcome,
        sent_at: Time(1),
    })
}

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
        "an old message cuts nothing"
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
fn follower_refuses_cut_below_commit() {
    let mut core = lone(hard(1), &[1, 1, 1], Time(0));
    core.handle_message(Time(5), append(1, entry_id(1, 3), vec![], 3));
    core.handle_message(Time(6), append(2, entry_id(1, 1), vec![no_op(2, 2)], 0));
}

#[test]
fn malformed_appends_are_dropped_and_counted() {
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

#[test]
fn base_is_taken_if_unknown_and_left_if_known() {
    let install = |index| {
        let mut config = Config::default();
        config.members.insert(id(2), member(2));
        let config = synod_consensus::ConfigAt {
            index: LogIndex(1),
            config,
        };
        let base = LogBase {
            last: entry_id(1, index),
            seqno: Seqno(index as i64),
            config,
        };
        from(
            2,
            1,
            Body::InstallBase {
                base,
                sent_at: Time(1),
            },
        )
    };
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

// --- leading ----------------------------------------------------------------------------------

#[test]
fn proposals_of_all_members_are_ordered_everywhere() {
    let mut sim = three();
    for round in 0..20 {
        (1..=3).for_each(|n| {
            sim.submit(id(n));
        });
        sim.run_for(round * 100);
    }
    settle(&mut sim);
    sim.expect("resolution", SECOND, |sim| sim.resolved == 60);
}

#[test]
fn gathered_proposals_share_one_write_and_one_message() {
    let mut sim = three();
    settle(&mut sim);
    let origin = Origin {
        member: id(1),
        ..Origin::default()
    };
    let proposal = Proposal {
        kind: EntryKind::View,
        origin,
        depends_on: Seqno(0),
        payload_len: 10,
        payload_crc: 0,
    };
    let (writes, appends) = (sim.node(id(1)).writes, sim.sent["append"]);
    sim.with(id(1), |core, now| {
        for _ in 0..100 {
            core.propose(now, proposal).expect("leads");
        }
    });
    assert_eq!(sim.node(id(1)).writes, writes + 1);
    assert_eq!(sim.sent["append"], appends + 2);
}

#[test]
fn commit_needs_a_majority_of_disks_and_not_the_leaders() {
    let mut sim = three();
    settle(&mut sim);
    sim.hold_disk(id(1), true);
    work(&mut sim, id(2), 5);
    assert!(sim.core(id(1)).durable_index() < sim.core(id(1)).commit_index());
    sim.hold_disk(id(2), true);
    let commit = sim.oracle.commit_index();
    sim.submit(id(3));
    sim.run_for(SECOND);
    assert_eq!(sim.oracle.commit_index(), commit);
    sim.hold_disk(id(1), false);
    sim.hold_disk(id(2), false);
    settle(&mut sim);
    assert!(sim.oracle.commit_index() > commit);
}

#[test]
fn followers_learn_of_a_commit_without_waiting_for_a_heartbeat() {
    let mut sim = three();
    settle(&mut sim);
    let mut slowest = 0;
    for _ in 0..50 {
        let since = sim.now;
        work(&mut sim, id(3), 1);
        slowest = slowest.max(sim.now - since);
        sim.run_for(7 * MS);
    }
    // Proposal, append, sync, acknowledgement, commit: four hops and a sync.
    assert!(slowest < 5 * MS, "{slowest} us");
}

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
        "the own disk has it not yet"
    );
    core.persisted(now, last_ticket(&done));
    assert_eq!(core.commit_index(), LogIndex(3));
}

/// The lease counts from when the heartbeat was sent, shortened by what clocks may differ, and only
/// once an entry of the term is committed (dissertation, section 6.4.1).
#[test]
fn lease_starts_when_the_heartbeat_was_sent() {
    let mut core = lone(hard(1), &[1], Time(0));
    let elected = Time(10 * SECOND);
    core.handle_tick(elected);
    core.handle_message(elected, from(3, 2, Body::PreVoteReply { granted: true }));
    let ticket = last_ticket(&effects(&mut core));
    core.persisted(elected, ticket);
    core.handle_message(elected, from(3, 2, Body::VoteReply { granted: true }));
    let ticket = last_ticket(&effects(&mut core));
    core.persisted(elected, ticket);

    let answered = elected.plus_us(200 * MS);
    let heartbeat = Body::HeartbeatReply {
        sent_at: elected,
        read_round: 0,
    };
    core.handle_message(answered, from(3, 2, heartbeat));
    assert!(!core.lease_valid(answered), "nothing committed yet");
    let outcome = AppendOutcome::Durable { index: LogIndex(2) };
    let reply = AppendReply {
        outcome,
        sent_at: elected,
    };
    core.handle_message(answered, from(3, 2, Body::AppendReply(reply)));
    assert!(core.is_ready_leader());
    let lease_us = 400 * MS * 98 / 100;
    assert!(core.lease_valid(elected.plus_us(lease_us - 1)));
    assert!(!core.lease_valid(elected.plus_us(lease_us)));
}

#[test]
fn deposed_leaders_entries_vanish_and_its_proposals_are_sent_again() {
    let mut sim = three();
    settle(&mut sim);
    sim.isolate(&[id(1)]);
    let lost: Vec<Origin> = (0..10).map(|_| sim.submit(id(1))).collect();
    sim.run_for(10 * MS);
    assert!(sim.core(id(1)).last_id().index > sim.oracle.commit_index());
    wait_for_other_leader(&mut sim, id(1), 6 * SECOND);
    sim.heal_network();
    settle(&mut sim);
    sim.expect("resolution", 5 * SECOND, |sim| {
        lost.iter().all(|origin| sim.oracle.is_committed(*origin))
    });
}

#[test]
fn leader_refuses_more_uncommitted_bytes_than_allowed() {
    let limits = Limits {
        uncommitted_bytes_max: 10_000,
        ..Limits::default()
    };
    let mut sim = Sim::group(
        5,
        3,
        Options {
            limits,
            ..Options::default()
        },
    );
    settle(&mut sim);
    sim.crash(id(2));
    sim.crash(id(3));
    let origin = Origin {
        member: id(1),
        ..Origin::default()
    };
    let depends_on = Seqno(0);
    let proposal = Proposal {
        kind: EntryKind::View,
        origin,
        depends_on,
        payload_len: 4_000,
        payload_crc: 0,
    };
    let results: Vec<_> = (0..4)
        .map(|_| {
            sim.with(id(1), |core, now| core.propose(now, proposal))
                .map(|_| ())
        })
        .collect();
    assert_eq!(
        results,
        [
            Ok(()),
            Ok(()),
            Err(ProposeError::Busy),
            Err(ProposeError::Busy)
        ]
    );
    sim.start(id(2));
    sim.expect("commit", 5 * SECOND, |sim| {
        sim.core(id(1)).commit_index() == sim.core(id(1)).last_id().index
    });
    assert!(
        sim.with(id(1), |core, now| core.propose(now, proposal))
            .is_ok()
    );
}

#[test]
fn far_behind_follower_catches_up_from_disk_and_streams_again() {
    let limits = Limits {
        tail_headers_max: 20,
        ..Limits::default()
    };
    let mut sim = Sim::group(
        5,
        3,
        Options {
            limits,
            ..Options::default()
        },
    );
    sim.crash(id(3));
    for _ in 0..20 {
        work(&mut sim, id(2), 20);
    }
    sim.start(id(3));
    let mut modes = Vec::new();
    for _ in 0..2000 {
        sim.run_for(100);
        let progress = sim
            .core(id(1))
            .progress()
            .find(|progress| progress.member == id(3));
        let mode = progress.expect("configured").mode;
        if modes.last() != Some(&mode) {
            modes.push(mode);
        }
    }
    use ProgressMode::{CatchUp, Probe, Stream};
    assert_eq!(modes.last(), Some(&Stream), "{modes:?}");
    assert!(
        modes.starts_with(&[Probe]) && modes.contains(&CatchUp),
        "{modes:?}"
    );
    settle(&mut sim);
    assert_eq!(sim.resets, 0);
}

#[test]
fn follower_behind_the_leaders_base_gets_one() {
    let mut sim = three();
    sim.crash(id(3));
    work(&mut sim, id(2), 100);
    let commit = sim.core(id(1)).commit_index();
    sim.purge(id(1), LogIndex(commit.0 - 10));
    assert_eq!(sim.core(id(1)).base().last.index.0, commit.0 - 10);
    sim.start(id(3));
    settle(&mut sim);
    assert_eq!(sim.resets, 1);
    assert_eq!(sim.core(id(3)).base().last.index.0, commit.0 - 10);
    assert_eq!(
        sim.core(id(3)).config().config,
        sim.core(id(1)).config().config
    );
    work(&mut sim, id(3), 10);
}

#[test]
fn new_member_starts_at_the_base_set_for_it() {
    let mut sim = three();
    work(&mut sim, id(2), 100);
    let start = LogIndex(sim.core(id(1)).commit_index().0 - 5);
    let base = sim.base_at(id(1), start).expect("in the log");
    sim.add_node(id(4));
    sim.with(id(1), |core, _| core.set_install_base(id(4), base));
    sim.add_learner(id(1), id(4));
    settle(&mut sim);
    assert_eq!(sim.core(id(4)).base().last.index, start);
}

#[test]
fn unnoticed_restart_of_a_follower_delays_its_commits_only_briefly() {
    let mut sim = Sim::group(
        9,
        3,
        Options {
            hints: false,
            ..Options::default()
        },
    );
    work(&mut sim, id(1), 10);
    settle(&mut sim);
    sim.crash(id(3));
    sim.start(id(3));
    assert!(sim.core(id(3)).commit_index() < sim.oracle.commit_index());
    sim.expect("commit index", 2 * SECOND, Sim::is_level);
}

#[test]
fn idle_group_is_quiet() {
    let mut sim = three();
    settle(&mut sim);
    sim.run_for(3 * SECOND);
    let before: u64 = sim.sent.values().sum();
    let writes: u64 = sim.nodes.values().map(|node| node.writes).sum();
    sim.run_for(10 * SECOND);
    let messages = sim.sent.values().sum::<u64>() - before;
    assert!(
        messages <= 10 * (2 * 2 * 10 + 2 * 2 * 2),
        "{messages} messages in 10 s"
    );
    assert_eq!(
        sim.nodes.values().map(|node| node.writes).sum::<u64>(),
        writes
    );
}

// --- membership -------------------------------------------------------------------------------

#[test]
fn eligible_learner_is_promoted_when_it_has_caught_up() {
    let mut sim = three();
    sim.add_node(id(4));
    sim.add_learner(id(1), id(4));
    settle(&mut sim);
    sim.run_for(SECOND);
    assert!(
        !sim.core(id(1)).config().config.is_voter(id(4)),
        "not without leave"
    );
    sim.with(id(1), |core, _| core.set_eligible(id(4), true));
    settle(&mut sim);
    assert!(sim.core(id(4)).config().config.is_voter(id(4)));
}

#[test]
fn absent_learner_is_not_promoted() {
    let mut sim = three();
    sim.add_node(id(4));
    sim.add_learner(id(1), id(4));
    settle(&mut sim);
    sim.crash(id(4));
    sim.run_for(5 * SECOND);
    sim.with(id(1), |core, _| core.set_eligible(id(4), true));
    sim.run_for(5 * SECOND);
    assert!(!sim.core(id(1)).config().config.is_voter(id(4)));
    sim.start(id(4));
    sim.expect("promotion", 3 * SECOND, |sim| {
        sim.core(id(1)).config().config.is_voter(id(4))
    });
}

#[test]
fn one_change_at_a_time_and_only_by_a_leader_that_committed() {
    let mut sim = three();
    let change = ConfigChange::Demote(id(3));
    let result = sim.with(id(2), |core, now| core.change_config(now, change.clone()));
    assert_eq!(
        result,
        Err(ConfigError::NotLeader {
            leader: Some(id(1))
        })
    );
    let index = sim
        .with(id(1), |core, now| core.change_config(now, change))
        .expect("idle");
    let second = ConfigChange::Demote(id(2));
    let result = sim.with(id(1), |core, now| core.change_config(now, second));
    assert_eq!(result, Err(ConfigError::InProgress { index }));

    let mut sim = three();
    sim.crash(id(1));
    sim.expect("leader", 5 * SECOND, |sim| sim.leader().is_some());
    let leader = sim.leader().expect("just seen");
    let change = ConfigChange::Demote(id(1));
    let result = sim.with(leader, |core, now| core.change_config(now, change));
    assert_eq!(
        result,
        Err(ConfigError::NotReady),
        "its no-op is not committed yet"
    );
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    let mut sim = Sim::group(2, 1, Options::default());
    let mut refused = |change| {
        sim.with(id(1), |core, now| core.change_config(now, change))
            .expect_err("refused")
    };
    let nobody = ConfigError::UnknownMember { id: id(9) };
    assert_eq!(
        refused(ConfigChange::Demote(id(1))),
        ConfigError::NoVoterLeft
    );
    assert_eq!(
        refused(ConfigChange::Remove(id(1))),
        ConfigError::NoVoterLeft
    );
    assert_eq!(refused(ConfigChange::Promote(id(9))), nobody);
    assert_eq!(
        refused(ConfigChange::Promote(id(1))),
        ConfigError::AlreadySo { id: id(1) }
    );
    let twice = ConfigChange::AddLearner {
        id: id(9),
        member: member(1),
    };
    let taken = ConfigError::SeatTaken {
        name: "node1".to_owned(),
        address: "node1:4567".to_owned(),
        id: id(1),
    };
    assert_eq!(refused(twice), taken);
    let again = ConfigChange::AddLearner {
        id: id(1),
        member: member(8),
    };
    assert_eq!(refused(again), ConfigError::AlreadySo { id: id(1) });
    let zero = ConfigChange::AddLearner {
        id: MemberId::NONE,
        member: member(8),
    };
    assert!(matches!(refused(zero), ConfigError::Invalid { .. }));
}

#[test]
fn member_with_a_new_disk_replaces_its_former_self() {
    let mut sim = three();
    work(&mut sim, id(2), 20);
    sim.burn(id(3));
    sim.add_node(id(4));
    let mut reborn = member(3);
    reborn.address = "elsewhere:4567".to_owned();
    sim.change(
        id(1),
        ConfigChange::Replace {
            old: id(3),
            id: id(4),
            member: reborn,
        },
    );
    sim.with(id(1), |core, _| core.set_eligible(id(4), true));
    sim.expect("promotion", 5 * SECOND, |sim| {
        sim.core(id(1)).config().config.is_voter(id(4))
    });
    settle(&mut sim);
    sim.crash(id(1));
    wait_for_other_leader(&mut sim, id(1), 5 * SECOND);
}

#[test]
fn graceful_leave_shrinks_the_voters() {
    let mut sim = three();
    sim.change(id(1), ConfigChange::Demote(id(3)));
    settle(&mut sim);
    assert_eq!(
        sim.core(id(3)).config().config.members[&id(3)].role,
        Role::Learner
    );
    sim.crash(id(3));
    work(&mut sim, id(2), 5);
    sim.change(id(1), ConfigChange::Demote(id(2)));
    settle_up(&mut sim, &[1, 2]);
    sim.crash(id(2));
    work(&mut sim, id(1), 5);
}

fn settle_up(sim: &mut Sim, members: &[u64]) {
    sim.expect("level logs", 5 * SECOND, |sim| {
        let last = sim.core(id(members[0])).last_id().index;
        members
            .iter()
            .all(|n| sim.core(id(*n)).commit_index() == last)
    });
}

#[test]
fn removed_member_learns_of_it_and_disturbs_nobody() {
    let mut sim = three();
    let term = sim.core(id(1)).term();
    sim.change(id(1), ConfigChange::Remove(id(3)));
    sim.expect("news", SECOND, |sim| {
        let core = sim.core(id(3));
        !core.config().config.members.contains_key(&id(3))
            && core.config().index <= core.commit_index()
    });
    sim.run_for(20 * SECOND);
    assert_eq!((sim.leader(), sim.core(id(1)).term()), (Some(id(1)), term));
    assert_eq!(sim.core(id(3)).role(), RoleName::Follower);
}

#[test]
fn leader_that_removes_itself_hands_over() {
    let mut sim = three();
    sim.change(id(1), ConfigChange::Remove(id(1)));
    let since = sim.now;
    wait_for_other_leader(&mut sim, id(1), 3 * SECOND);
    assert!(sim.now - since < 100 * MS, "it asked another to stand");
    assert_eq!(sim.core(id(1)).role(), RoleName::Follower);
    work(&mut sim, id(2), 5);
}

/// Its log is longer than those of the others, who need its vote. It can only lead itself (dissertation, section
/// 4.2.2), or nobody does until the old leader is back.
#[test]
fn member_whose_demotion_is_not_committed_stands_for_the_others() {
    let mut sim = Sim::group(7, 4, Options::default());
    settle_up(&mut sim, &[1, 2, 3, 4]);
    sim.isolate(&[id(2), id(3)]);
    sim.with(id(1), |core, now| {
        core.change_config(now, ConfigChange::Demote(id(4)))
    })
    .expect("ok");
    sim.expect("news of it", SECOND, |sim| {
        !sim.core(id(4)).config().config.is_voter(id(4))
    });
    sim.crash(id(1));
    sim.heal_network();
    wait_for_other_leader(&mut sim, id(1), 10 * SECOND);
    sim.expect("the change", 10 * SECOND, |sim| {
        sim.leader().is_some_and(|leader| {
            let core = sim.core(leader);
            core.config().config.is_voter(leader) && core.config().index <= core.commit_index()
        })
    });
}

#[test]
fn truncated_config_entry_restores_the_one_before() {
    let mut sim = three();
    settle(&mut sim);
    let config = sim.core(id(1)).config().clone();
    sim.isolate(&[id(1)]);
    sim.with(id(1), |core, now| {
        core.change_config(now, ConfigChange::Demote(id(2)))
    })
    .expect("ok");
    assert!(sim.core(id(1)).config().index > config.index);
    wait_for_other_leader(&mut sim, id(1), 6 * SECOND);
    sim.heal_network();
    settle(&mut sim);
    assert_eq!(*sim.core(id(1)).config(), config);
}

#[test]
fn member_changes_name_and_address() {
    let mut sim = three();
    let (name, address) = ("other".to_owned(), "there:1".to_owned());
    sim.change(
        id(1),
        ConfigChange::Update {
            id: id(2),
            name,
            address,
            versions: VersionRange { min: 1, max: 2 },
        },
    );
    settle(&mut sim);
    let seen = &sim.core(id(3)).config().config.members[&id(2)];
    assert_eq!(
        (seen.name.as_str(), seen.address.as_str()),
        ("other", "there:1")
    );
}

// --- transfer ---------------------------------------------------------------------------------

#[test]
fn leadership_is_handed_over_without_a_gap() {
    let mut sim = three();
    work(&mut sim, id(2), 10);
    let to = sim.with(id(1), |core, now| {
        core.transfer_leadership(now, Some(id(3)))
    });
    assert_eq!(to, Ok(id(3)));
    let since = sim.now;
    assert_eq!(wait_for_other_leader(&mut sim, id(1), SECOND), id(3));
    assert!(sim.now - since < 20 * MS);
    work(&mut sim, id(1), 10);
}

#[test]
fn transfer_stops_proposals_and_is_given_up_in_time() {
    let mut sim = three();
    sim.isolate(&[id(3)]);
    work(&mut sim, id(2), 1);
    let to = sim.with(id(1), |core, now| {
        core.transfer_leadership(now, Some(id(3)))
    });
    assert_eq!(to, Ok(id(3)));
    assert!(sim.core(id(1)).transfer_in_progress());
    let again = sim.with(id(1), |core, now| core.transfer_leadership(now, None));
    assert_eq!(again, Err(LeaderTransferError::InProgress { to: id(3) }));
    let change = ConfigChange::Demote(id(2));
    let refused = sim.with(id(1), |core, now| core.change_config(now, change));
    assert_eq!(refused, Err(ConfigError::LeaderTransfer));
    sim.submit(id(2));
    sim.run_for(1400 * MS);
    assert!(sim.node(id(2)).outbox.oldest_outstanding().is_some());
    sim.expect("commit", SECOND, |sim| {
        sim.node(id(2)).outbox.oldest_outstanding().is_none()
    });
    assert_eq!(sim.leader(), Some(id(1)));
}

#[test]
fn transfer_chooses_a_live_voter_and_ends_the_lease() {
    let mut sim = three();
    settle(&mut sim);
    sim.run_for(SECOND);
    assert!(sim.core(id(1)).lease_valid(sim.local(id(1))));
    sim.crash(id(2));
    work(&mut sim, id(3), 5);
    sim.run_for(2 * SECOND);
    let to = sim.with(id(1), |core, now| core.transfer_leadership(now, None));
    assert_eq!(to, Ok(id(3)));
    assert!(!sim.core(id(1)).lease_valid(sim.local(id(1))));
    let wrong = sim.with(id(3), |core, now| core.transfer_leadership(now, None));
    assert!(matches!(wrong, Err(LeaderTransferError::NotLeader { .. })));
}

// --- reads ------------------------------------------------------------------------------------

#[test]
fn reads_are_answered_at_every_member() {
    let mut sim = three();
    sim.add_node(id(4));
    sim.add_learner(id(1), id(4));
    settle(&mut sim);
    work(&mut sim, id(2), 10);
    let reads: Vec<u64> = (1..=4).map(|n| sim.read(id(n))).collect();
    assert!(sim.is_read_done(reads[0]), "the lease needs no round trip");
    sim.run_for(10 * MS);
    assert!(reads.iter().all(|read| sim.is_read_done(*read)));
}

#[test]
fn reads_share_questions() {
    let mut sim = three();
    settle(&mut sim);
    let before = sim.sent.get("read").copied().unwrap_or(0);
    (0..100).for_each(|_| {
        sim.read(id(2));
    });
    sim.run_for(10 * MS);
    assert_eq!((sim.reads_open(), sim.sent["read"] - before), (0, 2));
}

#[test]
fn deposed_leader_answers_no_reads() {
    let mut sim = three();
    settle(&mut sim);
    sim.isolate(&[id(1)]);
    sim.run_for(500 * MS);
    assert!(
        !sim.core(id(1)).lease_valid(sim.local(id(1))),
        "the lease is over"
    );
    let read = sim.read(id(1));
    wait_for_other_leader(&mut sim, id(1), 6 * SECOND);
    work(&mut sim, id(2), 5);
    assert!(!sim.is_read_done(read));
    sim.heal_network();
    // The harness checks that the answer is not older than the question.
    sim.expect("answer", 5 * SECOND, |sim| sim.is_read_done(read));
}

#[test]
fn read_without_lease_is_confirmed_by_a_round() {
    let mut sim = three();
    settle(&mut sim);
    sim.isolate(&[id(3)]);
    let refused = sim.with(id(1), |core, now| {
        core.transfer_leadership(now, Some(id(2)))
    });
    assert_eq!(refused, Ok(id(2)));
    sim.blocked.insert((id(1), id(2)));
    sim.run_for(10 * MS);
    // Still the leader of its term, without a lease; nobody confirms.
    let read = sim.read(id(1));
    sim.run_for(100 * MS);
    assert!(!sim.is_read_done(read));
    sim.heal_network();
    sim.expect("answer", 5 * SECOND, |sim| sim.is_read_done(read));
}

#[test]
fn cancelled_reads_are_not_answered() {
    let mut sim = three();
    sim.isolate(&[id(2)]);
    let read = sim.read(id(2));
    sim.with(id(2), |core, _| core.cancel_read(read));
    sim.heal_network();
    sim.run_for(5 * SECOND);
    assert!(!sim.is_read_done(read), "never answered");
}

#[test]
fn read_waits_for_a_leader() {
    let mut sim = three();
    work(&mut sim, id(3), 10);
    sim.crash(id(1));
    let read = sim.read(id(2));
    sim.expect("answer", 5 * SECOND, |sim| sim.is_read_done(read));
}

// --- going on alone ---------------------------------------------------------------------------

#[test]
fn survivor_goes_on_alone_by_order_and_the_lost_come_back() {
    let mut sim = three();
    work(&mut sim, id(1), 5);
    settle(&mut sim);
    let before = sim.seqno();
    sim.crash(id(2));
    sim.crash(id(3));
    sim.expect("no leader", 10 * SECOND, |sim| {
        sim.core(id(1)).leader().is_none()
    });
    sim.with(id(1), |core, now| core.force(now))
        .expect("forced");
    sim.expect("leads alone", 5 * SECOND, |sim| {
        sim.core(id(1)).is_ready_leader()
    });
    work(&mut sim, id(1), 5);
    assert!(sim.seqno() > before, "the new work follows the old");
    let voters = |sim: &Sim| sim.core(id(1)).config().config.voters().count();
    assert_eq!(voters(&sim), 1);
    for lost in [id(2), id(3)] {
        sim.start(lost);
        sim.with(id(1), |core, _| core.set_eligible(lost, true));
    }
    sim.expect("three voters again", 20 * SECOND, |sim| voters(sim) == 3);
    settle(&mut sim);
}

#[test]
fn forced_leader_leads_a_term_that_the_lost_have_not_led() {
    let mut sim = three();
    work(&mut sim, id(1), 5);
    settle(&mut sim);
    sim.isolate(&[id(1)]);
    let before = sim.core(id(1)).term();
    let led_beyond = |sim: &Sim| {
        let leaders = [id(2), id(3)].into_iter();
        let led = leaders.filter(|other| sim.core(*other).is_leader());
        led.map(|other| sim.core(other).term()).max()
    };
    sim.expect("the others go on", 20 * SECOND, |sim| {
        led_beyond(sim).is_some_and(|term| term > before)
    });
    let led = led_beyond(&sim).expect("they do");
    sim.crash(id(2));
    sim.crash(id(3));
    sim.expect("no leader", 10 * SECOND, |sim| {
        sim.core(id(1)).leader().is_none()
    });
    assert!(sim.core(id(1)).term() < led, "it has not heard of that");
    sim.with(id(1), |core, now| core.force(now))
        .expect("forced");
    sim.expect("leads alone", 5 * SECOND, |sim| {
        sim.core(id(1)).is_ready_leader()
    });
    // An entry is named by its term and index: nobody may take the one's for the other's.
    assert!(sim.core(id(1)).term() > led);
}

#[test]
fn nobody_goes_on_alone_while_the_group_works_or_without_a_vote() {
    let mut sim = three();
    let leader = sim.leader().expect("leads");
    let follower = if leader == id(1) { id(2) } else { id(1) };
    for member in [leader, follower] {
        let refused = sim.with(member, |core, now| core.force(now));
        assert_eq!(refused, Err(ForceError::HasLeader { leader }));
    }
    sim.add_node(id(9));
    let refused = sim.with(id(9), |core, now| core.force(now));
    assert_eq!(refused, Err(ForceError::NoVoter));
}
