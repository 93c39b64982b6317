//! Trace of a run: the last events, for people, and a hash over all events.
//!
//! Two runs with equal hashes are equal. Texts for people (log lines, reasons, names of messages)
//! are not hashed, so builds that differ only in texts have equal hashes. The names of faults,
//! operators' actions, roles and phases are hashed: they are `&'static str` fields of [`What`]. The
//! order of the variants of [`What`] is hashed, too.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use synod_consensus::{EntryId, LogIndex, MemberId, Seqno, Term};

/// Events that a report shows, at most.
const KEPT: usize = 400;

/// A text for people. It adds nothing to the hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

impl Hash for Text {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// Kind of a message. The number is hashed, the name is for people.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MessageKind {
    /// The same for the same message in every build.
    pub number: u8,
    /// Name in reports.
    pub name: &'static str,
}

impl Hash for MessageKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl fmt::Debug for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Microseconds of the world's time.
    pub at_us: u64,
    /// The member that the event is about; zero if it is about none.
    pub member: MemberId,
    /// The event.
    pub what: What,
}

/// Event of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum What {
    Started {
        last: EntryId,
        term: Term,
    },
    Crashed,
    PowerCut,
    Refused {
        why: Text,
    },
    Paused {
        until_us: u64,
    },
    Wiped,
    Received {
        from: MemberId,
        kind: MessageKind,
        term: Term,
        index: LogIndex,
    },
    Lost {
        to: MemberId,
        kind: MessageKind,
    },
    Role {
        role: &'static str,
        term: Term,
        leader: Option<MemberId>,
    },
    Synced {
        ticket: u64,
        last: LogIndex,
    },
    Committed {
        index: LogIndex,
    },
    Applied {
        seqno: Seqno,
    },
    Copied {
        seqno: Seqno,
    },
    Proposed {
        number: u64,
    },
    Ordered {
        number: u64,
        seqno: Seqno,
    },
    RefusedWrite {
        number: u64,
    },
    GivenUp {
        number: u64,
    },
    Read {
        id: u64,
        index: LogIndex,
    },
    Config {
        index: LogIndex,
        voters: usize,
    },
    Purged {
        index: LogIndex,
    },
    Fault {
        name: &'static str,
    },
    /// A configuration that a forced primary made.
    Forced {
        entry: EntryId,
    },
    /// Bytes change on the disk.
    Damaged {
        path: PathBuf,
        offset: u64,
        bytes: usize,
    },
    Operator {
        name: &'static str,
    },
    /// A line for the member's log.
    Logged {
        text: Text,
    },
    Phase {
        name: &'static str,
    },
}

impl What {
    /// Whether such events are so frequent that a report would show nothing else.
    fn is_background(&self) -> bool {
        const ALWAYS: [&str; 6] = [
            "heartbeat",
            "heartbeat reply",
            "report",
            "status",
            "join",
            "join reply",
        ];
        match self {
            What::Received { kind, .. } | What::Lost { kind, .. } => ALWAYS.contains(&kind.name),
            _ => false,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.at_us / 1000;
        write!(
            f,
            "{ms:>7}.{:03} {} {:?}",
            self.at_us % 1000,
            self.member,
            self.what
        )
    }
}

/// The events of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    last: VecDeque<Note>,
    hash: Fnv,
    count: u64,
    /// Whether every event is printed as it happens.
    print: bool,
}

impl Trace {
    pub(crate) fn new(print: bool) -> Trace {
        Trace {
            last: VecDeque::new(),
            hash: Fnv(0xcbf2_9ce4_8422_2325),
            count: 0,
            print,
        }
    }

    pub(crate) fn note(&mut self, note: Note) {
        if self.print {
            println!("{note}");
        }
        note.hash(&mut self.hash);
        self.count += 1;
        if note.what.is_background() {
            return;
        }
        if self.last.len() >= KEPT {
            self.last.pop_front();
        }
        self.last.push_back(note);
    }

    pub(crate) fn last(&self) -> impl Iterator<Item = &Note> {
        self.last.iter()
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.0
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// FNV-1a over 64-bit words. The same on every run and every machine; that is all it has to be.
#[derive(Debug)]
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = mixed ^ (mixed >> 29);
    }
}
