//! Hello and its answer, from bytes and over a connection, and the answer to any hello.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod_consensus::{GroupId, MemberId, SessionId, VersionRange};
use synod_fuzz::frames::frame_bytes;
use synod_fuzz::split_byte;
use synod_wire::handshake::{HANDSHAKE_FRAME_MAX, KIND_HELLO, KIND_HELLO_REPLY};
use synod_wire::{
    Caller, FrameReader, FrameWriter, Hello, HelloReply, LocalIdentity, OUR_VERSIONS, Refusal,
    read_caller, read_hello, read_reply, write_client_hello, write_hello, write_reply,
};

fuzz_target!(|input: &[u8]| {
    let (mode, body) = split_byte(input);
    match mode & 1 {
        0 => check_hello(body),
        _ => check_reply(body),
    }
});

fn reader(stream: &[u8]) -> FrameReader<&[u8]> {
    FrameReader::new(stream, HANDSHAKE_FRAME_MAX)
}

fn check_hello(body: &[u8]) {
    check_caller(body);
    let decoded = Hello::decode(body).ok();
    let read = read_hello(&mut reader(&frame_bytes(KIND_HELLO, 0, body)));
    assert_eq!(read.ok(), decoded);
    let Some(hello) = decoded else {
        return;
    };
    let mut writer = FrameWriter::new(Vec::new(), HANDSHAKE_FRAME_MAX);
    write_hello(&mut writer, &hello).expect("what was read can be written");
    let again = read_hello(&mut reader(writer.get_ref()));
    assert_eq!(again.ok().as_ref(), Some(&hello));
    check_answer(identity().answer(&hello), hello.versions);
}

/// The caller's identity is in the same bytes as the hello.
fn check_caller(body: &[u8]) {
    match Caller::decode(body) {
        Ok(Caller::Member(hello)) => assert_eq!(Hello::decode(body), Ok(hello)),
        Ok(Caller::Client(hello)) => {
            let mut writer = FrameWriter::new(Vec::new(), HANDSHAKE_FRAME_MAX);
            write_client_hello(&mut writer, &hello).expect("what was read can be written");
            let again = read_caller(&mut reader(writer.get_ref())).ok();
            assert_eq!(again, Some(Caller::Client(hello.clone())));
            check_answer(identity().answer_client(&hello), hello.versions);
        }
        Err(_) => {}
    }
}

fn identity() -> LocalIdentity {
    LocalIdentity {
        versions: OUR_VERSIONS,
        group: GroupId([1; 16]),
        cluster_name: "c".to_owned(),
        member: MemberId(1),
        session: SessionId(2),
        name: "n".to_owned(),
    }
}

/// The answer reaches the caller, for every hello that can be sent.
fn check_answer(answer: Result<HelloReply, Refusal>, offered: VersionRange) {
    let reply = answer.unwrap_or_else(|refusal| HelloReply::Refused {
        reason: refusal.reason,
        text: refusal.for_caller,
    });
    let again = through_the_wire(&reply, offered);
    match (&reply, &again) {
        (HelloReply::Welcome { .. }, _) => assert_eq!(again, reply),
        // A long text is shortened.
        (HelloReply::Refused { reason, .. }, HelloReply::Refused { reason: other, .. }) => {
            assert_eq!(reason, other);
        }
        (HelloReply::Refused { .. }, HelloReply::Welcome { .. }) => panic!("refused, and welcome"),
    }
}

fn through_the_wire(reply: &HelloReply, offered: VersionRange) -> HelloReply {
    let mut writer = FrameWriter::new(Vec::new(), HANDSHAKE_FRAME_MAX);
    write_reply(&mut writer, reply).expect("an answer can be written");
    read_reply(&mut reader(writer.get_ref()), offered).expect("an answer can be read")
}

fn check_reply(body: &[u8]) {
    let any = VersionRange {
        min: 0,
        max: u16::MAX,
    };
    let decoded = HelloReply::decode(body).ok();
    let read = read_reply(&mut reader(&frame_bytes(KIND_HELLO_REPLY, 0, body)), any);
    assert_eq!(read.ok(), decoded);
    if let Some(reply) = decoded {
        assert_eq!(through_the_wire(&reply, any), reply);
    }
}
