//! The log against a naive model, under random operations.
//!
//! The model is a vector of entries with a base and a vote. After every operation, restart or power
//! cut the log must hold what the model holds, or one of the states that a cut may leave.

mod common;

use common::*;
use proptest::prelude::*;
use synod_consensus::{ConfigAt, EntryKind, HardState, LogBase, LogIndex, Seqno, Term};
use synod_log::{Entry, LogError, MemoryFiles, Opened};

#[derive(Clone, Debug)]
enum Step {
    Append {
        count: u64,
        bytes: usize,
        new_term: bool,
    },
    Truncate {
        back: u64,
    },
    Vote,
    Sync,
    Floor,
    Reset {
        forward: bool,
    },
    Purge {
        back: u64,
    },
    Reopen,
    Crash {
        seed: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..20_u64, prop_oneof![0..2000_usize, 0..30_000_usize], prop::bool::weighted(0.2))
            .prop_map(|(count, bytes, new_term)| Step::Append { count, bytes, new_term }),
        1 => Just(Step::Append { count: 1, bytes: 200_000, new_term: false }),
        2 => (0..40_u64).prop_map(|back| Step::Truncate { back }),
        2 => Just(Step::Vote),
        6 => Just(Step::Sync),
        1 => Just(Step::Floor),
        1 => any::<bool>().prop_map(|forward| Step::Reset { forward }),
        2 => (0..60_u64).prop_map(|back| Step::Purge { back }),
        2 => Just(Step::Reopen),
        2 => any::<u64>().prop_map(|seed| Step::Crash { seed }),
    ]
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    base: LogBase,
    entries: Vec<Entry>,
    vote: HardState,
    term: u64,
}

impl Model {
    fn last(&self) -> (u64, i64) {
        match self.entries.last() {
            Some(entry) => (entry.header.index.0, entry.header.seqno.0),
            None => (self.base.last.index.0, self.base.seqno.0),
        }
    }

    /// Mixes ordered and unordered entries.
    fn next(&self, bytes: usize) -> Entry {
        let (index, seqno) = self.last();
        if index % 3 == 0 {
            entry(self.term, index + 1, seqno, EntryKind::Chunk, bytes)
        } else {
            entry(self.term, index + 1, seqno + 1, EntryKind::Action, bytes)
        }
    }

    fn purge(&mut self, base: LogBase) {
        self.entries
            .retain(|entry| entry.header.index > base.last.index);
        self.base = base;
    }

    fn term_starts(&self) -> Vec<(Term, LogIndex)> {
        let mut starts: Vec<(Term, LogIndex)> = Vec::new();
        for Entry { header, .. } in &self.entries {
            if starts.last().is_none_or(|(term, _)| *term != header.term) {
                starts.push((header.term, header.index));
            }
        }
        starts
    }
}

struct Run {
    files: MemoryFiles,
    opened: Option<Opened>,
    now: Model,
    /// States the disk may be in: the one last synced, and each reached since.
    possible: Vec<Model>,
}

impl Run {
    fn new() -> Run {
        let files = MemoryFiles::new(7);
        let opened = Some(open(&files));
        let now = Model {
            term: 1,
            ..Model::default()
        };
        Run {
            files,
            opened,
            possible: vec![now.clone()],
            now,
        }
    }

    fn open_log(&mut self) -> &mut Opened {
        self.opened.as_mut().unwrap()
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Append {
                count,
                bytes,
                new_term,
            } => self.append(*count, *bytes, *new_term),
            Step::Truncate { back } => {
                let from = (self.now.last().0 + 1).saturating_sub(*back);
                let from = LogIndex(from.max(self.now.base.last.index.0 + 1));
                self.open_log().writer.truncate(from).unwrap();
                self.now.entries.retain(|entry| entry.header.index < from);
                self.now.term += 1;
            }
            Step::Vote => {
                self.now.term += 1;
                self.now.vote = vote(self.now.term, 3);
                let vote = self.now.vote;
                self.open_log().writer.save_vote(vote).unwrap();
            }
            Step::Sync => self.open_log().writer.sync().unwrap(),
            Step::Floor => self.open_log().writer.write_floor().unwrap(),
            Step::Reset { forward } => self.reset(*forward),
            Step::Purge { back } => self.purge(*back),
            Step::Reopen => {
                let opened = self.opened.take().unwrap();
                opened.writer.close().unwrap();
                let now = [self.now.clone()];
                self.reopen(&now);
            }
            Step::Crash { seed } => {
                self.opened = None;
                self.files = self.files.crash(*seed);
                let possible = self.possible.clone();
                self.reopen(&possible);
            }
        }
        self.possible.push(self.now.clone());
        if matches!(
            step,
            Step::Sync | Step::Floor | Step::Reopen | Step::Crash { .. }
        ) {
            self.possible = vec![self.now.clone()];
        }
        self.check();
    }

    fn append(&mut self, count: u64, bytes: usize, new_term: bool) {
        self.now.term += u64::from(new_term);
        for _ in 0..count {
            let entry = self.now.next(bytes);
            self.open_log()
                .writer
                .append(std::slice::from_ref(&entry))
                .unwrap();
            self.now.entries.push(entry);
            self.possible.push(self.now.clone());
        }
    }

    fn reset(&mut self, forward: bool) {
        let (index, seqno) = self.now.last();
        let to = if forward {
            (index + 50, seqno + 20)
        } else {
            (index / 2, seqno / 2)
        };
        self.now.base = base(self.now.term, to.0, to.1);
        self.now.entries.clear();
        let base = self.now.base.clone();
        self.open_log().writer.reset(base).unwrap();
    }

    fn purge(&mut self, back: u64) {
        let up_to = LogIndex(self.now.last().0.saturating_sub(back));
        let config = |index| {
            Some(ConfigAt {
                index,
                ..ConfigAt::default()
            })
        };
        let purged = self.open_log().writer.purge(up_to, &config).unwrap();
        if let Some(base) = purged {
            assert!(base.last.index <= up_to);
            self.now.purge(base);
            self.possible.clear();
        }
    }

    fn reopen(&mut self, possible: &[Model]) {
        let opened = open(&self.files);
        let entries = all(&opened.reader);
        let found = |model: &&Model| {
            model.base == opened.recovered.base
                && model.entries == entries
                && model.vote == opened.recovered.vote
        };
        let Some(model) = possible.iter().find(found) else {
            let (base, last) = (&opened.recovered.base, entries.last().map(|e| e.header));
            panic!("recovered {base:?} to {last:?}: no state between the last sync and the crash");
        };
        let term = self.now.term + 1;
        self.now = Model {
            term,
            ..model.clone()
        };
        assert_eq!(opened.recovered.term_starts, self.now.term_starts());
        let headers: Vec<_> = entries.iter().map(|entry| entry.header).collect();
        let tail = &headers[headers.len().saturating_sub(options().tail_headers_max)..];
        assert_eq!(opened.recovered.tail, tail);
        self.opened = Some(opened);
    }

    fn check(&mut self) {
        let reader = self.open_log().reader.clone();
        assert_eq!(all(&reader), self.now.entries);
        assert_eq!(reader.last_index().0, self.now.last().0);
        assert_eq!(reader.first_index(), self.now.base.last.index.next());
        assert_eq!(reader.first_seqno_available(), self.now.base.seqno.next());
        if let Some(middle) = self.now.entries.get(self.now.entries.len() / 2) {
            let index = middle.header.index;
            assert_eq!(reader.header(index).unwrap(), middle.header);
            let few = reader.read(index, LogIndex(index.0 + 2), 1).unwrap();
            assert_eq!(few.first(), Some(middle));
            assert!(few.len() <= 3);
        }
        for Entry { header, .. } in self
            .now
            .entries
            .iter()
            .filter(|e| e.header.kind.is_ordered())
        {
            assert_eq!(reader.seek_seqno(header.seqno).unwrap(), header.index);
        }
        let below = reader.seek_seqno(self.now.base.seqno);
        assert!(matches!(below, Err(LogError::SeqnoPurged { .. })));
        let above = reader.seek_seqno(Seqno(self.now.last().1 + 1));
        assert!(matches!(above, Err(LogError::SeqnoNotFound { .. })));
    }
}

/// The base that the control file names was made after the truncation, and has a higher term.
#[test]
fn entries_after_a_truncation_may_be_older_than_a_later_base_of_the_same_index() {
    let append = || Step::Append {
        count: 1,
        bytes: 0,
        new_term: false,
    };
    let steps = [
        append(),
        Step::Sync,
        Step::Truncate { back: 1 },
        append(),
        Step::Sync,
        Step::Truncate { back: 0 },
        Step::Reset { forward: false },
        Step::Reopen,
    ];
    let mut run = Run::new();
    for step in &steps {
        run.run(step);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn log_behaves_like_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let mut run = Run::new();
        for step in &steps {
            run.run(step);
        }
    }
}
