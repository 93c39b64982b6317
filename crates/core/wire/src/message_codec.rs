//! [`PeerMessage`] as frames: a kind per message, and the fields of each in order.
//!
//! Kinds, codes and field order are part of the wire format. Large payloads stay segments of their
//! own in both directions, so they are never copied.

use bytes::Bytes;
use synod_consensus::{
    Append, Body, EntryHeader, EntryKind, GroupId, LeaderWeight, LogIndex, MemberId, Message,
    Seqno, SessionId, Term, Time, VersionRange,
};

use crate::codec::{Reader, Writer};
use crate::command_codec::{read_answer, read_command, write_answer, write_command};
use crate::consensus_codec::{
    read_entry_id, read_entry_kind, read_message, read_origin, write_entry_id, write_message,
    write_origin,
};
use crate::error::{DecodeError, EncodeError};
use crate::fetch_codec::{
    read_fetch_answer, read_fetch_request, write_fetch_answer, write_fetch_request,
};
use crate::frame::{self, Frame};
use crate::member_codec::{
    MEMBERS_MAX, NAME_MAX, read_certificate, read_writers, write_certificate, write_writers,
};
use crate::message::{
    AppliedPosition, DataState, FeedOrder, HeardMember, IntroducedMember, Introduction, Join,
    JoinRefusal, JoinReply, MemberLag, OutcomeReport, PaceReport, PeerMessage, PresenceReport,
    ProposalRefusal, Propose, Report, StateOffer, StateRequest, StateResult, StatusBroadcast,
};
use crate::region::Region;
use crate::survivor_codec::{read_survivor, write_survivor};
use crate::version::{
    NEXT_MARK, OUR_VERSIONS, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_NEXT,
};

/// Frame kinds from 16 on are messages; those below belong to the handshake.
mod kind {
    pub(super) const CONSENSUS: u8 = 16;
    pub(super) const APPEND: u8 = 17;
    pub(super) const PROPOSE: u8 = 18;
    pub(super) const PROPOSAL_REFUSED: u8 = 19;
    pub(super) const JOIN: u8 = 20;
    pub(super) const JOIN_REPLY: u8 = 21;
    pub(super) const LEAVE: u8 = 22;
    pub(super) const LEAVE_REPLY: u8 = 23;
    pub(super) const REPORT: u8 = 24;
    pub(super) const STATUS: u8 = 25;
    pub(super) const STATE_REQUEST: u8 = 26;
    pub(super) const STATE_OFFER: u8 = 27;
    pub(super) const STATE_RESULT: u8 = 28;
    pub(super) const OUTCOME_REPORT: u8 = 29;
    pub(super) const OUTCOME_QUERY: u8 = 30;
    pub(super) const INTRODUCTION: u8 = 31;
    pub(super) const APPLIED_POSITION: u8 = 32;
    pub(super) const PACE: u8 = 33;
    pub(super) const APPLIED_QUERY: u8 = 34;
    pub(super) const COMMAND: u8 = 35;
    pub(super) const COMMAND_ANSWER: u8 = 36;
    pub(super) const VOTE_ORDER: u8 = 37;
    pub(super) const WRITERS_ORDER: u8 = 38;
    pub(super) const WRITERS_REFUSED: u8 = 39;
    pub(super) const SURVIVOR: u8 = 40;
    pub(super) const FEED: u8 = 41;
    pub(super) const FED: u8 = 42;
    pub(super) const PING: u8 = 43;
    pub(super) const PONG: u8 = 44;
    pub(super) const FETCH: u8 = 45;
    pub(super) const FETCHED: u8 = 46;
    pub(super) const PRESENCE: u8 = 47;
}

/// Bytes of a [`Report`] with an empty address.
const REPORT_BYTES_MIN: usize = 8 + 8 + 1 + 8 + 2 + 4 + 1;
/// Bytes of an [`IntroducedMember`] without address and certificate.
const INTRODUCED_BYTES_MIN: usize = 8 + 2 + 1;
/// Bytes of a [`MemberLag`].
const MEMBER_LAG_BYTES: usize = 8 + 8 + 8;
/// Bytes of a [`HeardMember`].
const HEARD_MEMBER_BYTES: usize = 8 + 8;
/// Bytes of an empty string.
const STRING_BYTES_MIN: usize = 2;

impl PeerMessage {
    /// The kind of the frame that carries this message.
    pub fn kind(&self) -> u8 {
        match self {
            PeerMessage::Consensus(_) => kind::CONSENSUS,
            PeerMessage::Append { .. } => kind::APPEND,
            PeerMessage::Propose(_) => kind::PROPOSE,
            PeerMessage::ProposalRefused { .. } => kind::PROPOSAL_REFUSED,
            PeerMessage::Join(_) => kind::JOIN,
            PeerMessage::JoinReply(_) => kind::JOIN_REPLY,
            PeerMessage::Leave { .. } => kind::LEAVE,
            PeerMessage::LeaveReply => kind::LEAVE_REPLY,
            PeerMessage::Report(_) => kind::REPORT,
            PeerMessage::Status(_) => kind::STATUS,
            PeerMessage::StateRequest(_) => kind::STATE_REQUEST,
            PeerMessage::StateOffer(_) => kind::STATE_OFFER,
            PeerMessage::StateResult(_) => kind::STATE_RESULT,
            PeerMessage::OutcomeReport(_) => kind::OUTCOME_REPORT,
            PeerMessage::OutcomeQuery { .. } => kind::OUTCOME_QUERY,
            PeerMessage::Introduction(_) => kind::INTRODUCTION,
            PeerMessage::AppliedPosition(_) => kind::APPLIED_POSITION,
            PeerMessage::Pace(_) => kind::PACE,
            PeerMessage::Presence(_) => kind::PRESENCE,
            PeerMessage::AppliedQuery { .. } => kind::APPLIED_QUERY,
            PeerMessage::Command { .. } => kind::COMMAND,
            PeerMessage::CommandAnswer { .. } => kind::COMMAND_ANSWER,
            PeerMessage::VoteOrder { .. } => kind::VOTE_ORDER,
            PeerMessage::WritersOrder { .. } => kind::WRITERS_ORDER,
            PeerMessage::WritersRefused { .. } => kind::WRITERS_REFUSED,
            PeerMessage::Survivor(_) => kind::SURVIVOR,
            PeerMessage::Feed(_) => kind::FEED,
            PeerMessage::Fed { .. } => kind::FED,
            PeerMessage::Ping { .. } => kind::PING,
            PeerMessage::Pong { .. } => kind::PONG,
            PeerMessage::Fetch(_) => kind::FETCH,
            PeerMessage::Fetched(_) => kind::FETCHED,
        }
    }

    /// Appends the message's frame, header included, to `out`. Large payloads become segments of
    /// their own and share memory with the message.
    ///
    /// # Errors
    /// If the version is unknown or has no such message, a name, address or list is too long, or
    /// payloads and entries do not fit. `out` is then as before.
    pub fn encode(&self, version: u16, out: &mut Vec<Bytes>) -> Result<(), EncodeError> {
        if !OUR_VERSIONS.contains(version) {
            return Err(EncodeError::UnknownVersion { version });
        }
        if !self.is_carried_by(version) {
            let kind = self.kind();
            return Err(EncodeError::NotInVersion { kind, version });
        }
        let mut w = Writer::of_version(version);
        write_peer_message(&mut w, self)?;
        let segments = w.into_segments();
        let bytes: usize = segments.iter().map(|s| s.as_slice().len()).sum();
        let max = u32::MAX as usize;
        let too_long = EncodeError::TooLong {
            what: "message",
            len: bytes,
            max,
        };
        let len = u32::try_from(bytes).map_err(|_| too_long)?;
        let header = frame::header(self.kind(), 0, len, segments.iter().map(|s| s.as_slice()));
        out.push(Bytes::copy_from_slice(&header));
        out.extend(segments.into_iter().map(|segment| segment.freeze()));
        Ok(())
    }

    /// Reads the message in a frame. Payloads share the frame's memory.
    ///
    /// # Errors
    /// If the body is not exactly one message of the frame's kind.
    pub fn decode(version: u16, frame: Frame) -> Result<PeerMessage, DecodeError> {
        if !OUR_VERSIONS.contains(version) {
            return Err(DecodeError::UnknownVersion { version });
        }
        let mut r = Reader::of_version(version, frame.body);
        let message = read_peer_message(&mut r, frame.kind)?;
        r.finish()?;
        Ok(message)
    }
}

fn write_peer_message(w: &mut Writer, message: &PeerMessage) -> Result<(), EncodeError> {
    match message {
        PeerMessage::Consensus(message) => write_without_payloads(w, message)?,
        PeerMessage::Append { message, payloads } | PeerMessage::Fed { message, payloads } => {
            write_with_payloads(w, message, payloads)?;
        }
        PeerMessage::Propose(propose) => write_propose(w, propose),
        PeerMessage::ProposalRefused {
            term,
            session,
            number,
            reason,
        } => {
            w.u64(term.0);
            w.u64(session.0);
            w.u64(*number);
            write_proposal_refusal(w, *reason);
        }
        PeerMessage::Join(join) => write_join(w, join)?,
        PeerMessage::JoinReply(reply) => write_join_reply(w, reply)?,
        PeerMessage::Leave { session } | PeerMessage::AppliedQuery { session } => w.u64(session.0),
        PeerMessage::LeaveReply => {}
        PeerMessage::Report(report) => write_report(w, report)?,
        PeerMessage::Status(status) => {
            w.u64(status.term.0);
            w.count("reports", status.members.len(), MEMBERS_MAX)?;
            status
                .members
                .iter()
                .try_for_each(|report| write_report(w, report))?;
            w.u64(status.purge_limit.0);
            if w.version() >= VERSION_5 {
                w.u64(status.commit.0);
            }
        }
        PeerMessage::StateRequest(request) => write_state_request(w, request)?,
        PeerMessage::StateOffer(offer) => {
            w.u64(offer.id);
            w.u64(offer.donor.0);
            w.bool(offer.accepted);
            w.text(&offer.text);
        }
        PeerMessage::StateResult(result) => {
            w.u64(result.id);
            w.bool(result.ok);
            w.i32(result.code);
            w.i64(result.seqno.0);
            w.text(&result.text);
        }
        PeerMessage::OutcomeReport(report) => {
            w.u64(report.session.0);
            w.i64(report.seqno.0);
            w.u64(report.outcome);
        }
        PeerMessage::OutcomeQuery { term, seqno } => {
            w.u64(term.0);
            w.i64(seqno.0);
        }
        PeerMessage::Introduction(introduction) => write_introduction(w, introduction)?,
        PeerMessage::AppliedPosition(position) => write_applied_position(w, position),
        PeerMessage::Pace(pace) => write_pace(w, pace)?,
        PeerMessage::Presence(presence) => write_presence(w, presence)?,
        PeerMessage::Command {
            session,
            number,
            command,
        } => {
            w.u64(session.0);
            w.u64(*number);
            write_command(w, command)?;
        }
        PeerMessage::CommandAnswer {
            session,
            number,
            answer,
        } => {
            w.u64(session.0);
            w.u64(*number);
            write_answer(w, answer)?;
        }
        PeerMessage::VoteOrder { votes } => w.bool(*votes),
        PeerMessage::WritersOrder { writers } => write_writers(w, *writers),
        PeerMessage::WritersRefused { writers, text } => {
            write_writers(w, *writers);
            w.text(text);
        }
        PeerMessage::Survivor(report) => write_survivor(w, report),
        PeerMessage::Feed(order) => write_feed_order(w, order),
        PeerMessage::Ping { number } => w.u64(*number),
        PeerMessage::Pong { number, wall_us } => {
            w.u64(*number);
            w.u64(*wall_us);
        }
        PeerMessage::Fetch(request) => write_fetch_request(w, request),
        PeerMessage::Fetched(answer) => write_fetch_answer(w, answer)?,
    }
    Ok(())
}

fn read_peer_message(r: &mut Reader, kind: u8) -> Result<PeerMessage, DecodeError> {
    Ok(match kind {
        kind::CONSENSUS => PeerMessage::Consensus(read_without_payloads(r)?),
        kind::APPEND => {
            let (message, payloads) = read_with_payloads(r)?;
            PeerMessage::Append { message, payloads }
        }
        kind::PROPOSE => PeerMessage::Propose(read_propose(r)?),
        kind::PROPOSAL_REFUSED => PeerMessage::ProposalRefused {
            term: Term(r.u64()?),
            session: SessionId(r.u64()?),
            number: r.u64()?,
            reason: read_proposal_refusal(r)?,
        },
        kind::JOIN => PeerMessage::Join(read_join(r)?),
        kind::JOIN_REPLY => PeerMessage::JoinReply(read_join_reply(r)?),
        kind::LEAVE => PeerMessage::Leave {
            session: SessionId(r.u64()?),
        },
        kind::LEAVE_REPLY => PeerMessage::LeaveReply,
        kind::REPORT => PeerMessage::Report(read_report(r)?),
        kind::STATUS => PeerMessage::Status(read_status(r)?),
        kind::STATE_REQUEST => PeerMessage::StateRequest(read_state_request(r)?),
        kind::STATE_OFFER => PeerMessage::StateOffer(StateOffer {
            id: r.u64()?,
            donor: MemberId(r.u64()?),
            accepted: r.bool()?,
            text: r.text()?,
        }),
        kind::STATE_RESULT => PeerMessage::StateResult(StateResult {
            id: r.u64()?,
            ok: r.bool()?,
            code: r.i32()?,
            seqno: Seqno(r.i64()?),
            text: r.text()?,
        }),
        kind::OUTCOME_REPORT => PeerMessage::OutcomeReport(OutcomeReport {
            session: SessionId(r.u64()?),
            seqno: Seqno(r.i64()?),
            outcome: r.u64()?,
        }),
        kind::OUTCOME_QUERY => PeerMessage::OutcomeQuery {
            term: Term(r.u64()?),
            seqno: Seqno(r.i64()?),
        },
        kind::APPLIED_POSITION if r.version() >= VERSION_3 => {
            PeerMessage::AppliedPosition(read_applied_position(r)?)
        }
        kind::PACE if r.version() >= VERSION_3 => PeerMessage::Pace(read_pace(r)?),
        kind::PRESENCE if r.version() >= VERSION_5 => PeerMessage::Presence(read_presence(r)?),
        kind::APPLIED_QUERY if r.version() >= VERSION_4 => PeerMessage::AppliedQuery {
            session: SessionId(r.u64()?),
        },
        kind::COMMAND if r.version() >= VERSION_5 => PeerMessage::Command {
            session: SessionId(r.u64()?),
            number: r.u64()?,
            command: read_command(r)?,
        },
        kind::COMMAND_ANSWER if r.version() >= VERSION_5 => PeerMessage::CommandAnswer {
            session: SessionId(r.u64()?),
            number: r.u64()?,
            answer: read_answer(r)?,
        },
        kind::VOTE_ORDER if r.version() >= VERSION_5 => PeerMessage::VoteOrder { votes: r.bool()? },
        kind::WRITERS_ORDER if r.version() >= VERSION_5 => PeerMessage::WritersOrder {
            writers: read_writers(r)?,
        },
        kind::WRITERS_REFUSED if r.version() >= VERSION_5 => PeerMessage::WritersRefused {
            writers: read_writers(r)?,
            text: r.text()?,
        },
        kind::SURVIVOR if r.version() >= VERSION_5 => PeerMessage::Survivor(read_survivor(r)?),
        kind::FEED if r.version() >= VERSION_5 => PeerMessage::Feed(read_feed_order(r)?),
        kind::FED if r.version() >= VERSION_5 => {
            let (message, payloads) = read_with_payloads(r)?;
            PeerMessage::Fed { message, payloads }
        }
        kind::PING if r.version() >= VERSION_5 => PeerMessage::Ping { number: r.u64()? },
        kind::PONG if r.version() >= VERSION_5 => PeerMessage::Pong {
            number: r.u64()?,
            wall_us: r.u64()?,
        },
        kind::FETCH if r.version() >= VERSION_5 => PeerMessage::Fetch(read_fetch_request(r)?),
        kind::FETCHED if r.version() >= VERSION_5 => PeerMessage::Fetched(read_fetch_answer(r)?),
        kind::INTRODUCTION if r.version() >= VERSION_2 => {
            PeerMessage::Introduction(read_introduction(r)?)
        }
        code => {
            return Err(DecodeError::UnknownCode {
                what: "message",
                code,
            });
        }
    })
}

/// Number of entries in a message whose payloads have to come with it.
fn entries_with_payload(body: &Body) -> usize {
    match body {
        Body::Append(append) => append.entries.iter().filter(|e| e.payload_len > 0).count(),
        _ => 0,
    }
}

fn write_without_payloads(w: &mut Writer, message: &Message) -> Result<(), EncodeError> {
    let entries = entries_with_payload(&message.body);
    if entries > 0 {
        return Err(EncodeError::PayloadMismatch {
            entries,
            payloads: 0,
        });
    }
    write_message(w, message)
}

fn read_without_payloads(r: &mut Reader) -> Result<Message, DecodeError> {
    let message = read_message(r)?;
    match entries_with_payload(&message.body) {
        0 => Ok(message),
        count => Err(DecodeError::PayloadsMissing { count }),
    }
}

/// The message, then the payloads one after another; their lengths are in the entry headers. Since
/// version 3 a bit for each entry says before the payloads whether its payload is left out.
fn write_with_payloads(
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
    if w.version() >= VERSION_3 {
        write_left_out(w, payloads);
    }
    payloads
        .iter()
        .flatten()
        .for_each(|payload| w.payload(payload));
}

fn read_with_payloads(r: &mut Reader) -> Result<(Message, Vec<Option<Bytes>>), DecodeError> {
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
    let left_out = if r.version() >= VERSION_3 {
        read_left_out(r, entries.len())?
    } else {
        vec![false; entries.len()]
    };
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
            return Err(DecodeError::UnknownCode {
                what: "payloads left out",
                code: byte,
            });
        }
        left_out.extend((0..bits).map(|bit| byte >> bit & 1 == 1));
    }
    Ok(left_out)
}

fn write_feed_order(w: &mut Writer, order: &FeedOrder) {
    w.u64(order.learner.0);
    w.u64(order.term.0);
    write_entry_id(w, order.prev);
    write_entry_id(w, order.last);
    w.bool(order.may_shorten);
    w.u64(order.commit.0);
    w.u64(order.sent_at.0);
}

fn read_feed_order(r: &mut Reader) -> Result<FeedOrder, DecodeError> {
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

fn write_propose(w: &mut Writer, propose: &Propose) {
    w.u64(propose.tag.0);
    write_origin(w, &propose.origin);
    w.u8(propose.kind as u8);
    w.u64(propose.oldest_outstanding);
    w.payload(&propose.payload);
}

fn read_propose(r: &mut Reader) -> Result<Propose, DecodeError> {
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

fn write_proposal_refusal(w: &mut Writer, reason: ProposalRefusal) {
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

fn read_proposal_refusal(r: &mut Reader) -> Result<ProposalRefusal, DecodeError> {
    Ok(match r.u8()? {
        0 => ProposalRefusal::Conflict {
            with: Seqno(r.i64()?),
        },
        1 => ProposalRefusal::TooOld,
        2 => ProposalRefusal::Malformed,
        3 => ProposalRefusal::GivenUp,
        4 if r.version() >= VERSION_5 => ProposalRefusal::NotWriter,
        code => {
            return Err(DecodeError::UnknownCode {
                what: "refusal of a proposal",
                code,
            });
        }
    })
}

fn write_join(w: &mut Writer, join: &Join) -> Result<(), EncodeError> {
    w.u64(join.session.0);
    w.string("name", &join.name, NAME_MAX)?;
    w.string("address", &join.address, NAME_MAX)?;
    w.string("client address", &join.incoming, NAME_MAX)?;
    w.bool(join.has_data);
    w.bytes(&join.group.0);
    w.bytes(&join.db_group.0);
    w.i64(join.db_seqno.0);
    write_entry_id(w, join.last);
    w.u16(join.versions.min);
    w.u16(join.versions.max);
    if w.version() >= VERSION_5 {
        w.bool(join.has_joined);
    }
    Ok(())
}

fn read_join(r: &mut Reader) -> Result<Join, DecodeError> {
    Ok(Join {
        session: SessionId(r.u64()?),
        name: r.string("name", NAME_MAX)?,
        address: r.string("address", NAME_MAX)?,
        incoming: r.string("client address", NAME_MAX)?,
        has_data: r.bool()?,
        group: GroupId(r.array()?),
        db_group: GroupId(r.array()?),
        db_seqno: Seqno(r.i64()?),
        last: read_entry_id(r)?,
        versions: VersionRange {
            min: r.u16()?,
            max: r.u16()?,
        },
        has_joined: r.version() >= VERSION_5 && r.bool()?,
    })
}

fn write_join_reply(w: &mut Writer, reply: &JoinReply) -> Result<(), EncodeError> {
    match reply {
        JoinReply::Accepted { group } => {
            w.u8(0);
            w.bytes(&group.0);
        }
        JoinReply::NotLeader { leader } => {
            w.u8(1);
            w.bool(leader.is_some());
            if let Some((member, address)) = leader {
                w.u64(member.0);
                w.string("address", address, NAME_MAX)?;
            }
        }
        JoinReply::Refused { reason, text } => {
            w.u8(2);
            w.u8(*reason as u8);
            w.text(text);
        }
        JoinReply::Retry { text } => {
            w.u8(3);
            w.text(text);
        }
    }
    Ok(())
}

fn read_join_reply(r: &mut Reader) -> Result<JoinReply, DecodeError> {
    Ok(match r.u8()? {
        0 => JoinReply::Accepted {
            group: GroupId(r.array()?),
        },
        1 => {
            let leader = if r.bool()? {
                Some((MemberId(r.u64()?), r.string("address", NAME_MAX)?))
            } else {
                None
            };
            JoinReply::NotLeader { leader }
        }
        2 => JoinReply::Refused {
            reason: read_join_refusal(r)?,
            text: r.text()?,
        },
        3 => JoinReply::Retry { text: r.text()? },
        code => {
            return Err(DecodeError::UnknownCode {
                what: "answer to a join",
                code,
            });
        }
    })
}

fn read_join_refusal(r: &mut Reader) -> Result<JoinRefusal, DecodeError> {
    Ok(match r.u8()? {
        0 => JoinRefusal::WrongGroup,
        1 => JoinRefusal::NameTaken,
        2 => JoinRefusal::UnknownVersion,
        3 => JoinRefusal::GroupFull,
        4 => JoinRefusal::CertificateMismatch,
        5 if r.version() >= VERSION_5 => JoinRefusal::Removed,
        code => {
            return Err(DecodeError::UnknownCode {
                what: "refusal of a join",
                code,
            });
        }
    })
}

fn write_report(w: &mut Writer, report: &Report) -> Result<(), EncodeError> {
    w.u64(report.member.0);
    w.u64(report.session.0);
    w.u8(report.state as u8);
    w.i64(report.applied.0);
    w.i64(report.seen.0);
    w.i64(report.db_flushed.0);
    w.string("client address", &report.incoming, NAME_MAX)?;
    w.u32(report.queue);
    w.u8(report.weight.get());
    w.bool(report.wants_vote);
    if w.version() >= VERSION_5 {
        w.u32(report.log_format);
        let region = report.region.as_ref().map_or("", Region::as_str);
        w.string("region", region, Region::LENGTH_MAX)?;
    }
    if w.version() >= VERSION_NEXT {
        w.u8(NEXT_MARK);
    }
    Ok(())
}

fn read_report(r: &mut Reader) -> Result<Report, DecodeError> {
    let report = Report {
        member: MemberId(r.u64()?),
        session: SessionId(r.u64()?),
        state: read_data_state(r)?,
        applied: Seqno(r.i64()?),
        seen: Seqno(r.i64()?),
        db_flushed: Seqno(r.i64()?),
        incoming: r.string("client address", NAME_MAX)?,
        queue: r.u32()?,
        weight: read_leader_weight(r)?,
        wants_vote: r.bool()?,
        log_format: if r.version() >= VERSION_5 {
            r.u32()?
        } else {
            0
        },
        region: read_region(r)?,
    };
    if r.version() >= VERSION_NEXT {
        read_next_mark(r)?;
    }
    Ok(report)
}

fn read_next_mark(r: &mut Reader) -> Result<(), DecodeError> {
    match r.u8()? {
        NEXT_MARK => Ok(()),
        code => Err(DecodeError::UnknownCode {
            what: "mark of the next version",
            code,
        }),
    }
}

/// None if the text is empty, and in versions that have no regions.
fn read_region(r: &mut Reader) -> Result<Option<Region>, DecodeError> {
    if r.version() < VERSION_5 {
        return Ok(None);
    }
    let name = r.string("region", Region::LENGTH_MAX)?;
    match name.as_str() {
        "" => Ok(None),
        name => Ok(Some(name.parse()?)),
    }
}

pub(crate) fn read_leader_weight(r: &mut Reader) -> Result<LeaderWeight, DecodeError> {
    let code = r.u8()?;
    LeaderWeight::new(code).ok_or(DecodeError::UnknownCode {
        what: "leader weight",
        code,
    })
}

fn read_data_state(r: &mut Reader) -> Result<DataState, DecodeError> {
    Ok(match r.u8()? {
        0 => DataState::Disconnected,
        1 => DataState::Joining,
        2 => DataState::Donor,
        3 => DataState::Joined,
        4 => DataState::Synced,
        5 => DataState::Error,
        code => {
            return Err(DecodeError::UnknownCode {
                what: "database state",
                code,
            });
        }
    })
}

fn read_status(r: &mut Reader) -> Result<StatusBroadcast, DecodeError> {
    let term = Term(r.u64()?);
    let count = r.count("reports", REPORT_BYTES_MIN, MEMBERS_MAX)?;
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        members.push(read_report(r)?);
    }
    let purge_limit = LogIndex(r.u64()?);
    let commit = if r.version() >= VERSION_5 {
        LogIndex(r.u64()?)
    } else {
        LogIndex(0)
    };
    Ok(StatusBroadcast {
        term,
        members,
        purge_limit,
        commit,
    })
}

fn write_state_request(w: &mut Writer, request: &StateRequest) -> Result<(), EncodeError> {
    w.u64(request.id);
    w.u64(request.joiner.0);
    w.u64(request.session.0);
    w.i64(request.after.0);
    write_strings(w, "preferred donors", &request.preferred)?;
    w.bool(request.any_donor);
    w.payload(&request.request);
    Ok(())
}

fn read_state_request(r: &mut Reader) -> Result<StateRequest, DecodeError> {
    Ok(StateRequest {
        id: r.u64()?,
        joiner: MemberId(r.u64()?),
        session: SessionId(r.u64()?),
        after: Seqno(r.i64()?),
        preferred: read_strings(r, "preferred donors")?,
        any_donor: r.bool()?,
        request: r.take_rest(),
    })
}

fn write_applied_position(w: &mut Writer, position: &AppliedPosition) {
    w.u64(position.session.0);
    w.u8(position.state as u8);
    w.i64(position.left.0);
    w.i64(position.released.0);
    w.u64(position.lag_us);
}

fn read_applied_position(r: &mut Reader) -> Result<AppliedPosition, DecodeError> {
    Ok(AppliedPosition {
        session: SessionId(r.u64()?),
        state: read_data_state(r)?,
        left: Seqno(r.i64()?),
        released: Seqno(r.i64()?),
        lag_us: r.u64()?,
    })
}

fn write_pace(w: &mut Writer, pace: &PaceReport) -> Result<(), EncodeError> {
    w.u64(pace.term.0);
    w.u64(pace.rate);
    w.u64(pace.paused_us);
    w.u64(pace.pauses);
    w.u64(pace.slowest.0);
    w.u64(pace.slowest_lag_us);
    w.count("lags", pace.members.len(), MEMBERS_MAX)?;
    for lag in &pace.members {
        w.u64(lag.member.0);
        w.i64(lag.left.0);
        w.u64(lag.lag_us);
    }
    Ok(())
}

fn read_pace(r: &mut Reader) -> Result<PaceReport, DecodeError> {
    let mut pace = PaceReport {
        term: Term(r.u64()?),
        rate: r.u64()?,
        paused_us: r.u64()?,
        pauses: r.u64()?,
        slowest: MemberId(r.u64()?),
        slowest_lag_us: r.u64()?,
        members: Vec::new(),
    };
    for _ in 0..r.count("lags", MEMBER_LAG_BYTES, MEMBERS_MAX)? {
        pace.members.push(MemberLag {
            member: MemberId(r.u64()?),
            left: Seqno(r.i64()?),
            lag_us: r.u64()?,
        });
    }
    Ok(pace)
}

fn write_presence(w: &mut Writer, presence: &PresenceReport) -> Result<(), EncodeError> {
    w.u64(presence.term.0);
    w.count("present members", presence.members.len(), MEMBERS_MAX)?;
    for heard in &presence.members {
        w.u64(heard.member.0);
        w.u64(heard.silent_ms);
    }
    Ok(())
}

fn read_presence(r: &mut Reader) -> Result<PresenceReport, DecodeError> {
    let mut presence = PresenceReport {
        term: Term(r.u64()?),
        members: Vec::new(),
    };
    for _ in 0..r.count("present members", HEARD_MEMBER_BYTES, MEMBERS_MAX)? {
        presence.members.push(HeardMember {
            member: MemberId(r.u64()?),
            silent_ms: r.u64()?,
        });
    }
    Ok(presence)
}

fn write_introduction(w: &mut Writer, introduction: &Introduction) -> Result<(), EncodeError> {
    w.u64(introduction.index.0);
    w.count("members", introduction.members.len(), MEMBERS_MAX)?;
    for introduced in &introduction.members {
        w.u64(introduced.member.0);
        w.string("address", &introduced.address, NAME_MAX)?;
        write_certificate(w, introduced.certificate.as_deref())?;
    }
    Ok(())
}

fn read_introduction(r: &mut Reader) -> Result<Introduction, DecodeError> {
    let index = LogIndex(r.u64()?);
    let count = r.count("members", INTRODUCED_BYTES_MIN, MEMBERS_MAX)?;
    let mut members: Vec<IntroducedMember> = Vec::with_capacity(count);
    for _ in 0..count {
        let introduced = IntroducedMember {
            member: MemberId(r.u64()?),
            address: r.string("address", NAME_MAX)?,
            certificate: read_certificate(r)?,
        };
        if members
            .last()
            .is_some_and(|last| last.member >= introduced.member)
        {
            return Err(DecodeError::NotAscending { what: "members" });
        }
        members.push(introduced);
    }
    Ok(Introduction { index, members })
}

fn write_strings(
    w: &mut Writer,
    what: &'static str,
    strings: &[String],
) -> Result<(), EncodeError> {
    w.count(what, strings.len(), MEMBERS_MAX)?;
    strings
        .iter()
        .try_for_each(|string| w.string(what, string, NAME_MAX))
}

fn read_strings(r: &mut Reader, what: &'static str) -> Result<Vec<String>, DecodeError> {
    let count = r.count(what, STRING_BYTES_MIN, MEMBERS_MAX)?;
    let mut strings = Vec::with_capacity(count);
    for _ in 0..count {
        strings.push(r.string(what, NAME_MAX)?);
    }
    Ok(strings)
}
