//! [`PeerMessage`] as frames. Kinds, codes and field order are part of the wire format. Large
//! payloads stay segments of their own in both directions, so they are never copied.

use bytes::Bytes;
use synod_consensus::{Body, EntryKind};

use crate::codec::{Reader, Writer};
use crate::consensus_codec::{Bare, read_with_payloads, write_with_payloads};
use crate::error::{DecodeError, EncodeError};
use crate::frame::{self, Frame};
use crate::layout::{Codec, Each, List, Name, Rest, Text, Wire, coded, get, put, record};
use crate::member_codec::CLIENT_ADDRESS;
use crate::message::{
    AppliedPosition, DataState, FeedOrder, HeardMember, Lane, MemberLag, OutcomeReport, PaceReport,
    PeerMessage, PresenceReport, ProposalRefusal, Propose, Report, StateOffer, StateRequest,
    StateResult, StatusBroadcast, SurvivorReport,
};
use crate::region::Region;
use crate::version::{NEXT_MARK, OUR_VERSIONS, VERSION_NEXT};

/// Number of a frame's kind, first version, lane, and the fields in their order (see
/// [`crate::layout`]). `with` names a message and the payloads of its entries.
macro_rules! messages {
    ($($number:literal $since:literal $lane:ident
        ($($field:ident $(: $codec:expr)?),*) $(with ($message:ident, $payloads:ident))?
        [$($shape:tt)*])*) => {
        impl PeerMessage {
            #[allow(unused_variables)] // The fields do not matter here.
            fn row(&self) -> (u8, u16, Lane) {
                match self {
                    $($($shape)* => ($number, $since, Lane::$lane),)*
                }
            }

            fn write(&self, w: &mut Writer) -> Result<(), EncodeError> {
                match self {
                    $($($shape)* => {
                        $(put!(w, $field $(, $codec)?);)*
                        $(write_with_payloads(w, $message, $payloads)?;)?
                    })*
                }
                Ok(())
            }

            fn read(r: &mut Reader, kind: u8) -> Result<PeerMessage, DecodeError> {
                Ok(match kind {
                    $($number if r.version() >= $since => {
                        $(let $field = get!(r $(, $codec)?);)*
                        $(let ($message, $payloads) = read_with_payloads(r)?;)?
                        $($shape)*
                    })*
                    _ => return Err(DecodeError::unknown("message", kind)),
                })
            }
        }
    };
}

// Frames below 16 belong to the handshake; no number is used again. Only entries and proposals are
// bulk, and what has to stay behind them.
messages! {
    16 5 Control (message: Bare) [PeerMessage::Consensus(message)]
    17 5 Control () with (message, payloads) [PeerMessage::Append { message, payloads }]
    18 5 Bulk (propose) [PeerMessage::Propose(propose)]
    19 5 Control (term, session, number, reason)
        [PeerMessage::ProposalRefused { term, session, number, reason }]
    20 5 Control (join) [PeerMessage::Join(join)]
    21 5 Control (reply) [PeerMessage::JoinReply(reply)]
    22 5 Control (session) [PeerMessage::Leave { session }]
    23 5 Control () [PeerMessage::LeaveReply]
    24 5 Control (report) [PeerMessage::Report(report)]
    25 5 Control (status) [PeerMessage::Status(status)]
    26 5 Control (request) [PeerMessage::StateRequest(request)]
    27 5 Control (offer) [PeerMessage::StateOffer(offer)]
    28 5 Control (result) [PeerMessage::StateResult(result)]
    29 5 Control (report) [PeerMessage::OutcomeReport(report)]
    30 5 Control (term, seqno) [PeerMessage::OutcomeQuery { term, seqno }]
    31 5 Control (introduction) [PeerMessage::Introduction(introduction)]
    32 5 Control (position) [PeerMessage::AppliedPosition(position)]
    33 5 Control (pace) [PeerMessage::Pace(pace)]
    34 5 Control (session) [PeerMessage::AppliedQuery { session }]
    35 5 Control (session, number, command) [PeerMessage::Command { session, number, command }]
    36 5 Control (session, number, answer) [PeerMessage::CommandAnswer { session, number, answer }]
    37 5 Control (votes) [PeerMessage::VoteOrder { votes }]
    38 5 Control (setting) [PeerMessage::SettingOrder { setting }]
    39 5 Control (setting, text: Text) [PeerMessage::SettingRefused { setting, text }]
    40 5 Control (report) [PeerMessage::Survivor(report)]
    41 5 Bulk (order) [PeerMessage::Feed(order)]
    42 5 Control () with (message, payloads) [PeerMessage::Fed { message, payloads }]
    43 5 Control (number) [PeerMessage::Ping { number }]
    44 5 Control (number, wall_us) [PeerMessage::Pong { number, wall_us }]
    45 5 Control (request) [PeerMessage::Fetch(request)]
    46 5 Bulk (answer) [PeerMessage::Fetched(answer)]
    47 5 Control (presence) [PeerMessage::Presence(presence)]
}

record! {
    Propose { tag, origin, kind: ProposedKind, oldest_outstanding, payload: Rest }
    FeedOrder { learner, term, prev, last, may_shorten, commit, sent_at }
    Report {
        member, session, state, applied, seen, db_flushed, incoming: CLIENT_ADDRESS, queue, weight,
        wants_vote, log_format, region: LastOfReport
    }
    StatusBroadcast { term, members: of_members("reports", 55), purge_limit, commit }
    OutcomeReport { session, seqno, outcome }
    StateRequest {
        id, joiner, session, after, preferred: PREFERRED, any_donor, request: Rest
    }
    StateOffer { id, donor, accepted, text: Text }
    StateResult { id, ok, code, seqno, text: Text }
    AppliedPosition { session, state, left, released, lag_us }
    PaceReport {
        term, rate, paused_us, pauses, slowest, slowest_lag_us, members: of_members("lags", 24)
    }
    MemberLag { member, left, lag_us }
    PresenceReport { term, members: of_members("present members", 16) }
    HeardMember { member, silent_ms }
    SurvivorReport {
        last, durable, commit, stated, incomplete_us, applied, is_under_repair, leader
    }
}
coded! { "refusal of a proposal": ProposalRefusal {
    0 (with) [ProposalRefusal::Conflict { with }]
    1 () [ProposalRefusal::TooOld]
    2 () [ProposalRefusal::Malformed]
    3 () [ProposalRefusal::GivenUp]
    4 () [ProposalRefusal::NotWriter]
} }
coded! { "database state": DataState {
    0 () [DataState::Disconnected]
    1 () [DataState::Joining]
    2 () [DataState::Donor]
    3 () [DataState::Joined]
    4 () [DataState::Synced]
    5 () [DataState::Error]
} }

/// Values of at least so many bytes.
const fn of_members(what: &'static str, bytes_min: usize) -> List<Each> {
    List {
        what,
        bytes_min,
        each: Each,
    }
}

const PREFERRED: List<Name> = List {
    what: "preferred donors",
    bytes_min: 2,
    each: Name::of("preferred donors"),
};

struct ProposedKind;

impl Codec<EntryKind> for ProposedKind {
    fn write(&self, kind: &EntryKind, w: &mut Writer) -> Result<(), EncodeError> {
        kind.write(w)
    }

    fn read(&self, r: &mut Reader) -> Result<EntryKind, DecodeError> {
        match EntryKind::read(r)? {
            kind @ (EntryKind::Action | EntryKind::Chunk) => Ok(kind),
            kind => Err(DecodeError::unknown("proposed kind", kind as u8)),
        }
    }
}

/// The region, none if the text is empty; and since [`VERSION_NEXT`] a mark.
struct LastOfReport;

impl Codec<Option<Region>> for LastOfReport {
    fn write(&self, region: &Option<Region>, w: &mut Writer) -> Result<(), EncodeError> {
        let region = region.as_ref().map_or("", Region::as_str);
        w.string("region", region, Region::LENGTH_MAX)?;
        if w.version() >= VERSION_NEXT {
            w.u8(NEXT_MARK);
        }
        Ok(())
    }

    fn read(&self, r: &mut Reader) -> Result<Option<Region>, DecodeError> {
        let name = r.string("region", Region::LENGTH_MAX)?;
        if r.version() >= VERSION_NEXT {
            match r.u8()? {
                NEXT_MARK => {}
                code => return Err(DecodeError::unknown("mark of the next version", code)),
            }
        }
        match name.as_str() {
            "" => Ok(None),
            name => Ok(Some(name.parse()?)),
        }
    }
}

impl PeerMessage {
    pub fn kind(&self) -> u8 {
        self.row().0
    }

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
        self.write(&mut w)?;
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
        let message = PeerMessage::read(&mut r, frame.kind)?;
        r.finish()?;
        Ok(message)
    }
}
