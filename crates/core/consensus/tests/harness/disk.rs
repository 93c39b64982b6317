//! A member's disk: what is durable, what is written but not durable yet, and what a crash leaves.

use std::collections::VecDeque;

use synod_consensus::{
    Config, ConfigAt, EntryHeader, EntryId, EntryKind, HardState, LogBase, LogIndex, Recovered,
    Term, WriteTicket,
};

/// An entry with its payload, of which only configurations matter here.
pub type Stored = (EntryHeader, Option<Config>);

#[derive(Clone, Debug)]
pub enum Op {
    Append(Vec<Stored>),
    Truncate(LogIndex),
    Vote(HardState),
    Reset(LogBase),
}

/// A state of the log.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pub vote: HardState,
    pub base: LogBase,
    pub entries: Vec<Stored>,
    /// Damaged: has to reach this entry again.
    pub repair: Option<EntryId>,
}

/// Distance to terms that no member reaches (see the log's format on unknown votes).
pub const OUT_OF_REACH: u64 = 1 << 32;

impl Image {
    pub fn last(&self) -> EntryId {
        self.entries
            .last()
            .map_or(self.base.last, |(header, _)| header.id())
    }

    pub fn entry(&self, index: LogIndex) -> Option<&Stored> {
        let offset = index.0.checked_sub(self.base.last.index.0 + 1)?;
        self.entries.get(offset as usize)
    }

    pub fn id_at(&self, index: LogIndex) -> Option<EntryId> {
        if index == self.base.last.index {
            return Some(self.base.last);
        }
        self.entry(index).map(|(header, _)| header.id())
    }

    /// Whether the entry is there, or so far below the base that it must have been.
    pub fn has(&self, id: EntryId) -> bool {
        id.index < self.base.last.index || self.id_at(id.index) == Some(id)
    }

    /// Whether the entry is there, or was lost to a damage that is remembered.
    pub fn answers_for(&self, id: EntryId) -> bool {
        self.has(id) || self.repair.is_some_and(|until| id <= until)
    }

    /// Damages the log after `keep`. If the vote record is unreadable, too, the member leaves all
    /// terms in which it may have voted.
    pub fn damage(&mut self, keep: LogIndex, promises_readable: bool) {
        let mut until = self.last().max(self.repair.unwrap_or_default());
        if !promises_readable {
            let term = Term(self.vote.term.0 + OUT_OF_REACH);
            (self.vote.term, self.vote.voted_for) = (term, None);
            until = EntryId::new(term, LogIndex(0));
        }
        self.entries.retain(|(header, _)| header.index <= keep);
        self.repair = Some(until);
        self.note_repaired();
    }

    fn note_repaired(&mut self) {
        let last = self.last();
        self.repair = self.repair.filter(|until| last < *until);
    }

    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Append(entries) => {
                for entry in entries {
                    assert_eq!(entry.0.index, self.last().index.next(), "gap in the log");
                    assert!(
                        entry.0.term <= self.vote.term,
                        "entry of a term not on disk yet"
                    );
                    self.entries.push(entry.clone());
                }
            }
            Op::Truncate(from) => {
                assert!(*from > self.base.last.index && *from <= self.last().index);
                self.entries.retain(|(header, _)| header.index < *from);
            }
            Op::Vote(vote) => {
                assert!(vote.term >= self.vote.term, "terms go back");
                assert!(
                    vote.term > self.vote.term || self.vote.voted_for.is_none(),
                    "two votes"
                );
                self.vote = *vote;
            }
            Op::Reset(base) => {
                assert!(base.last.index > self.base.last.index);
                self.base = base.clone();
                self.entries.clear();
            }
        }
    }

    /// The base for a purge (or an install) up to and including `index`.
    pub fn base_at(&self, index: LogIndex) -> Option<LogBase> {
        let (header, _) = self.entry(index)?;
        let config = self
            .configs()
            .into_iter()
            .rfind(|config| config.index <= index);
        let config = config.unwrap_or_else(|| self.base.config.clone());
        Some(LogBase {
            last: header.id(),
            seqno: header.seqno,
            config,
        })
    }

    pub fn purge(&mut self, base: &LogBase) {
        self.entries
            .retain(|(header, _)| header.index > base.last.index);
        self.base = base.clone();
    }

    /// The configuration in force at the end.
    pub fn config(&self) -> ConfigAt {
        let newest = self.entries.iter().rev().find_map(|(header, config)| {
            Some(ConfigAt {
                index: header.index,
                config: config.clone()?,
            })
        });
        newest.unwrap_or_else(|| self.base.config.clone())
    }

    fn configs(&self) -> Vec<ConfigAt> {
        let configs = self
            .entries
            .iter()
            .filter(|(header, _)| header.kind == EntryKind::Config);
        configs
            .map(|(header, config)| ConfigAt {
                index: header.index,
                config: config.clone().expect("stored with its entry"),
            })
            .collect()
    }

    /// Recovered state for a starting core, with the headers of all entries.
    pub fn recovered(&self) -> Recovered {
        let mut term_starts: Vec<(Term, LogIndex)> = Vec::new();
        for (header, _) in &self.entries {
            if term_starts
                .last()
                .is_none_or(|(term, _)| *term != header.term)
            {
                term_starts.push((header.term, header.index));
            }
        }
        Recovered {
            vote: self.vote,
            base: self.base.clone(),
            term_starts,
            configs: self.configs(),
            tail: self.entries.iter().map(|(header, _)| *header).collect(),
            repair: self.repair,
        }
    }
}

#[derive(Debug, Default)]
pub struct Disk {
    /// Survives everything.
    pub durable: Image,
    /// State that reads see.
    pub written: Image,
    pub pending: VecDeque<(WriteTicket, Op)>,
    /// A sync is under way.
    pub syncing: bool,
    /// Syncs do not return.
    pub held: bool,
}

impl Disk {
    pub fn write(&mut self, ticket: WriteTicket, op: Op) {
        self.written.apply(&op);
        self.pending.push_back((ticket, op));
    }

    pub fn sync_done(&mut self, ticket: WriteTicket) {
        while self
            .pending
            .front()
            .is_some_and(|(pending, _)| *pending <= ticket)
        {
            let (_, op) = self.pending.pop_front().expect("there");
            self.durable.apply(&op);
        }
        self.durable.note_repaired();
    }

    /// Power is lost: some prefix of the pending writes made it, the last of them perhaps in part.
    pub fn crash(&mut self, mut choose: impl FnMut(usize) -> usize) {
        let survivors = choose(self.pending.len());
        for (i, (_, op)) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            match op {
                op if i < survivors => self.durable.apply(&op),
                Op::Append(mut entries) if i == survivors => {
                    entries.truncate(choose(entries.len()));
                    self.durable.apply(&Op::Append(entries));
                }
                _ => break,
            }
        }
        self.written = self.durable.clone();
        self.syncing = false;
        self.held = false;
    }
}
