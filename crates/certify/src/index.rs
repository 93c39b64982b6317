//! The keys of the window, with who held them last.
//!
//! Slots live in chunks that never move, so that growing is cheap and a slot's number stays good;
//! a hash table of numbers finds them. Slots that left the window are found by a cursor that goes
//! round in bounded steps. Readers never mind how far it has come: they ignore marks at or below
//! the window's start.

use hashbrown::HashTable;

use crate::key::{Fingerprint, KeyType};
use crate::mark::{Mark, Marks, OTHERS_BYTES};

/// Slots per chunk.
const CHUNK: usize = 1024;

/// Number of a slot. Good as long as the slot's newest mark is in the window.
pub(crate) type SlotId = u32;

/// One key. 48 bytes; with its share of the table about 60.
#[derive(Debug)]
struct Slot {
    fingerprint: Fingerprint,
    marks: Marks,
}

/// All keys.
#[derive(Debug, Default)]
pub(crate) struct Index {
    chunks: Vec<Vec<Slot>>,
    table: HashTable<SlotId>,
    free: Vec<SlotId>,
    /// Next slot for the cleaning cursor.
    cursor: usize,
    /// Slots with an allocation for further types.
    with_others: usize,
}

impl Index {
    /// The marks of a key.
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
        let chunks = &self.chunks;
        let found = self
            .table
            .find(hash, |id| slot(chunks, *id).fingerprint == fingerprint);
        if let Some(id) = found {
            return *id;
        }
        let id = self.take_slot(Slot {
            fingerprint,
            marks: Marks::NONE,
        });
        let chunks = &self.chunks;
        let rehash = |id: &SlotId| slot(chunks, *id).fingerprint.table_hash();
        self.table.insert_unique(hash, id, rehash);
        id
    }

    /// The newest hold on a key; lowest of all if there is none.
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

    /// Looks at the next `steps` slots and drops those that have left the window.
    pub(crate) fn clean(&mut self, steps: usize, window_start: i64) {
        let slots = self.slots();
        for _ in 0..steps.min(slots) {
            if self.cursor >= slots {
                self.cursor = 0;
            }
            // At most u32::MAX slots exist: `take_slot` checks.
            self.drop_if_stale(self.cursor as SlotId, window_start);
            self.cursor += 1;
        }
    }

    /// Drops a slot if nothing in it is in the window.
    pub(crate) fn drop_if_stale(&mut self, id: SlotId, window_start: i64) {
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

    /// Bytes held, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.len() * CHUNK * size_of::<Slot>();
        let table = self.table.allocation_size();
        chunks
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
        self.chunks
            .last()
            .map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    fn take_slot(&mut self, new: Slot) -> SlotId {
        if let Some(id) = self.free.pop() {
            *self.slot_mut(id) = new;
            return id;
        }
        let id = SlotId::try_from(self.slots()).expect("2^32 keys would need 300 GB");
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(new),
            Some(_) | None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(new);
                self.chunks.push(chunk);
            }
        }
        id
    }

    fn slot(&self, id: SlotId) -> &Slot {
        slot(&self.chunks, id)
    }

    fn slot_mut(&mut self, id: SlotId) -> &mut Slot {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

fn slot(chunks: &[Vec<Slot>], id: SlotId) -> &Slot {
    &chunks[id as usize / CHUNK][id as usize % CHUNK]
}

const _: () = assert!(size_of::<Slot>() == 48, "keys must stay small");
