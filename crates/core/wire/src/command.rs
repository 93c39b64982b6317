//! Operators' commands to the group, and the answers to them.
//!
//! An operator gives a [`Command`] to any member. It goes to the leader, or to the member that it
//! concerns, as [`PeerMessage::Command`](crate::PeerMessage::Command). Both enums are the interface
//! for programs, too: they hold names and numbers only.

use std::fmt;

use synod_consensus::{LeaderWeight, LogIndex};

/// An order of an operator.
///
/// Members are named as the operator sees them: by name; by address (`host:port`), if several
/// members have one name; or by id, as the error log prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Takes a member out of the group: it counts for no majority, and is sent nothing any more.
    Remove {
        /// The member.
        member: String,
        /// Do it even if fewer members than before may be lost afterwards.
        force: bool,
    },
    /// Makes a voter of a learner that has caught up.
    Promote {
        /// The learner.
        member: String,
    },
    /// Makes a learner of a voter. It stays one until it is promoted, or its process starts again.
    Demote {
        /// The voter.
        member: String,
        /// Do it even if fewer members than before may be lost afterwards.
        force: bool,
    },
    /// Removes one member; another one, which has caught up, votes in its place. The number of
    /// voters stays as it is.
    Replace {
        /// The member to be removed.
        old: String,
        /// The member that takes its place.
        new: String,
        /// Do it even if fewer members than before may be lost afterwards.
        force: bool,
    },
    /// Binds a member to no certificate, until it shows one.
    Unbind {
        /// The member.
        member: String,
    },
    /// Hands leadership over.
    TransferLeadership {
        /// The voter that is to lead; none: the one that the leader prefers.
        to: Option<String>,
    },
    /// Sets how much a member is preferred as leader, until its process starts again.
    SetWeight {
        /// The member.
        member: String,
        /// Its weight from now on.
        weight: LeaderWeight,
    },
    /// Says which protocol version the group speaks, and until when.
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

/// Result of a command that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The configuration is changed, and that cannot be lost any more.
    Committed {
        /// Index of the entry that changed it; of the last one, if there were two.
        index: LogIndex,
    },
    /// This member leads now.
    Leads {
        /// Its name.
        member: String,
    },
    /// The member has this weight now.
    WeightSet {
        /// Its name.
        member: String,
        /// Its weight.
        weight: LeaderWeight,
    },
    /// This member continues without a majority, as the only voter.
    Continues {
        /// Its name.
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

/// Why a command has led to nothing, or perhaps to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRefusal {
    /// The cause, for programs.
    pub reason: RefusalReason,
    /// The cause, and what to do about it, as sentences for the operator.
    pub text: String,
}

impl fmt::Display for CommandRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CommandRefusal {}

/// The cause of a [`CommandRefusal`]. Nothing was changed, except perhaps with
/// [`RefusalReason::Unsure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefusalReason {
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
    /// The group speaks a protocol version without commands.
    ProtocolTooOld = 10,
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

impl RefusalReason {
    /// All reasons, each at the place of its number.
    pub(crate) const ALL: [RefusalReason; 20] = [
        RefusalReason::UnknownMember,
        RefusalReason::AmbiguousName,
        RefusalReason::AlreadySo,
        RefusalReason::LastVoter,
        RefusalReason::NotCaughtUp,
        RefusalReason::NotVoter,
        RefusalReason::InProgress,
        RefusalReason::WouldLoseQuorum,
        RefusalReason::WouldLoseTolerance,
        RefusalReason::NoLeader,
        RefusalReason::ProtocolTooOld,
        RefusalReason::Unsure,
        RefusalReason::Stopped,
        RefusalReason::TransferFailed,
        RefusalReason::NotSpoken,
        RefusalReason::ProtocolFell,
        RefusalReason::MemberSilent,
        RefusalReason::NotLost,
        RefusalReason::OtherHasMore,
        RefusalReason::Unfit,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_at_the_places_of_their_numbers() {
        for (place, reason) in RefusalReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
    }
}
