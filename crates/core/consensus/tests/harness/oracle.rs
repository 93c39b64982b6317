//! Invariants of the protocol, checked at every step.

use std::collections::{BTreeMap, BTreeSet};

use synod_consensus::{EntryHeader, EntryId, LogIndex, MemberId, Origin, Seqno, Term};

#[derive(Debug, Default)]
pub struct Oracle {
    leaders: BTreeMap<Term, MemberId>,
    /// Every entry ever written anywhere, with the one before it.
    entries: BTreeMap<EntryId, (EntryHeader, EntryId)>,
    /// Committed entries from index 1, each with the term of the member that committed it first.
    pub committed: Vec<(EntryHeader, Term)>,
    ordered: BTreeSet<(MemberId, u64, u64)>,
    refused: BTreeSet<(MemberId, u64, u64)>,
}

fn key(origin: Origin) -> (MemberId, u64, u64) {
    (origin.member, origin.session.0, origin.number)
}

impl Oracle {
    pub fn commit_index(&self) -> LogIndex {
        LogIndex(self.committed.len() as u64)
    }

    /// Election safety (Raft, figure 3).
    pub fn leader(&mut self, term: Term, leader: MemberId) {
        let known = self.leaders.insert(term, leader);
        assert!(
            known.is_none_or(|known| known == leader),
            "two leaders in term {term}"
        );
    }

    /// Leader completeness: a new leader has everything that was committed in earlier terms.
    pub fn new_leader(&self, term: Term, has: impl Fn(EntryId) -> bool) {
        for (header, committed_in) in &self.committed {
            let id = header.id();
            assert!(
                *committed_in >= term || has(id),
                "leader of {term} lacks {id}"
            );
        }
    }

    /// Log matching: an entry id names one entry, and one history before it.
    pub fn written(&mut self, header: &EntryHeader, before: EntryId) {
        let known = self.entries.entry(header.id()).or_insert((*header, before));
        assert_eq!(
            *known,
            (*header, before),
            "two entries with id {}",
            header.id()
        );
    }

    /// State machine safety: all members commit the same. Returns whether this is the first commit.
    pub fn committed(&mut self, header: &EntryHeader, by_term: Term) -> bool {
        let position = header.index.0 as usize - 1;
        if let Some((known, _)) = self.committed.get(position) {
            assert_eq!(known, header, "two entries committed at {}", header.index);
            return false;
        }
        assert_eq!(position, self.committed.len(), "commits have no gaps");
        let before = self
            .committed
            .last()
            .map_or(Seqno(0), |(header, _)| header.seqno);
        let expected = if header.kind.is_ordered() {
            before.next()
        } else {
            before
        };
        assert_eq!(header.seqno, expected, "seqnos have no gaps");
        if header.origin.number > 0 {
            let origin = key(header.origin);
            assert!(self.ordered.insert(origin), "{origin:?} is ordered twice");
            assert!(
                !self.refused.contains(&origin),
                "{origin:?} was refused, and is committed"
            );
        }
        self.committed.push((*header, by_term));
        true
    }

    /// The origin has reported to its client that this proposal is refused.
    pub fn refused(&mut self, origin: Origin) {
        let origin = key(origin);
        assert!(
            !self.ordered.contains(&origin),
            "{origin:?} is committed, and refused"
        );
        self.refused.insert(origin);
    }
}
