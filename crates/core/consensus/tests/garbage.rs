//! Arbitrary messages do not make a core panic (but for the one assertion that protects what is
//! committed); its timers and effects stay sane, and it can be elected afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_consensus::{
    Append, AppendOutcome, AppendReply, Body, Config, ConfigAt, ConfigChange, Core, CoreParams,
    Effect, EntryHeader, EntryId, EntryKind, Limits, LogBase, LogIndex, Member, MemberId, Message,
    Origin, Recovered, Role, Seqno, Term, Time, Timing, VersionRange,
};

/// Small numbers that collide, with some absurd ones.
fn number(rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..40) {
        0 => u64::MAX,
        1 => u64::MAX - 1,
        2 => u64::MAX / 2 - rng.random_range(0..4),
        3 => 1 << rng.random_range(20..64),
        _ => rng.random_range(0..8),
    }
}

fn entry_id(rng: &mut SmallRng) -> EntryId {
    EntryId::new(Term(number(rng)), LogIndex(number(rng)))
}

fn config() -> Config {
    let mut config = Config::default();
    for n in 1..=3 {
        let (name, address) = (format!("n{n}"), String::new());
        let member = Member {
            role: Role::Voter,
            has_data: true,
            name,
            address,
            versions: VersionRange { min: 1, max: 1 },
            certificate: None,
        };
        config.members.insert(MemberId(n), member);
    }
    config
}

/// Entries that are often consistent, so that they get somewhere.
fn entries(rng: &mut SmallRng, prev: EntryId) -> Vec<EntryHeader> {
    let mut seqno = rng.random_range(0..3);
    let mut term = prev.term.0;
    let mut index = prev.index.0;
    let count = rng.random_range(0..5);
    (0..count)
        .map(|_| {
            let kind = EntryKind::from_code(rng.random_range(0..6)).expect("a code");
            seqno += i64::from(kind.is_ordered());
            term = term.saturating_add(rng.random_range(0..2));
            index = index.saturating_add(1);
            let strange = rng.random_bool(0.02);
            EntryHeader {
                term: Term(if strange { number(rng) } else { term }),
                index: LogIndex(if rng.random_bool(0.02) {
                    number(rng)
                } else {
                    index
                }),
                seqno: Seqno(if strange { number(rng) as i64 } else { seqno }),
                kind,
                origin: Origin::default(),
                depends_on: Seqno(seqno - 1),
                payload_len: u32::MAX,
                payload_crc: 0,
            }
        })
        .collect()
}

fn body(rng: &mut SmallRng, last: EntryId) -> Body {
    let (index, time) = (
        LogIndex(number(rng)),
        Time(number(rng).saturating_mul(1000) % 5_000_000),
    );
    match rng.random_range(0..14) {
        0 => Body::PreVote {
            last: entry_id(rng),
        },
        1 => Body::PreVoteReply {
            granted: rng.random(),
        },
        2 => Body::Vote {
            last: if rng.random() { last } else { entry_id(rng) },
            transfer: rng.random(),
        },
        3 => Body::VoteReply {
            granted: rng.random(),
        },
        4 | 5 => {
            let prev = if rng.random_bool(0.7) {
                last
            } else {
                entry_id(rng)
            };
            let entries = entries(rng, prev);
            Body::Append(Append {
                prev,
                entries,
                commit: index,
                sent_at: time,
            })
        }
        6 => {
            let outcome = if rng.random() {
                AppendOutcome::Durable { index }
            } else {
                AppendOutcome::Rejected {
                    refused: index,
                    hint: entry_id(rng),
                }
            };
            Body::AppendReply(AppendReply {
                outcome,
                sent_at: time,
            })
        }
        7 => Body::Heartbeat {
            commit: index,
            sent_at: time,
            read_round: number(rng),
        },
        8 => Body::HeartbeatReply {
            sent_at: time,
            read_round: number(rng),
        },
        9 => {
            let config = ConfigAt {
                index: LogIndex(number(rng)),
                config: config(),
            };
            let base = LogBase {
                last: entry_id(rng),
                seqno: Seqno(number(rng) as i64),
                config,
            };
            Body::InstallBase {
                base,
                sent_at: time,
            }
        }
        10 => Body::TimeoutNow,
        11 => Body::Read { id: number(rng) },
        12 => Body::CommitNotice { commit: index },
        _ => Body::ReadReply {
            id: number(rng),
            index,
            seqno: Seqno(number(rng) as i64),
        },
    }
}

fn elect(core: &mut Core, now: Time) {
    core.handle_tick(now);
    let term = Term(core.term().0 + 1);
    let answer = |body| Message::new(MemberId(2), MemberId(1), term, body);
    core.handle_message(now, answer(Body::PreVoteReply { granted: true }));
    while let Some(effect) = core.poll_effect() {
        if let Effect::Write { ticket, .. } = effect {
            core.persisted(now, ticket);
        }
    }
    core.handle_message(now, answer(Body::VoteReply { granted: true }));
    assert!(core.is_leader());
}

/// Gives a member whatever it asks for until it leads. A learner, and a member that has been
/// removed, never do.
fn elect_in_the_end(core: &mut Core, mut now: Time) {
    let sync = |core: &mut Core, now| {
        while let Some(effect) = core.poll_effect() {
            if let Effect::Write { ticket, .. } = effect {
                core.persisted(now, ticket);
            }
        }
    };
    for _ in 0..40 {
        sync(core, now);
        if core.is_leader() || !core.config().config.is_voter(core.id()) {
            return;
        }
        now = now.max(core.poll_timeout().expect("a voter waits for something"));
        core.handle_tick(now);
        consent(
            core,
            now,
            core.term().next(),
            Body::PreVoteReply { granted: true },
        );
        sync(core, now);
        consent(core, now, core.term(), Body::VoteReply { granted: true });
    }
    panic!("not elected in term {}", core.term());
}

fn consent(core: &mut Core, now: Time, term: Term, body: Body) {
    for from in [2, 3].map(MemberId) {
        let to = core.id();
        let body = body.clone();
        let message = Message::new(from, to, term, body);
        core.handle_message(now, message);
    }
}

/// Whether it ever led, and whether it committed anything.
fn run(seed: u64) -> (bool, bool) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut recovered = Recovered::default();
    recovered.base.config.config = config();
    let (timing, limits) = (Timing::default(), Limits::default());
    let params = CoreParams {
        id: MemberId(1),
        timing,
        limits,
        seed,
    };
    let mut core = Core::new(params, recovered, Time(0));
    let mut now = Time(0);
    let mut last_ticket = None;
    let mut led = false;
    let shall_lead = seed.is_multiple_of(2);
    if shall_lead {
        now = Time(10_000_000);
        elect(&mut core, now);
    }
    for _ in 0..300 {
        now = now.plus_us(rng.random_range(0..200_000));
        match rng.random_range(0..10) {
            0 => core.handle_tick(now),
            1 => {
                if let Some(ticket) = last_ticket {
                    core.persisted(now, ticket);
                }
            }
            2 => core.read(now, number(&mut rng)),
            3 if core.is_leader() => {
                let id = MemberId(rng.random_range(1..6));
                let _ = match rng.random_range(0..4) {
                    0 => core.transfer_leadership(now, None).is_ok(),
                    1 => core.change_config(now, ConfigChange::Demote(id)).is_ok(),
                    2 => core.change_config(now, ConfigChange::Promote(id)).is_ok(),
                    _ => core.change_config(now, ConfigChange::Remove(id)).is_ok(),
                };
            }
            _ => {
                let near = core.term().0 + rng.random_range(0..2);
                let term = if rng.random_bool(0.8) {
                    near
                } else {
                    number(&mut rng)
                };
                let from = MemberId(rng.random_range(0..5));
                let message = Message::new(
                    from,
                    MemberId(1),
                    Term(term),
                    body(&mut rng, core.last_id()),
                );
                let configs: Vec<_> = match &message.body {
                    Body::Append(append) => append
                        .entries
                        .iter()
                        .map(|entry| (entry.index, config()))
                        .collect(),
                    _ => Vec::new(),
                };
                core.handle_message_with(now, message, &configs);
            }
        }
        while let Some(effect) = core.poll_effect() {
            if let Effect::Write { ticket, .. } = effect {
                assert!(Some(ticket) > last_ticket);
                last_ticket = Some(ticket);
            }
        }
        assert!(core.commit_index() <= core.last_id().index);
        let _ = core.poll_timeout();
        led |= core.is_leader();
    }
    let committed = core.commit_index() > LogIndex(0);
    if let Some(ticket) = last_ticket {
        core.persisted(now, ticket);
    }
    elect_in_the_end(&mut core, now);
    (led, committed)
}

#[test]
fn garbage_from_peers_is_survived() {
    std::panic::set_hook(Box::new(|_| {}));
    let (runs, mut stopped, mut led, mut committed) = (3000, 0, 0, 0);
    for seed in 0..runs {
        let panic = match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok((leads, commits)) => {
                led += u64::from(leads);
                committed += u64::from(commits);
                continue;
            }
            Err(panic) => panic,
        };
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        stopped += 1;
        if !text.contains("wants entry") {
            let _ = std::panic::take_hook();
            panic!("SEED={seed}: {text}");
        }
    }
    let _ = std::panic::take_hook();
    let counts = format!("{runs} runs: {led} led, {committed} committed, {stopped} ended early");
    assert!(
        led > runs / 20 && committed > runs / 20 && stopped < runs / 2,
        "{counts}"
    );
    eprintln!("{counts}");
}
