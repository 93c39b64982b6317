//! Effects: the requests of a core to its driver, which performs them in that order.

use crate::membership::config::ConfigAt;
use crate::message::{LogBase, Message};
use crate::types::{EntryHeader, EntryId, HardState, LogIndex, MemberId, Seqno, Term, Time};

/// Names one storage effect. Tickets count up from 1 by one. All storage effects form one ordered
/// stream, and reporting a ticket durable ([`crate::Core::persisted`]) covers every earlier one. A
/// position that is written, truncated and written again has three tickets, so a late completion of
/// the first write can never confirm the last (compare etcd raft's ABA problem in asynchronous
/// storage writes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteTicket(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Write {
        ticket: WriteTicket,
        op: WriteOp,
    },
    /// Send a message at once: everything that had to be durable first, is durable.
    Send(Message),
    /// Read entries from the log and send them as an [`crate::Append`]. The sender's log holds the
    /// range. In a catch-up range (`may_shorten`) the driver may send fewer entries, but at least
    /// one.
    SendEntries(SendEntries),
    /// Entries up to here can no longer be lost: deliver them. This member's own disk may not have
    /// them yet: a majority suffices. A [`WriteOp::Reset`] moves the commit index to its base
    /// without this effect, because there is nothing to deliver.
    Committed {
        index: LogIndex,
    },
    Role(RoleChange),
    /// A new configuration is in force (appended, taken from a base, or restored by a truncation).
    /// For an entry that this member appends as the leader it comes before the write, whose payload
    /// is its [`crate::Config::encode`].
    Config(ConfigAt),
    ReadReady {
        id: u64,
        /// The group's position: everything acknowledged before the question is at or below it.
        index: LogIndex,
        seqno: Seqno,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOp {
    /// Append these entries. Payloads are with the driver.
    Append(Vec<EntryHeader>),
    Truncate {
        from: LogIndex,
    },
    Vote(HardState),
    Reset(LogBase),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendEntries {
    pub to: MemberId,
    pub term: Term,
    pub prev: EntryId,
    pub first: LogIndex,
    pub last: LogIndex,
    /// None of these entries was sent to the receiver before in this term. Only then the driver may
    /// leave out payloads that the receiver has itself, as the origin.
    pub is_first_time: bool,
    /// Whether the driver may stop before `last`, to keep it small, after at least one entry.
    pub may_shorten: bool,
    pub commit: LogIndex,
    pub sent_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleChange {
    pub term: Term,
    pub role: RoleName,
    pub leader: Option<MemberId>,
}

/// The roles of Raft, and the role of a member that asks for pre-votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleName {
    Follower,
    PreCandidate,
    Candidate,
    Leader,
}
