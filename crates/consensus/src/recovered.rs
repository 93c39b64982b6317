//! What the log layer found on disk and hands to a starting core.

use crate::config::ConfigAt;
use crate::message::LogBase;
use crate::types::{EntryHeader, HardState, LogIndex, Term};

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
}
