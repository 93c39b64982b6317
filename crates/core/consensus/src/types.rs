//! The words that every part of Synod shares: terms, positions, members, entries. Newtypes
//! throughout: a term, an index and a seqno are never the same `u64`. Types that must not be
//! compared with each other ([`EntryId`], [`LogMark`]) do not compare.

use std::fmt;
use std::time::Duration;

/// A leadership period; at most one leader each (Raft, section 5.1). Zero: none yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl Term {
    pub fn next(self) -> Term {
        Term(self.0.saturating_add(1))
    }
}

/// Position of an entry in the replicated log. The first entry is 1; zero means "before the log".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogIndex(pub u64);

impl LogIndex {
    pub fn next(self) -> LogIndex {
        LogIndex(self.0 + 1)
    }

    /// Saturates at zero.
    pub fn prev(self) -> LogIndex {
        LogIndex(self.0.saturating_sub(1))
    }
}

/// Number of an ordered action: what the database sees. Advances by one for each ordered entry (see
/// [`EntryKind::is_ordered`]); the protocol's own entries leave it unchanged. The first action of a
/// group has seqno 1; -1: undefined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seqno(pub i64);

impl Seqno {
    pub const UNDEFINED: Seqno = Seqno(-1);

    pub fn next(self) -> Seqno {
        Seqno(self.0 + 1)
    }

    pub fn prev(self) -> Seqno {
        Seqno(self.0 - 1)
    }
}

/// A configured participant: one life of a member's disk. Drawn at random (non-zero) when the log
/// directory is created. A member that lost its log therefore returns as another member, which
/// never made the promises that the lost log recorded.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

impl MemberId {
    pub const NONE: MemberId = MemberId(0);
}

/// One connection of a member's process to the group, drawn (non-zero) at each connect.
/// Proposal numbers start again with each session.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Identity of the group and of its history (what wsrep calls the state UUID). All zero: none.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub [u8; 16]);

impl GroupId {
    pub const NONE: GroupId = GroupId([0; 16]);
}

/// Proposer of an entry, and the proposer's own number for it (from 1, without gaps in a session).
/// Entries that the leader makes itself (no-op, config, view, discard) have number zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    pub member: MemberId,
    pub session: SessionId,
    pub number: u64,
}

impl Origin {
    pub const fn new(member: MemberId, session: SessionId, number: u64) -> Origin {
        Origin {
            member,
            session,
            number,
        }
    }
}

/// Names one entry for ever: two entries with the same id are the same entry, and everything before
/// them is the same too (Raft, section 5.3, log matching). Elections compare these (term first).
/// Acknowledgements never do: see [`LogMark`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Term in which the entry was appended by a leader.
    pub term: Term,
    pub index: LogIndex,
}

impl EntryId {
    pub const fn new(term: Term, index: LogIndex) -> EntryId {
        EntryId { term, index }
    }
}

/// A position in a member's log, named by the term of the *leader whose log it follows*, not by the
/// term of the entry there. Only ever grows on one member; orders completions and acknowledgements.
/// Deliberately not comparable with [`EntryId`]: a follower that took a short prefix from a newer
/// leader has a high mark and must still lose an election against a longer log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogMark {
    /// Term of the leader whose log this is a prefix of.
    pub leader_term: Term,
    /// Position up to which this is so, included.
    pub index: LogIndex,
}

/// Time as the core sees it: microseconds on a monotonic clock with an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    pub fn plus_us(self, us: u64) -> Time {
        Time(self.0.saturating_add(us))
    }

    pub fn plus(self, by: Duration) -> Time {
        self.plus_us(u64::try_from(by.as_micros()).unwrap_or(u64::MAX))
    }

    /// Zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.since_us(earlier))
    }

    /// Zero if `earlier` is later.
    pub fn since_us(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Kind of an entry. The protocol interprets only `NoOp` and `Config`; the others are payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// A leader's first entry of its term (Raft, section 8). Empty payload.
    NoOp = 0,
    /// A new [`crate::Config`], in force when appended.
    Config = 1,
    /// Announces to the databases who is present. Ordered.
    View = 2,
    /// A member's proposal: a write set or a TOI statement. Ordered. If the action was split into
    /// chunks, this entry is its last piece and completes it.
    Action = 3,
    /// A chunk of a partial action, before its last piece.
    Chunk = 4,
    /// Ends partial actions of a session that has ended; they will not be completed.
    Discard = 5,
    /// Decides which outcome of an action wins, after the action has failed on some member.
    Decision = 6,
}

impl EntryKind {
    /// Whether the entry takes a seqno.
    pub fn is_ordered(self) -> bool {
        match self {
            EntryKind::View | EntryKind::Action => true,
            EntryKind::NoOp
            | EntryKind::Config
            | EntryKind::Chunk
            | EntryKind::Discard
            | EntryKind::Decision => false,
        }
    }

    pub fn from_code(code: u8) -> Option<EntryKind> {
        Some(match code {
            0 => EntryKind::NoOp,
            1 => EntryKind::Config,
            2 => EntryKind::View,
            3 => EntryKind::Action,
            4 => EntryKind::Chunk,
            5 => EntryKind::Discard,
            6 => EntryKind::Decision,
            _ => return None,
        })
    }
}

/// Header of an entry: everything that the protocol knows of it. The payload never enters the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    pub term: Term,
    pub index: LogIndex,
    /// The entry's own seqno if ordered; otherwise the seqno of the last ordered entry before it.
    pub seqno: Seqno,
    pub kind: EntryKind,
    pub origin: Origin,
    /// For ordered entries: the last seqno that must be applied before this entry may be. Below
    /// `seqno`. Decided once, by the leader that appended the entry. [`Seqno::UNDEFINED`] for the
    /// others.
    pub depends_on: Seqno,
    pub payload_len: u32,
    pub payload_crc: u32,
}

impl EntryHeader {
    /// Header of an entry of no origin, without a payload, that depends on nothing.
    pub fn bare(term: Term, index: LogIndex, seqno: Seqno, kind: EntryKind) -> EntryHeader {
        EntryHeader {
            term,
            index,
            seqno,
            kind,
            origin: Origin::default(),
            depends_on: Seqno::UNDEFINED,
            payload_len: 0,
            payload_crc: 0,
        }
    }

    pub fn id(&self) -> EntryId {
        EntryId::new(self.term, self.index)
    }
}

/// Durable state of a voter: its term, and its vote in that term (Raft, figure 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    pub term: Term,
    pub voted_for: Option<MemberId>,
}

impl HardState {
    pub const fn new(term: Term, voted_for: Option<MemberId>) -> HardState {
        HardState { term, voted_for }
    }
}

macro_rules! display_number {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}
display_number!(Term, LogIndex, Seqno);

macro_rules! display_hex {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
display_hex!(MemberId, SessionId);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.index, self.term)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for GroupId {
    type Err = ParseGroupIdError;

    fn from_str(text: &str) -> Result<GroupId, ParseGroupIdError> {
        let bad = || ParseGroupIdError {
            text: text.to_owned(),
        };
        let groups: Vec<&str> = text.split('-').collect();
        let lengths: Vec<usize> = groups.iter().map(|g| g.len()).collect();
        if lengths != [8, 4, 4, 4, 12] || !text.is_ascii() {
            return Err(bad());
        }
        let digits = groups.concat();
        let mut id = [0u8; 16];
        for (byte, pair) in id.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(GroupId(id))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a UUID (expected 8-4-4-4-12 hexadecimal digits)")]
pub struct ParseGroupIdError {
    pub text: String,
}
