//! Rules left out on purpose, to see whether the checker notices.
//!
//! Each mistake is tested with the smallest bounds in which it shows. A checker that does not find
//! these would not find a real error either.

use clap::ValueEnum;

/// One rule that is broken. Each is a bug that an implementation has had, or could have. The
/// checker must find what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Mistake {
    /// A leader counts itself for entries that its own disk does not have yet.
    CountOwnDiskEarly,
    /// A follower acknowledges entries before they are on its disk.
    AckBeforeSync,
    /// A vote is sent, but not written.
    ForgetVote,
    /// A voter does not look at the candidate's log.
    VoteForAnyLog,
    /// A leader commits entries of older terms by counting (Raft, figure 8).
    CommitOlderTerms,
    /// A configuration is used only once it is known to be committed.
    ConfigWhenCommitted,
    /// A leader appends a configuration while another is not committed.
    TwoChangesAtOnce,
    /// A leader changes the configuration before it has committed an entry of its own term (the bug
    /// in Raft's single-server changes that Ongaro reported in 2015).
    ChangeBeforeOwnCommit,
    /// An origin adds up acknowledgements that members gave to leaders of different terms.
    OriginAcrossTerms,
    /// An origin counts for entries that were appended in older terms.
    OriginOlderTerms,
    /// An origin supposes that the leader's disk has what the leader sent.
    OriginTrustsLeader,
    /// Origins count, but the leader answers reads by its own commit index.
    ReadAtCommit,
}
