//! A simulated member: its machine (disk, clock, database) and, while it is up, its process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use synod_consensus::{
    ConfigAt, Core, EntryHeader, EntryId, EntryKind, HardState, Intake, LogBase, LogIndex,
    MemberId, Message, Origin, Outbox, Seqno, SessionId, Term, WriteTicket,
};
use synod_log::{Entry, FaultyFiles, LogReader, LogWriter, MemoryFiles};

use crate::action::Row;
use crate::clock::Clock;
use crate::image::Ledger;
use crate::ingest::Ingestor;

/// One life of a disk, with the machine around it.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) has_data: bool,
    /// Whether it shall vote once it has caught up.
    pub(crate) wants_vote: bool,
    pub(crate) clock: Clock,
    pub(crate) files: MemoryFiles,
    pub(crate) faulty: FaultyFiles,
    pub(crate) ledger: Ledger,
    pub(crate) process: Option<Box<Process>>,
    /// Counts starts and ends of processes; what was planned for an earlier one is void.
    pub(crate) epoch: u64,
    pub(crate) paused_until_us: u64,
    /// Its disk is lost: it never comes back.
    pub(crate) gone: bool,
    /// Operators have removed it.
    pub(crate) removed: bool,
    pub(crate) database: Database,
    /// Each sync takes so much longer.
    pub(crate) slow_disk: u64,
    /// A disk fault is planned, so errors of the log are no surprise.
    pub(crate) disk_fault: bool,
}

/// The database of a member: only how far it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Database {
    pub(crate) applied: Seqno,
    /// Survives a power cut.
    pub(crate) durable: Seqno,
    /// A full copy is on its way.
    pub(crate) copying: bool,
}

/// A running member: what production's core, storage and delivery threads hold.
pub(crate) struct Process {
    pub(crate) session: SessionId,
    pub(crate) core: Core,
    pub(crate) outbox: Outbox,
    pub(crate) intake: Intake,
    pub(crate) ingest: Ingestor,
    pub(crate) staged: Staged,
    pub(crate) deferred: VecDeque<Propose>,
    pub(crate) arriving: BTreeMap<(Term, LogIndex), Bytes>,
    pub(crate) submitted: BTreeMap<u64, Submitted>,
    pub(crate) views: VecDeque<(LogIndex, Vec<(MemberId, SessionId)>)>,
    pub(crate) presence: BTreeMap<MemberId, Present>,
    pub(crate) slowest_applied: Option<i64>,
    pub(crate) last_committed: LogIndex,
    pub(crate) commit_seqno: Seqno,
    /// See `Readable`.
    pub(crate) readable: Readable,
    pub(crate) writer: LogWriter,
    pub(crate) reader: LogReader,
    pub(crate) jobs: VecDeque<Job>,
    /// The ticket that the sync under way will make durable.
    pub(crate) syncing: Option<WriteTicket>,
    pub(crate) last_write_us: u64,
    pub(crate) floor_due: bool,
    /// Next entry for the database; none before it is known where to begin.
    pub(crate) deliver_next: Option<LogIndex>,
    pub(crate) delivered: LogIndex,
    /// What the database has flushed, in this process' time.
    pub(crate) flushed: LogIndex,
    pub(crate) applying: bool,
    /// Raised whenever locks are let go although their action may still be ordered.
    pub(crate) lock_epoch: u64,
    pub(crate) locks: BTreeSet<Row>,
    /// Local transactions that are ordered and not applied.
    pub(crate) attached: BTreeMap<Seqno, u64>,
    pub(crate) next_chunked: u64,
    pub(crate) tick_at_us: Option<u64>,
    pub(crate) turn_planned: bool,
    /// Voters in force since all effects were performed last, the newest last: commits are counted
    /// before the changes that they lead to.
    pub(crate) voters: Vec<(LogIndex, Vec<MemberId>)>,
}

/// How far readers of the log may go: committed, and written by this member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readable {
    pub(crate) committed: LogIndex,
    pub(crate) written: LogIndex,
    /// Counts cuts; what was written before the latest cut proves nothing about the log after it.
    pub(crate) era: u64,
}

impl Readable {
    pub(crate) fn up_to(&self) -> LogIndex {
        self.committed.min(self.written)
    }

    pub(crate) fn cut(&mut self, from: LogIndex) {
        self.written = self.written.min(from.prev());
        self.era += 1;
    }

    pub(crate) fn written(&mut self, era: u64, up_to: LogIndex) {
        if era == self.era {
            self.written = self.written.max(up_to);
        }
    }
}

/// A member as its leader sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present {
    pub(crate) session: SessionId,
    pub(crate) heard_us: u64,
    pub(crate) applied: Option<i64>,
}

/// A proposal whose outcome is not known here.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    pub(crate) kind: EntryKind,
    pub(crate) payload: Bytes,
    /// The client's transaction; chunks have none of their own.
    pub(crate) transaction: u64,
}

/// A proposal on its way.
#[derive(Clone, Debug)]
pub(crate) struct Propose {
    pub(crate) tag: Term,
    pub(crate) origin: Origin,
    pub(crate) kind: EntryKind,
    pub(crate) oldest: u64,
    pub(crate) payload: Bytes,
}

/// Work for the log.
pub(crate) enum Job {
    Append {
        ticket: WriteTicket,
        era: u64,
        entries: Vec<Entry>,
    },
    Truncate {
        ticket: WriteTicket,
        era: u64,
        from: LogIndex,
    },
    Vote {
        ticket: WriteTicket,
        vote: HardState,
    },
    Reset {
        ticket: WriteTicket,
        era: u64,
        base: LogBase,
    },
    /// Nothing is written (planted bugs).
    Nothing { ticket: WriteTicket },
    Retain {
        keep_from: LogIndex,
        keep_after: Option<i64>,
        committed: LogIndex,
        configs: Vec<ConfigAt>,
        force: bool,
    },
}

/// What members say to each other.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Core {
        message: Message,
        payloads: Vec<Bytes>,
    },
    Propose(Propose),
    Refused {
        term: Term,
        session: SessionId,
        number: u64,
    },
    Join {
        session: SessionId,
        name: String,
        has_data: bool,
        last: EntryId,
    },
    Report {
        session: SessionId,
        applied: i64,
        eligible: bool,
    },
    Status {
        term: Term,
        low_water: Option<i64>,
    },
}

impl Wire {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Wire::Core { payloads, .. } => payloads.iter().map(|p| 80 + p.len() as u64).sum(),
            Wire::Propose(propose) => propose.payload.len() as u64,
            Wire::Refused { .. }
            | Wire::Join { .. }
            | Wire::Report { .. }
            | Wire::Status { .. } => 40,
        }
    }
}

/// The newest entries with their payloads: everything not yet committed or not yet durable, and as
/// much behind that as fits.
#[derive(Default)]
pub(crate) struct Staged {
    entries: BTreeMap<LogIndex, Entry>,
    pub(crate) bytes: usize,
}

impl Staged {
    pub(crate) fn put(&mut self, header: EntryHeader, payload: Bytes) {
        self.bytes += payload.len();
        if let Some(old) = self.entries.insert(header.index, Entry { header, payload }) {
            self.bytes -= old.payload.len();
        }
    }

    pub(crate) fn get(&self, index: LogIndex) -> Option<&Entry> {
        self.entries.get(&index)
    }

    pub(crate) fn range(&self, first: LogIndex, last: LogIndex) -> Option<Vec<Entry>> {
        let range = (first.0..=last.0).map(|index| self.get(LogIndex(index)).cloned());
        range.collect()
    }

    pub(crate) fn truncate(&mut self, from: LogIndex) {
        for (_, entry) in self.entries.split_off(&from) {
            self.bytes -= entry.payload.len();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    pub(crate) fn trim(&mut self, keep_from: LogIndex, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(first) = self.entries.first_entry().filter(|e| *e.key() < keep_from) else {
                return;
            };
            self.bytes -= first.remove().payload.len();
        }
    }
}

impl Node {
    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }
}
