//! The index: the keys of the certification window, with the marks of the actions that held them.
//!
//! A slot holds one key. Slots are in blocks that never move, so that growing is cheap and the
//! number of a slot stays valid. A hash table of these numbers finds the slot of a key. A cursor
//! goes round in bounded steps and frees slots that left the window. Its progress never shows:
//! readers ignore marks at or below the start of the window.

use hashbrown::HashTable;

use crate::key::{Fingerprint, KeyType};
use crate::mark::{Mark, Marks, OTHERS_BYTES};

/// Slots per block.
const BLOCK: usize = 1024;

/// Number of a slot. Valid as long as the newest mark of the slot is in the window.
pub(crate) type SlotId = u32;

/// One key and its marks. 48 bytes; about 60 with its share of the table.
#[derive(Debug)]
struct Slot {
    fingerprint: Fingerprint,
    marks: Marks,
}

/// All keys of the window, and some that have left it.
#[derive(Debug, Default)]
pub(crate) struct Index {
    blocks: Vec<Vec<Slot>>,
    table: HashTable<SlotId>,
    /// Slots without a key.
    free: Vec<SlotId>,
    /// Next slot for the cleaning cursor.
    cursor: usize,
    /// Slots with an allocation for further types.
    with_others: usize,
}

impl Index {
    /// The marks of a key, if it has a slot.
    pub(crate) fn marks(&self, fingerprint: Fingerprint) -> Option<&Marks> {
        let hash = fingerprint.table_hash();
        let id = self
            .table
            .find(hash, |id| self.slot(*id).fingerprint == fingerprint)?;
        Some(&self.slot(*id).marks)
    }

    /// The slot of a key, made if there is none.
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

    /// Seqno of the newest hold on a key; [`crate::mark::NEVER`] if there is none.
    pub(crate) fn newest(&self, id: SlotId) -> i64 {
        self.slot(id).marks.newest()
    }

    /// The mark of one type on a key.
    pub(crate) fn mark(&self, id: SlotId, kind: KeyType) -> Mark {
        self.slot(id).marks.get(kind)
    }

    /// Replaces the mark of one type on a key.
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

    /// Frees a slot if none of its marks is in the window.
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

    /// Approximate memory held, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let blocks = self.blocks.len() * BLOCK * size_of::<Slot>();
        let table = self.table.allocation_size();
        blocks
            + table
            + self.free.capacity() * size_of::<SlotId>()
            + self.with_others * OTHERS_BYTES
    }

    /// Slots with a key, in the window or not.
    pub(crate) fn used_slots(&self) -> usize {
        self.table.len()
    }

    /// Slots in use or free.
    fn slots(&self) -> usize {
        self.blocks
            .last()
            .map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    /// Puts a key into a free slot, or a new one.
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
