//! [`PeerMessage`] as frames. Kinds, codes and field order are part of the wire format. Large
//! payloads stay segments of their own in both directions, so they are never copied.

use bytes::Bytes;
use synod_consensus::{LeaderWeight, LogIndex, MemberId, Seqno, SessionId, Term};

use crate::codec::{Reader, Writer};
use crate::command::{read_answer, read_command, write_answer, write_command};
use crate::consensus_codec::{
    read_entry_id, read_feed_order, read_proposal_refusal, read_propose, read_with_payloads,
    read_without_payloads, write_entry_id, write_feed_order, write_proposal_refusal, write_propose,
    write_with_payloads, write_without_payloads,
};
use crate::error::{DecodeError, EncodeError};
use crate::fetch::{
    read_fetch_answer, read_fetch_request, write_fetch_answer, write_fetch_request,
};
use crate::frame::{self, Frame};
use crate::member_codec::{
    MEMBERS_MAX, NAME_MAX, read_introduction, read_join, read_join_reply, read_writers,
    write_introduction, write_join, write_join_reply, write_writers,
};
use crate::message::{
    AppliedPosition, DataState, HeardMember, MemberLag, OutcomeReport, PaceReport, PeerMessage,
    PresenceReport, Report, StateOffer, StateRequest, StateResult, StatusBroadcast, SurvivorReport,
};
use crate::region::Region;
use crate::version::{
    NEXT_MARK, OUR_VERSIONS, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_NEXT,
};

// Frame kinds from 16 on are messages; those below belong to the handshake.
const KIND_CONSENSUS: u8 = 16;
const KIND_APPEND: u8 = 17;
const KIND_PROPOSE: u8 = 18;
const KIND_PROPOSAL_REFUSED: u8 = 19;
const KIND_JOIN: u8 = 20;
const KIND_JOIN_REPLY: u8 = 21;
const KIND_LEAVE: u8 = 22;
const KIND_LEAVE_REPLY: u8 = 23;
const KIND_REPORT: u8 = 24;
const KIND_STATUS: u8 = 25;
const KIND_STATE_REQUEST: u8 = 26;
const KIND_STATE_OFFER: u8 = 27;
const KIND_STATE_RESULT: u8 = 28;
const KIND_OUTCOME_REPORT: u8 = 29;
const KIND_OUTCOME_QUERY: u8 = 30;
const KIND_INTRODUCTION: u8 = 31;
const KIND_APPLIED_POSITION: u8 = 32;
const KIND_PACE: u8 = 33;
const KIND_APPLIED_QUERY: u8 = 34;
const KIND_COMMAND: u8 = 35;
const KIND_COMMAND_ANSWER: u8 = 36;
const KIND_VOTE_ORDER: u8 = 37;
const KIND_WRITERS_ORDER: u8 = 38;
const KIND_WRITERS_REFUSED: u8 = 39;
const KIND_SURVIVOR: u8 = 40;
const KIND_FEED: u8 = 41;
const KIND_FED: u8 = 42;
const KIND_PING: u8 = 43;
const KIND_PONG: u8 = 44;
const KIND_FETCH: u8 = 45;
const KIND_FETCHED: u8 = 46;
const KIND_PRESENCE: u8 = 47;

const REPORT_BYTES_MIN: usize = 8 + 8 + 1 + 8 + 2 + 4 + 1;
const MEMBER_LAG_BYTES: usize = 8 + 8 + 8;
const HEARD_MEMBER_BYTES: usize = 8 + 8;
const STRING_BYTES_MIN: usize = 2;

impl PeerMessage {
    pub fn kind(&self) -> u8 {
        match self {
            PeerMessage::Consensus(_) => KIND_CONSENSUS,
            PeerMessage::Append { .. } => KIND_APPEND,
            PeerMessage::Propose(_) => KIND_PROPOSE,
            PeerMessage::ProposalRefused { .. } => KIND_PROPOSAL_REFUSED,
            PeerMessage::Join(_) => KIND_JOIN,
            PeerMessage::JoinReply(_) => KIND_JOIN_REPLY,
            PeerMessage::Leave { .. } => KIND_LEAVE,
            PeerMessage::LeaveReply => KIND_LEAVE_REPLY,
            PeerMessage::Report(_) => KIND_REPORT,
            PeerMessage::Status(_) => KIND_STATUS,
            PeerMessage::StateRequest(_) => KIND_STATE_REQUEST,
            PeerMessage::StateOffer(_) => KIND_STATE_OFFER,
            PeerMessage::StateResult(_) => KIND_STATE_RESULT,
            PeerMessage::OutcomeReport(_) => KIND_OUTCOME_REPORT,
            PeerMessage::OutcomeQuery { .. } => KIND_OUTCOME_QUERY,
            PeerMessage::Introduction(_) => KIND_INTRODUCTION,
            PeerMessage::AppliedPosition(_) => KIND_APPLIED_POSITION,
            PeerMessage::Pace(_) => KIND_PACE,
            PeerMessage::Presence(_) => KIND_PRESENCE,
            PeerMessage::AppliedQuery { .. } => KIND_APPLIED_QUERY,
            PeerMessage::Command { .. } => KIND_COMMAND,
            PeerMessage::CommandAnswer { .. } => KIND_COMMAND_ANSWER,
            PeerMessage::VoteOrder { .. } => KIND_VOTE_ORDER,
            PeerMessage::WritersOrder { .. } => KIND_WRITERS_ORDER,
            PeerMessage::WritersRefused { .. } => KIND_WRITERS_REFUSED,
            PeerMessage::Survivor(_) => KIND_SURVIVOR,
            PeerMessage::Feed(_) => KIND_FEED,
            PeerMessage::Fed { .. } => KIND_FED,
            PeerMessage::Ping { .. } => KIND_PING,
            PeerMessage::Pong { .. } => KIND_PONG,
            PeerMessage::Fetch(_) => KIND_FETCH,
            PeerMessage::Fetched(_) => KIND_FETCHED,
        }
    }

    /// Appends the message's frame, header included, to `out`. Large payloads become segments of
    /// their own and share memory with the message.
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
        KIND_CONSENSUS => PeerMessage::Consensus(read_without_payloads(r)?),
        KIND_APPEND => {
            let (message, payloads) = read_with_payloads(r)?;
            PeerMessage::Append { message, payloads }
        }
        KIND_PROPOSE => PeerMessage::Propose(read_propose(r)?),
        KIND_PROPOSAL_REFUSED => PeerMessage::ProposalRefused {
            term: Term(r.u64()?),
            session: SessionId(r.u64()?),
            number: r.u64()?,
            reason: read_proposal_refusal(r)?,
        },
        KIND_JOIN => PeerMessage::Join(read_join(r)?),
        KIND_JOIN_REPLY => PeerMessage::JoinReply(read_join_reply(r)?),
        KIND_LEAVE => PeerMessage::Leave {
            session: SessionId(r.u64()?),
        },
        KIND_LEAVE_REPLY => PeerMessage::LeaveReply,
        KIND_REPORT => PeerMessage::Report(read_report(r)?),
        KIND_STATUS => PeerMessage::Status(read_status(r)?),
        KIND_STATE_REQUEST => PeerMessage::StateRequest(read_state_request(r)?),
        KIND_STATE_OFFER => PeerMessage::StateOffer(StateOffer {
            id: r.u64()?,
            donor: MemberId(r.u64()?),
            accepted: r.bool()?,
            text: r.text()?,
        }),
        KIND_STATE_RESULT => PeerMessage::StateResult(StateResult {
            id: r.u64()?,
            ok: r.bool()?,
            code: r.i32()?,
            seqno: Seqno(r.i64()?),
            text: r.text()?,
        }),
        KIND_OUTCOME_REPORT => PeerMessage::OutcomeReport(OutcomeReport {
            session: SessionId(r.u64()?),
            seqno: Seqno(r.i64()?),
            outcome: r.u64()?,
        }),
        KIND_OUTCOME_QUERY => PeerMessage::OutcomeQuery {
            term: Term(r.u64()?),
            seqno: Seqno(r.i64()?),
        },
        KIND_APPLIED_POSITION if r.version() >= VERSION_3 => {
            PeerMessage::AppliedPosition(read_applied_position(r)?)
        }
        KIND_PACE if r.version() >= VERSION_3 => PeerMessage::Pace(read_pace(r)?),
        KIND_PRESENCE if r.version() >= VERSION_5 => PeerMessage::Presence(read_presence(r)?),
        KIND_APPLIED_QUERY if r.version() >= VERSION_4 => PeerMessage::AppliedQuery {
            session: SessionId(r.u64()?),
        },
        KIND_COMMAND if r.version() >= VERSION_5 => PeerMessage::Command {
            session: SessionId(r.u64()?),
            number: r.u64()?,
            command: read_command(r)?,
        },
        KIND_COMMAND_ANSWER if r.version() >= VERSION_5 => PeerMessage::CommandAnswer {
            session: SessionId(r.u64()?),
            number: r.u64()?,
            answer: read_answer(r)?,
        },
        KIND_VOTE_ORDER if r.version() >= VERSION_5 => PeerMessage::VoteOrder { votes: r.bool()? },
        KIND_WRITERS_ORDER if r.version() >= VERSION_5 => PeerMessage::WritersOrder {
            writers: read_writers(r)?,
        },
        KIND_WRITERS_REFUSED if r.version() >= VERSION_5 => PeerMessage::WritersRefused {
            writers: read_writers(r)?,
            text: r.text()?,
        },
        KIND_SURVIVOR if r.version() >= VERSION_5 => PeerMessage::Survivor(read_survivor(r)?),
        KIND_FEED if r.version() >= VERSION_5 => PeerMessage::Feed(read_feed_order(r)?),
        KIND_FED if r.version() >= VERSION_5 => {
            let (message, payloads) = read_with_payloads(r)?;
            PeerMessage::Fed { message, payloads }
        }
        KIND_PING if r.version() >= VERSION_5 => PeerMessage::Ping { number: r.u64()? },
        KIND_PONG if r.version() >= VERSION_5 => PeerMessage::Pong {
            number: r.u64()?,
            wall_us: r.u64()?,
        },
        KIND_FETCH if r.version() >= VERSION_5 => PeerMessage::Fetch(read_fetch_request(r)?),
        KIND_FETCHED if r.version() >= VERSION_5 => PeerMessage::Fetched(read_fetch_answer(r)?),
        KIND_INTRODUCTION if r.version() >= VERSION_2 => {
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

fn write_survivor(w: &mut Writer, report: &SurvivorReport) {
    write_entry_id(w, report.last);
    w.u64(report.durable.0);
    w.u64(report.commit.0);
    w.u64(report.stated.0);
    write_option(w, report.incomplete_us);
    w.i64(report.applied.0);
    w.bool(report.is_under_repair);
    write_option(w, report.leader.map(|leader| leader.0));
}

fn read_survivor(r: &mut Reader) -> Result<SurvivorReport, DecodeError> {
    Ok(SurvivorReport {
        last: read_entry_id(r)?,
        durable: LogIndex(r.u64()?),
        commit: LogIndex(r.u64()?),
        stated: LogIndex(r.u64()?),
        incomplete_us: read_option(r)?,
        applied: Seqno(r.i64()?),
        is_under_repair: r.bool()?,
        leader: read_option(r)?.map(MemberId),
    })
}

fn write_option(w: &mut Writer, number: Option<u64>) {
    w.bool(number.is_some());
    if let Some(number) = number {
        w.u64(number);
    }
}

fn read_option(r: &mut Reader) -> Result<Option<u64>, DecodeError> {
    r.bool()?.then(|| r.u64()).transpose()
}
