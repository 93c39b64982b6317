//! What the log layer found on disk and hands to a starting core.

use crate::config::ConfigAt;
use crate::message::LogBase;
use crate::types::{EntryHeader, EntryId, HardState, LogIndex, Term};

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
