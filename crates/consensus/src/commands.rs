//! The values that a core's commands take and return, and their errors.

use crate::membership::config::Member;
use crate::membership::version::VersionRange;
use crate::types::{EntryId, EntryKind, LogIndex, MemberId, Origin, Seqno, Time};

/// Something to be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// What it is. Not `NoOp` or `Config`: the core makes those itself.
    pub kind: EntryKind,
    /// Who proposes it. Entries made by the leader (`View`, `Discard`): its own id, session zero,
    /// number zero.
    pub origin: Origin,
    /// For ordered kinds: the last seqno it depends on, below its own. Ignored for the others.
    pub depends_on: Seqno,
    /// Payload size in bytes.
    pub payload_len: u32,
    /// CRC32C of the payload.
    pub payload_crc: u32,
}

/// Why a proposal was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This member does not lead.
    #[error("not the leader")]
    NotLeader {
        /// Who does, if known.
        leader: Option<MemberId>,
    },
    /// Leadership is being handed over.
    #[error("leadership is being transferred")]
    LeaderTransfer,
    /// Too many bytes are not committed yet.
    #[error("too many uncommitted bytes")]
    Busy,
}

/// A change of the configuration. Each alters the set of voters by at most one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// A new member, as a learner whatever `member.role` says.
    AddLearner {
        /// Its id.
        id: MemberId,
        /// Its description.
        member: Member,
    },
    /// Learner to voter.
    Promote(MemberId),
    /// Voter to learner.
    Demote(MemberId),
    /// Out of the group.
    Remove(MemberId),
    /// Remove `old` and add `id` as a learner, in one entry: a member that comes back with a new
    /// disk, and may keep its name.
    Replace {
        /// Who goes.
        old: MemberId,
        /// Who comes.
        id: MemberId,
        /// Its description.
        member: Member,
    },
    /// New name, address, or program.
    Update {
        /// Whose.
        id: MemberId,
        /// The name.
        name: String,
        /// The address.
        address: String,
        /// Protocol versions it speaks now.
        versions: VersionRange,
    },
    /// The group speaks this protocol version from now on.
    RaiseProtocol(u16),
}

/// Why a configuration change was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// This member does not lead.
    #[error("not the leader")]
    NotLeader {
        /// Who does, if known.
        leader: Option<MemberId>,
    },
    /// Leadership is being handed over.
    #[error("leadership is being transferred")]
    LeaderTransfer,
    /// Another change is not committed yet.
    #[error("the configuration change at {index} is not committed yet")]
    InProgress {
        /// Its entry.
        index: LogIndex,
    },
    /// The leader has not committed an entry of its own term yet.
    #[error("the leader has not committed an entry of its term yet")]
    NotReady,
    /// No such member.
    #[error("no member {id}")]
    UnknownMember {
        /// Who was meant.
        id: MemberId,
    },
    /// There is nothing to change.
    #[error("member {id} is so already")]
    AlreadySo {
        /// Who was meant.
        id: MemberId,
    },
    /// It does not answer, or lacks much of the log: its vote would only weaken the group.
    #[error("member {id} does not answer, or its log has not caught up: try again when it has")]
    NotCaughtUp {
        /// Who was to become a voter.
        id: MemberId,
    },
    /// A member does not speak the version that the group speaks, or would from now on.
    #[error("the group's protocol version is {protocol}, and {name} speaks {spoken}")]
    Protocol {
        /// The group's version.
        protocol: u16,
        /// Who does not speak it.
        name: String,
        /// What that member speaks.
        spoken: VersionRange,
    },
    /// The group's version never goes down.
    #[error("the group speaks protocol version {protocol} already")]
    ProtocolNotNewer {
        /// The group's version.
        protocol: u16,
    },
    /// Nobody would be left to vote.
    #[error("no voter would be left")]
    NoVoterLeft,
    /// Another member has that name and that address.
    #[error("member {id} is called '{name}' and reached at {address} already")]
    SeatTaken {
        /// The name.
        name: String,
        /// The address.
        address: String,
        /// Whose they are.
        id: MemberId,
    },
    /// Id zero, a text of more than 1024 bytes, or more than 1024 members.
    #[error("not a valid member: {reason}")]
    Invalid {
        /// What is wrong.
        reason: &'static str,
    },
}

/// Why a group was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// There is a log already.
    #[error("the log is not empty: it belongs to a group")]
    NotEmpty,
    /// A leader or candidate is at work.
    #[error("not idle: this member takes part in a group")]
    NotIdle,
    /// See [`ConfigError::Invalid`].
    #[error("not a valid member: {reason}")]
    Invalid {
        /// What is wrong.
        reason: &'static str,
    },
}

/// Why a member does not go on alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForceError {
    /// The group works.
    #[error("member {leader} leads the group")]
    HasLeader {
        /// Who.
        leader: MemberId,
    },
    /// It may lack what the voters have committed.
    #[error("this member is no voter")]
    NoVoter,
    /// It lacks what it has acknowledged itself.
    #[error("this member's log is under repair until entry {until}")]
    UnderRepair {
        /// What it has to reach.
        until: EntryId,
    },
}

/// Why leadership is not handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderTransferError {
    /// This member does not lead.
    #[error("not the leader")]
    NotLeader {
        /// Who does, if known.
        leader: Option<MemberId>,
    },
    /// A transfer is going on.
    #[error("leadership is being transferred to {to} already")]
    InProgress {
        /// To whom.
        to: MemberId,
    },
    /// The target is no voter.
    #[error("{to} is no voter")]
    NotVoter {
        /// Who was meant.
        to: MemberId,
    },
    /// The target is this member.
    #[error("{to} leads already")]
    AlreadyLeader {
        /// Who was meant.
        to: MemberId,
    },
    /// No other voter was heard from lately.
    #[error("no other voter was heard from lately")]
    NoCandidate,
}

/// What a leader knows of another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Who.
    pub member: MemberId,
    /// Its log is durable and the same as the leader's up to here.
    pub match_index: LogIndex,
    /// Next entry to send.
    pub next_index: LogIndex,
    /// How entries are sent.
    pub mode: ProgressMode,
    /// When it answered last in this term.
    pub last_heard: Option<Time>,
}

/// How entries are sent to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressMode {
    /// One message at a time, to find where the logs agree.
    Probe,
    /// Pipelined, from headers in memory.
    Stream,
    /// One big message at a time, read from the disk.
    CatchUp,
    /// It was told where to start its log.
    Install,
}

/// Counts of messages that were dropped. None of them is an error of this member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Not addressed to this member, or from itself or nobody.
    pub misaddressed: u64,
    /// Contradict themselves or the protocol.
    pub malformed: u64,
    /// Of an older term.
    pub stale: u64,
    /// Ignored because of the promise to a leader.
    pub promised: u64,
    /// Answers from somebody who is not in the configuration.
    pub strangers: u64,
    /// Appends whose config entries came without configurations.
    pub config_missing: u64,
    /// Answers dropped because too many waited for the disk.
    pub waiting_overflow: u64,
}
