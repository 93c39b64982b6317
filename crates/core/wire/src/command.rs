//! Operators' commands to the group, and the answers to them: the interface for programs, too, of
//! names and numbers only. A command goes to the leader, or to the member that it concerns.

use std::fmt;

use synod_consensus::{LeaderWeight, LogIndex};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::layout::{Codec, Maybe, Name, Text, Wire, coded};

/// An order of an operator. Members are named as the operator sees them: by name; by address
/// (`host:port`), if several have one name; or by id, as the error log prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Takes a member out of the group: it counts for no majority, and is sent nothing any more.
    Remove {
        member: String,
        /// Do it even if fewer members than before may be lost afterwards.
        force: bool,
    },
    Promote {
        member: String,
    },
    /// Makes a learner of a voter. It stays one until it is promoted, or its process starts again.
    Demote {
        member: String,
        /// Do it even if fewer members than before may be lost afterwards.
        force: bool,
    },
    Replace {
        old: String,
        new: String,
        /// Do it even if fewer members than before may be lost afterwards.
        force: bool,
    },
    Unbind {
        member: String,
    },
    TransferLeadership {
        /// The voter that is to lead; none: the one that the leader prefers.
        to: Option<String>,
    },
    SetWeight {
        member: String,
        weight: LeaderWeight,
    },
    SetProtocol {
        /// From now on this one, the present or a newer one, until an operator orders otherwise;
        /// none: the newest that all members speak, whenever that changes.
        version: Option<u16>,
        /// Do it even if a member does not answer, whose program may have been replaced.
        force: bool,
    },
    /// Continues without a majority. The member that is asked does, or a logger whose log is
    /// longer, until it has handed over.
    Recover,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Remove { member, .. } => write!(f, "remove {member}"),
            Command::Promote { member } => write!(f, "promote {member}"),
            Command::Demote { member, .. } => write!(f, "demote {member}"),
            Command::Replace { old, new, .. } => write!(f, "replace {old} by {new}"),
            Command::Unbind { member } => write!(f, "unbind {member}"),
            Command::TransferLeadership { to: Some(to) } => write!(f, "leadership to {to}"),
            Command::TransferLeadership { to: None } => f.write_str("leadership to another member"),
            Command::SetWeight { member, weight } => write!(f, "weight of {member} {weight}"),
            Command::SetProtocol {
                version: Some(version),
                ..
            } => write!(f, "protocol version {version}, held"),
            Command::SetProtocol { version: None, .. } => {
                f.write_str("protocol version that rises by itself")
            }
            Command::Recover => f.write_str("continue without a majority"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The configuration is changed, and that cannot be lost any more.
    Committed {
        /// Index of the entry that changed it; of the last one, if there were two.
        index: LogIndex,
    },
    Leads {
        member: String,
    },
    WeightSet {
        member: String,
        weight: LeaderWeight,
    },
    Continues {
        member: String,
    },
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Done::Committed { index } => write!(f, "committed at {index}"),
            Done::Leads { member } => write!(f, "{member} leads"),
            Done::WeightSet { member, weight } => write!(f, "{member} has weight {weight}"),
            Done::Continues { member } => write!(f, "{member} continues as the only voter"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRefusal {
    pub reason: RefusalReason,
    pub text: String,
}

impl fmt::Display for CommandRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CommandRefusal {}

/// Makes the enum, and its layout.
macro_rules! reasons {
    ($(#[$doc:meta] $reason:ident = $number:literal,)*) => {
        /// The cause of a [`CommandRefusal`]. Nothing was changed, except perhaps with
        /// [`RefusalReason::Unsure`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RefusalReason {
            $(#[$doc] $reason,)*
        }

        coded! { "reason of a refusal": RefusalReason {
            $($number () [RefusalReason::$reason])*
        } }
    };
}

// Their numbers travel: none is used again.
reasons! {
    /// No member is called so.
    UnknownMember = 0,
    /// Several members are called so.
    AmbiguousName = 1,
    /// The member is what it is to become already.
    AlreadySo = 2,
    /// The group would have no voter.
    LastVoter = 3,
    /// The member does not answer, or lacks much of the log.
    NotCaughtUp = 4,
    /// The member has no vote, so it cannot lead.
    NotVoter = 5,
    /// Another change of the group is under way.
    InProgress = 6,
    /// The voters that are left could not agree on the change: too few of them answer.
    WouldLoseQuorum = 7,
    /// The group would survive the loss of fewer members. Can be forced.
    WouldLoseTolerance = 8,
    /// No leader is known, or it does not lead yet.
    NoLeader = 9,
    /// The order was begun, or may have been, and its end is not known here.
    Unsure = 11,
    /// The member has stopped.
    Stopped = 12,
    /// The target did not take leadership over.
    TransferFailed = 13,
    /// A member does not speak the version.
    NotSpoken = 14,
    /// The group speaks a newer version, and does not go back.
    ProtocolFell = 15,
    /// A member does not answer: its program may be another one by now. Can be forced.
    MemberSilent = 16,
    /// There is a leader, or a majority that elects one: nothing has to be recovered.
    NotLost = 17,
    /// Another survivor has more of the log.
    OtherHasMore = 18,
    /// The member cannot continue alone: it has no vote, no database, or a damaged log.
    Unfit = 19,
}

const MEMBER: Name = Name::of("member");

coded! { "command": Command {
    0 (member: MEMBER, force) [Command::Remove { member, force }]
    1 (member: MEMBER) [Command::Promote { member }]
    2 (member: MEMBER, force) [Command::Demote { member, force }]
    3 (old: MEMBER, new: MEMBER, force) [Command::Replace { old, new, force }]
    4 (to: Maybe(MEMBER)) [Command::TransferLeadership { to }]
    5 (member: MEMBER, weight) [Command::SetWeight { member, weight }]
    6 (version: OrZero, force) [Command::SetProtocol { version, force }]
    7 () [Command::Recover]
    8 (member: MEMBER) [Command::Unbind { member }]
} }
coded! { "answer to a command": Result<Done, CommandRefusal> {
    0 (index) [Ok(Done::Committed { index })]
    1 (member: MEMBER) [Ok(Done::Leads { member })]
    2 (member: MEMBER, weight) [Ok(Done::WeightSet { member, weight })]
    3 (reason, text: Text) [Err(CommandRefusal { reason, text })]
    4 (member: MEMBER) [Ok(Done::Continues { member })]
} }

/// A version, which counts from 1; zero for none.
struct OrZero;

impl Codec<Option<u16>> for OrZero {
    fn write(&self, version: &Option<u16>, w: &mut Writer) -> Result<(), EncodeError> {
        version.unwrap_or(0).write(w)
    }

    fn read(&self, r: &mut Reader) -> Result<Option<u16>, DecodeError> {
        Ok(Some(u16::read(r)?).filter(|version| *version != 0))
    }
}
