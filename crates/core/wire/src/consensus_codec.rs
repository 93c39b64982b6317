//! Messages of the consensus cores as bytes. Codes and field order are part of the wire format.
//! Messages that contradict themselves, such as an append whose indexes do not follow each other,
//! are refused here, before the core sees them.

use bytes::Bytes;
use synod_consensus::{
    Append, AppendOutcome, AppendReply, Body, EntryHeader, EntryId, EntryKind, LogBase, LogIndex,
    MemberId, Message, Origin, Seqno, SessionId, Term, Time,
};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::member_codec::{read_config_at, write_config_at};
use crate::message::{FeedOrder, ProposalRefusal, Propose};

const ENTRY_BYTES: usize = 65;
/// Value of a field without meaning, at the end of a heartbeat's reply. It is read whatever it
/// holds.
const RESERVED: u64 = 0;
const ENTRIES_MAX: u32 = 1 << 20;

const CODE_PRE_VOTE: u8 = 1;
const CODE_PRE_VOTE_REPLY: u8 = 2;
const CODE_VOTE: u8 = 3;
const CODE_VOTE_REPLY: u8 = 4;
const CODE_APPEND: u8 = 5;
const CODE_APPEND_DURABLE: u8 = 6;
const CODE_APPEND_REJECTED: u8 = 7;
const CODE_HEARTBEAT: u8 = 8;
const CODE_HEARTBEAT_REPLY: u8 = 9;
const CODE_INSTALL_BASE: u8 = 10;
const CODE_TIMEOUT_NOW: u8 = 11;
const CODE_READ: u8 = 12;
const CODE_READ_REPLY: u8 = 13;
const CODE_COMMIT_NOTICE: u8 = 14;
const CODE_APPEND_PAYLOAD_MISSING: u8 = 15;

fn write_message(w: &mut Writer, message: &Message) -> Result<(), EncodeError> {
    w.u64(message.from.0);
    w.u64(message.to.0);
    w.u64(message.term.0);
    write_body(w, &message.body)
}

fn read_message(r: &mut Reader) -> Result<Message, DecodeError> {
    Ok(Message::new(
        MemberId(r.u64()?),
        MemberId(r.u64()?),
        Term(r.u64()?),
        read_body(r)?,
    ))
}

fn write_body(w: &mut Writer, body: &Body) -> Result<(), EncodeError> {
    match body {
        Body::PreVote { last } => {
            w.u8(CODE_PRE_VOTE);
            write_entry_id(w, *last);
        }
        Body::PreVoteReply { granted } => {
            w.u8(CODE_PRE_VOTE_REPLY);
            w.bool(*granted);
        }
        Body::Vote { last, transfer } => {
            w.u8(CODE_VOTE);
            write_entry_id(w, *last);
            w.bool(*transfer);
        }
        Body::VoteReply { granted } => {
            w.u8(CODE_VOTE_REPLY);
            w.bool(*granted);
        }
        Body::Append(append) => write_append(w, append)?,
        Body::AppendReply(reply) => write_append_reply(w, reply),
        Body::Heartbeat {
            commit,
            sent_at,
            read_round,
        } => {
            w.u8(CODE_HEARTBEAT);
            w.u64(commit.0);
            w.u64(sent_at.0);
            w.u64(*read_round);
        }
        Body::HeartbeatReply {
            sent_at,
            read_round,
        } => {
            w.u8(CODE_HEARTBEAT_REPLY);
            w.u64(sent_at.0);
            w.u64(*read_round);
            w.u64(RESERVED);
        }
        Body::CommitNotice { commit } => {
            w.u8(CODE_COMMIT_NOTICE);
            w.u64(commit.0);
        }
        Body::InstallBase { base, sent_at } => {
            w.u8(CODE_INSTALL_BASE);
            write_entry_id(w, base.last);
            w.i64(base.seqno.0);
            write_config_at(w, &base.config)?;
            w.u64(sent_at.0);
        }
        Body::TimeoutNow => w.u8(CODE_TIMEOUT_NOW),
        Body::Read { id } => {
            w.u8(CODE_READ);
            w.u64(*id);
        }
        Body::ReadReply { id, index, seqno } => {
            w.u8(CODE_READ_REPLY);
            w.u64(*id);
            w.u64(index.0);
            w.i64(seqno.0);
        }
    }
    Ok(())
}

fn read_body(r: &mut Reader) -> Result<Body, DecodeError> {
    Ok(match r.u8()? {
        CODE_PRE_VOTE => Body::PreVote {
            last: read_entry_id(r)?,
        },
        CODE_PRE_VOTE_REPLY => Body::PreVoteReply { granted: r.bool()? },
        CODE_VOTE => Body::Vote {
            last: read_entry_id(r)?,
            transfer: r.bool()?,
        },
        CODE_VOTE_REPLY => Body::VoteReply { granted: r.bool()? },
        CODE_APPEND => Body::Append(read_append(r)?),
        CODE_APPEND_DURABLE => {
            let sent_at = Time(r.u64()?);
            let outcome = AppendOutcome::Durable {
                index: LogIndex(r.u64()?),
            };
            Body::AppendReply(AppendReply { outcome, sent_at })
        }
        CODE_APPEND_PAYLOAD_MISSING => {
            let sent_at = Time(r.u64()?);
            let outcome = AppendOutcome::PayloadMissing {
                index: LogIndex(r.u64()?),
            };
            Body::AppendReply(AppendReply { outcome, sent_at })
        }
        CODE_APPEND_REJECTED => {
            let sent_at = Time(r.u64()?);
            let refused = LogIndex(r.u64()?);
            let outcome = AppendOutcome::Rejected {
                refused,
                hint: read_entry_id(r)?,
            };
            Body::AppendReply(AppendReply { outcome, sent_at })
        }
        CODE_HEARTBEAT => Body::Heartbeat {
            commit: LogIndex(r.u64()?),
            sent_at: Time(r.u64()?),
            read_round: r.u64()?,
        },
        CODE_HEARTBEAT_REPLY => {
            let (sent_at, read_round, _reserved) = (Time(r.u64()?), r.u64()?, r.u64()?);
            Body::HeartbeatReply {
                sent_at,
                read_round,
            }
        }
        CODE_COMMIT_NOTICE => Body::CommitNotice {
            commit: LogIndex(r.u64()?),
        },
        CODE_INSTALL_BASE => {
            let last = read_entry_id(r)?;
            let seqno = Seqno(r.i64()?);
            let base = LogBase {
                last,
                seqno,
                config: read_config_at(r)?,
            };
            Body::InstallBase {
                base,
                sent_at: Time(r.u64()?),
            }
        }
        CODE_TIMEOUT_NOW => Body::TimeoutNow,
        CODE_READ => Body::Read { id: r.u64()? },
        CODE_READ_REPLY => Body::ReadReply {
            id: r.u64()?,
            index: LogIndex(r.u64()?),
            seqno: Seqno(r.i64()?),
        },
        code => return Err(DecodeError::unknown("consensus message", code)),
    })
}

fn write_append(w: &mut Writer, append: &Append) -> Result<(), EncodeError> {
    w.u8(CODE_APPEND);
    write_entry_id(w, append.prev);
    w.u64(append.commit.0);
    w.u64(append.sent_at.0);
    write_entries(w, &append.entries)
}

pub(crate) fn write_entries(w: &mut Writer, entries: &[EntryHeader]) -> Result<(), EncodeError> {
    w.count("entries", entries.len(), ENTRIES_MAX)?;
    entries.iter().for_each(|entry| write_entry(w, entry));
    Ok(())
}

fn read_append(r: &mut Reader) -> Result<Append, DecodeError> {
    let prev = read_entry_id(r)?;
    let commit = LogIndex(r.u64()?);
    let sent_at = Time(r.u64()?);
    let entries = read_entries(r, Some(prev.index))?;
    Ok(Append {
        prev,
        entries,
        commit,
        sent_at,
    })
}

pub(crate) fn read_entries(
    r: &mut Reader,
    prev: Option<LogIndex>,
) -> Result<Vec<EntryHeader>, DecodeError> {
    let count = r.count("entries", ENTRY_BYTES, ENTRIES_MAX)?;
    let mut entries = Vec::with_capacity(count);
    let mut last = prev;
    for _ in 0..count {
        let entry = read_entry(r)?;
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

fn write_append_reply(w: &mut Writer, reply: &AppendReply) {
    match reply.outcome {
        AppendOutcome::Durable { index } => {
            w.u8(CODE_APPEND_DURABLE);
            w.u64(reply.sent_at.0);
            w.u64(index.0);
        }
        AppendOutcome::PayloadMissing { index } => {
            w.u8(CODE_APPEND_PAYLOAD_MISSING);
            w.u64(reply.sent_at.0);
            w.u64(index.0);
        }
        AppendOutcome::Rejected { refused, hint } => {
            w.u8(CODE_APPEND_REJECTED);
            w.u64(reply.sent_at.0);
            w.u64(refused.0);
            write_entry_id(w, hint);
        }
    }
}

fn write_entry(w: &mut Writer, entry: &EntryHeader) {
    w.u64(entry.term.0);
    w.u64(entry.index.0);
    w.i64(entry.seqno.0);
    w.u8(entry.kind as u8);
    write_origin(w, &entry.origin);
    w.i64(entry.depends_on.0);
    w.u32(entry.payload_len);
    w.u32(entry.payload_crc);
}

fn read_entry(r: &mut Reader) -> Result<EntryHeader, DecodeError> {
    Ok(EntryHeader {
        term: Term(r.u64()?),
        index: LogIndex(r.u64()?),
        seqno: Seqno(r.i64()?),
        kind: read_entry_kind(r)?,
        origin: read_origin(r)?,
        depends_on: Seqno(r.i64()?),
        payload_len: r.u32()?,
        payload_crc: r.u32()?,
    })
}

fn read_entry_kind(r: &mut Reader) -> Result<EntryKind, DecodeError> {
    let code = r.u8()?;
    EntryKind::from_code(code).ok_or(DecodeError::unknown("entry kind", code))
}

fn write_origin(w: &mut Writer, origin: &Origin) {
    w.u64(origin.member.0);
    w.u64(origin.session.0);
    w.u64(origin.number);
}

fn read_origin(r: &mut Reader) -> Result<Origin, DecodeError> {
    Ok(Origin::new(
        MemberId(r.u64()?),
        SessionId(r.u64()?),
        r.u64()?,
    ))
}

pub(crate) fn write_entry_id(w: &mut Writer, id: EntryId) {
    w.u64(id.term.0);
    w.u64(id.index.0);
}

pub(crate) fn read_entry_id(r: &mut Reader) -> Result<EntryId, DecodeError> {
    Ok(EntryId::new(Term(r.u64()?), LogIndex(r.u64()?)))
}

fn entries_with_payload(body: &Body) -> usize {
    match body {
        Body::Append(append) => append.entries.iter().filter(|e| e.payload_len > 0).count(),
        _ => 0,
    }
}

pub(crate) fn write_without_payloads(w: &mut Writer, message: &Message) -> Result<(), EncodeError> {
    let entries = entries_with_payload(&message.body);
    if entries > 0 {
        return Err(EncodeError::PayloadMismatch {
            entries,
            payloads: 0,
        });
    }
    write_message(w, message)
}

pub(crate) fn read_without_payloads(r: &mut Reader) -> Result<Message, DecodeError> {
    let message = read_message(r)?;
    match entries_with_payload(&message.body) {
        0 => Ok(message),
        count => Err(DecodeError::PayloadsMissing { count }),
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
    write_message(w, message)?;
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
    let message = read_message(r)?;
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

pub(crate) fn write_feed_order(w: &mut Writer, order: &FeedOrder) {
    w.u64(order.learner.0);
    w.u64(order.term.0);
    write_entry_id(w, order.prev);
    write_entry_id(w, order.last);
    w.bool(order.may_shorten);
    w.u64(order.commit.0);
    w.u64(order.sent_at.0);
}

pub(crate) fn read_feed_order(r: &mut Reader) -> Result<FeedOrder, DecodeError> {
    Ok(FeedOrder {
        learner: MemberId(r.u64()?),
        term: Term(r.u64()?),
        prev: read_entry_id(r)?,
        last: read_entry_id(r)?,
        may_shorten: r.bool()?,
        commit: LogIndex(r.u64()?),
        sent_at: Time(r.u64()?),
    })
}

pub(crate) fn write_propose(w: &mut Writer, propose: &Propose) {
    w.u64(propose.tag.0);
    write_origin(w, &propose.origin);
    w.u8(propose.kind as u8);
    w.u64(propose.oldest_outstanding);
    w.payload(&propose.payload);
}

pub(crate) fn read_propose(r: &mut Reader) -> Result<Propose, DecodeError> {
    let tag = Term(r.u64()?);
    let origin = read_origin(r)?;
    let kind = read_entry_kind(r)?;
    if !matches!(kind, EntryKind::Action | EntryKind::Chunk) {
        return Err(DecodeError::UnknownCode {
            what: "proposed kind",
            code: kind as u8,
        });
    }
    let oldest_outstanding = r.u64()?;
    Ok(Propose {
        tag,
        origin,
        kind,
        oldest_outstanding,
        payload: r.take_rest(),
    })
}

pub(crate) fn write_proposal_refusal(w: &mut Writer, reason: ProposalRefusal) {
    match reason {
        ProposalRefusal::Conflict { with } => {
            w.u8(0);
            w.i64(with.0);
        }
        ProposalRefusal::TooOld => w.u8(1),
        ProposalRefusal::Malformed => w.u8(2),
        ProposalRefusal::GivenUp => w.u8(3),
        ProposalRefusal::NotWriter => w.u8(4),
    }
}

pub(crate) fn read_proposal_refusal(r: &mut Reader) -> Result<ProposalRefusal, DecodeError> {
    Ok(match r.u8()? {
        0 => ProposalRefusal::Conflict {
            with: Seqno(r.i64()?),
        },
        1 => ProposalRefusal::TooOld,
        2 => ProposalRefusal::Malformed,
        3 => ProposalRefusal::GivenUp,
        4 => ProposalRefusal::NotWriter,
        code => return Err(DecodeError::unknown("refusal of a proposal", code)),
    })
}
