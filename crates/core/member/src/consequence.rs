//! Consequences that texts for operators speak of. They depend on what the group keeps its log for.
//! Its members' hosts know that, and say it in their operators' words
//! ([`crate::Host::consequence`]).

/// A consequence of what a member does to its log, or its remedy; a part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consequence {
    /// A sentence: the log was purged early, to make room on its disk.
    PurgedEarly,
    /// The rest of a sentence about entries: the log was purged at its bound.
    PurgedAtBound,
    /// A noun: readers or members that the log is kept for.
    KeptFor,
    WillReachBound,
    /// A condition for which the log cannot be purged even then.
    HeldAtBound,
    /// A sentence: the log keeps less than was wanted.
    KeepsLess,
    /// The rest of a sentence: why a full log cannot be purged.
    FullAndHeld,
    /// The rest of a text: a full log is purged nevertheless.
    FullAndPurged,
    SoleVoterDamaged,
    /// A part of a sentence: how this member gets the group's history in place of its own.
    TakesHistory,
    /// A noun: where this member has actions that its group has lost.
    LostActionsPlace,
    /// A remedy, as an order: this member has such actions.
    LostActionsRemedy,
}

impl Consequence {
    /// All of them, for hosts that check their words.
    pub const ALL: [Consequence; 12] = [
        Consequence::PurgedEarly,
        Consequence::PurgedAtBound,
        Consequence::KeptFor,
        Consequence::WillReachBound,
        Consequence::HeldAtBound,
        Consequence::KeepsLess,
        Consequence::FullAndHeld,
        Consequence::FullAndPurged,
        Consequence::SoleVoterDamaged,
        Consequence::TakesHistory,
        Consequence::LostActionsPlace,
        Consequence::LostActionsRemedy,
    ];

    /// The words for a group of databases.
    pub fn for_databases(self) -> &'static str {
        match self {
            Consequence::PurgedEarly => "Members that need them take a full copy (SST)",
            Consequence::PurgedAtBound => {
                "may be needed by a member that lags. It fetches them from another member, or \
                 takes a full copy (SST) if none has them"
            }
            Consequence::KeptFor => "members that lag, are absent or are being copied to",
            Consequence::WillReachBound => {
                "it is purged of what they need, and they take a full copy (SST)"
            }
            Consequence::HeldAtBound => "too few databases have flushed it",
            Consequence::KeepsLess => {
                "Members that are absent for long may need a full copy (SST) sooner"
            }
            Consequence::FullAndHeld => {
                "too few databases have flushed its actions (a majority of them must have): \
                 nothing new is taken until they have"
            }
            Consequence::FullAndPurged => {
                "it is purged of what one database has, although too few databases have flushed \
                 its actions (a majority of them must have). Until others have caught up, \
                 acknowledged commits are lost with that disk"
            }
            Consequence::SoleVoterDamaged => {
                "Restore the file from a copy made after this member's last stop. If there is \
                 none, what was committed after the damage is in the databases only: move the \
                 synod-*.log files of all servers away, begin a new group with the server whose \
                 database is most advanced, and start the others with empty data directories"
            }
            Consequence::TakesHistory => "its database has to be copied again",
            Consequence::LostActionsPlace => "database",
            Consequence::LostActionsRemedy => "delete this member's data",
        }
    }
}
