//! No message uses up the terms: whatever peers name, the members can elect a leader afterwards.

use std::collections::VecDeque;

use synod_consensus::{
    Append, AppendOutcome, AppendReply, Body, Config, Core, CoreParams, Effect, EntryId, Limits,
    LogBase, LogIndex, Member, MemberId, Message, Recovered, Role, Seqno, Term, Time, Timing,
    VersionRange,
};

const SECOND: u64 = 1_000_000;
/// All timeouts and promises of a group have passed after this time.
const LONG: u64 = 10 * SECOND;
/// The most by which a forced primary raises the term (decision 008).
const FORCED_TERMS: u64 = 1 << 35;

/// Three voters whose messages arrive at once, on disks that are always synced.
struct Group {
    cores: Vec<Core>,
    now: Time,
}

impl Group {
    fn new() -> Group {
        let ids = 1..=3;
        let cores = ids.map(|id| member(MemberId(id), Term(0))).collect();
        Group {
            cores,
            now: Time(0),
        }
    }

    fn core(&mut self, id: MemberId) -> &mut Core {
        let found = self.cores.iter_mut().find(|core| core.id() == id);
        found.expect("a member")
    }

    /// Performs all effects, and delivers the messages that they send, until nothing is left.
    fn settle(&mut self) {
        let now = self.now;
        let mut under_way = VecDeque::new();
        loop {
            for core in &mut self.cores {
                while let Some(effect) = core.poll_effect() {
                    match effect {
                        Effect::Write { ticket, .. } => core.persisted(now, ticket),
                        Effect::Send(message) => under_way.push_back(message),
                        _ => {}
                    }
                }
            }
            let Some(message) = under_way.pop_front() else {
                return;
            };
            self.core(message.to).handle_message(now, message);
        }
    }

    /// Hands every member this message of a configured peer.
    fn feed(&mut self, term: u64, body: &Body) {
        for to in 1..=3 {
            let message =
                Message::new(MemberId(to % 3 + 1), MemberId(to), Term(term), body.clone());
            let now = self.now;
            self.core(message.to).handle_message(now, message);
        }
        // What they answer is lost: no other core learns of the term.
        for core in &mut self.cores {
            while let Some(effect) = core.poll_effect() {
                if let Effect::Write { ticket, .. } = effect {
                    core.persisted(self.now, ticket);
                }
            }
        }
    }

    /// Lets time pass until a member leads. Only elections are looked at: entries are not sent.
    fn elect(&mut self) -> Option<MemberId> {
        let end = self.now.plus_us(6 * LONG);
        while self.now < end {
            self.settle();
            if let Some(leader) = self.cores.iter().find(|core| core.is_leader()) {
                return Some(leader.id());
            }
            let due = self.cores.iter().filter_map(Core::poll_timeout).min()?;
            self.now = self.now.max(due);
            let now = self.now;
            self.cores.iter_mut().for_each(|core| core.handle_tick(now));
        }
        None
    }
}

fn config() -> Config {
    let member = |n: u64| Member {
        role: Role::Voter,
        has_data: true,
        name: format!("n{n}"),
        address: format!("n{n}:4567"),
        versions: VersionRange { min: 1, max: 1 },
        certificate: None,
    };
    Config {
        protocol: 1,
        members: (1..=3).map(|n| (MemberId(n), member(n))).collect(),
        ..Config::default()
    }
}

fn member(id: MemberId, term: Term) -> Core {
    let mut recovered = Recovered::default();
    recovered.vote.term = term;
    recovered.base.config.config = config();
    let (timing, limits) = (Timing::default(), Limits::default());
    let params = CoreParams {
        id,
        timing,
        limits,
        seed: id.0,
    };
    Core::new(params, recovered, Time(0))
}

/// One of each kind of message.
fn bodies() -> Vec<Body> {
    let (sent_at, index) = (Time(0), LogIndex(0));
    let last = EntryId::default();
    let outcome = AppendOutcome::Durable { index };
    let base = LogBase {
        last: EntryId::new(Term(1), LogIndex(1)),
        seqno: Seqno(0),
        config: synod_consensus::ConfigAt {
            index,
            config: config(),
        },
    };
    vec![
        Body::PreVote { last },
        Body::PreVoteReply { granted: true },
        Body::PreVoteReply { granted: false },
        Body::Vote {
            last,
            transfer: false,
        },
        Body::Vote {
            last,
            transfer: true,
        },
        Body::VoteReply { granted: false },
        Body::Append(Append {
            prev: last,
            entries: Vec::new(),
            commit: index,
            sent_at,
        }),
        Body::AppendReply(AppendReply { outcome, sent_at }),
        Body::Heartbeat {
            commit: index,
            sent_at,
            read_round: 0,
        },
        Body::HeartbeatReply {
            sent_at,
            read_round: 0,
        },
        Body::InstallBase { base, sent_at },
        Body::TimeoutNow,
        Body::Read { id: 1 },
        Body::ReadReply {
            id: 1,
            index,
            seqno: Seqno(0),
        },
    ]
}

/// Far terms: the last ones, and those from which one more step leads beyond what is accepted.
const FAR: [u64; 8] = [
    u64::MAX,
    u64::MAX - 1,
    u64::MAX / 2 + 1,
    u64::MAX / 2,
    u64::MAX / 2 - 1,
    1 << 62,
    1 << 60,
    1 << 40,
];

#[test]
fn group_elects_a_leader_after_any_message_with_a_far_term() {
    for body in bodies() {
        for term in FAR {
            let mut group = Group::new();
            group.feed(term, &body);
            assert!(group.elect().is_some(), "after {body:?} of term {term}");
        }
    }
}

/// A peer that repeats itself for as long as it likes does not use the terms up either.
#[test]
fn group_elects_a_leader_after_a_flood_of_far_terms() {
    for body in bodies() {
        let mut group = Group::new();
        for _ in 0..1000 {
            let highest = group.cores.iter().map(|core| core.term().0).max();
            let highest = highest.unwrap_or_default();
            for leap in [1 << 60, 1 << 45, 1 << 40, 1 << 20] {
                group.feed(highest.saturating_add(leap), &body);
            }
        }
        let highest = group.cores.iter().map(Core::term).max();
        assert!(highest < Some(Term(1 << 61)), "{highest:?} by {body:?}");
        assert!(group.elect().is_some(), "after a flood of {body:?}");
    }
}

/// Real case: while a member is down, the others are forced again and again.
#[test]
fn member_of_an_old_term_follows_a_leader_however_often_others_were_forced() {
    let heartbeat = Body::Heartbeat {
        commit: LogIndex(0),
        sent_at: Time(0),
        read_round: 0,
    };
    for forced in [1, 3, 1000, 1 << 20] {
        let mut core = member(MemberId(1), Term(7));
        let term = Term(7 + forced * FORCED_TERMS);
        let message = Message::new(MemberId(2), MemberId(1), term, heartbeat.clone());
        core.handle_message(Time(LONG), message);
        assert_eq!((core.term(), core.leader()), (term, Some(MemberId(2))));
    }
}
