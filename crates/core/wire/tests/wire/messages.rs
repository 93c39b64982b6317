//! Messages as bytes and back.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use synod_consensus::{
    Append, Body, EntryHeader, EntryId, EntryKind, LogIndex, MemberId, Message, Origin, Seqno,
    SessionId, Term, Time,
};
use synod_wire::{
    DecodeError, EncodeError, FetchAnswer, FetchedEntries, Frame, FrameDecoder, IntroducedMember,
    Introduction, Lane, OUR_VERSIONS, PeerMessage, ProposalRefusal, Propose, RegionError, Report,
    StateResult,
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

#[test]
fn reserved_field_of_a_heartbeat_reply_is_read_whatever_it_holds() {
    let mut frame = parse(&frame_bytes(&heartbeat_reply()));
    let mut body = frame.body.to_vec();
    let end = body.len() - 8;
    body[end..].copy_from_slice(&6_u64.to_le_bytes());
    frame.body = body.into();
    assert_eq!(PeerMessage::decode(NEWEST, frame), Ok(heartbeat_reply()));
}
