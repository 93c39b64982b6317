//! What members' cores say to each other. Bodies carry entry *headers*; the driver moves payloads
//! beside them.

use crate::membership::config::ConfigAt;
use crate::types::{EntryHeader, EntryId, LogIndex, MemberId, Seqno, Term, Time};

/// A message between two cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Sender.
    pub from: MemberId,
    /// Receiver.
    pub to: MemberId,
    /// Sender's term; for a pre-vote, the term the sender would stand in.
    pub term: Term,
    /// The content.
    pub body: Body,
}

/// The content of a [`Message`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Would you vote for me? (Raft dissertation, section 9.6.)
    PreVote {
        /// The sender's last entry.
        last: EntryId,
    },
    /// Answer to a pre-vote.
    PreVoteReply {
        /// Whether the sender would.
        granted: bool,
    },
    /// Vote for me.
    Vote {
        /// The sender's last entry.
        last: EntryId,
        /// Asked to stand by the leader itself, so that the lease does not stand against it.
        transfer: bool,
    },
    /// Answer to a vote request.
    VoteReply {
        /// Whether the sender did.
        granted: bool,
    },
    /// Entries, or none as a probe of `prev`.
    Append(Append),
    /// Answer to an append.
    AppendReply(AppendReply),
    /// Proof of life of a leader; carries the commit index and the read round.
    Heartbeat {
        /// Leader's commit index, at most what the receiver is known to hold.
        commit: LogIndex,
        /// Sender's clock when sent; comes back in the reply. The lease starts here.
        sent_at: Time,
        /// Read round that the reply confirms; zero: none.
        read_round: u64,
    },
    /// Answer to a heartbeat.
    HeartbeatReply {
        /// `sent_at` of the heartbeat.
        sent_at: Time,
        /// `read_round` of the heartbeat.
        read_round: u64,
    },
    /// The receiver lacks entries that the leader no longer has (or that it need not have, being
    /// new): start your log here.
    InstallBase {
        /// Where to start.
        base: LogBase,
        /// Sender's clock, for the lease.
        sent_at: Time,
    },
    /// Stand for election now, without pre-vote (Raft dissertation, section 3.10).
    TimeoutNow,
    /// What is the group's position? (ReadIndex; Raft dissertation, section 6.4.)
    Read {
        /// The sender's own number for the question.
        id: u64,
    },
    /// Answer to [`Body::Read`].
    ReadReply {
        /// The question's number.
        id: u64,
        /// Commit index at a moment after the question was asked.
        index: LogIndex,
        /// Seqno at that index.
        seqno: Seqno,
    },
}

/// Entries from a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// Entry right before the first of `entries`.
    pub prev: EntryId,
    /// Consecutive, in order.
    pub entries: Vec<EntryHeader>,
    /// Leader's commit index (may be beyond `entries`).
    pub commit: LogIndex,
    /// Sender's clock, comes back in the reply.
    pub sent_at: Time,
}

/// Answer to an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendReply {
    /// Whether `prev` matched.
    pub outcome: AppendOutcome,
    /// `sent_at` of the append being answered (of the latest one covered).
    pub sent_at: Time,
}

/// How an append went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// Durable here up to this index, in the log of the leader of the message's term.
    Durable {
        /// Up to and including.
        index: LogIndex,
    },
    /// `prev` is not in the sender's log.
    Rejected {
        /// `prev.index` of the refused append.
        refused: LogIndex,
        /// Highest id in the sender's log that is at or below `refused` and of no higher term than the
        /// refused `prev` (id zero: empty log). The leader goes on from the largest position where
        /// both logs can agree.
        hint: EntryId,
    },
}

/// Where a log starts: everything up to and including `last` is known by its consequences only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBase {
    /// The entry right before the first one held.
    pub last: EntryId,
    /// Seqno at that entry. Zero at the start of a group's history.
    pub seqno: Seqno,
    /// Configuration in force at that entry.
    pub config: ConfigAt,
}
