//! Kind, term and seqno of every entry of the log, in memory. Threads that must not wait for a disk
//! ask for these. Entries that follow each other are mostly alike: they are kept as *runs*, 32
//! bytes each. A run ends where the kind or the term changes.

use std::collections::VecDeque;

use synod_consensus::{EntryHeader, EntryId, EntryKind, LogIndex, Seqno, Term};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrySummary {
    pub id: EntryId,
    pub seqno: Seqno,
    pub kind: EntryKind,
}

/// Entries of one kind and term whose seqnos go up by one, or not at all.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: LogIndex,
    seqno: Seqno,
    term: Term,
    kind: EntryKind,
    /// Growth of the seqno with each entry: 0 or 1. Zero for a run of one.
    step: u8,
}

/// Summaries of all entries held, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summaries {
    runs: VecDeque<Run>,
    /// Last entry; without a meaning if there are no runs.
    last: LogIndex,
}

impl Run {
    fn seqno_at(&self, index: LogIndex) -> Seqno {
        let entries = index.0.saturating_sub(self.first.0) * u64::from(self.step);
        Seqno(self.seqno.0 + i64::try_from(entries).unwrap_or(i64::MAX))
    }

    fn at(&self, index: LogIndex) -> EntrySummary {
        EntrySummary {
            id: EntryId::new(self.term, index),
            seqno: self.seqno_at(index),
            kind: self.kind,
        }
    }
}

impl Summaries {
    pub(crate) fn push(&mut self, header: &EntryHeader) {
        let (last, index) = (self.last, header.index);
        self.last = index;
        if let Some(run) = self.runs.back_mut() {
            assert!(index == last.next(), "{index} does not follow {last}");
            let step = header.seqno.0 - run.seqno_at(last).0;
            let is_second = last == run.first;
            if (run.kind, run.term) == (header.kind, header.term)
                && (step == i64::from(run.step) || (is_second && step == 1))
            {
                run.step = u8::from(step == 1);
                return;
            }
        }
        self.runs.push_back(Run {
            first: index,
            seqno: header.seqno,
            term: header.term,
            kind: header.kind,
            step: 0,
        });
    }

    pub(crate) fn truncate(&mut self, from: LogIndex) {
        while self.runs.back().is_some_and(|run| run.first >= from) {
            self.runs.pop_back();
        }
        self.last = self.last.min(from.prev());
        if let Some(run) = self.runs.back_mut().filter(|run| run.first == self.last) {
            run.step = 0;
        }
    }

    pub(crate) fn purge_to(&mut self, index: LogIndex) {
        let next = index.next();
        if self.last <= index {
            self.runs.clear();
        }
        while self.runs.get(1).is_some_and(|run| run.first <= next) {
            self.runs.pop_front();
        }
        if let Some(run) = self.runs.front_mut().filter(|run| run.first <= index) {
            run.seqno = run.seqno_at(next);
            run.first = next;
        }
        if let Some(run) = self.runs.front_mut().filter(|run| run.first == self.last) {
            run.step = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
    }

    pub(crate) fn at(&self, index: LogIndex) -> Option<EntrySummary> {
        let count = self.runs.partition_point(|run| run.first <= index);
        let run = self.runs.get(count.checked_sub(1)?)?;
        (index <= self.last).then(|| run.at(index))
    }

    pub(crate) fn last_of(&self, kind: EntryKind, end: LogIndex) -> Option<LogIndex> {
        let count = self.runs.partition_point(|run| run.first <= end);
        let found = self
            .runs
            .iter()
            .take(count)
            .rposition(|run| run.kind == kind)?;
        let next = self.runs.get(found + 1).map(|next| next.first.prev());
        Some(next.unwrap_or(self.last).min(end))
    }

    pub(crate) fn find_seqno(&self, seqno: Seqno) -> Option<LogIndex> {
        let count = self.runs.partition_point(|run| run.seqno < seqno);
        let next = self.runs.get(count);
        let Some(run) = count.checked_sub(1).and_then(|i| self.runs.get(i)) else {
            return next.map(|run| run.first);
        };
        let end = next.map_or(self.last, |next| next.first.prev());
        let steps = u64::try_from(seqno.0 - run.seqno.0).unwrap_or(0);
        let found = LogIndex(run.first.0.saturating_add(steps));
        if run.step == 1 && found <= end {
            return Some(found);
        }
        next.map(|run| run.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(index: u64, seqno: i64, kind: EntryKind, term: u64) -> EntryHeader {
        EntryHeader {
            depends_on: Seqno(0),
            ..EntryHeader::bare(Term(term), LogIndex(index), Seqno(seqno), kind)
        }
    }

    #[test]
    fn entries_that_are_alike_are_one_run() {
        let mut summaries = Summaries::default();
        for index in 1..=1000 {
            summaries.push(&header(index, index as i64, EntryKind::Action, 1));
        }
        for index in 1001..=2000 {
            summaries.push(&header(index, 1000, EntryKind::Chunk, 1));
        }
        assert_eq!(summaries.runs.len(), 2);
        assert_eq!(summaries.find_seqno(Seqno(1000)), Some(LogIndex(1000)));
        assert_eq!(summaries.find_seqno(Seqno(1001)), None);
        summaries.push(&header(2001, 1001, EntryKind::Action, 1));
        assert_eq!(summaries.find_seqno(Seqno(1001)), Some(LogIndex(2001)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(EntryKind, i64, u64),
        Truncate(u64),
        Purge(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let kind = prop_oneof![Just(EntryKind::Action), Just(EntryKind::Chunk)];
        prop_oneof![
            8 => (kind, prop_oneof![3 => 0..2_i64, 1 => Just(5)], 0..8_u64)
                .prop_map(|(kind, step, term)| Step::Push(kind, step, u64::from(term == 0))),
            1 => (0..30_u64).prop_map(Step::Truncate),
            1 => (0..30_u64).prop_map(Step::Purge),
        ]
    }

    proptest! {
        #[test]
        fn summaries_are_those_of_the_headers(steps in prop::collection::vec(step(), 0..80)) {
            let mut summaries = Summaries::default();
            let mut headers: Vec<EntryHeader> = Vec::new();
            let (mut next, mut seqno, mut term) = (1, 0, 1);
            for step in steps {
                match step {
                    Step::Push(kind, by, newer) => {
                        (seqno, term) = (seqno + by, term + newer);
                        headers.push(header(next, seqno, kind, term));
                        summaries.push(&header(next, seqno, kind, term));
                        next += 1;
                    }
                    Step::Truncate(back) => {
                        let kept = headers.len().saturating_sub(back as usize);
                        if let Some(first) = headers.get(kept) {
                            next = first.index.0;
                            summaries.truncate(first.index);
                        }
                        headers.truncate(kept);
                        seqno = headers.last().map_or(seqno, |header| header.seqno.0);
                    }
                    Step::Purge(count) => {
                        let count = headers.len().min(count as usize);
                        if let Some(last) = headers[..count].last() {
                            summaries.purge_to(last.index);
                        }
                        headers.drain(..count);
                    }
                }
                for header in &headers {
                    let expected = EntrySummary {
                        id: header.id(),
                        seqno: header.seqno,
                        kind: header.kind,
                    };
                    prop_assert_eq!(summaries.at(header.index), Some(expected));
                }
                prop_assert_eq!(summaries.at(LogIndex(next)), None);
                for end in 0..=next {
                    let of_kind = |header: &&EntryHeader| {
                        header.kind == EntryKind::Chunk && header.index.0 <= end
                    };
                    let found = headers.iter().rev().find(of_kind).map(|header| header.index);
                    prop_assert_eq!(summaries.last_of(EntryKind::Chunk, LogIndex(end)), found);
                }
                for wanted in 0..=seqno + 1 {
                    let found = headers.iter().find(|header| header.seqno.0 >= wanted);
                    let found = found.map(|header| header.index);
                    prop_assert_eq!(summaries.find_seqno(Seqno(wanted)), found);
                }
            }
        }
    }
}
