//! In-memory view of the log. Payloads and storage stay with the driver. All rules ask this view;
//! only the core's own writes change it, in the order in which they are emitted.

use std::collections::VecDeque;

use crate::membership::config::{Config, ConfigAt};
use crate::message::LogBase;
use crate::params::Recovered;
use crate::types::{EntryHeader, EntryId, EntryKind, LogIndex, Seqno, Term};

/// A view of the log, from its base to its last entry.
///
/// ```text
///   base.last | first ......... tail.front ......... last
///             | terms: term_starts                      |
///             | configs: configs                        |
///                               | headers: tail         |
/// ```
///
/// Invariants: `term_starts` and `configs` ascend and lie after the base; `tail` is consecutive and
/// ends with the last entry; it is empty only if the log is. Headers after the commit index are
/// never trimmed, so the seqno is known at every position where the log may still end. (Right after
/// a start it is not known below the recovered headers; the next entry then brings it.)
#[derive(Debug)]
pub(crate) struct LogView {
    base: LogBase,
    term_starts: Vec<(Term, LogIndex)>,
    configs: Vec<ConfigAt>,
    tail: VecDeque<EntryHeader>,
    /// The last entry, or the base's if the log has none.
    last: EntryId,
    /// Seqno at `last`; unknown only between a truncation below the recovered headers and the
    /// append that follows it in the same step.
    last_seqno: Option<Seqno>,
}

impl LogView {
    pub(crate) fn recover(recovered: Recovered) -> LogView {
        let Recovered {
            vote: _,
            base,
            term_starts,
            configs,
            tail,
            repair: _,
        } = recovered;
        let (last, last_seqno) = tail.last().map_or((base.last, base.seqno), |header| {
            (header.id(), header.seqno)
        });
        assert_eq!(
            tail.is_empty(),
            term_starts.is_empty(),
            "a log with entries has headers of the newest, and terms"
        );
        assert!(
            tail.windows(2)
                .all(|pair| pair[1].index == pair[0].index.next()),
            "recovered headers are consecutive"
        );
        assert!(
            term_starts
                .first()
                .is_none_or(|(_, start)| *start == base.last.index.next()),
            "the first term starts right after the base"
        );
        let tail = VecDeque::from(tail);
        LogView {
            base,
            term_starts,
            configs,
            tail,
            last,
            last_seqno: Some(last_seqno),
        }
    }

    pub(crate) fn base(&self) -> &LogBase {
        &self.base
    }

    pub(crate) fn last(&self) -> EntryId {
        self.last
    }

    pub(crate) fn last_seqno(&self) -> Seqno {
        self.last_seqno.unwrap_or(self.base.seqno)
    }

    /// Whether the log has never had an entry.
    pub(crate) fn is_blank(&self) -> bool {
        self.last == EntryId::default()
    }

    /// Index of the oldest header in memory; the index after the last entry if there is none.
    pub(crate) fn tail_first(&self) -> LogIndex {
        self.tail
            .front()
            .map_or(self.last.index.next(), |header| header.index)
    }

    /// Term of the entry at `index`, if it is in the log or the base's last.
    pub(crate) fn term_at(&self, index: LogIndex) -> Option<Term> {
        if index == self.base.last.index {
            return Some(self.base.last.term);
        }
        if index < self.base.last.index || index > self.last.index {
            return None;
        }
        let after = self
            .term_starts
            .partition_point(|(_, start)| *start <= index);
        self.term_starts
            .get(after.checked_sub(1)?)
            .map(|(term, _)| *term)
    }

    /// Whether exactly this entry is in the log (or is the base's last).
    pub(crate) fn holds(&self, id: EntryId) -> bool {
        self.term_at(id.index) == Some(id.term)
    }

    pub(crate) fn header(&self, index: LogIndex) -> Option<&EntryHeader> {
        let offset = index.0.checked_sub(self.tail_first().0)?;
        self.tail.get(usize::try_from(offset).ok()?)
    }

    pub(crate) fn headers_from(&self, index: LogIndex) -> impl Iterator<Item = &EntryHeader> {
        let skip = index.0.saturating_sub(self.tail_first().0);
        self.tail
            .iter()
            .skip(usize::try_from(skip).unwrap_or(usize::MAX))
    }

    pub(crate) fn seqno_at(&self, index: LogIndex) -> Option<Seqno> {
        if index == self.base.last.index {
            return Some(self.base.seqno);
        }
        self.header(index).map(|header| header.seqno)
    }

    /// The configuration in force at the end of the log (Raft dissertation, section 4.1: as soon as
    /// it is appended).
    pub(crate) fn config(&self) -> &ConfigAt {
        self.configs.last().unwrap_or(&self.base.config)
    }

    /// The configuration in force at `index`; `None` outside of the log.
    pub(crate) fn config_at(&self, index: LogIndex) -> Option<&ConfigAt> {
        if index < self.base.last.index || index > self.last.index {
            return None;
        }
        let after = self.configs.partition_point(|config| config.index <= index);
        Some(
            after
                .checked_sub(1)
                .map_or(&self.base.config, |i| &self.configs[i]),
        )
    }

    /// The highest index at which this log and another one may agree, given that the other's last
    /// entry at or below some refused position is `hint`: the largest index not above the hint's,
    /// of a term not above the hint's (Raft, end of section 5.3; one exchange per term instead of
    /// per entry). Below the base the terms are unknown, and the result is the hint's own index.
    pub(crate) fn agreement_below(&self, hint: EntryId) -> LogIndex {
        let mut index = hint.index.min(self.last.index);
        while let Some(term) = self.term_at(index) {
            if term <= hint.term || index == self.base.last.index {
                break;
            }
            let after = self
                .term_starts
                .partition_point(|(_, start)| *start <= index);
            index = self.term_starts[after - 1].1.prev();
        }
        if self.term_at(index).is_some_and(|term| term > hint.term) {
            return index.prev();
        }
        index
    }

    /// `config` belongs to a config entry and to no other.
    pub(crate) fn push(&mut self, header: EntryHeader, config: Option<Config>) {
        assert_eq!(
            header.index,
            self.last.index.next(),
            "entries are consecutive"
        );
        assert!(
            header.term >= self.last.term,
            "terms never decrease along the log"
        );
        assert_eq!(
            header.kind == EntryKind::Config,
            config.is_some(),
            "configs with their entries"
        );
        if let Some(seqno) = self.last_seqno {
            let expected = if header.kind.is_ordered() {
                seqno.next()
            } else {
                seqno
            };
            assert_eq!(header.seqno, expected, "seqnos have no gaps");
        }
        if self
            .term_starts
            .last()
            .is_none_or(|(term, _)| *term != header.term)
        {
            self.term_starts.push((header.term, header.index));
        }
        if let Some(config) = config {
            self.configs.push(ConfigAt {
                index: header.index,
                config,
            });
        }
        self.tail.push_back(header);
        self.last = header.id();
        self.last_seqno = Some(header.seqno);
    }

    /// Truncates the entries at and after `from`. Returns whether that changed the configuration.
    pub(crate) fn truncate(&mut self, from: LogIndex) -> bool {
        assert!(
            from > self.base.last.index,
            "the base is committed; cannot truncate from {from}"
        );
        let keep = from.prev();
        let term = self
            .term_at(keep)
            .unwrap_or_else(|| panic!("no entry {keep} to keep"));
        while self.tail.back().is_some_and(|header| header.index >= from) {
            self.tail.pop_back();
        }
        self.term_starts.retain(|(_, start)| *start < from);
        let configs = self.configs.len();
        self.configs.retain(|config| config.index < from);
        self.last = EntryId { term, index: keep };
        self.last_seqno = if keep == self.base.last.index {
            Some(self.base.seqno)
        } else {
            self.tail.back().map(|header| header.seqno)
        };
        self.configs.len() != configs
    }

    pub(crate) fn reset(&mut self, base: LogBase) {
        let (last, last_seqno) = (base.last, Some(base.seqno));
        *self = LogView {
            base,
            term_starts: Vec::new(),
            configs: Vec::new(),
            tail: VecDeque::new(),
            last,
            last_seqno,
        };
    }

    /// Purges the prefix up to and including `base.last`, which must be in the log.
    pub(crate) fn purge(&mut self, base: LogBase) {
        assert!(
            self.holds(base.last),
            "purged up to {}, which is not in the log",
            base.last
        );
        let first = base.last.index.next();
        let first_term = self.term_at(first);
        self.term_starts.retain(|(_, start)| *start > first);
        if let Some(term) = first_term {
            self.term_starts.insert(0, (term, first));
        }
        self.configs.retain(|config| config.index >= first);
        while self.tail.front().is_some_and(|header| header.index < first) {
            self.tail.pop_front();
        }
        self.base = base;
    }

    /// Keeps at most `max` headers in memory, but always `keep_from` and later ones.
    pub(crate) fn trim(&mut self, keep_from: LogIndex, max: usize) {
        while self.tail.len() > max.max(1)
            && self
                .tail
                .front()
                .is_some_and(|header| header.index < keep_from)
        {
            self.tail.pop_front();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(term: u64, index: u64) -> EntryHeader {
        EntryHeader::bare(Term(term), LogIndex(index), Seqno(0), EntryKind::NoOp)
    }

    /// A log of entries of these terms.
    pub(crate) fn log(terms: &[u64]) -> LogView {
        let mut log = LogView::recover(Recovered::default());
        for (i, term) in terms.iter().enumerate() {
            log.push(header(*term, i as u64 + 1), None);
        }
        log
    }

    fn id(term: u64, index: u64) -> EntryId {
        EntryId::new(Term(term), LogIndex(index))
    }

    #[test]
    fn agreement_skips_whole_terms() {
        let log = log(&[1, 1, 1, 4, 4, 5, 5, 6]);
        let table = [
            (id(0, 0), 0),
            (id(1, 2), 2),
            (id(3, 8), 3),
            (id(4, 8), 5),
            (id(5, 6), 6),
            (id(6, 20), 8),
            (id(1, 8), 3),
            (id(0, 5), 0),
        ];
        for (hint, expected) in table {
            assert_eq!(log.agreement_below(hint), LogIndex(expected), "{hint}");
        }
    }

    #[test]
    fn purge_keeps_terms_of_the_rest() {
        let mut log = log(&[1, 1, 2, 2, 3]);
        log.purge(LogBase {
            last: id(2, 3),
            ..LogBase::default()
        });
        let terms: Vec<_> = (2..=6)
            .map(|i| log.term_at(LogIndex(i)).map(|t| t.0))
            .collect();
        assert_eq!(terms, [None, Some(2), Some(2), Some(3), None]);
        assert_eq!(log.tail_first(), LogIndex(4));
    }

    #[test]
    fn truncation_restores_the_config_before() {
        let mut log = log(&[1, 1]);
        log.push(
            EntryHeader {
                kind: EntryKind::Config,
                ..header(1, 3)
            },
            Some(Config::default()),
        );
        assert_eq!(log.config().index, LogIndex(3));
        assert!(log.truncate(LogIndex(3)));
        assert_eq!(log.config().index, LogIndex(0));
        assert!(!log.truncate(LogIndex(2)));
        assert_eq!(log.last(), id(1, 1));
    }

    #[test]
    fn trimming_keeps_the_headers_that_must_stay() {
        let mut log = log(&[1; 10]);
        log.trim(LogIndex(5), 2);
        assert_eq!(log.tail_first(), LogIndex(5));
        log.trim(LogIndex(10), 2);
        assert_eq!(log.tail_first(), LogIndex(9));
        assert_eq!(log.term_at(LogIndex(1)), Some(Term(1)));
    }

    proptest! {
        /// Two logs built from a common prefix: following hints always ends at a common entry, and
        /// every step goes down.
        #[test]
        fn probing_converges(
            common in prop::collection::vec(0u64..2, 0..8),
            ours in prop::collection::vec(0u64..3, 0..8),
            theirs in prop::collection::vec(0u64..3, 0..8),
        ) {
            let mut term = 1;
            let mut shared = Vec::new();
            for step in common { term += step; shared.push(term); }
            let extend = |steps: &[u64], offset: u64| {
                let mut term = term * 2 + offset;
                let mut terms: Vec<u64> = shared.iter().map(|t| t * 2).collect();
                // Two leaders never share a term: one side takes odd, the other even ones.
                for step in steps { term += step * 2; terms.push(term); }
                terms
            };
            let (leader, follower) = (log(&extend(&ours, 2)), log(&extend(&theirs, 3)));
            let mut prev = leader.last();
            for _ in 0..40 {
                if follower.holds(prev) { break; }
                let hint_index = follower.agreement_below(prev);
                let hint = EntryId::new(follower.term_at(hint_index).unwrap(), hint_index);
                let index = leader.agreement_below(hint);
                prop_assert!(index < prev.index);
                prev = EntryId { term: leader.term_at(index).unwrap(), index };
            }
            prop_assert!(follower.holds(prev));
            prop_assert!(prev.index >= LogIndex(shared.len() as u64).min(leader.last().index));
        }
    }
}
