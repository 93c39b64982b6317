//! Messages as bytes and back.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use synod_consensus::{
    Append, Body, Config, ConfigAt, EntryHeader, EntryId, EntryKind, LeaderWeight, LogBase,
    LogIndex, Member, MemberId, Message, Origin, Role, Seqno, SessionId, Term, Time, VersionRange,
    Writers,
};
use synod_wire::{
    AppliedPosition, Command, DataState, DecodeError, Done, EncodeError, FeedOrder, FetchAnswer,
    FetchFrom, FetchRefusal, FetchRequest, FetchedEntries, Frame, FrameDecoder, HeardMember,
    IntroducedMember, Introduction, Lane, MemberLag, OUR_VERSIONS, PaceReport, PeerMessage,
    PresenceReport, ProposalRefusal, Propose, RegionError, Report, StateResult, SurvivorReport,
};

use crate::strategies::peer_message;

/// The newest version, which nearly all tests use.
pub(crate) const NEWEST: u16 = OUR_VERSIONS.max;

/// The frame of a message as one piece.
pub(crate) fn frame_bytes(message: &PeerMessage) -> Vec<u8> {
    frame_bytes_of(NEWEST, message)
}

fn frame_bytes_of(version: u16, message: &PeerMessage) -> Vec<u8> {
    let mut segments = Vec::new();
    message.encode(version, &mut segments).unwrap();
    segments.concat()
}

/// The frame that these bytes are.
pub(crate) fn parse(bytes: &[u8]) -> Frame {
    let mut decoder = FrameDecoder::new(u32::MAX);
    decoder.feed(bytes);
    let frame = decoder.next_frame().unwrap().expect("a whole frame");
    assert!(!decoder.is_inside_frame());
    frame
}

/// An append of one entry with this payload.
fn append_of(payload: Bytes) -> PeerMessage {
    let entry = EntryHeader {
        term: Term(1),
        index: LogIndex(8),
        seqno: Seqno(5),
        kind: EntryKind::Action,
        origin: Origin::new(MemberId(2), SessionId(3), 4),
        depends_on: Seqno(4),
        payload_len: payload.len() as u32,
        payload_crc: 6,
    };
    let append = Append {
        prev: EntryId::new(Term(1), LogIndex(7)),
        entries: vec![entry],
        commit: LogIndex(7),
        sent_at: Time(9),
    };
    let body = Body::Append(append);
    let message = Message::new(MemberId(1), MemberId(2), Term(1), body);
    PeerMessage::Append {
        message,
        payloads: vec![Some(payload)],
    }
}

fn propose_of(payload: Bytes) -> PeerMessage {
    PeerMessage::Propose(Propose {
        tag: Term(1),
        origin: Origin::new(MemberId(2), SessionId(3), 4),
        kind: EntryKind::Action,
        oldest_outstanding: 4,
        payload,
    })
}

/// The table of messages that people read.
const DOCUMENT: &str = include_str!("../../../../../docs/wire-protocol.md");

/// Whether the document has a row for this kind and message.
fn is_documented(message: &PeerMessage) -> bool {
    let debug = format!("{message:?}");
    let name = debug.split([' ', '(']).next().unwrap_or_default();
    DOCUMENT.contains(&format!("\n| {} | {name} |", message.kind()))
}

proptest! {
    #[test]
    fn every_message_is_in_the_document(message in peer_message()) {
        prop_assert!(is_documented(&message), "{message:?}");
    }

    #[test]
    fn every_message_survives(message in peer_message()) {
        let frame = parse(&frame_bytes(&message));
        prop_assert_eq!(frame.kind, message.kind());
        prop_assert_eq!(PeerMessage::decode(NEWEST, frame), Ok(message));
    }

    #[test]
    fn body_cut_short_is_refused_or_has_a_shorter_payload(
        message in peer_message(),
        part in 0.0..1.0f64,
    ) {
        let frame = parse(&frame_bytes(&message));
        let len = (frame.body.len() as f64 * part) as usize;
        let short = Frame { kind: frame.kind, body: frame.body.slice(..len) };
        // A body without bytes has no shorter form.
        prop_assume!(!frame.body.is_empty());
        match PeerMessage::decode(NEWEST, short) {
            Err(_) | Ok(PeerMessage::Propose(_) | PeerMessage::StateRequest(_)) => {}
            Ok(other) => prop_assert!(false, "{message:?} of {len} bytes became {other:?}"),
        }
    }

    #[test]
    fn body_with_more_behind_it_is_refused(message in peer_message()) {
        let frame = parse(&frame_bytes(&message));
        let body = Bytes::from([&frame.body[..], &[0]].concat());
        match PeerMessage::decode(NEWEST, Frame { kind: frame.kind, body }) {
            Err(DecodeError::TrailingBytes { left: 1 }) => {}
            Ok(PeerMessage::Propose(_) | PeerMessage::StateRequest(_)) => {}
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn garbage_in_a_good_frame_never_panics(
        kind in 0..40u8,
        body in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let _ = PeerMessage::decode(NEWEST, Frame { kind, body: body.into() });
    }

    #[test]
    fn altered_body_in_a_good_frame_never_panics(
        message in peer_message(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let frame = parse(&frame_bytes(&message));
        let mut body = frame.body.to_vec();
        for (at, value) in changes {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = value;
            }
        }
        let _ = PeerMessage::decode(NEWEST, Frame { kind: frame.kind, body: body.into() });
    }
}

/// Reading bytes leaves no kind out, and no message between the cores.
#[test]
fn every_kind_of_message_is_made_up() {
    let mut runner = TestRunner::deterministic();
    let (mut kinds, mut codes) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..4_000 {
        let made_up = peer_message().new_tree(&mut runner).unwrap();
        let frame = parse(&frame_bytes(&made_up.current()));
        kinds.insert(frame.kind);
        if frame.kind == 16 {
            codes.insert(frame.body[24]);
        }
    }
    assert!(kinds.into_iter().eq(16..=47));
    assert!(codes.into_iter().eq(1..=15));
}

#[test]
fn large_payloads_are_sent_and_received_without_copying() {
    let payload = Bytes::from(vec![7; 100_000]);
    for message in [append_of(payload.clone()), propose_of(payload.clone())] {
        let mut segments = Vec::new();
        message.encode(NEWEST, &mut segments).unwrap();
        assert!(
            segments
                .iter()
                .any(|segment| segment.as_ptr() == payload.as_ptr())
        );

        let frame = parse(&segments.concat());
        let received = frame.body.as_ptr_range();
        let payload = match PeerMessage::decode(NEWEST, frame).unwrap() {
            PeerMessage::Append { mut payloads, .. } => payloads.remove(0).unwrap(),
            PeerMessage::Propose(propose) => propose.payload,
            other => panic!("{other:?}"),
        };
        assert!(received.contains(&payload.as_ptr()));
        assert_eq!(payload.len(), 100_000);
    }
}

#[test]
fn small_payloads_do_not_become_segments() {
    let mut segments = Vec::new();
    append_of(Bytes::from_static(b"small"))
        .encode(NEWEST, &mut segments)
        .unwrap();
    assert_eq!(segments.len(), 2, "header and fields");
}

#[test]
fn only_entries_and_proposals_are_bulk() {
    assert_eq!(append_of(Bytes::new()).lane(), Lane::Bulk);
    assert_eq!(propose_of(Bytes::new()).lane(), Lane::Bulk);
    let PeerMessage::Append { message, .. } = append_of(Bytes::new()) else {
        unreachable!()
    };
    let Body::Append(append) = message.body else {
        unreachable!()
    };
    let probe = Message {
        body: Body::Append(Append {
            entries: vec![],
            ..append
        }),
        ..message
    };
    assert_eq!(PeerMessage::Consensus(probe).lane(), Lane::Control);
    assert_eq!(PeerMessage::Report(Report::default()).lane(), Lane::Control);
}

#[test]
fn payloads_that_do_not_fit_their_entries_are_not_sent() {
    let mut out = Vec::new();
    let PeerMessage::Append { message, .. } = append_of(Bytes::from_static(b"12")) else {
        unreachable!()
    };
    for payloads in [
        vec![],
        vec![Some(Bytes::from_static(b"1"))],
        vec![Some(Bytes::from_static(b"12")); 2],
    ] {
        let mismatch = EncodeError::PayloadMismatch {
            entries: 1,
            payloads: payloads.len(),
        };
        let wrong = PeerMessage::Append {
            message: message.clone(),
            payloads,
        };
        assert_eq!(wrong.encode(NEWEST, &mut out), Err(mismatch));
    }
    let bare = PeerMessage::Consensus(message);
    assert!(matches!(
        bare.encode(NEWEST, &mut out),
        Err(EncodeError::PayloadMismatch { .. })
    ));
    assert!(out.is_empty());
}

#[test]
fn entries_that_do_not_follow_one_another_are_refused() {
    let mut bytes = parse(&frame_bytes(&append_of(Bytes::new()))).body.to_vec();
    // After from, to, term, code, prev, commit, sent_at, count, and entry's term.
    let index_at = 24 + 1 + 16 + 16 + 4 + 8;
    assert_eq!(bytes[index_at], 8);
    bytes[index_at] = 9;
    let frame = Frame {
        kind: 17,
        body: bytes.into(),
    };
    let error = DecodeError::NotConsecutive {
        expected: 8,
        found: 9,
    };
    assert_eq!(PeerMessage::decode(NEWEST, frame), Err(error));
}

#[test]
fn count_beyond_the_message_is_refused_before_allocating() {
    let mut bytes = parse(&frame_bytes(&append_of(Bytes::new()))).body.to_vec();
    let count_at = 24 + 1 + 16 + 16;
    bytes[count_at..count_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let frame = Frame {
        kind: 17,
        body: bytes.into(),
    };
    let error = DecodeError::ImpossibleCount {
        what: "entries",
        count: u32::MAX,
        left: 66,
    };
    assert_eq!(PeerMessage::decode(NEWEST, frame), Err(error));
}

#[test]
fn overlong_names_are_not_sent_and_overlong_texts_are_cut() {
    let name = Report {
        incoming: "x".repeat(513),
        ..Report::default()
    };
    let too_long = EncodeError::TooLong {
        what: "client address",
        len: 513,
        max: 512,
    };
    assert_eq!(
        PeerMessage::Report(name).encode(NEWEST, &mut Vec::new()),
        Err(too_long)
    );

    let text = "é".repeat(5000);
    let result = StateResult {
        id: 1,
        ok: false,
        code: 5,
        seqno: Seqno(-1),
        text,
    };
    let frame = parse(&frame_bytes(&PeerMessage::StateResult(result)));
    let Ok(PeerMessage::StateResult(result)) = PeerMessage::decode(NEWEST, frame) else {
        panic!()
    };
    assert_eq!(result.text, "é".repeat(512));
}

#[test]
fn unknown_versions_and_kinds_are_refused() {
    let message = PeerMessage::LeaveReply;
    for version in [OUR_VERSIONS.min - 1, OUR_VERSIONS.max + 1] {
        assert!(!message.is_carried_by(version));
        let unknown = EncodeError::NotInVersion {
            kind: message.kind(),
            version,
        };
        assert_eq!(message.encode(version, &mut Vec::new()), Err(unknown));
        let frame = parse(&frame_bytes(&message));
        let unknown = DecodeError::UnknownVersion { version };
        assert_eq!(PeerMessage::decode(version, frame), Err(unknown));
    }
    let frame = Frame {
        kind: 99,
        body: Bytes::new(),
    };
    let unknown = DecodeError::unknown("message", 99);
    assert_eq!(PeerMessage::decode(NEWEST, frame), Err(unknown));
}

#[test]
fn weight_above_100_is_refused() {
    let Frame { kind, body } = parse(&frame_bytes(&PeerMessage::Report(Report::default())));
    let mut body = body.to_vec();
    // A weight, a vote, the format of the log, and the length of the region.
    let weight = body.len() - 8;
    assert_eq!(std::mem::replace(&mut body[weight], 101), 50);
    let body = body.into();
    let error = DecodeError::unknown("leader weight", 101);
    assert_eq!(
        PeerMessage::decode(NEWEST, Frame { kind, body }),
        Err(error)
    );
}

fn introduction() -> PeerMessage {
    let introduced = |member, certificate: Option<&str>| IntroducedMember {
        member: MemberId(member),
        address: format!("n{member}:1"),
        certificate: certificate.map(str::to_owned),
    };
    PeerMessage::Introduction(Introduction {
        index: LogIndex(9),
        members: vec![introduced(1, None), introduced(7, Some("CN=n7"))],
    })
}

/// A message of this kind survives whole only, on this lane.
#[track_caller]
fn survives_whole_only(kind: u8, lane: Lane, message: PeerMessage) {
    assert!(is_documented(&message));
    assert_eq!(message.lane(), lane);
    let frame = parse(&frame_bytes(&message));
    assert_eq!(frame.kind, kind);
    for len in 0..frame.body.len() {
        let body = frame.body.slice(..len);
        assert!(PeerMessage::decode(NEWEST, Frame { kind, body }).is_err());
    }
    assert_eq!(PeerMessage::decode(NEWEST, frame), Ok(message));
}

fn body_in_hex(message: &PeerMessage) -> String {
    hex(&parse(&frame_bytes_of(5, message)).body)
}

#[test]
fn introduction_of_members_that_do_not_ascend_is_refused() {
    let PeerMessage::Introduction(mut introduction) = introduction() else {
        unreachable!()
    };
    introduction.members.reverse();
    let frame = parse(&frame_bytes(&PeerMessage::Introduction(introduction)));
    let error = DecodeError::NotAscending { what: "members" };
    assert_eq!(PeerMessage::decode(NEWEST, frame), Err(error));
}

#[test]
fn bytes_of_an_introduction_never_change() {
    let body = parse(&frame_bytes_of(5, &introduction())).body;
    let expected = concat!(
        "\x09\0\0\0\0\0\0\0\x02\0\0\0",
        "\x01\0\0\0\0\0\0\0\x04\0n1:1\0",
        "\x07\0\0\0\0\0\0\0\x04\0n7:1\x01\x05\0CN=n7",
    );
    assert_eq!(body, expected.as_bytes());
    survives_whole_only(31, Lane::Control, introduction());
}

#[test]
fn bytes_of_positions_and_pace_never_change() {
    let position = AppliedPosition {
        session: SessionId(1),
        state: DataState::Synced,
        left: Seqno(3),
        released: Seqno(2),
        lag_us: 9,
    };
    let lag = |member| MemberLag {
        member: MemberId(member),
        left: Seqno(3),
        lag_us: 9,
    };
    let pace = PaceReport {
        term: Term(4),
        rate: 1_500_000,
        paused_us: 7,
        pauses: 1,
        slowest: MemberId(2),
        slowest_lag_us: 9,
        members: vec![lag(1), lag(2)],
    };
    let position = PeerMessage::AppliedPosition(position);
    let pace = PeerMessage::Pace(pace);
    let expected = concat!(
        "0100000000000000",
        "04",
        "0300000000000000",
        "0200000000000000",
        "0900000000000000",
    );
    assert_eq!(body_in_hex(&position), expected);
    let expected = concat!(
        "0400000000000000",
        "60e3160000000000",
        "0700000000000000",
        "0100000000000000",
        "0200000000000000",
        "0900000000000000",
        "02000000",
        "0100000000000000",
        "0300000000000000",
        "0900000000000000",
        "0200000000000000",
        "0300000000000000",
        "0900000000000000",
    );
    assert_eq!(body_in_hex(&pace), expected);
    survives_whole_only(32, Lane::Control, position);
    survives_whole_only(33, Lane::Control, pace);
}

#[test]
fn bytes_of_presence_never_change() {
    let heard = |id, silent_ms| HeardMember {
        member: MemberId(id),
        silent_ms,
    };
    let presence = PeerMessage::Presence(PresenceReport {
        term: Term(4),
        members: vec![heard(1, 0), heard(2, 1300)],
    });
    let expected = concat!(
        "0400000000000000",
        "02000000",
        "0100000000000000",
        "0000000000000000",
        "0200000000000000",
        "1405000000000000",
    );
    assert_eq!(body_in_hex(&presence), expected);
    survives_whole_only(47, Lane::Control, presence);
}

#[test]
fn bytes_of_an_applied_query_never_change() {
    let session = SessionId(0x0102_0304);
    let query = PeerMessage::AppliedQuery { session };
    assert_eq!(body_in_hex(&query), "0403020100000000");
    survives_whole_only(34, Lane::Control, query);
}

#[test]
fn bytes_of_commands_never_change() {
    let session = SessionId(0x0102_0304);
    let command = PeerMessage::Command {
        session,
        number: 2,
        command: Command::Remove {
            member: "db3".to_owned(),
            force: true,
        },
    };
    let expected = concat!(
        "0403020100000000",
        "0200000000000000",
        "00",
        "0300646233",
        "01"
    );
    assert_eq!(body_in_hex(&command), expected);
    let answer = PeerMessage::CommandAnswer {
        session,
        number: 2,
        answer: Ok(Done::Committed { index: LogIndex(9) }),
    };
    for (kind, message) in [
        (35, command),
        (36, answer),
        (37, PeerMessage::VoteOrder { votes: true }),
    ] {
        survives_whole_only(kind, Lane::Control, message);
    }
}

#[test]
fn bytes_of_a_survivors_report_never_change() {
    let report = SurvivorReport {
        last: EntryId::new(Term(3), LogIndex(9)),
        durable: LogIndex(9),
        commit: LogIndex(7),
        stated: LogIndex(8),
        incomplete_us: Some(5),
        applied: Seqno(4),
        is_under_repair: true,
        leader: None,
    };
    let message = PeerMessage::Survivor(report);
    let expected = concat!(
        "0300000000000000",
        "0900000000000000",
        "0900000000000000",
        "0700000000000000",
        "0800000000000000",
        "010500000000000000",
        "0400000000000000",
        "01",
        "00",
    );
    assert_eq!(body_in_hex(&message), expected);
    survives_whole_only(40, Lane::Control, message);
}

#[test]
fn bytes_of_orders_about_writers_never_change() {
    let order = PeerMessage::WritersOrder {
        writers: Writers::Leader,
    };
    let refused = PeerMessage::WritersRefused {
        writers: Writers::Any,
        text: "no".to_owned(),
    };
    for (kind, message, bytes) in [(38, order, "01"), (39, refused, "0002006e6f")] {
        assert_eq!(body_in_hex(&message), bytes);
        survives_whole_only(kind, Lane::Control, message);
    }
}

#[test]
fn bytes_that_feed_learners_never_change() {
    let id = |term, index| EntryId::new(Term(term), LogIndex(index));
    let order = PeerMessage::Feed(FeedOrder {
        learner: MemberId(1),
        term: Term(3),
        prev: id(2, 7),
        last: id(3, 9),
        may_shorten: true,
        commit: LogIndex(8),
        sent_at: Time(5),
    });
    let expected = concat!(
        "0100000000000000",
        "0300000000000000",
        "02000000000000000700000000000000",
        "03000000000000000900000000000000",
        "01",
        "0800000000000000",
        "0500000000000000",
    );
    assert_eq!(body_in_hex(&order), expected);

    let append = append_of(Bytes::from_static(b"payload"));
    let body = parse(&frame_bytes_of(5, &append)).body;
    let PeerMessage::Append { message, payloads } = append else {
        panic!("an append");
    };
    let fed = PeerMessage::Fed { message, payloads };
    let same = parse(&frame_bytes_of(5, &fed)).body;
    assert_eq!(same, body, "as the leader's own append");
    for (kind, message) in [(41, order), (42, fed)] {
        survives_whole_only(kind, Lane::Bulk, message);
    }
}

#[test]
fn bytes_that_measure_links_never_change() {
    let ping = PeerMessage::Ping { number: 9 };
    let pong = PeerMessage::Pong {
        number: 9,
        wall_us: 0x0102_0304_0506_0708,
    };
    let bytes = ["0900000000000000", "09000000000000000807060504030201"];
    for (kind, message, bytes) in [(43, ping, bytes[0]), (44, pong, bytes[1])] {
        assert_eq!(body_in_hex(&message), bytes);
        survives_whole_only(kind, Lane::Control, message);
    }
}

#[test]
fn bytes_that_fetch_entries_never_change() {
    let fetch = PeerMessage::Fetch(FetchRequest {
        session: SessionId(1),
        number: 2,
        from: FetchFrom::After(Seqno(3)),
        to: LogIndex(4),
        base: EntryId::new(Term(5), LogIndex(6)),
        needed_from: LogIndex(7),
        with_payloads: true,
    });
    let expected = concat!(
        "0100000000000000",
        "0200000000000000",
        "000300000000000000",
        "0400000000000000",
        "05000000000000000600000000000000",
        "0700000000000000",
        "01",
    );
    assert_eq!(body_in_hex(&fetch), expected);
    survives_whole_only(45, Lane::Control, fetch);

    let PeerMessage::Append { message, payloads } = append_of(Bytes::from_static(b"payload"))
    else {
        panic!("an append");
    };
    let Body::Append(append) = message.body else {
        panic!("an append");
    };
    let answer = |result| {
        PeerMessage::Fetched(FetchAnswer {
            session: SessionId(1),
            number: 2,
            result,
        })
    };
    let entries = FetchedEntries {
        headers: append.entries,
        payloads,
    };
    let purged = FetchRefusal::Purged { first: Seqno(9) };
    for result in [Ok(entries), Err(purged), Err(FetchRefusal::Behind)] {
        survives_whole_only(46, Lane::Bulk, answer(result));
    }
}

#[test]
fn fetched_entries_that_do_not_follow_one_another_are_refused() {
    let header = |index| EntryHeader::bare(Term(1), LogIndex(index), Seqno(1), EntryKind::NoOp);
    let answer = PeerMessage::Fetched(FetchAnswer {
        session: SessionId(1),
        number: 2,
        result: Ok(FetchedEntries {
            headers: vec![header(7), header(9)],
            payloads: vec![None, None],
        }),
    });
    let frame = parse(&frame_bytes_of(5, &answer));
    let error = DecodeError::NotConsecutive {
        expected: 8,
        found: 9,
    };
    assert_eq!(PeerMessage::decode(5, frame), Err(error));
}

#[test]
fn refusal_of_a_write_elsewhere_has_its_code() {
    let refused = PeerMessage::ProposalRefused {
        term: Term(1),
        session: SessionId(2),
        number: 3,
        reason: ProposalRefusal::NotWriter,
    };
    let Frame { kind, body } = parse(&frame_bytes_of(5, &refused));
    assert_eq!(body.last(), Some(&4));
    assert_eq!(PeerMessage::decode(5, Frame { kind, body }), Ok(refused));
}

#[test]
fn region_that_is_no_name_is_refused() {
    let report = Report {
        region: Some("eu".parse().unwrap()),
        ..Report::default()
    };
    let Frame { kind, body } = parse(&frame_bytes(&PeerMessage::Report(report)));
    let mut body = body.to_vec();
    assert_eq!(body.pop(), Some(b'u'));
    body.push(b'"');
    let body = body.into();
    let error = DecodeError::Region(RegionError::BadCharacter { found: '"' });
    assert_eq!(
        PeerMessage::decode(NEWEST, Frame { kind, body }),
        Err(error)
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn bytes_of_a_version_never_change() {
    let leave = PeerMessage::Leave {
        session: SessionId(0x0102_0304_0506_0708),
    };
    let report = Report {
        member: MemberId(1),
        session: SessionId(2),
        state: DataState::Synced,
        applied: Seqno(3),
        seen: Seqno(2),
        db_flushed: Seqno(1),
        incoming: "a:1".to_owned(),
        queue: 4,
        weight: LeaderWeight::new(70).unwrap(),
        wants_vote: true,
        region: Some("eu".parse().unwrap()),
        log_format: 3,
    };
    for (message, expected) in [
        (leave, LEAVE),
        (PeerMessage::Report(report), REPORT),
        (append_of(Bytes::from_static(b"payload")), APPEND),
        (without_payload(), APPEND_LEFT_OUT),
        (heartbeat_reply(), HEARTBEAT_REPLY),
        (install_base(), INSTALL_BASE),
        (commit_notice(), COMMIT_NOTICE),
    ] {
        assert_eq!(hex(&frame_bytes_of(5, &message)), expected, "{message:?}");
    }
}

/// An append of one entry, whose payload of 7 bytes its receiver has.
fn without_payload() -> PeerMessage {
    let PeerMessage::Append { message, .. } = append_of(Bytes::from_static(b"payload")) else {
        unreachable!()
    };
    PeerMessage::Append {
        message,
        payloads: vec![None],
    }
}

#[test]
fn payload_is_left_out() {
    let message = without_payload();
    let Frame { kind, body } = parse(&frame_bytes(&message));
    let decoded = PeerMessage::decode(
        NEWEST,
        Frame {
            kind,
            body: body.clone(),
        },
    );
    assert_eq!(decoded, Ok(message));
    let mut body = body.to_vec();
    let bits = body.len() - 1;
    assert_eq!(std::mem::replace(&mut body[bits], 2), 1, "a second entry?");
    let error = DecodeError::unknown("payloads left out", 2);
    let body = body.into();
    assert_eq!(
        PeerMessage::decode(NEWEST, Frame { kind, body }),
        Err(error)
    );
}

fn heartbeat_reply() -> PeerMessage {
    PeerMessage::Consensus(Message::new(
        MemberId(1),
        MemberId(2),
        Term(3),
        Body::HeartbeatReply {
            sent_at: Time(4),
            read_round: 5,
        },
    ))
}

fn install_base() -> PeerMessage {
    let member = Member {
        role: Role::Voter,
        has_data: true,
        name: "n".to_owned(),
        address: "a:1".to_owned(),
        versions: VersionRange { min: 1, max: 2 },
        certificate: Some("CN=n".to_owned()),
    };
    let config = Config {
        protocol: 2,
        protocol_is_held: true,
        writers: Writers::Leader,
        members: [(MemberId(1), member)].into(),
    };
    let base = LogBase {
        last: EntryId::new(Term(3), LogIndex(7)),
        seqno: Seqno(5),
        config: ConfigAt {
            index: LogIndex(6),
            config,
        },
    };
    PeerMessage::Consensus(Message::new(
        MemberId(1),
        MemberId(2),
        Term(3),
        Body::InstallBase {
            base,
            sent_at: Time(4),
        },
    ))
}

#[test]
fn reserved_field_of_a_heartbeat_reply_is_read_whatever_it_holds() {
    let mut frame = parse(&frame_bytes(&heartbeat_reply()));
    let mut body = frame.body.to_vec();
    let end = body.len() - 8;
    body[end..].copy_from_slice(&6_u64.to_le_bytes());
    frame.body = body.into();
    assert_eq!(PeerMessage::decode(NEWEST, frame), Ok(heartbeat_reply()));
}

fn commit_notice() -> PeerMessage {
    PeerMessage::Consensus(Message::new(
        MemberId(1),
        MemberId(2),
        Term(3),
        Body::CommitNotice {
            commit: LogIndex(7),
        },
    ))
}

/// Header, sender to term, code, commit index.
const COMMIT_NOTICE: &str = concat!(
    "5379100021000000cc68570cc6d949ff",
    "010000000000000002000000000000000300000000000000",
    "0e",
    "0700000000000000",
);
/// Header, sender to term, code, time of the heartbeat, read round, reserved.
const HEARTBEAT_REPLY: &str = concat!(
    "537910003100000047af914bf974e17d",
    "010000000000000002000000000000000300000000000000",
    "09",
    "04000000000000000500000000000000",
    "0000000000000000",
);
/// Header, sender to term, code, last entry, seqno, configuration (index, protocol, members), time.
const INSTALL_BASE: &str = concat!(
    "5379100066000000cd6450a4bb032536",
    "010000000000000002000000000000000300000000000000",
    "0a",
    "030000000000000007000000000000000500000000000000",
    "060000000000000002000101",
    "01000000",
    "0100000000000000000101006e0300613a3101000200",
    "010400434e3d6e",
    "0400000000000000",
);

/// Header, member, session, state, applied, seen, db_flushed, address, queue, weight, vote, log
/// format, region.
const REPORT: &str = concat!(
    "537918003c00000076ec0af39c61578a",
    "01000000000000000200000000000000",
    "04",
    "0300000000000000",
    "0200000000000000",
    "0100000000000000",
    "0300613a31",
    "04000000",
    "46",
    "01",
    "03000000",
    "02006575",
);
/// Header, sender to term, code, previous entry, commit and clock, count, entry, bits, payload.
const APPEND: &str = concat!(
    "53791100860000003206b1dc19ca830c",
    "010000000000000002000000000000000100000000000000",
    "05",
    "01000000000000000700000000000000",
    "07000000000000000900000000000000",
    "01000000",
    "01000000000000000800000000000000050000000000000003",
    "020000000000000003000000000000000400000000000000",
    "04000000000000000700000006000000",
    "00",
    "7061796c6f6164",
);
/// The bit is set, and the payload is not there.
const APPEND_LEFT_OUT: &str = concat!(
    "537911007f000000ae197f269466d1c2",
    "010000000000000002000000000000000100000000000000",
    "05",
    "01000000000000000700000000000000",
    "07000000000000000900000000000000",
    "01000000",
    "01000000000000000800000000000000050000000000000003",
    "020000000000000003000000000000000400000000000000",
    "04000000000000000700000006000000",
    "01",
);
const LEAVE: &str = "53791600080000001c02f926e92cd2330807060504030201";
