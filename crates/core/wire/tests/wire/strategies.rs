//! Random messages of every kind.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use synod_consensus::{
    Append, AppendOutcome, AppendReply, Body, Config, ConfigAt, EntryHeader, EntryId, EntryKind,
    GroupId, LeaderWeight, LogBase, LogIndex, Member, MemberId, Message, Origin, Role, Seqno,
    SessionId, Term, Time, VersionRange, Writers,
};
use synod_wire::{
    Command, CommandRefusal, DataState, Done, FeedOrder, FetchAnswer, FetchFrom, FetchRefusal,
    FetchRequest, FetchedEntries, Hello, HelloReply, Join, JoinRefusal, JoinReply, Lane,
    OutcomeReport, PeerMessage, ProposalRefusal, Propose, RefusalReason, RefuseReason, Region,
    Report, StateOffer, StateRequest, StateResult, StatusBroadcast, SurvivorReport,
};

fn member() -> impl Strategy<Value = MemberId> {
    any::<u64>().prop_map(MemberId)
}

fn session() -> impl Strategy<Value = SessionId> {
    any::<u64>().prop_map(SessionId)
}

fn term() -> impl Strategy<Value = Term> {
    any::<u64>().prop_map(Term)
}

fn index() -> impl Strategy<Value = LogIndex> {
    any::<u64>().prop_map(LogIndex)
}

fn seqno() -> impl Strategy<Value = Seqno> {
    any::<i64>().prop_map(Seqno)
}

fn time() -> impl Strategy<Value = Time> {
    any::<u64>().prop_map(Time)
}

fn group() -> impl Strategy<Value = GroupId> {
    any::<[u8; 16]>().prop_map(GroupId)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        vec(any::<char>(), 0..20).prop_map(String::from_iter)
    ]
}

fn payload() -> impl Strategy<Value = Bytes> {
    let small = vec(any::<u8>(), 0..50).prop_map(Bytes::from);
    // On both sides of the size from which payloads are not copied.
    let large = (4000..6000usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len].into());
    prop_oneof![4 => small, 1 => large]
}

fn entry_id() -> impl Strategy<Value = EntryId> {
    (term(), index()).prop_map(|(term, index)| EntryId { term, index })
}

fn origin() -> impl Strategy<Value = Origin> {
    let parts = (member(), session(), any::<u64>());
    parts.prop_map(|(member, session, number)| Origin::new(member, session, number))
}

fn versions() -> impl Strategy<Value = VersionRange> {
    any::<(u16, u16)>().prop_map(|(min, max)| VersionRange { min, max })
}

fn entry() -> impl Strategy<Value = EntryHeader> {
    let kind = (0..7u8).prop_map(|code| EntryKind::from_code(code).unwrap());
    let parts = (term(), seqno(), kind, origin(), seqno(), any::<u32>());
    parts.prop_map(
        |(term, seqno, kind, origin, depends_on, payload_crc)| EntryHeader {
            term,
            index: LogIndex(0),
            seqno,
            kind,
            origin,
            depends_on,
            payload_len: 0,
            payload_crc,
        },
    )
}

/// An append, and the payloads for its entries.
fn append() -> impl Strategy<Value = (Append, Vec<Bytes>)> {
    let prev = (term(), 0..u64::MAX / 2);
    let entries = vec((entry(), payload()), 0..6);
    let parts = (prev, entries, index(), time());
    parts.prop_map(|((term, prev_index), entries, commit, sent_at)| {
        let prev = EntryId::new(term, LogIndex(prev_index));
        let (mut headers, payloads): (Vec<EntryHeader>, Vec<Bytes>) = entries.into_iter().unzip();
        for ((header, payload), index) in headers.iter_mut().zip(&payloads).zip(prev_index + 1..) {
            header.index = LogIndex(index);
            header.payload_len = payload.len() as u32;
        }
        (
            Append {
                prev,
                entries: headers,
                commit,
                sent_at,
            },
            payloads,
        )
    })
}

fn config_at() -> impl Strategy<Value = ConfigAt> {
    let role = any::<bool>().prop_map(|voter| if voter { Role::Voter } else { Role::Learner });
    let versions = (any::<u16>(), any::<u16>()).prop_map(|(min, max)| VersionRange { min, max });
    let certificate = proptest::option::of(text());
    let one = (role, any::<bool>(), text(), text(), versions, certificate);
    let one = one.prop_map(
        |(role, has_data, name, address, versions, certificate)| Member {
            role,
            has_data,
            name,
            address,
            versions,
            certificate,
        },
    );
    let members = proptest::collection::btree_map(member(), one, 0..5);
    let parts = (index(), any::<u16>(), any::<bool>(), writers(), members);
    parts.prop_map(
        |(index, protocol, protocol_is_held, writers, members)| ConfigAt {
            index,
            config: Config {
                protocol,
                protocol_is_held,
                writers,
                members,
            },
        },
    )
}

fn writers() -> impl Strategy<Value = Writers> {
    prop_oneof![Just(Writers::Any), Just(Writers::Leader)]
}

fn log_base() -> impl Strategy<Value = LogBase> {
    let parts = (entry_id(), seqno(), config_at());
    parts.prop_map(|(last, seqno, config)| LogBase {
        last,
        seqno,
        config,
    })
}

fn outcome() -> impl Strategy<Value = AppendOutcome> {
    prop_oneof![
        index().prop_map(|index| AppendOutcome::Durable { index }),
        index().prop_map(|index| AppendOutcome::PayloadMissing { index }),
        (index(), entry_id()).prop_map(|(refused, hint)| AppendOutcome::Rejected { refused, hint }),
    ]
}

/// A body that needs no payloads.
fn bare_body() -> impl Strategy<Value = Body> {
    prop_oneof![
        entry_id().prop_map(|last| Body::PreVote { last }),
        any::<bool>().prop_map(|granted| Body::PreVoteReply { granted }),
        (entry_id(), any::<bool>()).prop_map(|(last, transfer)| Body::Vote { last, transfer }),
        any::<bool>().prop_map(|granted| Body::VoteReply { granted }),
        append().prop_map(|(append, _)| {
            let mut append = append;
            append
                .entries
                .iter_mut()
                .for_each(|entry| entry.payload_len = 0);
            Body::Append(append)
        }),
        (outcome(), time())
            .prop_map(|(outcome, sent_at)| { Body::AppendReply(AppendReply { outcome, sent_at }) }),
        (index(), time(), any::<u64>()).prop_map(|(commit, sent_at, read_round)| {
            Body::Heartbeat {
                commit,
                sent_at,
                read_round,
            }
        }),
        (time(), any::<u64>()).prop_map(|(sent_at, read_round)| {
            Body::HeartbeatReply {
                sent_at,
                read_round,
            }
        }),
        index().prop_map(|commit| Body::CommitNotice { commit }),
        (log_base(), time()).prop_map(|(base, sent_at)| Body::InstallBase { base, sent_at }),
        Just(Body::TimeoutNow),
        any::<u64>().prop_map(|id| Body::Read { id }),
        (any::<u64>(), index(), seqno()).prop_map(|(id, index, seqno)| Body::ReadReply {
            id,
            index,
            seqno
        }),
    ]
}

fn message(body: impl Strategy<Value = Body>) -> impl Strategy<Value = Message> {
    let parts = (member(), member(), term(), body);
    parts.prop_map(|(from, to, term, body)| Message::new(from, to, term, body))
}

fn append_message() -> impl Strategy<Value = PeerMessage> {
    let parts = (member(), member(), term(), append(), any::<u8>());
    parts.prop_map(|(from, to, term, (append, payloads), left_out)| {
        let whole = payloads.into_iter().enumerate();
        // Mostly none.
        let is_left_out = |at| left_out >= 192 && left_out >> at & 1 == 1;
        let payloads = whole.map(|(at, payload)| (!is_left_out(at)).then_some(payload));
        let payloads = payloads.collect();
        let message = Message::new(from, to, term, Body::Append(append));
        PeerMessage::Append { message, payloads }
    })
}

fn propose() -> impl Strategy<Value = Propose> {
    let kind = prop_oneof![Just(EntryKind::Action), Just(EntryKind::Chunk)];
    let parts = (term(), origin(), kind, any::<u64>(), payload());
    parts.prop_map(|(tag, origin, kind, oldest_outstanding, payload)| Propose {
        tag,
        origin,
        kind,
        oldest_outstanding,
        payload,
    })
}

fn refused_why() -> impl Strategy<Value = ProposalRefusal> {
    prop_oneof![
        seqno().prop_map(|with| ProposalRefusal::Conflict { with }),
        Just(ProposalRefusal::TooOld),
        Just(ProposalRefusal::Malformed),
        Just(ProposalRefusal::GivenUp),
        Just(ProposalRefusal::NotWriter),
    ]
}

fn join() -> impl Strategy<Value = Join> {
    let names = (text(), text(), text());
    let database = (any::<bool>(), any::<bool>(), group(), seqno());
    let parts = (session(), names, database, group(), entry_id(), versions());
    parts.prop_map(|(session, names, database, group, last, versions)| {
        let (name, address, incoming) = names;
        let (has_joined, has_data, db_group, db_seqno) = database;
        Join {
            session,
            name,
            address,
            incoming,
            has_data,
            group,
            db_group,
            db_seqno,
            last,
            versions,
            has_joined,
        }
    })
}

fn join_reply() -> impl Strategy<Value = JoinReply> {
    let reason = prop_oneof![
        Just(JoinRefusal::WrongGroup),
        Just(JoinRefusal::NameTaken),
        Just(JoinRefusal::UnknownVersion),
        Just(JoinRefusal::GroupFull),
        Just(JoinRefusal::CertificateMismatch),
        Just(JoinRefusal::Removed),
    ];
    let leader = proptest::option::of((member(), text()));
    prop_oneof![
        group().prop_map(|group| JoinReply::Accepted { group }),
        leader.prop_map(|leader| JoinReply::NotLeader { leader }),
        (reason, text()).prop_map(|(reason, text)| JoinReply::Refused { reason, text }),
        text().prop_map(|text| JoinReply::Retry { text }),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let state = prop_oneof![
        Just(DataState::Disconnected),
        Just(DataState::Joining),
        Just(DataState::Donor),
        Just(DataState::Joined),
        Just(DataState::Synced),
        Just(DataState::Error),
    ];
    let weight = (0..=LeaderWeight::MAX).prop_map(|weight| LeaderWeight::new(weight).unwrap());
    let parts = (
        member(),
        session(),
        state,
        (seqno(), seqno(), seqno()),
        text(),
        any::<u32>(),
        (weight, any::<bool>(), any::<u32>(), region()),
    );
    parts.prop_map(
        |(
            member,
            session,
            state,
            (applied, seen, db_flushed),
            incoming,
            queue,
            (weight, wants_vote, log_format, region),
        )| Report {
            member,
            session,
            state,
            applied,
            seen,
            db_flushed,
            incoming,
            queue,
            weight,
            wants_vote,
            log_format,
            region,
        },
    )
}

fn region() -> impl Strategy<Value = Option<Region>> {
    proptest::option::of("[A-Za-z0-9._-]{1,32}".prop_map(|name| name.parse().unwrap()))
}

fn state_request() -> impl Strategy<Value = StateRequest> {
    let who = (any::<u64>(), member(), session(), seqno());
    let parts = (who, vec(text(), 0..4), any::<bool>(), payload());
    parts.prop_map(
        |((id, joiner, session, after), preferred, any_donor, request)| StateRequest {
            id,
            joiner,
            session,
            after,
            preferred,
            any_donor,
            request,
        },
    )
}

fn state_result() -> impl Strategy<Value = StateResult> {
    let parts = (any::<u64>(), any::<bool>(), any::<i32>(), seqno(), text());
    parts.prop_map(|(id, ok, code, seqno, text)| StateResult {
        id,
        ok,
        code,
        seqno,
        text,
    })
}

fn command() -> impl Strategy<Value = Command> {
    let weight = (0..=LeaderWeight::MAX).prop_map(|w| LeaderWeight::new(w).unwrap());
    prop_oneof![
        (text(), any::<bool>()).prop_map(|(member, force)| Command::Remove { member, force }),
        text().prop_map(|member| Command::Promote { member }),
        (text(), any::<bool>()).prop_map(|(member, force)| Command::Demote { member, force }),
        text().prop_map(|member| Command::Unbind { member }),
        (text(), text(), any::<bool>()).prop_map(|(old, new, force)| Command::Replace {
            old,
            new,
            force
        }),
        proptest::option::of(text()).prop_map(|to| Command::TransferLeadership { to }),
        (text(), weight).prop_map(|(member, weight)| Command::SetWeight { member, weight }),
        (proptest::option::of(1..u16::MAX), any::<bool>())
            .prop_map(|(version, force)| Command::SetProtocol { version, force }),
        Just(Command::Recover),
    ]
}

fn command_answer() -> impl Strategy<Value = Result<Done, CommandRefusal>> {
    let weight = (0..=LeaderWeight::MAX).prop_map(|w| LeaderWeight::new(w).unwrap());
    let reason = proptest::sample::select(vec![
        RefusalReason::UnknownMember,
        RefusalReason::LastVoter,
        RefusalReason::TransferFailed,
        RefusalReason::Unfit,
    ]);
    prop_oneof![
        any::<u64>().prop_map(|index| Ok(Done::Committed {
            index: LogIndex(index)
        })),
        text().prop_map(|member| Ok(Done::Leads { member })),
        (text(), weight).prop_map(|(member, weight)| Ok(Done::WeightSet { member, weight })),
        text().prop_map(|member| Ok(Done::Continues { member })),
        (reason, text()).prop_map(|(reason, text)| Err(CommandRefusal { reason, text })),
    ]
}

/// Any order of an operator, or answer to one; and messages between leader, feeders and learners.
fn command_message() -> impl Strategy<Value = PeerMessage> {
    prop_oneof![
        (session(), any::<u64>(), command()).prop_map(|(session, number, command)| {
            PeerMessage::Command {
                session,
                number,
                command,
            }
        }),
        (session(), any::<u64>(), command_answer()).prop_map(|(session, number, answer)| {
            PeerMessage::CommandAnswer {
                session,
                number,
                answer,
            }
        }),
        any::<bool>().prop_map(|votes| PeerMessage::VoteOrder { votes }),
        feed_order().prop_map(PeerMessage::Feed),
        any::<u64>().prop_map(|number| PeerMessage::Ping { number }),
        any::<(u64, u64)>().prop_map(|(number, wall_us)| PeerMessage::Pong { number, wall_us }),
        append_message().prop_map(|append| match append {
            PeerMessage::Append { message, payloads } => PeerMessage::Fed { message, payloads },
            other => other,
        }),
    ]
}

/// The report of a survivor of a lost majority.
fn survivor_message() -> impl Strategy<Value = PeerMessage> {
    let parts = (
        entry_id(),
        (index(), index(), index()),
        proptest::option::of(any::<u64>()),
        seqno(),
        any::<bool>(),
        proptest::option::of(member()),
    );
    parts.prop_map(
        |(last, (durable, commit, stated), incomplete_us, applied, is_under_repair, leader)| {
            PeerMessage::Survivor(SurvivorReport {
                last,
                durable,
                commit,
                stated,
                incomplete_us,
                applied,
                is_under_repair,
                leader,
            })
        },
    )
}

fn feed_order() -> impl Strategy<Value = FeedOrder> {
    let range = (entry_id(), entry_id(), any::<bool>());
    let parts = (member(), term(), range, index(), time());
    parts.prop_map(
        |(learner, term, (prev, last, may_shorten), commit, sent_at)| FeedOrder {
            learner,
            term,
            prev,
            last,
            may_shorten,
            commit,
            sent_at,
        },
    )
}

/// Any question for entries, or answer to one.
fn fetch_message() -> impl Strategy<Value = PeerMessage> {
    prop_oneof![
        fetch_request().prop_map(PeerMessage::Fetch),
        (session(), any::<u64>(), fetch_result()).prop_map(|(session, number, result)| {
            PeerMessage::Fetched(FetchAnswer {
                session,
                number,
                result,
            })
        }),
    ]
}

fn fetch_request() -> impl Strategy<Value = FetchRequest> {
    let from = prop_oneof![
        seqno().prop_map(FetchFrom::After),
        index().prop_map(FetchFrom::At)
    ];
    let range = (from, index(), entry_id(), index());
    let parts = (session(), any::<u64>(), range, any::<bool>());
    parts.prop_map(
        |(session, number, (from, to, base, needed_from), with_payloads)| FetchRequest {
            session,
            number,
            from,
            to,
            base,
            needed_from,
            with_payloads,
        },
    )
}

fn fetch_result() -> impl Strategy<Value = Result<FetchedEntries, FetchRefusal>> {
    let entries = (append(), any::<u8>()).prop_map(|((append, payloads), left_out)| {
        let whole = payloads.into_iter().enumerate();
        let payloads =
            whole.map(|(at, payload)| (left_out >> (at % 8) & 1 == 0).then_some(payload));
        FetchedEntries {
            headers: append.entries,
            payloads: payloads.collect(),
        }
    });
    prop_oneof![
        4 => entries.prop_map(Ok),
        1 => seqno().prop_map(|first| Err(FetchRefusal::Purged { first })),
        1 => Just(Err(FetchRefusal::Behind)),
    ]
}

/// Any message, but for those whose fields all tests of their bytes cover.
pub(crate) fn peer_message() -> impl Strategy<Value = PeerMessage> {
    prop_oneof![
        6 => message(bare_body()).prop_map(PeerMessage::Consensus),
        4 => append_message(),
        2 => propose().prop_map(PeerMessage::Propose),
        1 => (term(), session(), any::<u64>(), refused_why()).prop_map(
            |(term, session, number, reason)| {
                PeerMessage::ProposalRefused { term, session, number, reason }
            }
        ),
        1 => join().prop_map(PeerMessage::Join),
        1 => join_reply().prop_map(PeerMessage::JoinReply),
        1 => session().prop_map(|session| PeerMessage::Leave { session }),
        1 => Just(PeerMessage::LeaveReply),
        1 => report().prop_map(PeerMessage::Report),
        1 => (term(), vec(report(), 0..4), index(), index()).prop_map(
            |(term, members, purge_limit, commit)| {
                PeerMessage::Status(StatusBroadcast { term, members, purge_limit, commit })
            }
        ),
        1 => state_request().prop_map(PeerMessage::StateRequest),
        1 => (any::<u64>(), member(), any::<bool>(), text()).prop_map(
            |(id, donor, accepted, text)| {
                PeerMessage::StateOffer(StateOffer { id, donor, accepted, text })
            }
        ),
        1 => state_result().prop_map(PeerMessage::StateResult),
        1 => (session(), seqno(), any::<u64>()).prop_map(|(session, seqno, outcome)| {
            PeerMessage::OutcomeReport(OutcomeReport { session, seqno, outcome })
        }),
        1 => (term(), seqno())
            .prop_map(|(term, seqno)| PeerMessage::OutcomeQuery { term, seqno }),
        5 => command_message(),
        1 => survivor_message(),
        2 => fetch_message(),
    ]
}

/// Any hello.
pub(crate) fn hello() -> impl Strategy<Value = Hello> {
    let lane = prop_oneof![Just(Lane::Control), Just(Lane::Bulk)];
    let parts = (
        versions(),
        group(),
        member(),
        session(),
        (text(), text(), text()),
        lane,
    );
    parts.prop_map(
        |(versions, group, member, session, (cluster_name, name, address), lane)| Hello {
            versions,
            group,
            cluster_name,
            member,
            session,
            name,
            address,
            lane,
        },
    )
}

/// Any answer to a hello.
pub(crate) fn hello_reply() -> impl Strategy<Value = HelloReply> {
    let reason = proptest::sample::select(vec![1u8, 2, 3, 5, 6, 7, 8]);
    let reason = reason.prop_map(|code| RefuseReason::from_code(code).unwrap());
    prop_oneof![
        (any::<u16>(), group(), member(), session(), text()).prop_map(
            |(version, group, member, session, name)| HelloReply::Welcome {
                version,
                group,
                member,
                session,
                name,
            }
        ),
        (reason, text()).prop_map(|(reason, text)| HelloReply::Refused { reason, text }),
    ]
}
