//! Messages of the consensus cores as bytes. Codes and field order are part of the wire format.
//! Messages that contradict themselves, such as an append whose indexes do not follow each other,
//! are refused here, before the core sees them.

use bytes::Bytes;
use synod_consensus::{
    Append, AppendOutcome, AppendReply, Body, EntryHeader, EntryId, LogBase, LogIndex, Message,
};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::layout::{Codec, Wire, coded, record};

const ENTRY_BYTES: usize = 65;
const ENTRIES_MAX: u32 = 1 << 20;

record! {
    Message { from, to, term, body }
    LogBase { last, seqno, config }
    EntryHeader { term, index, seqno, kind, origin, depends_on, payload_len, payload_crc }
}

coded! { "consensus message": Body {
    1 (last) [Body::PreVote { last }]
    2 (granted) [Body::PreVoteReply { granted }]
    3 (last, transfer) [Body::Vote { last, transfer }]
    4 (granted) [Body::VoteReply { granted }]
    5 (append) [Body::Append(append)]
    6 (sent_at, index) [Body::AppendReply(AppendReply {
        sent_at,
        outcome: AppendOutcome::Durable { index },
    })]
    7 (sent_at, refused, hint) [Body::AppendReply(AppendReply {
        sent_at,
        outcome: AppendOutcome::Rejected { refused, hint },
    })]
    8 (commit, sent_at, read_round) [Body::Heartbeat { commit, sent_at, read_round }]
    9 (sent_at, read_round: BeforeReserved) [Body::HeartbeatReply { sent_at, read_round }]
    10 (base, sent_at) [Body::InstallBase { base, sent_at }]
    11 () [Body::TimeoutNow]
    12 (id) [Body::Read { id }]
    13 (id, index, seqno) [Body::ReadReply { id, index, seqno }]
    14 (commit) [Body::CommitNotice { commit }]
    15 (sent_at, index) [Body::AppendReply(AppendReply {
        sent_at,
        outcome: AppendOutcome::PayloadMissing { index },
    })]
} }

/// A number, and 8 bytes without meaning, which are read whatever they hold.
struct BeforeReserved;

impl Codec<u64> for BeforeReserved {
    fn write(&self, value: &u64, w: &mut Writer) -> Result<(), EncodeError> {
        value.write(w)?;
        0_u64.write(w)
    }

    fn read(&self, r: &mut Reader) -> Result<u64, DecodeError> {
        let value = u64::read(r)?;
        u64::read(r)?;
        Ok(value)
    }
}

impl Wire for Append {
    fn write(&self, w: &mut Writer) -> Result<(), EncodeError> {
        self.prev.write(w)?;
        self.commit.write(w)?;
        self.sent_at.write(w)?;
        write_entries(w, &self.entries)
    }

    fn read(r: &mut Reader) -> Result<Append, DecodeError> {
        let prev = EntryId::read(r)?;
        let (commit, sent_at) = (Wire::read(r)?, Wire::read(r)?);
        Ok(Append {
            prev,
            entries: read_entries(r, Some(prev.index))?,
            commit,
            sent_at,
        })
    }
}

pub(crate) fn write_entries(w: &mut Writer, entries: &[EntryHeader]) -> Result<(), EncodeError> {
    w.count("entries", entries.len(), ENTRIES_MAX)?;
    entries.iter().try_for_each(|entry| entry.write(w))
}

pub(crate) fn read_entries(
    r: &mut Reader,
    prev: Option<LogIndex>,
) -> Result<Vec<EntryHeader>, DecodeError> {
    let count = r.count("entries", ENTRY_BYTES, ENTRIES_MAX)?;
    let mut entries = Vec::with_capacity(count);
    let mut last = prev;
    for _ in 0..count {
        let entry = EntryHeader::read(r)?;
        let found = entry.index.0;
        let expected = last.map_or(found, |last| last.0.wrapping_add(1));
        if found != expected {
            return Err(DecodeError::NotConsecutive { expected, found });
        }
        last = Some(entry.index);
        entries.push(entry);
    }
    Ok(entries)
}

/// A message that needs no payloads.
pub(crate) struct Bare;

impl Codec<Message> for Bare {
    fn write(&self, message: &Message, w: &mut Writer) -> Result<(), EncodeError> {
        let entries = entries_with_payload(&message.body);
        if entries > 0 {
            return Err(EncodeError::PayloadMismatch {
                entries,
                payloads: 0,
            });
        }
        message.write(w)
    }

    fn read(&self, r: &mut Reader) -> Result<Message, DecodeError> {
        let message = Message::read(r)?;
        match entries_with_payload(&message.body) {
            0 => Ok(message),
            count => Err(DecodeError::PayloadsMissing { count }),
        }
    }
}

fn entries_with_payload(body: &Body) -> usize {
    match body {
        Body::Append(append) => append.entries.iter().filter(|e| e.payload_len > 0).count(),
        _ => 0,
    }
}

/// The message, a bit for each entry that says whether its payload is left out, then the others one
/// after another; their lengths are in the entry headers.
pub(crate) fn write_with_payloads(
    w: &mut Writer,
    message: &Message,
    payloads: &[Option<Bytes>],
) -> Result<(), EncodeError> {
    let Body::Append(Append { entries, .. }) = &message.body else {
        return Err(EncodeError::NotAnAppend);
    };
    payloads_fit(entries, payloads)?;
    message.write(w)?;
    write_payloads(w, payloads);
    Ok(())
}

/// Refuses payloads that are not those of the entries.
pub(crate) fn payloads_fit(
    entries: &[EntryHeader],
    payloads: &[Option<Bytes>],
) -> Result<(), EncodeError> {
    let fits = entries.len() == payloads.len()
        && entries
            .iter()
            .zip(payloads)
            .all(|(e, p)| p.as_ref().is_none_or(|p| e.payload_len as usize == p.len()));
    if fits {
        return Ok(());
    }
    let (entries, payloads) = (entries.len(), payloads.len());
    Err(EncodeError::PayloadMismatch { entries, payloads })
}

pub(crate) fn write_payloads(w: &mut Writer, payloads: &[Option<Bytes>]) {
    write_left_out(w, payloads);
    payloads
        .iter()
        .flatten()
        .for_each(|payload| w.payload(payload));
}

pub(crate) fn read_with_payloads(
    r: &mut Reader,
) -> Result<(Message, Vec<Option<Bytes>>), DecodeError> {
    let message = Message::read(r)?;
    let Body::Append(Append { entries, .. }) = &message.body else {
        return Err(DecodeError::NotAnAppend);
    };
    let payloads = read_payloads(r, entries)?;
    Ok((message, payloads))
}

pub(crate) fn read_payloads(
    r: &mut Reader,
    entries: &[EntryHeader],
) -> Result<Vec<Option<Bytes>>, DecodeError> {
    let left_out = read_left_out(r, entries.len())?;
    let mut payloads = Vec::with_capacity(entries.len());
    for (entry, is_left_out) in entries.iter().zip(left_out) {
        let payload = if is_left_out {
            None
        } else {
            Some(r.take(entry.payload_len as usize)?)
        };
        payloads.push(payload);
    }
    Ok(payloads)
}

/// A bit for each entry, the first in the lowest bit of the first byte: 1 if its payload is left
/// out.
fn write_left_out(w: &mut Writer, payloads: &[Option<Bytes>]) {
    for eight in payloads.chunks(8) {
        let bits = eight.iter().enumerate();
        w.u8(bits.fold(0, |byte, (at, payload)| {
            byte | u8::from(payload.is_none()) << at
        }));
    }
}

fn read_left_out(r: &mut Reader, entries: usize) -> Result<Vec<bool>, DecodeError> {
    let mut left_out = Vec::with_capacity(entries);
    while left_out.len() < entries {
        let byte = r.u8()?;
        let bits = (entries - left_out.len()).min(8);
        if u32::from(byte) >> bits > 0 {
            return Err(DecodeError::unknown("payloads left out", byte));
        }
        left_out.extend((0..bits).map(|bit| byte >> bit & 1 == 1));
    }
    Ok(left_out)
}
