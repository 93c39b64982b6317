//! Parameters of a core at start: its settings, and the recovered state of its disk.

use crate::membership::config::ConfigAt;
use crate::message::LogBase;
use crate::types::{EntryHeader, EntryId, HardState, LogIndex, MemberId, Term};

#[derive(Clone, Debug)]
pub struct CoreParams {
    /// This member. Not [`MemberId::NONE`].
    pub id: MemberId,
    pub timing: Timing,
    pub limits: Limits,
    /// Seed of the generator for election timeouts. It must differ between members, or their
    /// candidacies collide again and again. It should differ between starts. Zero is not special.
    pub seed: u64,
}

/// Timeouts; all in microseconds. They should be the same on all members. Nothing is unsafe where
/// they differ.
///
/// `Timing::default()` is the one source of the default numbers: options, tests and documents
/// derive theirs from it.
///
/// Order that [`crate::Core::new`] asserts: `promise_us < election_timeout_min_us <
/// election_timeout_max_us`. Zero is not special anywhere: it is a timeout that has always passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often a leader sends a heartbeat to each member. Also the random width by which members
    /// disperse their candidacies after a broken connection.
    ///
    /// Shorter: commits that no append carries reach followers sooner; each member costs one
    /// message and one reply per interval. Keep it at a quarter of `promise_us` or less, so that
    /// one lost heartbeat does not end a promise.
    pub heartbeat_us: u64,
    /// How long a voter that heard from a leader promises not to vote for another. No rule of
    /// safety rests on it: it keeps members that do not hear the leader from disturbing the others.
    ///
    /// Longer: a group whose leader has died cannot elect another before the promises end. Shorter:
    /// a leader that is only slow is replaced.
    pub promise_us: u64,
    /// Shortest election timeout. A follower that hears nothing from a leader for a random time
    /// between this and `election_timeout_max_us` asks for pre-votes. A leader transfer that has
    /// not succeeded within this time is given up.
    ///
    /// Shorter: a leader that is silent, but whose connections are up, is replaced sooner. Too
    /// short for the network's worst delays or the disk's worst sync: needless elections.
    pub election_timeout_min_us: u64,
    /// Longest election timeout. A leader that has heard no quorum for this long steps down. A
    /// removed member is still sent the log for this long, so that it learns of its removal.
    ///
    /// The width above `election_timeout_min_us` keeps candidacies apart: it should be several
    /// times a message's round trip plus a sync, or votes split.
    pub election_timeout_max_us: u64,
    /// After how long something without an answer is sent again: a probe and a read question after
    /// one of these, a base after two, a window of entries and a catch-up message after four. An
    /// idle stream is probed every two.
    ///
    /// Shorter: losses are repaired sooner. Shorter than a slow sync: the same entries are sent
    /// twice.
    pub retry_us: u64,
}

impl Timing {
    /// Shortest silence of a leader, in microseconds, after which a follower becomes a candidate,
    /// if the leader's process has given no other sign of life either: half of the shortest
    /// election timeout, but longer than a promise.
    pub fn silence_us(&self) -> u64 {
        let longer_than_promise = self.promise_us.saturating_add(2 * self.heartbeat_us);
        let half = self.election_timeout_min_us / 2;
        half.max(longer_than_promise)
            .min(self.election_timeout_min_us)
    }
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            heartbeat_us: 100_000,
            promise_us: 400_000,
            election_timeout_min_us: 1_500_000,
            election_timeout_max_us: 3_000_000,
            retry_us: 500_000,
        }
    }
}

/// Bounds on memory and on what is in flight; in bytes unless the field says otherwise. Members may
/// have different ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most messages with entries in flight to one follower; a number. Zero counts as one.
    ///
    /// Together with `inflight_bytes_max` this is the window of a stream. By Little's law a window
    /// of W bytes and a round trip of R seconds (with the follower's sync) allow at most W / R
    /// bytes per second: 16 MiB and 20 ms allow 800 MiB/s.
    pub inflight_messages_max: usize,
    /// Bytes in flight to one follower at which sending pauses. The message that reaches the bound
    /// is sent whole. Zero: one message at a time.
    ///
    /// Larger: more throughput on long round trips (see `inflight_messages_max`). Smaller: less is
    /// sent again after a loss, and less memory is held for a slow follower.
    pub inflight_bytes_max: u64,
    /// Most bytes in one message with entries. One entry may exceed it, so zero means one entry per
    /// message.
    ///
    /// Larger: fewer messages and fewer syncs per byte. Smaller: heartbeats that follow a message
    /// wait less.
    pub append_bytes_max: u64,
    /// Uncommitted bytes above which the leader refuses proposals ([`crate::ProposeError::Busy`]).
    /// One entry may exceed it, so zero means one uncommitted entry at a time.
    ///
    /// Bounds the leader's memory and the time that a new leader needs to commit what it inherits.
    pub uncommitted_bytes_max: u64,
    /// Most entry headers kept in memory; a number. Headers of uncommitted entries are always kept,
    /// and so is one header at least.
    ///
    /// A follower that lags by more than this leaves the stream, and catches up from the leader's
    /// disk.
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

/// A member's disk at start, as the log layer hands it over. The default is an empty disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub vote: HardState,
    pub base: LogBase,
    /// First index of every term in the log after the base, ascending.
    pub term_starts: Vec<(Term, LogIndex)>,
    pub configs: Vec<ConfigAt>,
    /// Headers of the newest entries, consecutive, ending with the last entry of the log. Empty
    /// only if the log is.
    pub tail: Vec<EntryHeader>,
    /// If the log was damaged and has lost its end: the last entry that it held, or may have held.
    /// See [`crate::Core::repairing_until`].
    pub repair: Option<EntryId>,
}
