//! All messages between members after the handshake. Each may be lost with its connection or arrive
//! late, so each names what it belongs to: a term, a session, a seqno or a request's number.
//! Receivers ignore what is outdated.

use bytes::Bytes;
use synod_consensus::{
    EntryId, EntryKind, GroupId, GroupSetting, LeaderWeight, LogIndex, MemberId, Message, Origin,
    Seqno, SessionId, Term, Time, VersionRange,
};

use crate::command::{Command, CommandRefusal, Done};
use crate::fetch::{FetchAnswer, FetchRequest};
use crate::region::Region;

/// Between two members there are two connections in each direction, so that control traffic never
/// queues behind bulk data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Lane {
    /// Votes, heartbeats, acknowledgements, membership, reports, state transfer.
    Control = 0,
    /// Entries and proposals.
    Bulk = 1,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// Between the consensus cores: every message without payloads.
    Consensus(Message),
    /// An append with the payloads of its entries.
    Append {
        message: Message,
        /// One per entry, each of the length that its header says. `None`: the receiver has
        /// proposed the entry in its present session, and has the payload.
        payloads: Vec<Option<Bytes>>,
    },
    /// To the leader: the sender asks it to order this.
    Propose(Propose),
    /// From the leader: a refusal. The proposal was not ordered, and will not be.
    ProposalRefused {
        term: Term,
        session: SessionId,
        number: u64,
        reason: ProposalRefusal,
    },
    /// To any member: the sender asks to take part.
    Join(Join),
    JoinReply(JoinReply),
    /// To the leader: the sender shuts down and asks to leave the voters.
    Leave {
        session: SessionId,
    },
    /// Answer to [`PeerMessage::Leave`]: the configuration without the sender as a voter is
    /// committed.
    LeaveReply,
    /// To the leader, periodically and on change: the state of the sender's database.
    Report(Report),
    /// From the leader: the latest reports of all members.
    Status(StatusBroadcast),
    /// To the leader: how an action ended on the sender.
    OutcomeReport(OutcomeReport),
    /// From the leader: asks how an action ended on the receiver, which answers once it has ended.
    OutcomeQuery {
        term: Term,
        seqno: Seqno,
    },
    /// A joiner asks the leader, and the leader the chosen donor, for a full copy (SST).
    StateRequest(StateRequest),
    /// To the joiner: which donor will send the full copy, or that no donor will.
    StateOffer(StateOffer),
    /// From the donor, by way of the leader: how the full copy ended.
    StateResult(StateResult),
    /// Between configured members: whom the sender's configuration names.
    Introduction(Introduction),
    /// To the leader, beside an acknowledgement, and to members that ask: how far the sender's
    /// database is.
    AppliedPosition(AppliedPosition),
    /// To any member: asks how far the receiver's database is, now and, for a while, whenever an
    /// action of the sender's session is finished there.
    AppliedQuery {
        session: SessionId,
    },
    /// From the leader: at which pace it admits actions.
    Pace(PaceReport),
    /// To the leader, or to the member that is to have another weight: an operator's order, which
    /// was given to the sender.
    Command {
        session: SessionId,
        /// The sender's number for it in that session.
        number: u64,
        command: Command,
    },
    CommandAnswer {
        session: SessionId,
        number: u64,
        answer: Result<Done, CommandRefusal>,
    },
    /// From the leader: an operator has ordered that the receiver votes, or does not. In force
    /// until the receiver's process ends.
    VoteOrder {
        votes: bool,
    },
    /// To the leader: an operator of the sender wants the group to have this setting. Repeated
    /// until the sender knows a committed configuration that says so.
    SettingOrder {
        setting: GroupSetting,
    },
    /// Answer to [`PeerMessage::SettingOrder`]: the setting is not made, and asking again does not
    /// help.
    SettingRefused {
        setting: GroupSetting,
        text: String,
    },
    /// To all configured members, repeatedly, from one that hears no leader; and the answer of one
    /// that hears one.
    Survivor(SurvivorReport),
    /// From the leader: send these entries of the receiver's log on to a learner.
    Feed(FeedOrder),
    /// From a feeder to a learner, by the leader's order: an append of the leader, as if it had
    /// come from there. The answer goes to the leader.
    Fed {
        message: Message,
        /// One per entry, each of the length that its header says.
        payloads: Vec<Option<Bytes>>,
    },
    /// To each connected member, every second: how far away is it, and what does its clock show?
    /// The transports of both ends exchange it; no driver sees it.
    Ping {
        number: u64,
    },
    /// Answer to [`PeerMessage::Ping`], at once.
    Pong {
        number: u64,
        /// Time of the sender's wall clock, in microseconds since 1970.
        wall_us: u64,
    },
    /// To a configured member: asks for committed entries that the sender's database needs and its
    /// log lacks.
    Fetch(FetchRequest),
    Fetched(FetchAnswer),
    /// From the leader, to all configured members, several times a second: which members are
    /// present, and when it heard each of them.
    Presence(PresenceReport),
}

/// An action, or a chunk of one, that a member wants ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Propose {
    /// Term of the leader it is meant for; any other leader ignores it.
    pub tag: Term,
    /// The member and session that propose it, and its number there.
    pub origin: Origin,
    /// [`EntryKind::Action`] or [`EntryKind::Chunk`].
    pub kind: EntryKind,
    /// Smallest number of the session's proposals that the origin still waits for. The leader no
    /// longer has to recognise smaller ones.
    pub oldest_outstanding: u64,
    pub payload: Bytes,
}

/// An order to a feeder: the entries to send on to a learner, in the leader's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedOrder {
    pub learner: MemberId,
    /// The leader's term: the term of the append.
    pub term: Term,
    /// The entry right before the first to send.
    pub prev: EntryId,
    /// The last entry to send. Logs that have this entry have the same before it (Raft, section
    /// 5.3, Log Matching), so the feeder knows that its own are the leader's.
    pub last: EntryId,
    /// Whether the feeder may stop before `last`, after at least one entry.
    pub may_shorten: bool,
    pub commit: LogIndex,
    /// The append's `sent_at`, by the leader's clock.
    pub sent_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProposalRefusal {
    /// An action after its snapshot position changed a key that it uses.
    Conflict {
        /// Seqno of the latest such action.
        with: Seqno,
    },
    /// The action's snapshot position is older than the leader's certification window.
    TooOld,
    /// The payload is not what its kind says.
    Malformed,
    /// Its earlier chunks are not known, or were discarded.
    GivenUp,
    /// The group takes the leader's writes only, and this is none; or the leader's database has not
    /// applied yet what preceded its term.
    NotWriter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    pub session: SessionId,
    pub name: String,
    pub address: String,
    /// `host:port` where database clients reach it; may be empty.
    pub incoming: String,
    pub has_data: bool,
    /// Group of its log; [`GroupId::NONE`] if the log is new.
    pub group: GroupId,
    /// Group that its database belongs to; [`GroupId::NONE`] if none.
    pub db_group: GroupId,
    /// Position of its database; [`Seqno::UNDEFINED`] if none.
    pub db_seqno: Seqno,
    pub last: EntryId,
    pub versions: VersionRange,
    /// Whether its process has taken part in the group before. One that is in no configuration any
    /// more was removed, and does not come back by itself.
    pub has_joined: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinReply {
    /// The sender is, or is about to be, part of the configuration.
    Accepted { group: GroupId },
    NotLeader {
        /// The leader and its address, if known.
        leader: Option<(MemberId, String)>,
    },
    /// Refused; the answer will not change by itself.
    Refused { reason: JoinRefusal, text: String },
    /// Not now; ask again.
    Retry { text: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum JoinRefusal {
    WrongGroup = 0,
    /// A live member has that name, or that address.
    NameTaken = 1,
    /// The member does not speak the group's protocol version.
    UnknownVersion = 2,
    /// The group has as many members as it may.
    GroupFull = 3,
    /// The member, or the one that it would replace, is bound to another certificate; or another
    /// member is bound to this one.
    CertificateMismatch = 4,
    /// The member had joined, and was removed since. Only its operator lets it join again, by a
    /// start.
    Removed = 5,
}

/// State of a member's database, with the codes of MariaDB's provider interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DataState {
    /// Not connected, or no database.
    #[default]
    Disconnected = 0,
    /// Waits for, or receives, a full copy (SST).
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

/// State of one member's database, its leader weight and its region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub member: MemberId,
    pub session: SessionId,
    pub state: DataState,
    /// Seqno up to which every action is in its database.
    pub applied: Seqno,
    /// Lowest snapshot position of its transactions that are not ordered yet; never above
    /// `applied`.
    pub seen: Seqno,
    /// Seqno up to which its database has flushed, by estimate; zero while that is unknown.
    pub db_flushed: Seqno,
    /// `host:port` where database clients reach it; may be empty.
    pub incoming: String,
    pub queue: u32,
    pub weight: LeaderWeight,
    /// Whether it is to become a voter once it has caught up.
    pub wants_vote: bool,
    pub log_format: u32,
    /// The region that it is in; none: its operator has named none.
    pub region: Option<Region>,
}

/// The latest reports of all members, and the purge limit. For status tables, and the choice of a
/// donor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusBroadcast {
    /// The leader's term; a receiver ignores a broadcast of an older term than its own.
    pub term: Term,
    pub members: Vec<Report>,
    /// Index up to which logs may be purged: enough databases have flushed everything up to it, so
    /// a minority that loses its disks costs no action.
    pub purge_limit: LogIndex,
    /// The leader's commit index, whether the receiver has the entries or not.
    pub commit: LogIndex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutcomeReport {
    pub session: SessionId,
    pub seqno: Seqno,
    /// Zero for success, otherwise a hash of the error.
    pub outcome: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRequest {
    /// The joiner's number for this request.
    pub id: u64,
    pub joiner: MemberId,
    pub session: SessionId,
    /// Seqno of the view in which the joiner asks; the copy must contain it.
    pub after: Seqno,
    /// Names of members to be asked first, in this order.
    pub preferred: Vec<String>,
    /// Whether others may be asked when none of `preferred` can.
    pub any_donor: bool,
    /// The server's own request (method and where to send); its content is not interpreted.
    pub request: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateOffer {
    pub id: u64,
    /// The donor that will send the copy, or that refused.
    pub donor: MemberId,
    /// Whether the donor will send it.
    pub accepted: bool,
    /// Why it will not; empty if it will.
    pub text: String,
}

/// How a full copy ended at the donor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateResult {
    pub id: u64,
    pub ok: bool,
    /// Its error code (an errno); zero if none.
    pub code: i32,
    /// Position of the copy; [`Seqno::UNDEFINED`] on failure.
    pub seqno: Seqno,
    /// Description of the error; empty on success.
    pub text: String,
}

/// The members of the sender's latest configuration. A receiver whose own configuration is older
/// may have to follow or vote for one that only the newer configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    pub index: LogIndex,
    /// The configured members, ascending by id.
    pub members: Vec<IntroducedMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntroducedMember {
    pub member: MemberId,
    pub address: String,
    /// Subject of the certificate that it is bound to; none if it is bound to none.
    pub certificate: Option<String>,
}

/// How far a member's database is. It goes beside acknowledgements, so that the leader knows it
/// within a message's way; and to members that ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedPosition {
    pub session: SessionId,
    /// State of its database. [`DataState::Donor`] also if operators took it out (desynced).
    pub state: DataState,
    /// Everything up to here has left the commit order.
    pub left: Seqno,
    /// Everything up to here is finished.
    pub released: Seqno,
    /// For how long the database has lacked a committed action, in microseconds of the sender's
    /// clock; zero if it lacks none.
    pub lag_us: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaceReport {
    pub term: Term,
    /// Actions that are admitted, in thousandths of one per second; zero: all are.
    pub rate: u64,
    /// Time in which proposals waited for their admission in this term, in microseconds.
    pub paused_us: u64,
    /// How often that began in this term.
    pub pauses: u64,
    /// The member that lags most of the majority that keeps up best; zero: none is known.
    pub slowest: MemberId,
    pub slowest_lag_us: u64,
    /// The database of each member that is known, ascending by member.
    pub members: Vec<MemberLag>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberLag {
    pub member: MemberId,
    /// Everything up to here has left its commit order.
    pub left: Seqno,
    /// For how long it has lacked a committed action, in microseconds.
    pub lag_us: u64,
}

/// Members that are present, by the leader: those that have not left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PresenceReport {
    pub term: Term,
    /// The members, ascending. Left out are those that have left, and those that neither this
    /// leader nor one before it has heard, as far as it knows.
    pub members: Vec<HeardMember>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeardMember {
    pub member: MemberId,
    /// For how long nothing has come from it, in milliseconds.
    pub silent_ms: u64,
}

/// Log and database of a member that runs while its group has no majority, for an operator who has
/// to choose the one that continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SurvivorReport {
    pub last: EntryId,
    pub durable: LogIndex,
    pub commit: LogIndex,
    /// The highest commit index that a leader has stated to its present process; zero: none has.
    pub stated: LogIndex,
    /// For how long it is not known whether its log has all that is committed, in microseconds;
    /// none: since its process began.
    pub incomplete_us: Option<u64>,
    /// The last action in its database; [`Seqno::UNDEFINED`] if it has none.
    pub applied: Seqno,
    /// Whether its log was damaged, and lacks entries that it has acknowledged.
    pub is_under_repair: bool,
    pub leader: Option<MemberId>,
}
