//! What a core is configured with, and the values its commands return.

use crate::config::Member;
use crate::message::LogBase;
use crate::protocol::VersionRange;
use crate::types::{EntryId, EntryKind, LogIndex, MemberId, Origin, Seqno, Time};

/// Everything a [`crate::Core`] is started with, besides what is on its disk.
#[derive(Clone, Debug)]
pub struct CoreParams {
    /// Who this is.
    pub id: MemberId,
    /// Timeouts.
    pub timing: Timing,
    /// Bounds.
    pub limits: Limits,
    /// Seed of the generator for election timeouts. Must differ between members, and should between
    /// starts.
    pub seed: u64,
}

/// Timeouts; all in microseconds. The same on all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often a leader proves that it lives.
    pub heartbeat_us: u64,
    /// How long a voter that heard from a leader promises not to vote for another: the lease of the
    /// leader. Less than `election_timeout_min_us`.
    pub promise_us: u64,
    /// Bound on the error of clock rates in parts per million, subtracted from the leader's lease.
    pub clock_drift_ppm: u32,
    /// A follower that hears nothing for a random time from here...
    pub election_timeout_min_us: u64,
    /// ...to here asks for an election; a leader that hears no quorum for this long steps down.
    pub election_timeout_max_us: u64,
    /// Interval for sending again: probes, messages of a catch-up (after four of these), reads
    /// without an answer.
    pub retry_us: u64,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            heartbeat_us: 100_000,
            promise_us: 400_000,
            clock_drift_ppm: 20_000,
            election_timeout_min_us: 1_500_000,
            election_timeout_max_us: 3_000_000,
            retry_us: 500_000,
        }
    }
}

/// Bounds; in bytes unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages with entries in flight to one follower; a number.
    pub inflight_messages_max: usize,
    /// Bytes in flight to one follower. One message may exceed it.
    pub inflight_bytes_max: u64,
    /// Bytes in one message. One entry may exceed it.
    pub append_bytes_max: u64,
    /// Uncommitted bytes above which the leader refuses proposals. One entry may exceed it.
    pub uncommitted_bytes_max: u64,
    /// Headers kept in memory; a number. Uncommitted ones are always kept.
    pub tail_headers_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            inflight_messages_max: 256,
            inflight_bytes_max: 16 << 20,
            append_bytes_max: 1 << 20,
            uncommitted_bytes_max: 64 << 20,
            tail_headers_max: 65_536,
        }
    }
}

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

/// See [`crate::Core::set_install_base`].
pub(crate) type InstallBases = std::collections::BTreeMap<MemberId, LogBase>;
