//! The index: the keys of the certification window, with the marks of the actions that held them.
//!
//! A slot holds one key. Slots are in blocks that never move, so that growing is cheap and the
//! number of a slot stays valid. A hash table of these numbers finds the slot of a key. A cursor
//! goes round in bounded steps and frees slots that left the window. Its progress never shows:
//! readers ignore marks at or below the start of the window.

use hashbrown::{HashMap, HashTable};

use crate::key::{Fingerprint, KeyType};
use crate::request::Source;

const BLOCK: usize = 1024;
/// Stands for no seqno; below every window.
pub(crate) const NEVER: i64 = i64::MIN;
/// Size of the allocation for further types, in bytes.
const OTHERS_BYTES: usize = size_of::<[Mark; 4]>();

/// Number of a slot. Valid as long as the newest mark of the slot is in the window.
pub(crate) type SlotId = u32;

/// One key and its marks. 48 bytes; about 60 with its share of the table.
#[derive(Debug)]
struct Slot {
    fingerprint: Fingerprint,
    marks: Marks,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    blocks: Vec<Vec<Slot>>,
    table: HashTable<SlotId>,
    free: Vec<SlotId>,
    cursor: usize,
    with_others: usize,
}

impl Index {
    pub(crate) fn marks(&self, fingerprint: Fingerprint) -> Option<&Marks> {
        let hash = fingerprint.table_hash();
        let id = self
            .table
            .find(hash, |id| self.slot(*id).fingerprint == fingerprint)?;
        Some(&self.slot(*id).marks)
    }

    pub(crate) fn slot_of(&mut self, fingerprint: Fingerprint) -> SlotId {
        let hash = fingerprint.table_hash();
        let blocks = &self.blocks;
        let found = self
            .table
            .find(hash, |id| slot(blocks, *id).fingerprint == fingerprint);
        if let Some(id) = found {
            return *id;
        }
        let id = self.take_slot(Slot {
            fingerprint,
            marks: Marks::NONE,
        });
        let blocks = &self.blocks;
        let rehash = |id: &SlotId| slot(blocks, *id).fingerprint.table_hash();
        self.table.insert_unique(hash, id, rehash);
        id
    }

    /// Seqno of the newest hold on a key; [`NEVER`] if there is none.
    pub(crate) fn newest(&self, id: SlotId) -> i64 {
        self.slot(id).marks.newest()
    }

    pub(crate) fn mark(&self, id: SlotId, kind: KeyType) -> Mark {
        self.slot(id).marks.get(kind)
    }

    pub(crate) fn set_mark(&mut self, id: SlotId, kind: KeyType, mark: Mark) {
        let marks = &mut self.slot_mut(id).marks;
        let had = marks.has_others();
        marks.set(kind, mark);
        if !had && marks.has_others() {
            self.with_others += 1;
        }
    }

    /// Visits the next `steps` slots and frees those that have left the window.
    pub(crate) fn clean(&mut self, steps: usize, window_start: i64) {
        let slots = self.slots();
        for _ in 0..steps.min(slots) {
            if self.cursor >= slots {
                self.cursor = 0;
            }
            // At most u32::MAX slots exist: `take_slot` checks.
            self.remove_if_stale(self.cursor as SlotId, window_start);
            self.cursor += 1;
        }
    }

    pub(crate) fn remove_if_stale(&mut self, id: SlotId, window_start: i64) {
        if self.newest(id) > window_start {
            return;
        }
        let fingerprint = self.slot(id).fingerprint;
        // A free slot has no entry in the table (and its fingerprint may be in another slot).
        if let Ok(entry) = self
            .table
            .find_entry(fingerprint.table_hash(), |found| *found == id)
        {
            entry.remove();
            let marks = std::mem::replace(&mut self.slot_mut(id).marks, Marks::NONE);
            self.with_others -= usize::from(marks.has_others());
            self.free.push(id);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let blocks = self.blocks.len() * BLOCK * size_of::<Slot>();
        let table = self.table.allocation_size();
        blocks
            + table
            + self.free.capacity() * size_of::<SlotId>()
            + self.with_others * OTHERS_BYTES
    }

    pub(crate) fn used_slots(&self) -> usize {
        self.table.len()
    }

    /// Slots in use or free.
    fn slots(&self) -> usize {
        self.blocks
            .last()
            .map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    fn take_slot(&mut self, new: Slot) -> SlotId {
        if let Some(id) = self.free.pop() {
            *self.slot_mut(id) = new;
            return id;
        }
        let id = SlotId::try_from(self.slots()).expect("2^32 keys would need 300 GB");
        match self.blocks.last_mut() {
            Some(last) if last.len() < BLOCK => last.push(new),
            Some(_) | None => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(new);
                self.blocks.push(block);
            }
        }
        id
    }

    fn slot(&self, id: SlotId) -> &Slot {
        slot(&self.blocks, id)
    }

    fn slot_mut(&mut self, id: SlotId) -> &mut Slot {
        &mut self.blocks[id as usize / BLOCK][id as usize % BLOCK]
    }
}

fn slot(blocks: &[Vec<Slot>], id: SlotId) -> &Slot {
    &blocks[id as usize / BLOCK][id as usize % BLOCK]
}

const _: () = assert!(size_of::<Slot>() == 48, "keys must stay small");

/// The holds of one type on one key, as far as a later action can depend on them: the latest, and
/// the latest of another source. Without the second, a write of a source would hide an older one of
/// another source, with which a later write of the first source may conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Seqno of the latest hold; [`NEVER`] if there is none.
    pub(crate) latest: i64,
    /// Latest seqno of a source other than `source`; below `latest`.
    other: i64,
    /// The source of the action `latest`.
    source: SourceId,
}

impl Mark {
    pub(crate) const NONE: Mark = Mark {
        latest: NEVER,
        other: NEVER,
        source: SourceId::TOTAL_ORDER,
    };

    pub(crate) fn source(&self) -> SourceId {
        self.source
    }

    /// Seqno of the latest hold of any other source than that.
    pub(crate) fn other(&self) -> i64 {
        self.other
    }

    pub(crate) fn of(seqno: i64, source: SourceId) -> Mark {
        Mark::NONE.followed_by(seqno, source)
    }

    /// The latest hold of another source than `source`, which is `None` if it never held a key.
    pub(crate) fn latest_foreign_to(&self, source: Option<SourceId>) -> i64 {
        // No write set has the source TOTAL_ORDER: such holds are foreign to all.
        if Some(self.source) == source {
            self.other
        } else {
            self.latest
        }
    }

    pub(crate) fn followed_by(self, seqno: i64, source: SourceId) -> Mark {
        let other = if self.source == source {
            self.other
        } else {
            self.latest
        };
        Mark {
            latest: seqno,
            other,
            source,
        }
    }
}

/// The marks of one key, by type. Nearly all keys are held in one way only, so the mark of the
/// first type is stored in place, and those of other types share an allocation when needed. The
/// first mark is spelled out in fields, which avoids padding.
#[derive(Debug)]
pub(crate) struct Marks {
    latest: i64,
    other: i64,
    source: SourceId,
    kind: KeyType,
    others: Option<Box<[Mark; 4]>>,
}

impl Marks {
    const NONE: Marks = Marks {
        latest: NEVER,
        other: NEVER,
        source: SourceId::TOTAL_ORDER,
        kind: KeyType::Shared,
        others: None,
    };

    pub(crate) fn get(&self, kind: KeyType) -> Mark {
        if kind == self.kind {
            return Mark {
                latest: self.latest,
                other: self.other,
                source: self.source,
            };
        }
        self.others
            .as_ref()
            .map_or(Mark::NONE, |others| others[kind as usize])
    }

    fn set(&mut self, kind: KeyType, mark: Mark) {
        if self.latest == NEVER && self.others.is_none() {
            self.kind = kind;
        }
        if kind == self.kind {
            let Mark {
                latest,
                other,
                source,
            } = mark;
            (self.latest, self.other, self.source) = (latest, other, source);
            return;
        }
        self.others.get_or_insert_with(|| Box::new([Mark::NONE; 4]))[kind as usize] = mark;
    }

    fn newest(&self) -> i64 {
        let others = self.others.iter().flat_map(|marks| marks.iter());
        others.fold(self.latest, |newest, mark| newest.max(mark.latest))
    }

    fn has_others(&self) -> bool {
        self.others.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceId(u32);

impl SourceId {
    /// Stands for the source of total-order actions and barriers: foreign to every write set.
    pub(crate) const TOTAL_ORDER: SourceId = SourceId(0);
}

/// Number of sources from which on sources outside the window are forgotten.
const FORGET_ABOVE: usize = 16;

/// A fixed hasher: no result may depend on the random state of a process.
type FixedState = std::hash::BuildHasherDefault<SourceHasher>;

/// All sources that may be in the index, by small numbers: four bytes with every mark, in place of
/// the sixteen of a [`Source`], keep a slot small.
///
/// A number is given to another source only after all actions of its former source have left the
/// window. Marks that old are never read, so none is taken for a mark of the new source.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    ids: HashMap<Source, Known, FixedState>,
    /// The source that each number was given to last; the number zero is none's.
    sources: Vec<Option<Source>>,
    free: Vec<u32>,
    highest: u32,
    forget_above: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    id: SourceId,
    /// Seqno of its last action, or higher (rollbacks do not lower it).
    last: i64,
}

impl Sources {
    pub(crate) fn find(&self, source: Source) -> Option<SourceId> {
        self.ids.get(&source).map(|known| known.id)
    }

    /// The source with a number, as long as one of its actions is in the window; none for
    /// [`SourceId::TOTAL_ORDER`].
    pub(crate) fn source_of(&self, id: SourceId) -> Option<Source> {
        self.sources.get(id.0 as usize).copied().flatten()
    }

    pub(crate) fn number(&mut self, source: Source, seqno: i64, window_start: i64) -> SourceId {
        if let Some(known) = self.ids.get_mut(&source) {
            known.last = known.last.max(seqno);
            return known.id;
        }
        if self.ids.len() >= self.forget_above.max(FORGET_ABOVE) {
            self.forget(window_start);
        }
        let id = SourceId(self.free.pop().unwrap_or_else(|| {
            self.highest += 1;
            self.highest
        }));
        self.ids.insert(source, Known { id, last: seqno });
        let at = id.0 as usize;
        self.sources.resize(self.sources.len().max(at + 1), None);
        self.sources[at] = Some(source);
        id
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.ids.capacity() * (size_of::<(Source, Known)>() + 1)
            + self.free.capacity() * 4
            + self.sources.capacity() * size_of::<Option<Source>>()
    }

    fn forget(&mut self, window_start: i64) {
        let free = &mut self.free;
        self.ids.retain(|_, known| {
            let needed = known.last > window_start;
            if !needed {
                free.push(known.id.0);
            }
            needed
        });
        self.free.sort_unstable();
        self.forget_above = self.ids.len() * 2;
    }
}

/// Mixes the two numbers of a source. They are random or small: both are spread well by this.
#[derive(Debug, Default)]
struct SourceHasher(u64);

impl std::hash::Hasher for SourceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(32) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_does_not_hide_what_others_did_before() {
        let mut sources = Sources::default();
        let mut id = |member| sources.number(Source { member, epoch: 0 }, 1, 0);
        let (a, b, c) = (id(1), id(2), id(3));
        let mark = Mark::NONE
            .followed_by(5, a)
            .followed_by(6, b)
            .followed_by(7, b);
        assert_eq!(mark.latest_foreign_to(Some(b)), 5);
        assert_eq!(mark.latest_foreign_to(Some(a)), 7);
        assert_eq!(mark.latest_foreign_to(Some(c)), 7);
        assert_eq!(mark.latest_foreign_to(None), 7);
    }

    #[test]
    fn total_order_is_foreign_to_every_source() {
        let mut sources = Sources::default();
        let a = sources.number(
            Source {
                member: 1,
                epoch: 0,
            },
            1,
            0,
        );
        let mark = Mark::NONE.followed_by(5, SourceId::TOTAL_ORDER);
        assert_eq!(mark.latest_foreign_to(Some(a)), 5);
        assert_eq!(mark.latest_foreign_to(None), 5);
        let mark = mark.followed_by(6, a);
        assert_eq!(mark.latest_foreign_to(Some(a)), 5);
    }

    #[test]
    fn marks_of_all_types_are_kept_apart() {
        let mut marks = Marks::NONE;
        for (seqno, kind) in (1..).zip(KeyType::ALL) {
            marks.set(kind, Mark::NONE.followed_by(seqno, SourceId::TOTAL_ORDER));
        }
        for (seqno, kind) in (1..).zip(KeyType::ALL) {
            assert_eq!(marks.get(kind).latest, seqno);
        }
        assert_eq!(marks.newest(), 4);
    }

    #[test]
    fn number_of_a_source_in_the_window_is_never_reused() {
        let mut sources = Sources::default();
        let source = |member| Source { member, epoch: 1 };
        let kept = sources.number(source(1), 1_000_000, 0);
        for member in 2..10_000u64 {
            let seqno = member as i64;
            let id = sources.number(source(member), seqno, seqno - 10);
            assert_ne!(id, kept);
            assert_ne!(id, SourceId::TOTAL_ORDER);
            for recent in member.saturating_sub(5).max(2)..member {
                assert_ne!(sources.find(source(recent)), Some(id));
            }
        }
        assert!(
            sources.ids.len() <= 2 * FORGET_ABOVE,
            "{} sources",
            sources.ids.len()
        );
        assert_eq!(sources.find(source(1)), Some(kept));
    }
}
