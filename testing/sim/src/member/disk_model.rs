//! Model of a member's disk, kept by the checkers, independent of the log's own view.
//!
//! [`DiskModel`] follows writes, syncs and floors. After a crash it says what the log may come back
//! with; after damage it says what the member still has to answer for.

use std::collections::VecDeque;

use synod_consensus::{
    EntryHeader, EntryId, HardState, LogIndex, Recovered, Term, WriteOp, WriteTicket,
};

/// The state of a log: where it starts, the term of each entry, and the vote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogImage {
    /// The last entry before the log.
    pub(crate) base: EntryId,
    /// The term of each entry after `base`.
    terms: Vec<Term>,
    pub(crate) vote: HardState,
}

/// One record of a log.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Entry(EntryId),
    Truncate(LogIndex),
    Vote(HardState),
    Reset(EntryId),
}

impl LogImage {
    /// Image of a recovered log.
    pub(crate) fn of(recovered: &Recovered) -> LogImage {
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
        LogImage {
            base,
            terms,
            vote: recovered.vote,
        }
    }

    /// The last entry, or the base of an empty log.
    pub(crate) fn last(&self) -> EntryId {
        let index = LogIndex(self.base.index.0 + self.terms.len() as u64);
        self.id_at(index).unwrap_or(self.base)
    }

    /// The entry at an index, the base included.
    pub(crate) fn id_at(&self, index: LogIndex) -> Option<EntryId> {
        if index == self.base.index {
            return Some(self.base);
        }
        let offset = index.0.checked_sub(self.base.index.0 + 1)?;
        let term = *self.terms.get(usize::try_from(offset).ok()?)?;
        Some(EntryId { term, index })
    }

    /// All entries, each with its predecessor.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = (EntryId, EntryId)> + '_ {
        let first = self.base.index.0 + 1;
        (0..self.terms.len()).map(move |at| {
            let id = EntryId::new(self.terms[at], LogIndex(first + at as u64));
            let before = match at {
                0 => self.base,
                _ => EntryId::new(self.terms[at - 1], id.index.prev()),
            };
            (id, before)
        })
    }

    /// Whether a (committed) entry is in the log or before its beginning.
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

    /// The prefix up to `base` is purged.
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

    /// Whether both logs hold the same where both have entries, and the same vote.
    pub(crate) fn same(&self, other: &LogImage) -> bool {
        let from = self.base.index.max(other.base.index);
        let (last, its_last) = (self.last(), other.last());
        last == its_last
            && self.vote == other.vote
            && (from.0..=last.index.0).all(|i| self.id_at(LogIndex(i)) == other.id_at(LogIndex(i)))
    }
}

/// Contents of an opened log.
#[derive(Clone, Debug)]
pub(crate) struct RecoveredLog {
    pub(crate) image: LogImage,
    /// The member is under repair until its log has reached this entry.
    pub(crate) mark: Option<EntryId>,
    /// Damage was noticed, and a repair begun, since the log was open last.
    pub(crate) repaired: bool,
}

/// Losses of a damaged log, until other members have supplied them again. The member still answers
/// for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unrepaired {
    /// The last entry that was durable.
    pub(crate) mark: EntryId,
    /// Durable images before each damage.
    pub(crate) images: Vec<LogImage>,
}

/// A member's disk: what was written, what of it is durable, and what a floor states.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskModel {
    /// Everything written.
    pub(crate) written: LogImage,
    /// Everything that a sync has covered.
    pub(crate) durable: LogImage,
    /// Floor on the disk that is stated as durable. Recovery must never lose it silently.
    pub(crate) floor: LogImage,
    pending: VecDeque<(WriteTicket, Op)>,
    /// Operations that the last sync made durable, after `floor`.
    last_batch: Vec<Op>,
    /// Damage has removed the statement of `floor`, and no later batch states it again: the last
    /// batch may vanish unnoticed.
    pub(crate) floor_lost: bool,
    /// Bytes that matter were changed on the disk since the log was opened, so that it will not
    /// come back as it was.
    pub(crate) damaged: bool,
    /// A repair may have begun and been interrupted.
    pub(crate) repair_torn: bool,
    /// Losses of earlier damage that no repair has brought back.
    pub(crate) unrepaired: Option<Unrepaired>,
}

/// A member that does not know its promises goes to a term at least this far above all others.
const OUT_OF_REACH: u64 = 1 << 31;

impl DiskModel {
    /// A disk on which all of this is durable.
    pub(crate) fn recovered(image: LogImage) -> DiskModel {
        DiskModel {
            written: image.clone(),
            durable: image.clone(),
            floor: image,
            ..DiskModel::default()
        }
    }

    /// The model after the log was opened again with this content.
    pub(crate) fn reopened(&self, found: LogImage) -> DiskModel {
        let mut unrepaired = self.unrepaired.clone();
        if !self.may_recover(&found) {
            let unrepaired = unrepaired.get_or_insert_default();
            unrepaired.mark = unrepaired.mark.max(self.durable.last());
            unrepaired.images.push(self.durable.clone());
        }
        let disk = DiskModel::recovered(found);
        DiskModel { unrepaired, ..disk }
    }

    /// The core has handed over a write.
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
        self.floor_stated();
        while self.pending.front().is_some_and(|(t, _)| *t <= ticket) {
            if let Some((_, op)) = self.pending.pop_front() {
                self.durable.apply(&op);
                self.last_batch.push(op);
            }
        }
    }

    /// The log was purged up to `base`. What led up to it in the last batch is stated by the base.
    pub(crate) fn purged(&mut self, base: EntryId) {
        let mut ops = std::mem::take(&mut self.last_batch).into_iter();
        while self.floor.last().index < base.index
            && let Some(op) = ops.next()
        {
            self.floor.apply(&op);
        }
        self.last_batch = ops.collect();
        self.written.purge(base);
        self.durable.purge(base);
        self.floor.purge(base);
    }

    /// Whether a crash may leave this: everything durable, and a prefix of the records after it.
    pub(crate) fn may_recover(&self, found: &LogImage) -> bool {
        let mut image = self.durable.clone();
        if image.same(found) {
            return true;
        }
        self.pending.iter().any(|(_, op)| {
            image.apply(op);
            image.same(found)
        })
    }

    /// Whether a log that comes back after damage accounts for what was on the disk. Either it is
    /// undamaged. Or the damage was noticed; then the log has the last entry or waits for it, and
    /// knows its vote or is in a term beyond all votes. With `floors_only`, what no floor covers
    /// may be missing without a trace.
    pub(crate) fn accounts_for(&self, found: &RecoveredLog, floors_only: bool) -> bool {
        let RecoveredLog {
            image: found,
            mark,
            repaired,
        } = found;
        let reach = mark.map_or(found.last(), |mark| mark.max(found.last()));
        if self
            .unrepaired
            .as_ref()
            .is_some_and(|unrepaired| reach < unrepaired.mark)
        {
            return false;
        }
        let answered = |image: &LogImage| {
            if !repaired {
                return image.same(found);
            }
            let (vote, found) = (image.vote, found.vote);
            let beyond = found.term.0 >= vote.term.0.saturating_add(OUT_OF_REACH);
            (vote == found || beyond) && image.last() <= reach
        };
        let pending = self.pending.iter().map(|(_, op)| op);
        let (mut image, later): (LogImage, Vec<&Op>) = if floors_only {
            let later = self.last_batch.iter().chain(pending);
            (self.floor.clone(), later.collect())
        } else {
            (self.durable.clone(), pending.collect())
        };
        answered(&image)
            || later.into_iter().any(|op| {
                image.apply(op);
                answered(&image)
            })
    }

    /// Whether an entry is on the disk, or was there before damage for which the member answers.
    pub(crate) fn vouches_for(&self, entry: EntryId) -> bool {
        let mut unrepaired = self
            .unrepaired
            .iter()
            .flat_map(|unrepaired| &unrepaired.images);
        self.durable.has(entry) || unrepaired.any(|image| image.has(entry))
    }

    /// Whether all entries from `first` to this one are on the disk, as in
    /// [`DiskModel::vouches_for`].
    pub(crate) fn vouches_from(&self, first: LogIndex, entry: EntryId) -> bool {
        let mut unrepaired = self
            .unrepaired
            .iter()
            .flat_map(|unrepaired| &unrepaired.images);
        let has_all = |image: &LogImage| image.has(entry) && image.base.index < first;
        has_all(&self.durable) || unrepaired.any(has_all)
    }

    /// The entry that the log has to reach before the member may stand and vote as before the
    /// damage.
    pub(crate) fn unrepaired_mark(&self) -> Option<EntryId> {
        let unrepaired = self.unrepaired.as_ref()?;
        (self.durable.last() < unrepaired.mark).then_some(unrepaired.mark)
    }

    /// Whether this disk was damaged and the repair is not complete.
    pub(crate) fn needs_repair(&self) -> bool {
        self.damaged || self.unrepaired.is_some()
    }

    /// A floor now states everything durable.
    pub(crate) fn floor_stated(&mut self) {
        self.floor.clone_from(&self.durable);
        self.last_batch.clear();
        self.floor_lost = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(term: u64, index: u64) -> EntryId {
        EntryId::new(Term(term), LogIndex(index))
    }

    fn image(ids: &[(u64, u64)]) -> LogImage {
        let mut image = LogImage::default();
        for (term, index) in ids {
            image.apply(&Op::Entry(id(*term, *index)));
        }
        image
    }

    fn vote(term: u64) -> WriteOp {
        WriteOp::Vote(HardState::new(Term(term), None))
    }

    #[test]
    fn crash_leaves_the_durable_part_and_a_prefix_of_the_rest() {
        let mut disk = DiskModel::recovered(image(&[(1, 1), (1, 2)]));
        disk.write(WriteTicket(1), &WriteOp::Truncate { from: LogIndex(2) });
        disk.write(WriteTicket(2), &vote(3));
        let mut voted = image(&[(1, 1)]);
        assert!(disk.may_recover(&voted), "truncated, and the vote lost");
        voted.vote.term = Term(3);
        assert!(disk.may_recover(&voted));
        assert!(!disk.may_recover(&image(&[])), "a durable entry is lost");
        let mut swapped = image(&[(1, 1), (1, 2)]);
        swapped.vote.term = Term(3);
        assert!(
            !disk.may_recover(&swapped),
            "the vote before the truncation"
        );
        disk.synced(WriteTicket(2));
        assert!(!disk.may_recover(&image(&[(1, 1)])), "the vote was durable");
    }

    #[test]
    fn only_the_last_batch_may_vanish_unnoticed() {
        let mut disk = DiskModel::default();
        disk.write(WriteTicket(1), &vote(1));
        disk.synced(WriteTicket(1));
        disk.write(WriteTicket(2), &vote(2));
        disk.synced(WriteTicket(2));
        let forgets = |disk: &DiskModel, term| {
            let mut image = LogImage::default();
            image.vote.term = Term(term);
            let found = RecoveredLog {
                image,
                mark: None,
                repaired: false,
            };
            !disk.accounts_for(&found, true)
        };
        assert!(!forgets(&disk, 1) && !forgets(&disk, 2));
        assert!(forgets(&disk, 0));
        disk.floor_stated();
        assert!(forgets(&disk, 1));
        disk.floor_lost = true;
        disk.write(WriteTicket(3), &vote(3));
        disk.synced(WriteTicket(3));
        assert!(!disk.floor_lost, "the next batch states it again");
    }

    #[test]
    fn damaged_log_answers_for_its_last_entry_and_its_vote() {
        let mut disk = DiskModel::recovered(image(&[(1, 1), (1, 2)]));
        disk.durable.vote.term = Term(3);
        let answers = |vote: u64, mark| {
            let mut image = image(&[(1, 1)]);
            image.vote.term = Term(vote);
            let found = RecoveredLog {
                image,
                mark,
                repaired: true,
            };
            disk.accounts_for(&found, false)
        };
        assert!(answers(3, Some(id(1, 2))));
        assert!(!answers(3, None), "the lost entry is forgotten");
        assert!(!answers(2, Some(id(1, 2))), "the term is forgotten");
        assert!(!answers(4, Some(id(1, 2))), "it may have voted in term 4");
        let beyond = 3 + OUT_OF_REACH;
        assert!(answers(beyond, Some(id(beyond, 0))));
        disk.damaged = true;
        let mut after = disk.reopened(image(&[(1, 1)]));
        assert_eq!(after.unrepaired_mark(), Some(id(1, 2)));
        assert!(after.vouches_for(id(1, 2)) && !after.vouches_for(id(2, 2)));
        after.durable.apply(&Op::Entry(id(4, 2)));
        assert_eq!(
            after.unrepaired_mark(),
            None,
            "a later leader's log has all of it"
        );
    }

    #[test]
    fn purge_beyond_the_floor_takes_it_along() {
        let mut disk = DiskModel::default();
        let all = image(&[(1, 1), (1, 2), (2, 3)]);
        let entries = all.ids().map(|(id, _)| Op::Entry(id));
        disk.last_batch.extend(entries);
        (disk.written, disk.durable) = (all.clone(), all);
        disk.purged(id(1, 2));
        let found = |image| RecoveredLog {
            image,
            mark: None,
            repaired: false,
        };
        assert!(disk.accounts_for(&found(disk.durable.clone()), true));
        let mut shorter = LogImage::default();
        shorter.purge(id(1, 1));
        assert!(
            !disk.accounts_for(&found(shorter), true),
            "the base is lost"
        );
    }

    #[test]
    fn purged_image_still_knows_its_end() {
        let mut image = image(&[(1, 1), (1, 2), (2, 3)]);
        image.purge(id(1, 2));
        assert_eq!((image.base, image.last()), (id(1, 2), id(2, 3)));
        assert!(image.has(id(1, 1)) && !image.has(id(1, 3)));
    }
}
