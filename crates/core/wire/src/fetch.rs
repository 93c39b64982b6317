//! Fetching: a member asks another one for committed entries that its own log lacks.
//!
//! ```text
//!  the asker's log          base ─────────────── last
//!  its database      after ◄──────►
//!                      what is missing: fetched, in as many answers as it takes
//! ```

use bytes::Bytes;
use synod_consensus::{EntryHeader, EntryId, LogIndex, Seqno, SessionId};

/// Asks for committed entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// The sender's session.
    pub session: SessionId,
    /// The sender's number for it in that session. It asks several members with the same number.
    pub number: u64,
    /// The first entry that is wanted.
    pub from: FetchFrom,
    /// The last one, at most `base.index`. The answer may end before it.
    pub to: LogIndex,
    /// The last entry before the sender's own log, which is committed. A log that has this entry
    /// has the same ones before it (Raft, section 5.3, Log Matching).
    pub base: EntryId,
    /// The sender will ask for no entry before this one; zero: it does not know yet.
    pub needed_from: LogIndex,
    /// Whether payloads are wanted. Otherwise only those of views are.
    pub with_payloads: bool,
}

/// Beginning of the wanted entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchFrom {
    /// Right after the entry of this action.
    After(Seqno),
    /// With the entry at this index.
    At(LogIndex),
}

/// Answer to a [`FetchRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchAnswer {
    /// The session of the request.
    pub session: SessionId,
    /// Its number.
    pub number: u64,
    /// The entries, or why there are none.
    pub result: Result<FetchedEntries, FetchRefusal>,
}

/// Entries from the beginning of the wanted range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchedEntries {
    /// Consecutive, ascending by index.
    pub headers: Vec<EntryHeader>,
    /// One per entry, each of the length that its header says. `None`: it was not wanted.
    pub payloads: Vec<Option<Bytes>>,
}

/// Why a member sends no entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchRefusal {
    /// Its log has lost them, and begins with this action.
    Purged {
        /// The first action in its log.
        first: Seqno,
    },
    /// The asked member has not committed the entry before the asker's log: it lags itself.
    Behind,
}
