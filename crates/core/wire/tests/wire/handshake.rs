//! The first exchange on a connection.

use bytes::Bytes;
use proptest::prelude::*;
use synod_consensus::{GroupId, MemberId, SessionId, VersionRange};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    Caller, ClientHello, DecodeError, EncodeError, FrameError, FrameReader, FrameWriter,
    HandshakeError, Hello, HelloReply, Lane, LocalIdentity, OUR_VERSIONS, PeerMessage,
    RefuseReason, StreamError, read_caller, read_hello, read_reply, write_client_hello,
    write_hello, write_reply,
};

use crate::messages::{NEWEST, frame_bytes};
use crate::strategies::{hello, hello_reply};

const GROUP: GroupId = GroupId([7; 16]);

fn identity() -> LocalIdentity {
    LocalIdentity {
        versions: OUR_VERSIONS,
        group: GROUP,
        cluster_name: "shop".to_owned(),
        member: MemberId(1),
        session: SessionId(11),
        name: "n1".to_owned(),
    }
}

fn caller() -> Hello {
    Hello {
        versions: OUR_VERSIONS,
        group: GROUP,
        cluster_name: "shop".to_owned(),
        member: MemberId(2),
        session: SessionId(22),
        name: "n2".to_owned(),
        address: "10.0.0.2:4567".to_owned(),
        lane: Lane::Bulk,
    }
}

fn reader(bytes: &[u8]) -> FrameReader<&[u8]> {
    FrameReader::new(bytes, HANDSHAKE_FRAME_MAX)
}

fn sent_hello(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_hello(
        &mut FrameWriter::new(&mut bytes, HANDSHAKE_FRAME_MAX),
        hello,
    )
    .unwrap();
    bytes
}

fn sent_reply(reply: &HelloReply) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_reply(
        &mut FrameWriter::new(&mut bytes, HANDSHAKE_FRAME_MAX),
        reply,
    )
    .unwrap();
    bytes
}

proptest! {
    #[test]
    fn hellos_survive(hello in hello()) {
        prop_assert_eq!(read_hello(&mut reader(&sent_hello(&hello))).unwrap(), hello);
    }

    #[test]
    fn replies_survive(reply in hello_reply()) {
        let any_version = VersionRange { min: 0, max: u16::MAX };
        let bytes = sent_reply(&reply);
        prop_assert_eq!(read_reply(&mut reader(&bytes), any_version).unwrap(), reply);
    }

    #[test]
    fn hello_of_a_later_version_with_more_fields_is_understood(
        hello in hello(),
        more in proptest::collection::vec(any::<u8>(), 0..50),
    ) {
        let bytes = [hello.encode().unwrap(), more].concat();
        prop_assert_eq!(Hello::decode(&bytes), Ok(hello));
    }

    #[test]
    fn truncated_hello_is_refused(hello in hello(), part in 0.0..1.0f64) {
        let bytes = hello.encode().unwrap();
        let len = (bytes.len() as f64 * part) as usize;
        prop_assert!(Hello::decode(&bytes[..len]).is_err());
    }

    #[test]
    fn garbage_is_no_hello(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Hello::decode(&bytes).is_err());
        prop_assert!(HelloReply::decode(&bytes).is_err());
        prop_assert!(read_hello(&mut reader(&bytes)).is_err());
    }
}

fn client(cluster_name: &str) -> ClientHello {
    ClientHello {
        versions: OUR_VERSIONS,
        cluster_name: cluster_name.to_owned(),
        name: "synod of ann".to_owned(),
    }
}

#[test]
fn members_and_clients_are_told_apart_and_what_follows_is_kept() {
    let mut bytes = sent_hello(&caller());
    let read = read_caller(&mut reader(&bytes)).unwrap();
    assert_eq!(read, Caller::Member(caller()));
    bytes.clear();
    let mut writer = FrameWriter::new(&mut bytes, HANDSHAKE_FRAME_MAX);
    write_client_hello(&mut writer, &client("")).unwrap();
    bytes.extend_from_slice(b"{\"protocol\":1}\n");
    let mut reader = reader(&bytes);
    assert_eq!(
        read_caller(&mut reader).unwrap(),
        Caller::Client(client(""))
    );
    assert_eq!(reader.into_parts().1, b"{\"protocol\":1}\n");
}

#[test]
fn caller_for_a_purpose_of_a_later_version_is_refused() {
    let mut bytes = client("").encode().unwrap();
    *bytes.last_mut().unwrap() = 2;
    let unknown = DecodeError::unknown("purpose of a connection", 2);
    assert_eq!(Caller::decode(&bytes), Err(unknown));
}

#[test]
fn client_is_welcome_whether_it_names_the_group_or_not_and_not_by_another_name() {
    for cluster_name in ["", "shop"] {
        let reply = identity().answer_client(&client(cluster_name)).unwrap();
        assert!(matches!(reply, HelloReply::Welcome { .. }), "{reply:?}");
    }
    let refusal = identity().answer_client(&client("shipping")).unwrap_err();
    assert_eq!(refusal.reason, RefuseReason::WrongClusterName);
    assert!(!refusal.for_caller.contains("shop"), "{refusal:?}");
}

#[test]
fn client_of_versions_that_are_spoken_no_more_is_refused_in_words() {
    let older = ClientHello {
        versions: VersionRange { min: 1, max: 4 },
        ..client("shop")
    };
    let refusal = identity().answer_client(&older).unwrap_err();
    assert_eq!(refusal.reason, RefuseReason::UnknownVersion);
    assert!(
        refusal
            .for_caller
            .contains("versions 1 to 4: upgrade the older"),
        "{refusal:?}"
    );
}

#[test]
fn caller_of_the_same_group_is_welcome() {
    let welcome = HelloReply::Welcome {
        version: NEWEST,
        group: GROUP,
        member: MemberId(1),
        session: SessionId(11),
        name: "n1".to_owned(),
    };
    assert_eq!(identity().answer(&caller()), Ok(welcome.clone()));
    // A newcomer has no group yet.
    assert_eq!(
        identity().answer(&Hello {
            group: GroupId::NONE,
            ..caller()
        }),
        Ok(welcome)
    );
    let newcomer = LocalIdentity {
        group: GroupId::NONE,
        ..identity()
    };
    assert!(matches!(
        newcomer.answer(&caller()),
        Ok(HelloReply::Welcome { .. })
    ));
}

#[test]
fn caller_that_does_not_fit_is_refused_with_a_reason_that_names_it() {
    let table = [
        (
            Hello {
                group: GroupId([8; 16]),
                ..caller()
            },
            RefuseReason::WrongGroup,
            "08080808-",
        ),
        (
            Hello {
                cluster_name: "test".to_owned(),
                ..caller()
            },
            RefuseReason::WrongClusterName,
            "'test'",
        ),
        (
            Hello {
                versions: VersionRange { min: 7, max: 9 },
                ..caller()
            },
            RefuseReason::UnknownVersion,
            "7 to 9",
        ),
        (
            Hello {
                versions: VersionRange { min: 1, max: 4 },
                ..caller()
            },
            RefuseReason::UnknownVersion,
            "1 to 4",
        ),
        (
            Hello {
                member: MemberId(1),
                session: identity().session,
                ..caller()
            },
            RefuseReason::Self_,
            "itself",
        ),
        (
            Hello {
                member: MemberId(1),
                ..caller()
            },
            RefuseReason::DuplicateIdentity,
            "runs here already",
        ),
    ];
    for (hello, expected, named) in table {
        let refusal = identity().answer(&hello).unwrap_err();
        assert_eq!(refusal.reason, expected);
        assert!(refusal.for_caller.contains(named), "{refusal:?}");
        assert!(refusal.for_own_log.contains(named), "{refusal:?}");
    }
}

#[test]
fn caller_with_a_wrong_cluster_name_is_not_told_the_right_one() {
    let ours = identity().cluster_name;
    let refusal = identity().answer(&Hello {
        cluster_name: "guessed".to_owned(),
        ..caller()
    });
    let refusal = refusal.unwrap_err();
    assert!(!refusal.for_caller.contains(&ours), "{refusal:?}");
    assert!(refusal.for_own_log.contains(&ours), "{refusal:?}");
}

#[test]
fn other_protocols_are_told_apart_from_damage() {
    for other in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03abcdef",
    ] {
        let error = read_hello(&mut reader(other)).unwrap_err();
        let expected = FrameError::NotAFrame {
            found: [other[0], other[1]],
        };
        assert!(
            matches!(&error, HandshakeError::Stream(StreamError::Frame(e)) if *e == expected),
            "{error}"
        );
    }
}

#[test]
fn anything_but_a_hello_first_is_refused() {
    let bytes = frame_bytes(&PeerMessage::LeaveReply);
    let error = read_hello(&mut reader(&bytes)).unwrap_err();
    assert!(
        matches!(
            error,
            HandshakeError::UnexpectedKind {
                expected: 1,
                found: 23
            }
        ),
        "{error}"
    );
    assert!(matches!(
        read_hello(&mut reader(b"")),
        Err(HandshakeError::Ended)
    ));
}

#[test]
fn large_frame_before_the_handshake_is_refused() {
    let request = synod_wire::StateRequest {
        id: 1,
        joiner: MemberId(2),
        session: SessionId(22),
        after: synod_consensus::Seqno(0),
        preferred: vec![],
        any_donor: true,
        request: Bytes::from(vec![0; 5000]),
    };
    let bytes = frame_bytes(&PeerMessage::StateRequest(request));
    let error = read_hello(&mut reader(&bytes)).unwrap_err();
    let too_large = matches!(
        &error,
        HandshakeError::Stream(StreamError::Frame(FrameError::TooLarge { max: 4096, .. }))
    );
    assert!(too_large, "{error}");
}

#[test]
fn hello_above_its_bound_is_refused() {
    let too_long = DecodeError::TooLong {
        what: "hello",
        len: 4097,
        max: 4096,
    };
    assert_eq!(Hello::decode(&[0; 4097]), Err(too_long));
    let hello = Hello {
        name: "n".repeat(513),
        ..caller()
    };
    let too_long = EncodeError::TooLong {
        what: "name",
        len: 513,
        max: 512,
    };
    assert_eq!(hello.encode(), Err(too_long));
    let name = "n".repeat(512);
    let (cluster_name, address) = (name.clone(), name.clone());
    let longest = Hello {
        name,
        cluster_name,
        address,
        ..caller()
    };
    assert_eq!(
        read_hello(&mut reader(&sent_hello(&longest))).unwrap(),
        longest
    );
}

#[test]
fn version_that_was_not_offered_is_refused() {
    let reply = identity().answer(&caller()).unwrap();
    let bytes = sent_reply(&reply);
    let offered = VersionRange { min: 1, max: 1 };
    let error = read_reply(&mut reader(&bytes), offered).unwrap_err();
    assert!(
        matches!(error, HandshakeError::WrongVersion { version: 5, .. }),
        "{error}"
    );
}

#[test]
fn refusal_for_a_reason_of_later_versions_keeps_its_text() {
    let reply = HelloReply::Refused {
        reason: RefuseReason::Busy,
        text: "later".to_owned(),
    };
    let mut bytes = reply.encode().unwrap();
    bytes[9] = 200;
    let expected = HelloReply::Refused {
        reason: RefuseReason::NotAllowed,
        text: "later".to_owned(),
    };
    assert_eq!(HelloReply::decode(&bytes), Ok(expected));
}

#[test]
fn what_follows_the_handshake_is_not_lost() {
    let message = PeerMessage::LeaveReply;
    let bytes = [sent_hello(&caller()), frame_bytes(&message)].concat();
    let mut reader = reader(&bytes);
    read_hello(&mut reader).unwrap();
    reader.set_max(1 << 20);
    let frame = reader.read_frame().unwrap().unwrap();
    assert_eq!(PeerMessage::decode(NEWEST, frame), Ok(message));
}
