//! Messages between the cores of members. Bodies carry entry *headers*; the driver moves payloads
//! beside them. Messages may be lost, doubled, late and out of order. `docs/protocol.md`, section
//! 3, says when each may leave; the core withholds it until then.

use crate::membership::config::ConfigAt;
use crate::types::{EntryHeader, EntryId, LogIndex, MemberId, Seqno, Term, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub from: MemberId,
    pub to: MemberId,
    /// Sender's term. In a pre-vote and its consent: that of the candidacy.
    pub term: Term,
    pub body: Body,
}

impl Message {
    pub fn new(from: MemberId, to: MemberId, term: Term, body: Body) -> Message {
        Message {
            from,
            to,
            term,
            body,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Asks whether the receiver would vote for the sender (Raft dissertation, section 9.6).
    PreVote {
        last: EntryId,
    },
    PreVoteReply {
        /// Whether the sender of this answer would vote for the pre-candidate.
        granted: bool,
    },
    /// Asks for the receiver's vote (Raft, section 5.2).
    Vote {
        last: EntryId,
        /// Whether the leader itself asked for this election. Promises to that leader then do not
        /// prevent the vote.
        transfer: bool,
    },
    VoteReply {
        /// Whether the sender of this answer voted for the candidate.
        granted: bool,
    },
    /// Entries, or none as a probe of `prev`.
    Append(Append),
    AppendReply(AppendReply),
    /// Proof that the leader is alive; carries the commit index and the read round.
    Heartbeat {
        /// Leader's commit index, as far as the receiver is expected to hold the log.
        commit: LogIndex,
        /// Sender's clock when it sent this; the reply echoes it.
        sent_at: Time,
        /// Read round that the reply will confirm; zero: none.
        read_round: u64,
    },
    HeartbeatReply {
        sent_at: Time,
        read_round: u64,
    },
    /// A commit index that no append carries. No answer: the next heartbeat makes up for a loss.
    CommitNotice {
        /// Leader's commit index, as far as the receiver is expected to hold the log.
        commit: LogIndex,
    },
    /// Orders the receiver to start its log at a base. The receiver lacks entries that the leader
    /// has purged, or is new and need not have them.
    InstallBase {
        /// The position to start from, which is committed.
        base: LogBase,
        /// Sender's clock when it sent this; the reply echoes it.
        sent_at: Time,
    },
    /// Orders a candidacy now, without a pre-vote (Raft dissertation, section 3.10).
    TimeoutNow,
    /// Asks for the group's position (ReadIndex; Raft dissertation, section 6.4).
    Read {
        id: u64,
    },
    ReadReply {
        id: u64,
        /// The leader's commit index at a moment after the question was asked.
        index: LogIndex,
        seqno: Seqno,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    pub prev: EntryId,
    /// Headers, consecutive and in order. Empty in a probe of `prev`.
    pub entries: Vec<EntryHeader>,
    pub commit: LogIndex,
    pub sent_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendReply {
    pub outcome: AppendOutcome,
    /// `sent_at` of the append being answered (of the latest one covered).
    pub sent_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// The sender's disk holds the log of the leader of the message's term up to this index.
    Durable { index: LogIndex },
    /// The sender took the entries before `index`. It lacks the payload of that one, which the
    /// append left out.
    PayloadMissing { index: LogIndex },
    /// `prev` is not in the sender's log.
    Rejected {
        refused: LogIndex,
        /// Highest id in the sender's log that is at or below `refused` and of no higher term than
        /// the refused `prev` (id zero: empty log). The leader continues from the largest position
        /// where both logs can agree.
        hint: EntryId,
    },
}

/// The log does not hold the entries up to `last`; only their result is known: the seqno and the
/// configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBase {
    pub last: EntryId,
    /// Zero at the start of a group's history.
    pub seqno: Seqno,
    pub config: ConfigAt,
}
