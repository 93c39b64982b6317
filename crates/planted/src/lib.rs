//! Bugs put in on purpose: if the simulator did not find them, it would not find real ones either.
//!
//! The code under test asks [`is`] at the place where it could be wrong. Without the feature
//! `planted` the answer is the constant `false`, and nothing is left of the question. With it, a
//! bug can be switched on for one thread by [`plant`]; none is on by itself.
//!
//! Most places ask with [`planted!`], whose first operand is the right code:
//!
//! ```
//! # let voters: usize = 3;
//! let majority = synod_planted::planted!(HalfIsMajority, voters / 2 + 1, else voters.div_ceil(2));
//! # assert_eq!(majority, 2);
//! ```
#![forbid(unsafe_code)]

/// The right code, or, if this bug is planted in this thread, the wrong code behind `else`.
#[macro_export]
macro_rules! planted {
    ($bug:ident, $right:expr, else $wrong:expr) => {
        if $crate::is($crate::Bug::$bug) {
            $wrong
        } else {
            $right
        }
    };
}

/// Whether this build can be made wrong.
pub const ENABLED: bool = cfg!(feature = "planted");

/// A bug, named by what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bug {
    /// log: a sync returns without having synced.
    AckBeforeSync,
    /// consensus: a leader counts its own disk as soon as it has handed over the write.
    CountOwnDiskEarly,
    /// member: votes are not written.
    SkipVote,
    /// consensus: a restarted member has forgotten whom it voted for.
    ForgetVote,
    /// consensus: a member votes for whoever asks, as often as it is asked.
    VoteTwice,
    /// consensus: a candidate with a shorter log gets votes.
    VoteForShorterLog,
    /// consensus: a restarted voter does not wait before it votes again.
    NoPromiseAfterRestart,
    /// consensus: voters keep no promise to their leader.
    BreakPromise,
    /// consensus: entries of older terms are committed by counting copies.
    CommitOlderTerms,
    /// consensus: half of the voters count as a majority.
    HalfIsMajority,
    /// consensus: the configuration is changed while the last change is not committed.
    TwoChangesAtOnce,
    /// consensus: followers append whatever comes, wherever their log ends.
    AppendAnywhere,
    /// consensus: the lease counts from when an answer is received.
    LeaseFromReceiveTime,
    /// consensus: a read is answered with the member's own commit index.
    LocalRead,
    /// consensus: a leader accepts proposals meant for another term's leader.
    AcceptStaleProposal,
    /// consensus: a leader orders what it has ordered already when it is sent again.
    ResendWithoutDedup,
    /// consensus: an origin believes refusals of any term.
    BelieveOldRefusal,
    /// member: an origin sends again what it proposed before its log began anew.
    ResendAfterReset,
    /// log: a failed sync is taken for a good one.
    IgnoreFailedSync,
    /// member: truncations are not written.
    LoseTruncate,
    /// log: damage below a floor is cut off like a torn tail.
    CutDamage,
    /// consensus: a member with a damaged log forgets what it has lost.
    ForgetMark,
    /// consensus: a member under repair votes as if its log had never been longer.
    VoteUnderRepair,
    /// log: entries are read without a look at their checksum.
    ServeDamage,
    /// consensus: the group's version rises to the newest that somebody speaks.
    RiseTooHigh,
    /// member: a program works on in a group whose version it does not speak.
    IgnoreVersion,
    /// certify: the snapshot counts as one action newer than it is.
    WindowOffByOne,
    /// member: after a truncation, certification keeps what the dropped entries did.
    NoCertificationRollback,
    /// member: after a restart, certification starts without history but claims to have it.
    ColdCertification,
    /// member: a full log drops chunks of actions that are not complete.
    DropUnfinished,
    /// member: delivery stops where entries were dropped, although there was no action among them.
    StopAtDropped,
    /// member: a member that has stopped goes on with its turn.
    TurnAfterStop,
    /// member: locks that were given up are still taken for granted.
    NoEpoch,
    /// member: actions are handed to the database before they are committed.
    DeliverUncommitted,
    /// member: chunks of an action are put together without a look whether all are there.
    MissingChunks,
    /// member: an action whose client has given up is left to that client.
    LeaveToTheDead,
    /// member: the log drops what the database has applied, flushed or not.
    RetainUnflushed,
    /// member: the log drops by force what one database has.
    RetainForOne,
    /// member: the log gives up, after an order to go on, what the database has applied.
    UndoApplied,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 39] = [
        Bug::AckBeforeSync,
        Bug::CountOwnDiskEarly,
        Bug::SkipVote,
        Bug::ForgetVote,
        Bug::VoteTwice,
        Bug::VoteForShorterLog,
        Bug::NoPromiseAfterRestart,
        Bug::BreakPromise,
        Bug::CommitOlderTerms,
        Bug::HalfIsMajority,
        Bug::TwoChangesAtOnce,
        Bug::AppendAnywhere,
        Bug::LeaseFromReceiveTime,
        Bug::LocalRead,
        Bug::AcceptStaleProposal,
        Bug::ResendWithoutDedup,
        Bug::BelieveOldRefusal,
        Bug::ResendAfterReset,
        Bug::IgnoreFailedSync,
        Bug::LoseTruncate,
        Bug::CutDamage,
        Bug::ForgetMark,
        Bug::VoteUnderRepair,
        Bug::ServeDamage,
        Bug::RiseTooHigh,
        Bug::IgnoreVersion,
        Bug::WindowOffByOne,
        Bug::NoCertificationRollback,
        Bug::ColdCertification,
        Bug::TurnAfterStop,
        Bug::DropUnfinished,
        Bug::StopAtDropped,
        Bug::NoEpoch,
        Bug::DeliverUncommitted,
        Bug::MissingChunks,
        Bug::LeaveToTheDead,
        Bug::RetainUnflushed,
        Bug::RetainForOne,
        Bug::UndoApplied,
    ];

    /// The name used on command lines.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The bug with this name.
    pub fn from_name(name: &str) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| bug.name() == name)
    }
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static CURRENT: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether this bug is on in this thread.
    pub fn is(bug: Bug) -> bool {
        CURRENT.get() == Some(bug)
    }

    /// Switches a bug on in this thread, in place of another one; or none.
    pub fn plant(bug: Option<Bug>) {
        CURRENT.set(bug);
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    use super::Bug;

    /// No bug can be on in this build.
    #[inline(always)]
    pub const fn is(_bug: Bug) -> bool {
        false
    }
}

pub use switch::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_planted_by_itself() {
        assert!(Bug::ALL.into_iter().all(|bug| !is(bug)));
    }

    #[test]
    fn names_lead_back() {
        for bug in Bug::ALL {
            assert_eq!(Bug::from_name(&bug.name()), Some(bug));
        }
    }

    #[cfg(feature = "planted")]
    #[test]
    fn planted_bug_is_on_in_its_thread_only() {
        plant(Some(Bug::NoEpoch));
        assert!(is(Bug::NoEpoch) && !is(Bug::SkipVote));
        let elsewhere = std::thread::spawn(|| is(Bug::NoEpoch)).join().unwrap();
        assert!(!elsewhere);
        plant(None);
        assert!(!is(Bug::NoEpoch));
    }
}
