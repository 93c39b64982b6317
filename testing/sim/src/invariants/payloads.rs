//! An entry has one content: every entry that was ever written, by its id.
//!
//! Other checks look up here what an entry was, also when no log holds it any more.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_consensus::{EntryHeader, EntryId};
use synod_log::Entry;

use super::{Checked, require};

#[derive(Default)]
pub(crate) struct Payloads {
    entries: BTreeMap<EntryId, (EntryHeader, Bytes)>,
}

impl Payloads {
    /// A member is about to write an entry.
    pub(crate) fn put(&mut self, entry: &Entry) -> Checked {
        let known = self.entries.entry(entry.header.id());
        known.or_insert_with(|| (entry.header, entry.payload.clone()));
        require(self.is_known(entry), "an entry has one content", || {
            format!(
                "{:?} is written with another content than first",
                entry.header
            )
        })
    }

    /// Whether this entry and its content are as they were first written.
    pub(crate) fn is_known(&self, entry: &Entry) -> bool {
        let known = self.entries.get(&entry.header.id());
        known.is_some_and(|(header, payload)| *header == entry.header && *payload == entry.payload)
    }

    pub(crate) fn get(&self, id: EntryId) -> Option<(EntryHeader, Bytes)> {
        self.entries.get(&id).cloned()
    }
}
