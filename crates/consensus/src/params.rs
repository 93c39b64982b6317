//! What a core is started with.

use crate::membership::config::ConfigAt;
use crate::message::LogBase;
use crate::types::{EntryHeader, EntryId, HardState, LogIndex, MemberId, Term};

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

/// State of a member's disk at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Term and vote.
    pub vote: HardState,
    /// Where the log starts.
    pub base: LogBase,
    /// First index of every term in the log after the base, ascending.
    pub term_starts: Vec<(Term, LogIndex)>,
    /// Every config entry after the base, ascending.
    pub configs: Vec<ConfigAt>,
    /// Headers of the newest entries, consecutive, ending with the last entry of the log. Empty only
    /// if the log is.
    pub tail: Vec<EntryHeader>,
    /// The log was damaged and has lost its end: it held, or may have held, entries up to this one. See
    /// [`crate::Core::repairing_until`].
    pub repair: Option<EntryId>,
}

/// See [`crate::Core::set_install_base`].
pub(crate) type InstallBases = std::collections::BTreeMap<MemberId, LogBase>;
