//! What is on a member's disk, as the checkers keep account of it: independent of the log's own idea.

use std::collections::VecDeque;

use synod_consensus::{
    EntryHeader, EntryId, HardState, LogIndex, Recovered, Term, WriteOp, WriteTicket,
};

/// The state of a log: where it starts, the term of each entry, and the vote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) base: EntryId,
    terms: Vec<Term>,
    pub(crate) vote: HardState,
}

/// One record.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Entry(EntryId),
    Truncate(LogIndex),
    Vote(HardState),
    Reset(EntryId),
}

impl Image {
    pub(crate) fn of(recovered: &Recovered) -> Image {
        let base = recovered.base.last;
        let last = recovered.tail.last().map_or(base, EntryHeader::id);
        let mut terms = Vec::new();
        let mut starts = recovered.term_starts.iter().peekable();
        let mut term = base.term;
        for index in base.index.0 + 1..=last.index.0 {
            while let Some((next, _)) = starts.next_if(|(_, start)| start.0 <= index) {
                term = *next;
            }
            terms.push(term);
        }
        Image {
            base,
            terms,
            vote: recovered.vote,
        }
    }

    pub(crate) fn last(&self) -> EntryId {
        let index = LogIndex(self.base.index.0 + self.terms.len() as u64);
        self.id_at(index).unwrap_or(self.base)
    }

    pub(crate) fn id_at(&self, index: LogIndex) -> Option<EntryId> {
        if index == self.base.index {
            return Some(self.base);
        }
        let offset = index.0.checked_sub(self.base.index.0 + 1)?;
        let term = *self.terms.get(usize::try_from(offset).ok()?)?;
        Some(EntryId { term, index })
    }

    /// Whether a (committed) entry is held, or was before the log's start.
    pub(crate) fn has(&self, id: EntryId) -> bool {
        id.index <= self.base.index || self.id_at(id.index) == Some(id)
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Entry(id) => self.terms.push(id.term),
            Op::Truncate(from) => {
                let keep = from.0.saturating_sub(self.base.index.0 + 1);
                self.terms
                    .truncate(usize::try_from(keep).unwrap_or(usize::MAX));
            }
            Op::Vote(vote) => self.vote = *vote,
            Op::Reset(base) => {
                self.base = *base;
                self.terms.clear();
            }
        }
    }

    /// The prefix up to `base` is gone.
    pub(crate) fn purge(&mut self, base: EntryId) {
        let gone = base.index.0.saturating_sub(self.base.index.0);
        if gone > 0 {
            let gone = usize::try_from(gone)
                .unwrap_or(usize::MAX)
                .min(self.terms.len());
            self.terms.drain(..gone);
            self.base = base;
        }
    }

    /// Whether both hold the same, wherever they start.
    pub(crate) fn same(&self, other: &Image) -> bool {
        let from = self.base.index.max(other.base.index);
        let (last, its_last) = (self.last(), other.last());
        last == its_last
            && self.vote == other.vote
            && (from.0..=last.index.0).all(|i| self.id_at(LogIndex(i)) == other.id_at(LogIndex(i)))
    }
}

/// A member's disk: what was written, and how much of it is durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) written: Image,
    pub(crate) durable: Image,
    /// Stated durable by a floor on the disk: recovery must never lose it silently.
    pub(crate) floor: Image,
    pending: VecDeque<(WriteTicket, Op)>,
    /// What the last sync made durable, after `floor`.
    last_batch: Vec<Op>,
}

impl Ledger {
    pub(crate) fn recovered(image: Image) -> Ledger {
        Ledger {
            written: image.clone(),
            durable: image.clone(),
            floor: image,
            pending: VecDeque::new(),
            last_batch: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, ticket: WriteTicket, op: &WriteOp) {
        let ops: Vec<Op> = match op {
            WriteOp::Append(headers) => headers.iter().map(|h| Op::Entry(h.id())).collect(),
            WriteOp::Truncate { from } => vec![Op::Truncate(*from)],
            WriteOp::Vote(vote) => vec![Op::Vote(*vote)],
            WriteOp::Reset(base) => vec![Op::Reset(base.last)],
        };
        for op in ops {
            self.written.apply(&op);
            self.pending.push_back((ticket, op));
        }
    }

    /// A sync covered everything up to this ticket.
    pub(crate) fn synced(&mut self, ticket: WriteTicket) {
        self.floor.clone_from(&self.durable);
        self.last_batch.clear();
        while self.pending.front().is_some_and(|(t, _)| *t <= ticket) {
            if let Some((_, op)) = self.pending.pop_front() {
                self.durable.apply(&op);
                self.last_batch.push(op);
            }
        }
    }

    pub(crate) fn purged(&mut self, base: EntryId) {
        self.written.purge(base);
        self.durable.purge(base);
        self.floor.purge(base);
    }

    /// Whether a crash may leave this: everything durable, and some of the records after it, in order.
    pub(crate) fn may_recover(&self, found: &Image) -> bool {
        let mut image = self.durable.clone();
        if image.same(found) {
            return true;
        }
        self.pending.iter().any(|(_, op)| {
            image.apply(op);
            image.same(found)
        })
    }

    /// Everything durable is stated to be so.
    pub(crate) fn floor_stated(&mut self) {
        self.floor.clone_from(&self.durable);
        self.last_batch.clear();
    }

    /// Whether damage to the disk may leave this unnoticed: nothing below the floor is missing.
    pub(crate) fn keeps_floor(&self, found: &Image) -> bool {
        let mut image = self.floor.clone();
        let later = self
            .last_batch
            .iter()
            .chain(self.pending.iter().map(|(_, op)| op));
        image.same(found)
            || later.into_iter().any(|op| {
                image.apply(op);
                image.same(found)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(term: u64, index: u64) -> EntryId {
        EntryId {
            term: Term(term),
            index: LogIndex(index),
        }
    }

    fn image(ids: &[(u64, u64)]) -> Image {
        let mut image = Image::default();
        for (term, index) in ids {
            image.apply(&Op::Entry(id(*term, *index)));
        }
        image
    }

    fn vote(term: u64) -> WriteOp {
        WriteOp::Vote(HardState {
            term: Term(term),
            voted_for: None,
        })
    }

    #[test]
    fn crash_leaves_the_durable_part_and_a_prefix_of_the_rest() {
        let mut ledger = Ledger::recovered(image(&[(1, 1), (1, 2)]));
        ledger.write(WriteTicket(1), &WriteOp::Truncate { from: LogIndex(2) });
        ledger.write(WriteTicket(2), &vote(3));
        let mut voted = image(&[(1, 1)]);
        assert!(ledger.may_recover(&voted), "cut, and the vote lost");
        voted.vote.term = Term(3);
        assert!(ledger.may_recover(&voted));
        assert!(!ledger.may_recover(&image(&[])), "a durable entry is lost");
        let mut swapped = image(&[(1, 1), (1, 2)]);
        swapped.vote.term = Term(3);
        assert!(!ledger.may_recover(&swapped), "the vote before the cut");
        ledger.synced(WriteTicket(2));
        assert!(
            !ledger.may_recover(&image(&[(1, 1)])),
            "the vote was durable"
        );
    }

    #[test]
    fn only_the_last_batch_may_vanish_unnoticed() {
        let mut ledger = Ledger::default();
        ledger.write(WriteTicket(1), &vote(1));
        ledger.synced(WriteTicket(1));
        ledger.write(WriteTicket(2), &vote(2));
        ledger.synced(WriteTicket(2));
        let with_vote = |term| {
            let mut image = Image::default();
            image.vote.term = Term(term);
            image
        };
        assert!(ledger.keeps_floor(&with_vote(1)) && ledger.keeps_floor(&with_vote(2)));
        assert!(!ledger.keeps_floor(&with_vote(0)));
        ledger.floor_stated();
        assert!(!ledger.keeps_floor(&with_vote(1)));
    }

    #[test]
    fn purged_image_still_knows_its_end() {
        let mut image = image(&[(1, 1), (1, 2), (2, 3)]);
        image.purge(id(1, 2));
        assert_eq!((image.base, image.last()), (id(1, 2), id(2, 3)));
        assert!(image.has(id(1, 1)) && !image.has(id(1, 3)));
    }
}
