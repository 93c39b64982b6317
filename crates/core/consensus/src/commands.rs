//! The values that a core's commands take and return, and their errors. A command that returns an
//! error has changed nothing.

use crate::membership::config::{Member, VersionRange};
use crate::membership::settings::GroupSetting;
use crate::types::{EntryId, EntryKind, LogIndex, MemberId, Origin, Seqno, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Kind of entry. Not `NoOp` or `Config`: the core makes those itself.
    pub kind: EntryKind,
    /// Origin of the entry. Entries made by the leader (`View`, `Discard`): its own id, session
    /// zero, number zero.
    pub origin: Origin,
    /// Last seqno that an entry of an ordered kind depends on, below its own. Ignored for others.
    pub depends_on: Seqno,
    pub payload_len: u32,
    pub payload_crc: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    #[error("not the leader")]
    NotLeader { leader: Option<MemberId> },
    #[error("leadership is being transferred")]
    LeaderTransfer,
    #[error("too many uncommitted bytes")]
    Busy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    AddLearner {
        id: MemberId,
        member: Member,
    },
    Promote(MemberId),
    Demote(MemberId),
    Remove(MemberId),
    /// Remove `old` and add `id` as a learner, in one entry: a member that comes back with a new
    /// disk, and may keep its name.
    Replace {
        old: MemberId,
        id: MemberId,
        member: Member,
    },
    Update {
        id: MemberId,
        name: String,
        address: String,
        versions: VersionRange,
        /// Subject of the certificate that it is bound to from now on; none leaves that as it is.
        certificate: Option<String>,
    },
    Unbind(MemberId),
    /// The group speaks this protocol version from now on. Not while the version is held.
    RaiseProtocol(u16),
    /// The group speaks this protocol version, its own or a newer one, until an operator raises it.
    HoldProtocol(u16),
    ReleaseProtocol,
    Set(GroupSetting),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("not the leader")]
    NotLeader { leader: Option<MemberId> },
    #[error("leadership is being transferred")]
    LeaderTransfer,
    #[error("the configuration change at {index} is not committed yet")]
    InProgress { index: LogIndex },
    #[error("the leader has not committed an entry of its term yet")]
    NotReady,
    #[error("no member {id}")]
    UnknownMember { id: MemberId },
    #[error("member {id} is so already")]
    AlreadySo { id: MemberId },
    #[error("member {id} does not answer, or its log has not caught up: try again when it has")]
    NotCaughtUp { id: MemberId },
    #[error("the group's protocol version is {protocol}, and {name} speaks {spoken}")]
    Protocol {
        protocol: u16,
        name: String,
        spoken: VersionRange,
    },
    #[error("the group speaks protocol version {protocol}, and no group goes back to an older one")]
    ProtocolNotNewer { protocol: u16 },
    #[error("the group's protocol version is held at {protocol}")]
    ProtocolHeld { protocol: u16 },
    #[error("the group's protocol version rises by itself already")]
    ProtocolNotHeld,
    #[error("the group {setting} already")]
    SettingAlreadySo { setting: GroupSetting },
    #[error("no voter would be left")]
    NoVoterLeft,
    #[error(
        "the description of all members would take {bytes} bytes, and a log can hold {max}: names, \
         addresses and subjects of certificates have to be shorter, or members fewer"
    )]
    TooLarge { bytes: usize, max: usize },
    #[error("member {id} is called '{name}' and reached at {address} already")]
    SeatTaken {
        name: String,
        address: String,
        id: MemberId,
    },
    #[error("not a valid member: {reason}")]
    Invalid { reason: &'static str },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    #[error("the log is not empty: it belongs to a group")]
    NotEmpty,
    /// This member leads, follows a leader, or is a candidate.
    #[error("not idle: this member takes part in a group")]
    NotIdle,
    #[error("not a valid member: {reason}")]
    Invalid { reason: &'static str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForceError {
    #[error("member {leader} leads the group")]
    HasLeader { leader: MemberId },
    #[error("this member is in no group")]
    NotConfigured,
    #[error("this member's log is under repair until entry {until}")]
    UnderRepair { until: EntryId },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderTransferError {
    #[error("not the leader")]
    NotLeader { leader: Option<MemberId> },
    #[error("leadership is being transferred to {to} already")]
    InProgress { to: MemberId },
    #[error("{to} is no voter")]
    NotVoter { to: MemberId },
    #[error("{to} leads already")]
    AlreadyLeader { to: MemberId },
    #[error("no other voter has answered lately")]
    NoCandidate,
}

/// Replication progress of another member as the leader knows it; see [`crate::Core::progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub member: MemberId,
    /// The member's log is durable, and the same as the leader's, up to here. Zero: unknown.
    pub match_index: LogIndex,
    pub next_index: LogIndex,
    pub mode: ProgressMode,
    /// When the leader last received an answer of this term; `None`: not yet.
    pub last_heard: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressMode {
    /// One message at a time, to find the position where the logs agree.
    Probe,
    /// Pipelined, from headers in memory.
    Stream,
    /// One big message at a time, read from the disk.
    CatchUp,
    /// The leader has sent a base to start the log at, and waits for the answer.
    Install,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages not addressed to this member, or from itself, or without a sender.
    pub misaddressed: u64,
    /// Messages that contradict themselves or the protocol.
    pub malformed: u64,
    /// Messages of a term that is out of bounds, or too far above this member's.
    pub far_terms: u64,
    pub stale: u64,
    /// Vote requests ignored because of the promise to a leader.
    pub promised: u64,
    /// Answers from senders that are not in the leader's configuration.
    pub strangers: u64,
    /// Appends whose config entries came without configurations.
    pub config_missing: u64,
    /// Answers of this member not given because too many waited for the disk.
    pub waiting_overflow: u64,
}

impl Counters {
    /// Messages that this member cannot use although their sender may believe so: if they keep
    /// coming from a leader, this member's log stands still.
    pub fn refused_entries(&self) -> u64 {
        self.malformed + self.config_missing
    }
}
