//! Messages and greetings as [`proptest`] makes them up.
//!
//! A layout is said once for both directions, so most messages are made up by reading bytes: what
//! can be read is a message. Those whose layout is written by hand, with entries and payloads, are
//! made up field by field.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use synod_consensus::{
    Append, Body, EntryHeader, EntryId, EntryKind, LogIndex, MemberId, Message, Origin, Seqno,
    SessionId, Term, Time,
};
use synod_wire::{
    DecodeError, FetchAnswer, FetchedEntries, Frame, Hello, HelloReply, OUR_VERSIONS, PeerMessage,
    Propose,
};

/// Kinds of all messages, and numbers that are free.
const KINDS: std::ops::Range<u8> = 16..64;
const GREETING: &[u8] = b"SYNODpr\n";

/// Bytes that are often codes, lengths, counts, yes or no.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let byte = |byte: u8| match byte {
        0..170 => 0,
        170..240 => byte % 16,
        _ => byte.wrapping_mul(37),
    };
    vec(any::<u8>(), 200).prop_map(move |bytes| bytes.into_iter().map(byte).collect())
}

/// The message of this kind that the bytes begin with, if they do.
fn read_as(kind: u8, mut body: Bytes) -> Option<PeerMessage> {
    let read = |body: &Bytes| {
        let body = body.clone();
        PeerMessage::decode(OUR_VERSIONS.max, Frame { kind, body })
    };
    if let Err(DecodeError::TrailingBytes { left }) = read(&body) {
        body.truncate(body.len() - left);
    }
    read(&body).ok()
}

fn payload() -> impl Strategy<Value = Bytes> {
    let small = vec(any::<u8>(), 0..50).prop_map(Bytes::from);
    // On both sides of the size from which payloads are not copied.
    let large = (4000..6000usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len].into());
    prop_oneof![4 => small, 1 => large]
}

fn origin() -> impl Strategy<Value = Origin> {
    any::<(u64, u64, u64)>().prop_map(|(member, session, number)| {
        Origin::new(MemberId(member), SessionId(session), number)
    })
}

fn entry() -> impl Strategy<Value = EntryHeader> {
    let kind = (0..7u8).prop_map(|code| EntryKind::from_code(code).unwrap());
    let parts = (any::<(u64, i64, i64, u32)>(), kind, origin());
    parts.prop_map(
        |((term, seqno, depends_on, payload_crc), kind, origin)| EntryHeader {
            origin,
            depends_on: Seqno(depends_on),
            payload_crc,
            ..EntryHeader::bare(Term(term), LogIndex(0), Seqno(seqno), kind)
        },
    )
}

/// An append, and the payloads for its entries, of which some are left out.
fn append() -> impl Strategy<Value = (Append, Vec<Option<Bytes>>)> {
    let prev = (any::<u64>(), 0..u64::MAX / 2);
    let entries = vec((entry(), payload(), any::<bool>()), 0..12);
    let parts = (prev, entries, any::<(u64, u64)>());
    parts.prop_map(|((term, prev), entries, (commit, sent_at))| {
        let (mut headers, mut payloads) = (Vec::new(), Vec::new());
        for ((mut header, payload, is_left_out), index) in entries.into_iter().zip(prev + 1..) {
            header.index = LogIndex(index);
            header.payload_len = payload.len() as u32;
            headers.push(header);
            payloads.push((!is_left_out).then_some(payload));
        }
        let append = Append {
            prev: EntryId::new(Term(term), LogIndex(prev)),
            entries: headers,
            commit: LogIndex(commit),
            sent_at: Time(sent_at),
        };
        (append, payloads)
    })
}

fn with_entries() -> impl Strategy<Value = PeerMessage> {
    let ends = any::<(u64, u64, u64)>();
    (append(), ends, 0..4).prop_map(|((append, payloads), (from, to, term), which)| {
        let message = |append| {
            let body = Body::Append(append);
            Message::new(MemberId(from), MemberId(to), Term(term), body)
        };
        match which {
            0 => {
                let mut append = append;
                let entries = append.entries.iter_mut();
                entries.for_each(|entry| entry.payload_len = 0);
                PeerMessage::Consensus(message(append))
            }
            1 => PeerMessage::Append {
                message: message(append),
                payloads,
            },
            2 => PeerMessage::Fed {
                message: message(append),
                payloads,
            },
            _ => PeerMessage::Fetched(FetchAnswer {
                session: SessionId(from),
                number: to,
                result: Ok(FetchedEntries {
                    headers: append.entries,
                    payloads,
                }),
            }),
        }
    })
}

fn propose() -> impl Strategy<Value = PeerMessage> {
    let kind = prop_oneof![Just(EntryKind::Action), Just(EntryKind::Chunk)];
    let parts = (any::<(u64, u64)>(), origin(), kind, payload());
    parts.prop_map(|((tag, oldest_outstanding), origin, kind, payload)| {
        PeerMessage::Propose(Propose {
            tag: Term(tag),
            origin,
            kind,
            oldest_outstanding,
            payload,
        })
    })
}

/// Any message that can be sent.
pub(crate) fn peer_message() -> impl Strategy<Value = PeerMessage> {
    // There are as many messages between the cores as of half of the kinds.
    let kind = prop_oneof![1 => Just(16), 2 => KINDS];
    let read =
        (kind, fields()).prop_filter_map("no message", |(kind, bytes)| read_as(kind, bytes.into()));
    prop_oneof![6 => read, 3 => with_entries(), 1 => propose()]
}

/// Any hello.
pub(crate) fn hello() -> impl Strategy<Value = Hello> {
    fields().prop_filter_map("no hello", |fields| {
        Hello::decode(&[GREETING, &fields].concat()).ok()
    })
}

/// Any answer to a hello.
pub(crate) fn hello_reply() -> impl Strategy<Value = HelloReply> {
    fields().prop_filter_map("no reply", |fields| {
        HelloReply::decode(&[GREETING, &fields].concat()).ok()
    })
}
