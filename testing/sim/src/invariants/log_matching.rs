//! Log matching: an entry's id names one entry, and one history before it (Raft, 5.3).
//!
//! Checked for every entry that any member writes.

use std::collections::BTreeMap;

use synod_consensus::{EntryHeader, EntryId};

use super::{Checked, require};

#[derive(Default)]
pub(crate) struct LogMatching {
    entries: BTreeMap<EntryId, (EntryHeader, EntryId)>,
}

impl LogMatching {
    /// Whether some member wrote this entry after that one.
    pub(crate) fn has(&self, id: EntryId, before: EntryId) -> bool {
        self.entries.get(&id).is_some_and(|known| known.1 == before)
    }

    /// A member writes an entry after another one. Returns whether it is the first to do so.
    pub(crate) fn written(&mut self, header: &EntryHeader, before: EntryId) -> (bool, Checked) {
        let id = header.id();
        let Some(known) = self.entries.get(&id) else {
            self.entries.insert(id, (*header, before));
            return (true, Ok(()));
        };
        let same = *known == (*header, before);
        let checked = require(same, "log matching", || {
            format!("two entries have the id {id}: {known:?} and {header:?} after {before}")
        });
        (false, checked)
    }
}
