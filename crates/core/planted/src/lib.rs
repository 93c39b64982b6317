//! Planted bugs: mistakes put into the code on purpose. If the simulator did not find them, it
//! would not find real ones either.
//!
//! # Rules
//!
//! 1. No build that ships can be wrong: without the feature `planted`, [`is`] is the constant
//!    `false`, and the compiler removes the wrong code.
//! 2. With the feature, no bug is on by itself. `plant` switches one on, for one thread; with the
//!    feature `servers`, the variable `SYNOD_PLANTED` does, for a process.
//! 3. A bug is a mistake that a developer could make in one place: a check left out, a bound off by
//!    one. The simulator's test `planted` has to find each of them.
//!
//! # Use
//!
//! The code under test asks with [`planted!`] where it could be wrong. The first operand is the
//! right code, so that a reader sees it first:
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

/// Whether bugs can be planted in this build.
pub const ENABLED: bool = cfg!(feature = "planted");

/// Makes the enum, and the list of those for the simulator.
macro_rules! bugs {
    (
        simulated { $($(#[$doc:meta])+ $bug:ident,)* }
        monitors { $($(#[$monitor_doc:meta])+ $monitor:ident,)* }
        servers { $($(#[$server_doc:meta])+ $server:ident,)* }
    ) => {
        /// A planted bug. The text says which crate has it, and what that crate then does wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $($(#[$doc])+ $bug,)*
            $($(#[$monitor_doc])+ $monitor,)*
            $($(#[$server_doc])+ $server,)*
        }

        impl Bug {
            /// Bugs that the simulator must find; it has no threads. The others are those of
            /// monitors, for the models beside these (`make monitors`), and of servers.
            pub const SIMULATED: &[Bug] = &[$(Bug::$bug),*];
            /// Bugs that only clients of real servers see (`synod-lab certify`).
            pub const SERVERS: &[Bug] = &[$(Bug::$server),*];
        }
    };
}

bugs! {
    simulated {
        /// log: a sync returns success without an fsync.
        AckBeforeSync,
        /// consensus: a leader counts its own entry as durable when the write is handed over.
        CountOwnDiskEarly,
        /// member: the term and vote are not written to the log.
        SkipVote,
        /// consensus: a restarted member does not know which candidate it voted for.
        ForgetVote,
        /// consensus: a member votes for every candidate that asks, as often as it is asked.
        VoteTwice,
        /// consensus: a candidate gets votes although its log is shorter than the voter's.
        VoteForShorterLog,
        /// consensus: entries of older terms are committed by counting copies.
        CommitOlderTerms,
        /// member: a leader whose disk has stalled keeps leading.
        KeepStalledLeader,
        /// consensus: a leader without a database keeps leading, although others could.
        KeepLoggerLeading,
        /// member: a running member that was removed is admitted when it asks to join.
        AdmitRemoved,
        /// member: a newcomer votes although a voter that it may be meant to replace is absent.
        GrowByReplacement,
        /// member: a voter that leaves in order loses its vote, whatever their number is.
        LeaverLosesVote,
        /// member: a leader that follows the writers does not stay for the pause.
        FollowAtOnce,
        /// member: the leader admits actions at the pace of the slowest database.
        SlowestSetsThePace,
        /// member: the leader admits everything, however much the databases lag.
        LagWithoutBound,
        /// consensus: half of the voters count as a majority.
        HalfIsMajority,
        /// consensus: a leader commits what a majority has, in whatever regions.
        ForgetRegions,
        /// consensus: the configuration is changed while the last change is not committed.
        TwoChangesAtOnce,
        /// consensus: followers append entries that do not continue their logs.
        AppendAnywhere,
        /// consensus: a follower takes over a commit index beyond what it holds of the
        /// leader's log.
        CommitUnmatched,
        /// consensus: a read is answered with the member's own commit index.
        LocalRead,
        /// consensus: a leader answers reads without a majority that confirms it.
        UnconfirmedRead,
        /// member: the age of a database counts from the leader's answer, not from the question.
        AgeFromAnswer,
        /// consensus: a leader accepts proposals that were sent to the leader of another term.
        AcceptStaleProposal,
        /// consensus: a leader orders a proposal again when its origin sends it again.
        ResendWithoutDedup,
        /// member: an origin sends proposals again that it made before its log was reset.
        ResendAfterReset,
        /// log: a failed fsync counts as successful.
        IgnoreFailedSync,
        /// member: truncations are not written to the log.
        LoseTruncate,
        /// log: damage below the durable floor is cut off like a torn tail.
        CutDamage,
        /// consensus: a member with a damaged log does not know how far its log had reached.
        ForgetMark,
        /// consensus: a member whose log is under repair votes as if the log had never been longer.
        VoteUnderRepair,
        /// log: entries are read without a check of their checksum.
        ServeDamage,
        /// consensus: the group's protocol version rises to the newest that any one member speaks.
        RiseTooHigh,
        /// consensus: the group's version rises by itself although an operator holds it.
        RiseThoughHeld,
        /// member: a member keeps running in a group whose protocol version it does not speak.
        IgnoreVersion,
        /// certify: the snapshot position of a write set counts as one action later than it is.
        WindowOffByOne,
        /// member: after a truncation, certification keeps the effects of the removed entries.
        NoCertificationRollback,
        /// member: after a restart, certification knows no keys, but claims to know the window.
        ColdCertification,
        /// member: a driver that has stopped performs the rest of its turn.
        TurnAfterStop,
        /// member: a full log is purged of chunks of partial actions.
        DropUnfinished,
        /// member: a proposal is given up without raising the epoch of its locks.
        NoEpoch,
        /// member: entries are delivered before they are committed.
        DeliverUncommitted,
        /// member: an action is assembled without a check that all its chunks are there.
        MissingChunks,
        /// member: a database that is before the log's beginning continues at that beginning.
        SkipUnfetched,
        /// member: an action whose client has given up is left for that client to finish.
        LeaveToTheDead,
        /// member: an action counts as flushed as soon as the database has applied it.
        RetainUnflushed,
        /// member: a full log is purged of actions that only one database has flushed.
        RetainForOne,
        /// member: a member that follows a forced primary truncates actions that it has applied.
        UndoApplied,
        /// member: a member gives up the log that shows that its database is of another history.
        ForgetOtherHistory,
        /// member: a database that no log proves joins without a full copy, although a primary was
        /// forced in its group.
        TrustDatabase,
        /// member: a commit waits for one of the other databases, not for all.
        WaitForOne,
        /// member: the leader orders writes of all members, although only it is to write.
        WriteElsewhere,
        /// member: a new leader orders writes that have not seen what preceded its term.
        WriteBeforeApplied,
        /// member: a process outside the group may ask for votes, and may lead.
        StrangerMayVote,
        /// member: a process outside the group may propose actions.
        StrangerMayPropose,
        /// member: a refused message counts as a sign of life of the member that it names.
        HeardFromStrangers,
        /// consensus: a candidate drops the votes that arrive after its window.
        DropLateVotes,
        /// consensus: a member consents to a later candidacy while its vote may still elect a
        /// leader.
        ConsentWhileVoting,
        /// member: a leader whose disk has stalled hands over to a member with any disk.
        HandOverToSlow,
        /// log: a start believes the engine's position, whatever the record of the database says.
        BelieveEngine,
        /// log: the record of the database is written, and not synced.
        RecordUnsynced,
        /// log: the record of a failed action is forgotten before the engine has flushed that
        /// action.
        ForgetUnflushed,
        /// log: a start applies what failed again, though its database may have it by now.
        ApplyTwice,
    }
    monitors {
        /// node: a thread that has driven its share lets go of events, and the core thread sleeps.
        KeepShare,
        /// node: the core thread unlocks the queue between its last look and its sleep.
        SleepUnlocked,
        /// node: the thread of a lane unlocks the queue between its last look and its sleep.
        TakeUnlocked,
        /// node: what a driving thread may not send is left to a thread that is not woken.
        SendUnwoken,
        /// node: an event wakes one of those who wait for it.
        WakeOne,
        /// node: those who wait for room are told to look again without their lock.
        LookAgainUnlocked,
        /// node: the thread that has written the last line does not wake those who wait for it.
        FlushUnwoken,
        /// provider: a wake before the sleep does not count.
        ForgetWake,
        /// provider: a thread notes that it waits for its turn after it has unlocked the order.
        NoteTurnLate,
        /// provider: the last free applier takes what waits for the action that no applier is
        /// left for.
        StrandFirst,
        /// provider: a pause has begun when what runs has left the order, and is not finished.
        PauseEarly,
        /// provider: the end of a pause wakes none who waits for a turn.
        ResumeUnwoken,
        /// provider: an applier that makes room does not wake the delivery.
        RoomUnwoken,
        /// provider: a stop leaves idle appliers asleep.
        StopUnwoken,
        /// provider: a commit looks only before it notes its wait whether that has ended.
        WaitUnchecked,
    }
    servers {
        /// provider: each 64th ordered transaction is answered as if it had lost certification:
        /// error 1213 for what is committed, since appliers commit it then.
        RefuseOrdered,
    }
}

impl Bug {
    /// The name of the bug on command lines.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The bug with this name.
    pub fn from_name(name: &str) -> Option<Bug> {
        let mut all = Bug::SIMULATED.iter().chain(Bug::SERVERS).copied();
        all.find(|bug| bug.name() == name)
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
        CURRENT.get() == Some(bug) || in_process() == Some(bug)
    }

    #[cfg(feature = "servers")]
    fn in_process() -> Option<Bug> {
        use std::sync::OnceLock;
        static PLANTED: OnceLock<Option<Bug>> = OnceLock::new();
        *PLANTED.get_or_init(|| Bug::from_name(&std::env::var("SYNOD_PLANTED").ok()?))
    }

    #[cfg(not(feature = "servers"))]
    const fn in_process() -> Option<Bug> {
        None
    }

    /// Switches a bug on in this thread, in place of any other; `None` switches it off.
    pub fn plant(bug: Option<Bug>) {
        CURRENT.set(bug);
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    use super::Bug;

    /// Whether this bug is on: never in this build.
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
        assert!(Bug::SIMULATED.iter().all(|bug| !is(*bug)));
    }

    #[test]
    fn each_bug_is_found_by_its_name() {
        for &bug in Bug::SIMULATED {
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
