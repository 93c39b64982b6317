//! Every entry that was ever written, by its id: what the other checkers look up.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_consensus::{EntryHeader, EntryId};
use synod_log::Entry;

#[derive(Default)]
pub(crate) struct Payloads {
    entries: BTreeMap<EntryId, (EntryHeader, Bytes)>,
}

impl Payloads {
    /// Somebody is about to write an entry.
    pub(crate) fn put(&mut self, entry: &Entry) {
        let known = self.entries.entry(entry.header.id());
        known.or_insert_with(|| (entry.header, entry.payload.clone()));
    }

    pub(crate) fn get(&self, id: EntryId) -> Option<(EntryHeader, Bytes)> {
        self.entries.get(&id).cloned()
    }
}
