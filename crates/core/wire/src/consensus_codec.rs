//! Messages of the consensus cores as bytes: from, to, term, and a body by its code.
//!
//! Codes and field order are part of the wire format. What contradicts itself, such as an append
//! whose indexes do not follow each other, is refused here, before the core sees it.

use synod_consensus::{
    Append, AppendOutcome, AppendReply, Body, EntryHeader, EntryId, EntryKind, LogBase, LogIndex,
    MemberId, Message, Origin, Seqno, SessionId, Term, Time,
};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::member_codec::{read_config_at, write_config_at};
use crate::version::{VERSION_2, VERSION_3};

/// Bytes of an entry header.
const ENTRY_BYTES: usize = 65;
/// Value of a field without meaning: programs of version 2 read here for how long the sender of a
/// heartbeat's reply votes for no other leader.
const RESERVED: u64 = 0;
/// Most entries in one append.
const ENTRIES_MAX: u32 = 1 << 20;

/// First byte of a body.
mod code {
    pub(super) const PRE_VOTE: u8 = 1;
    pub(super) const PRE_VOTE_REPLY: u8 = 2;
    pub(super) const VOTE: u8 = 3;
    pub(super) const VOTE_REPLY: u8 = 4;
    pub(super) const APPEND: u8 = 5;
    pub(super) const APPEND_DURABLE: u8 = 6;
    pub(super) const APPEND_REJECTED: u8 = 7;
    pub(super) const HEARTBEAT: u8 = 8;
    pub(super) const HEARTBEAT_REPLY: u8 = 9;
    pub(super) const INSTALL_BASE: u8 = 10;
    pub(super) const TIMEOUT_NOW: u8 = 11;
    pub(super) const READ: u8 = 12;
    pub(super) const READ_REPLY: u8 = 13;
    pub(super) const COMMIT_NOTICE: u8 = 14;
    pub(super) const APPEND_PAYLOAD_MISSING: u8 = 15;
}

pub(crate) fn write_message(w: &mut Writer, message: &Message) -> Result<(), EncodeError> {
    w.u64(message.from.0);
    w.u64(message.to.0);
    w.u64(message.term.0);
    write_body(w, &message.body)
}

pub(crate) fn read_message(r: &mut Reader) -> Result<Message, DecodeError> {
    Ok(Message {
        from: MemberId(r.u64()?),
        to: MemberId(r.u64()?),
        term: Term(r.u64()?),
        body: read_body(r)?,
    })
}

fn write_body(w: &mut Writer, body: &Body) -> Result<(), EncodeError> {
    match body {
        Body::PreVote { last } => {
            w.u8(code::PRE_VOTE);
            write_entry_id(w, *last);
        }
        Body::PreVoteReply { granted } => {
            w.u8(code::PRE_VOTE_REPLY);
            w.bool(*granted);
        }
        Body::Vote { last, transfer } => {
            w.u8(code::VOTE);
            write_entry_id(w, *last);
            w.bool(*transfer);
        }
        Body::VoteReply { granted } => {
            w.u8(code::VOTE_REPLY);
            w.bool(*granted);
        }
        Body::Append(append) => write_append(w, append)?,
        Body::AppendReply(reply) => write_append_reply(w, reply),
        Body::Heartbeat {
            commit,
            sent_at,
            read_round,
        } => write_heartbeat(w, *commit, *sent_at, *read_round),
        Body::HeartbeatReply {
            sent_at,
            read_round,
        } => {
            w.u8(code::HEARTBEAT_REPLY);
            w.u64(sent_at.0);
            w.u64(*read_round);
            if w.version() >= VERSION_2 {
                w.u64(RESERVED);
            }
        }
        Body::CommitNotice { commit } if w.version() >= VERSION_3 => {
            w.u8(code::COMMIT_NOTICE);
            w.u64(commit.0);
        }
        // Older programs know no notice. The answer to a heartbeat of time zero confirms no round
        // of reads.
        Body::CommitNotice { commit } => write_heartbeat(w, *commit, Time(0), 0),
        Body::InstallBase { base, sent_at } => {
            w.u8(code::INSTALL_BASE);
            write_entry_id(w, base.last);
            w.i64(base.seqno.0);
            write_config_at(w, &base.config)?;
            w.u64(sent_at.0);
        }
        Body::TimeoutNow => w.u8(code::TIMEOUT_NOW),
        Body::Read { id } => {
            w.u8(code::READ);
            w.u64(*id);
        }
        Body::ReadReply { id, index, seqno } => {
            w.u8(code::READ_REPLY);
            w.u64(*id);
            w.u64(index.0);
            w.i64(seqno.0);
        }
    }
    Ok(())
}

fn read_body(r: &mut Reader) -> Result<Body, DecodeError> {
    Ok(match r.u8()? {
        code::PRE_VOTE => Body::PreVote {
            last: read_entry_id(r)?,
        },
        code::PRE_VOTE_REPLY => Body::PreVoteReply { granted: r.bool()? },
        code::VOTE => Body::Vote {
            last: read_entry_id(r)?,
            transfer: r.bool()?,
        },
        code::VOTE_REPLY => Body::VoteReply { granted: r.bool()? },
        code::APPEND => Body::Append(read_append(r)?),
        code::APPEND_DURABLE => {
            let sent_at = Time(r.u64()?);
            let outcome = AppendOutcome::Durable {
                index: LogIndex(r.u64()?),
            };
            Body::AppendReply(AppendReply { outcome, sent_at })
        }
        code::APPEND_PAYLOAD_MISSING if r.version() >= VERSION_3 => {
            let sent_at = Time(r.u64()?);
            let outcome = AppendOutcome::PayloadMissing {
                index: LogIndex(r.u64()?),
            };
            Body::AppendReply(AppendReply { outcome, sent_at })
        }
        code::APPEND_REJECTED => {
            let sent_at = Time(r.u64()?);
            let refused = LogIndex(r.u64()?);
            let outcome = AppendOutcome::Rejected {
                refused,
                hint: read_entry_id(r)?,
            };
            Body::AppendReply(AppendReply { outcome, sent_at })
        }
        code::HEARTBEAT => Body::Heartbeat {
            commit: LogIndex(r.u64()?),
            sent_at: Time(r.u64()?),
            read_round: r.u64()?,
        },
        code::HEARTBEAT_REPLY => Body::HeartbeatReply {
            sent_at: Time(r.u64()?),
            read_round: read_before_reserved(r)?,
        },
        code::COMMIT_NOTICE if r.version() >= VERSION_3 => Body::CommitNotice {
            commit: LogIndex(r.u64()?),
        },
        code::INSTALL_BASE => {
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
        code::TIMEOUT_NOW => Body::TimeoutNow,
        code::READ => Body::Read { id: r.u64()? },
        code::READ_REPLY => Body::ReadReply {
            id: r.u64()?,
            index: LogIndex(r.u64()?),
            seqno: Seqno(r.i64()?),
        },
        code => {
            return Err(DecodeError::UnknownCode {
                what: "consensus message",
                code,
            });
        }
    })
}

/// Reads the round of a heartbeat's reply, and the reserved field that follows from version 2 on.
fn read_before_reserved(r: &mut Reader) -> Result<u64, DecodeError> {
    let round = r.u64()?;
    if r.version() >= VERSION_2 {
        r.u64()?;
    }
    Ok(round)
}

fn write_heartbeat(w: &mut Writer, commit: LogIndex, sent_at: Time, read_round: u64) {
    w.u8(code::HEARTBEAT);
    w.u64(commit.0);
    w.u64(sent_at.0);
    w.u64(read_round);
}

fn write_append(w: &mut Writer, append: &Append) -> Result<(), EncodeError> {
    w.u8(code::APPEND);
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

/// Entries that follow one another, and `prev` if there is one.
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
            w.u8(code::APPEND_DURABLE);
            w.u64(reply.sent_at.0);
            w.u64(index.0);
        }
        AppendOutcome::PayloadMissing { index } => {
            w.u8(code::APPEND_PAYLOAD_MISSING);
            w.u64(reply.sent_at.0);
            w.u64(index.0);
        }
        AppendOutcome::Rejected { refused, hint } => {
            w.u8(code::APPEND_REJECTED);
            w.u64(reply.sent_at.0);
            w.u64(refused.0);
            write_entry_id(w, hint);
        }
    }
}

/// [`ENTRY_BYTES`] bytes.
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

pub(crate) fn read_entry_kind(r: &mut Reader) -> Result<EntryKind, DecodeError> {
    let code = r.u8()?;
    EntryKind::from_code(code).ok_or(DecodeError::UnknownCode {
        what: "entry kind",
        code,
    })
}

pub(crate) fn write_origin(w: &mut Writer, origin: &Origin) {
    w.u64(origin.member.0);
    w.u64(origin.session.0);
    w.u64(origin.number);
}

pub(crate) fn read_origin(r: &mut Reader) -> Result<Origin, DecodeError> {
    Ok(Origin {
        member: MemberId(r.u64()?),
        session: SessionId(r.u64()?),
        number: r.u64()?,
    })
}

pub(crate) fn write_entry_id(w: &mut Writer, id: EntryId) {
    w.u64(id.term.0);
    w.u64(id.index.0);
}

pub(crate) fn read_entry_id(r: &mut Reader) -> Result<EntryId, DecodeError> {
    Ok(EntryId {
        term: Term(r.u64()?),
        index: LogIndex(r.u64()?),
    })
}
