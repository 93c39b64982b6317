//! [`PeerMessage`] as frames. Kinds, codes and field order are part of the wire format. Large
//! payloads stay segments of their own in both directions, so they are never copied.

use bytes::Bytes;
use synod_consensus::{Body, LeaderWeight, LogIndex, MemberId, Seqno, SessionId, Term};

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
    AppliedPosition, DataState, HeardMember, Lane, MemberLag, OutcomeReport, PaceReport,
    PeerMessage, PresenceReport, Report, StateOffer, StateRequest, StateResult, StatusBroadcast,
    SurvivorReport,
};
use crate::region::Region;
use crate::version::{NEXT_MARK, OUR_VERSIONS, VERSION_NEXT};

/// Makes the kinds of frames, and what is the same for all messages of a kind.
macro_rules! messages {
    ($($name:ident = $number:literal, $since:literal, $lane:ident;)*) => {
        #[derive(Clone, Copy)]
        enum Kind {
            $($name),*
        }

        impl Kind {
            /// The kind with this number, if the version has it.
            fn of(number: u8, version: u16) -> Option<Kind> {
                match number {
                    $($number if version >= $since => Some(Kind::$name),)*
                    _ => None,
                }
            }
        }

        impl PeerMessage {
            /// Number of the frame's kind, first version, lane.
            fn row(&self) -> (u8, u16, Lane) {
                match self {
                    $(PeerMessage::$name { .. } => ($number, $since, Lane::$lane),)*
                }
            }
        }
    };
}

// Number of the frame's kind, first version, lane. Frames below 16 belong to the handshake; no
// number is used again. Only entries and proposals are bulk, and what has to stay behind them.
messages! {
    Consensus = 16, 5, Control;
    Append = 17, 5, Control;
    Propose = 18, 5, Bulk;
    ProposalRefused = 19, 5, Control;
    Join = 20, 5, Control;
    JoinReply = 21, 5, Control;
    Leave = 22, 5, Control;
    LeaveReply = 23, 5, Control;
    Report = 24, 5, Control;
    Status = 25, 5, Control;
    StateRequest = 26, 5, Control;
    StateOffer = 27, 5, Control;
    StateResult = 28, 5, Control;
    OutcomeReport = 29, 5, Control;
    OutcomeQuery = 30, 5, Control;
    Introduction = 31, 5, Control;
    AppliedPosition = 32, 5, Control;
    Pace = 33, 5, Control;
    AppliedQuery = 34, 5, Control;
    Command = 35, 5, Control;
    CommandAnswer = 36, 5, Control;
    VoteOrder = 37, 5, Control;
    WritersOrder = 38, 5, Control;
    WritersRefused = 39, 5, Control;
    Survivor = 40, 5, Control;
    Feed = 41, 5, Bulk;
    Fed = 42, 5, Control;
    Ping = 43, 5, Control;
    Pong = 44, 5, Control;
    Fetch = 45, 5, Control;
    Fetched = 46, 5, Bulk;
    Presence = 47, 5, Control;
}

const REPORT_BYTES_MIN: usize = 8 + 8 + 1 + 8 + 2 + 4 + 1;
const MEMBER_LAG_BYTES: usize = 8 + 8 + 8;
const HEARD_MEMBER_BYTES: usize = 8 + 8;
const STRING_BYTES_MIN: usize = 2;

impl PeerMessage {
    pub fn kind(&self) -> u8 {
        self.row().0
    }

    /// The lane on which the message travels.
    pub fn lane(&self) -> Lane {
        match self {
            PeerMessage::Consensus(message)
            | PeerMessage::Append { message, .. }
            | PeerMessage::Fed { message, .. }
                if matches!(&message.body, Body::Append(append) if !append.entries.is_empty()) =>
            {
                Lane::Bulk
            }
            other => other.row().2,
        }
    }

    /// Whether a connection of this version can carry the message. A message that it cannot carry
    /// is left out: an older program has no use for it.
    pub fn is_carried_by(&self, version: u16) -> bool {
        OUR_VERSIONS.contains(version) && version >= self.row().1
    }

    /// Appends the message's frame, header included, to `out`. Large payloads become segments of
    /// their own and share memory with the message.
    pub fn encode(&self, version: u16, out: &mut Vec<Bytes>) -> Result<(), EncodeError> {
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
            w.u64(status.commit.0);
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
    let unknown = DecodeError::unknown("message", kind);
    Ok(match Kind::of(kind, r.version()).ok_or(unknown)? {
        Kind::Consensus => PeerMessage::Consensus(read_without_payloads(r)?),
        Kind::Append => {
            let (message, payloads) = read_with_payloads(r)?;
            PeerMessage::Append { message, payloads }
        }
        Kind::Propose => PeerMessage::Propose(read_propose(r)?),
        Kind::ProposalRefused => PeerMessage::ProposalRefused {
            term: Term(r.u64()?),
            session: SessionId(r.u64()?),
            number: r.u64()?,
            reason: read_proposal_refusal(r)?,
        },
        Kind::Join => PeerMessage::Join(read_join(r)?),
        Kind::JoinReply => PeerMessage::JoinReply(read_join_reply(r)?),
        Kind::Leave => PeerMessage::Leave {
            session: SessionId(r.u64()?),
        },
        Kind::LeaveReply => PeerMessage::LeaveReply,
        Kind::Report => PeerMessage::Report(read_report(r)?),
        Kind::Status => PeerMessage::Status(read_status(r)?),
        Kind::StateRequest => PeerMessage::StateRequest(read_state_request(r)?),
        Kind::StateOffer => PeerMessage::StateOffer(StateOffer {
            id: r.u64()?,
            donor: MemberId(r.u64()?),
            accepted: r.bool()?,
            text: r.text()?,
        }),
        Kind::StateResult => PeerMessage::StateResult(StateResult {
            id: r.u64()?,
            ok: r.bool()?,
            code: r.i32()?,
            seqno: Seqno(r.i64()?),
            text: r.text()?,
        }),
        Kind::OutcomeReport => PeerMessage::OutcomeReport(OutcomeReport {
            session: SessionId(r.u64()?),
            seqno: Seqno(r.i64()?),
            outcome: r.u64()?,
        }),
        Kind::OutcomeQuery => PeerMessage::OutcomeQuery {
            term: Term(r.u64()?),
            seqno: Seqno(r.i64()?),
        },
        Kind::AppliedPosition => PeerMessage::AppliedPosition(read_applied_position(r)?),
        Kind::Pace => PeerMessage::Pace(read_pace(r)?),
        Kind::Presence => PeerMessage::Presence(read_presence(r)?),
        Kind::AppliedQuery => PeerMessage::AppliedQuery {
            session: SessionId(r.u64()?),
        },
        Kind::Command => PeerMessage::Command {
            session: SessionId(r.u64()?),
            number: r.u64()?,
            command: read_command(r)?,
        },
        Kind::CommandAnswer => PeerMessage::CommandAnswer {
            session: SessionId(r.u64()?),
            number: r.u64()?,
            answer: read_answer(r)?,
        },
        Kind::VoteOrder => PeerMessage::VoteOrder { votes: r.bool()? },
        Kind::WritersOrder => PeerMessage::WritersOrder {
            writers: read_writers(r)?,
        },
        Kind::WritersRefused => PeerMessage::WritersRefused {
            writers: read_writers(r)?,
            text: r.text()?,
        },
        Kind::Survivor => PeerMessage::Survivor(read_survivor(r)?),
        Kind::Feed => PeerMessage::Feed(read_feed_order(r)?),
        Kind::Fed => {
            let (message, payloads) = read_with_payloads(r)?;
            PeerMessage::Fed { message, payloads }
        }
        Kind::Ping => PeerMessage::Ping { number: r.u64()? },
        Kind::Pong => PeerMessage::Pong {
            number: r.u64()?,
            wall_us: r.u64()?,
        },
        Kind::Fetch => PeerMessage::Fetch(read_fetch_request(r)?),
        Kind::Fetched => PeerMessage::Fetched(read_fetch_answer(r)?),
        Kind::Introduction => PeerMessage::Introduction(read_introduction(r)?),
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
    w.u32(report.log_format);
    let region = report.region.as_ref().map_or("", Region::as_str);
    w.string("region", region, Region::LENGTH_MAX)?;
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
        log_format: r.u32()?,
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
        code => Err(DecodeError::unknown("mark of the next version", code)),
    }
}

/// None if the text is empty.
fn read_region(r: &mut Reader) -> Result<Option<Region>, DecodeError> {
    let name = r.string("region", Region::LENGTH_MAX)?;
    match name.as_str() {
        "" => Ok(None),
        name => Ok(Some(name.parse()?)),
    }
}

pub(crate) fn read_leader_weight(r: &mut Reader) -> Result<LeaderWeight, DecodeError> {
    let code = r.u8()?;
    LeaderWeight::new(code).ok_or(DecodeError::unknown("leader weight", code))
}

fn read_data_state(r: &mut Reader) -> Result<DataState, DecodeError> {
    const STATES: [DataState; 6] = [
        DataState::Disconnected,
        DataState::Joining,
        DataState::Donor,
        DataState::Joined,
        DataState::Synced,
        DataState::Error,
    ];
    r.one_of("database state", &STATES)
}

fn read_status(r: &mut Reader) -> Result<StatusBroadcast, DecodeError> {
    let term = Term(r.u64()?);
    let count = r.count("reports", REPORT_BYTES_MIN, MEMBERS_MAX)?;
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        members.push(read_report(r)?);
    }
    Ok(StatusBroadcast {
        term,
        members,
        purge_limit: LogIndex(r.u64()?),
        commit: LogIndex(r.u64()?),
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
