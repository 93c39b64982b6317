//! Everything members say to each other after the handshake.

use bytes::Bytes;
use synod_consensus::{
    Body, EntryId, EntryKind, GroupId, LeaderWeight, LogIndex, MemberId, Message, Origin, Seqno,
    SessionId, Term, VersionRange,
};

/// Between two members there are two connections in each direction, so that control traffic never
/// queues behind bulk data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Lane {
    /// Votes, heartbeats, acknowledgements, membership.
    Control = 0,
    /// Entries and proposals.
    Bulk = 1,
}

/// A message between two members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// Between the consensus cores; anything without payloads.
    Consensus(Message),
    /// An append with the payloads of its entries.
    Append {
        /// The message; its body is [`Body::Append`].
        message: Message,
        /// One per entry, each of the length that its header says.
        payloads: Vec<Bytes>,
    },
    /// To the leader: please order this.
    Propose(Propose),
    /// From the leader: this was not ordered, and will not be.
    ProposalRefused {
        /// The leader's term.
        term: Term,
        /// The proposer's session.
        session: SessionId,
        /// The proposal's number in it.
        number: u64,
        /// Why.
        reason: ProposalRefusal,
    },
    /// To anybody: may I take part?
    Join(Join),
    /// Answer to [`PeerMessage::Join`].
    JoinReply(JoinReply),
    /// To the leader: I am about to go; take me out of the voters.
    Leave {
        /// The sender's session.
        session: SessionId,
    },
    /// Answer to [`PeerMessage::Leave`]: the configuration without the sender as a voter is committed.
    LeaveReply,
    /// To the leader, periodically and on change: the state of the sender's database.
    Report(Report),
    /// From the leader: what it knows of all members.
    Status(StatusBroadcast),
    /// To the leader: how an action ended on the sender.
    OutcomeReport(OutcomeReport),
    /// From the leader: how did this action end on the receiver? Answered once it has.
    OutcomeQuery {
        /// The leader's term.
        term: Term,
        /// The action.
        seqno: Seqno,
    },
    /// A joiner asks the leader, and the leader the chosen donor, for a full copy.
    StateRequest(StateRequest),
    /// Which donor will send it, or that none will.
    StateOffer(StateOffer),
    /// From the donor, by way of the leader: how the copy ended.
    StateResult(StateResult),
}

impl PeerMessage {
    /// On which connection the message travels. Only entries and proposals are bulk.
    pub fn lane(&self) -> Lane {
        match self {
            PeerMessage::Consensus(message) | PeerMessage::Append { message, .. } => {
                match &message.body {
                    Body::Append(append) if !append.entries.is_empty() => Lane::Bulk,
                    _ => Lane::Control,
                }
            }
            PeerMessage::Propose(_) => Lane::Bulk,
            PeerMessage::ProposalRefused { .. }
            | PeerMessage::Join(_)
            | PeerMessage::JoinReply(_)
            | PeerMessage::Leave { .. }
            | PeerMessage::LeaveReply
            | PeerMessage::Report(_)
            | PeerMessage::Status(_)
            | PeerMessage::OutcomeReport(_)
            | PeerMessage::OutcomeQuery { .. }
            | PeerMessage::StateRequest(_)
            | PeerMessage::StateOffer(_)
            | PeerMessage::StateResult(_) => Lane::Control,
        }
    }
}

/// An action, or a chunk of one, that a member wants ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Propose {
    /// Term of the leader it is meant for; any other leader drops it.
    pub tag: Term,
    /// Whose it is, and its number.
    pub origin: Origin,
    /// [`EntryKind::Action`] or [`EntryKind::Chunk`].
    pub kind: EntryKind,
    /// Smallest number of the session's proposals that the origin still waits for; the leader may
    /// forget what it remembers of smaller ones.
    pub oldest_outstanding: u64,
    /// The action.
    pub payload: Bytes,
}

/// Why a proposal was not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProposalRefusal {
    /// It touches what an action it had not seen changed.
    Conflict {
        /// The latest such action.
        with: Seqno,
    },
    /// It is based on a position older than the leader's certification window.
    TooOld,
    /// The payload is not what its kind says.
    Malformed,
    /// Chunks that came before it are not known, or were given up.
    GivenUp,
}

/// A member's question whether it may take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The sender's session.
    pub session: SessionId,
    /// The sender's name; unique in the group.
    pub name: String,
    /// `host:port` where peers reach it.
    pub address: String,
    /// `host:port` where database clients reach it; may be empty.
    pub incoming: String,
    /// Whether it has a database (a logger has none).
    pub has_data: bool,
    /// Group of its log; [`GroupId::NONE`] if the log is new.
    pub group: GroupId,
    /// Group that its database belongs to; [`GroupId::NONE`] if none.
    pub db_group: GroupId,
    /// Position of its database; [`Seqno::UNDEFINED`] if none.
    pub db_seqno: Seqno,
    /// The last entry of its log.
    pub last: EntryId,
    /// Protocol versions it speaks.
    pub versions: VersionRange,
}

/// Answer to a [`Join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinReply {
    /// You are, or are about to be, configured.
    Accepted {
        /// The group.
        group: GroupId,
    },
    /// Ask somebody else.
    NotLeader {
        /// The leader and its address, if known.
        leader: Option<(MemberId, String)>,
    },
    /// No, and asking again will not help.
    Refused {
        /// Why.
        reason: JoinRefusal,
        /// For the log of the one refused.
        text: String,
    },
    /// Not now; ask again.
    Retry {
        /// What is in the way.
        text: String,
    },
}

/// Why a member may not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum JoinRefusal {
    /// Its log belongs to another group.
    WrongGroup = 0,
    /// A live member has that name.
    NameTaken = 1,
    /// It does not speak the group's protocol version.
    UnknownVersion = 2,
    /// The group's settings exclude it.
    NotAllowed = 3,
    /// The group has as many members as it may.
    GroupFull = 4,
    /// Its log holds entries that contradict committed ones: the disk is of another history.
    Diverged = 5,
}

/// State of a member's database, with the codes of `wsrep_member_status_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DataState {
    /// Not connected, or no database.
    #[default]
    Disconnected = 0,
    /// Waits for, or receives, a full copy.
    Joining = 1,
    /// Gives a full copy, or has stepped out of flow control.
    Donor = 2,
    /// Has a database that is catching up.
    Joined = 3,
    /// Follows the group.
    Synced = 4,
    /// Failed; will leave.
    Error = 5,
}

impl DataState {
    /// Whether the member has a database, with all that it says it has applied.
    pub fn is_whole(self) -> bool {
        matches!(
            self,
            DataState::Joined | DataState::Synced | DataState::Donor
        )
    }
}

/// State of one member's database, and how much it should lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whose.
    pub member: MemberId,
    /// Its session.
    pub session: SessionId,
    /// What its database does.
    pub state: DataState,
    /// Everything up to here is in its database.
    pub applied: Seqno,
    /// Its transactions that are not ordered yet have seen everything up to here; never more than
    /// `applied`.
    pub seen: Seqno,
    /// Its database has everything up to here on its own disk; zero while that is unknown.
    pub db_flushed: Seqno,
    /// `host:port` where database clients reach it; may be empty.
    pub incoming: String,
    /// Delivered actions not applied yet.
    pub queue: u32,
    /// How much it should lead.
    pub weight: LeaderWeight,
    /// Whether it shall vote, once it has caught up.
    pub wants_vote: bool,
}

/// What the leader knows of all members: for status tables and the choice of a donor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusBroadcast {
    /// The leader's term; a receiver ignores what is older than what it knows.
    pub term: Term,
    /// The last report of each member.
    pub members: Vec<Report>,
    /// No log has to keep anything up to here for the sake of a database that might be lost: enough databases have
    /// it on their disks.
    pub purge_limit: LogIndex,
}

/// How an action ended on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutcomeReport {
    /// The member's session.
    pub session: SessionId,
    /// The action.
    pub seqno: Seqno,
    /// Zero for success, otherwise a hash of the error.
    pub outcome: u64,
}

/// A joiner needs a full copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRequest {
    /// The joiner's number for it.
    pub id: u64,
    /// Who needs it.
    pub joiner: MemberId,
    /// The joiner's session.
    pub session: SessionId,
    /// Seqno of the view in which the joiner asks; the copy must contain it.
    pub after: Seqno,
    /// Names of members to be asked first, in this order.
    pub preferred: Vec<String>,
    /// Whether others may be asked when none of `preferred` can.
    pub any_donor: bool,
    /// The server's request (method and where to send), not looked into.
    pub request: Bytes,
}

/// Answer to a [`StateRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateOffer {
    /// The request's number.
    pub id: u64,
    /// Who will send the copy, or refused.
    pub donor: MemberId,
    /// Whether it will.
    pub accepted: bool,
    /// Why not.
    pub text: String,
}

/// How a full copy ended at the donor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateResult {
    /// The request's number.
    pub id: u64,
    /// Whether the donor's script succeeded.
    pub ok: bool,
    /// Its error code (an errno); zero if none.
    pub code: i32,
    /// Position of the copy; [`Seqno::UNDEFINED`] on failure.
    pub seqno: Seqno,
    /// What went wrong.
    pub text: String,
}
