//! The newest entries with their payloads, in memory: everything not yet committed or not yet written,
//! and as much behind that as fits. Replication and commit notices are served from here.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_consensus::{EntryHeader, LogIndex};
use synod_log::Entry;

/// See the module.
pub(crate) struct Staged {
    entries: BTreeMap<LogIndex, Entry>,
    bytes: usize,
    bytes_max: usize,
}

impl Staged {
    pub(crate) fn new(bytes_max: usize) -> Staged {
        Staged { entries: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Adds an entry, in place of the one that had its index.
    pub(crate) fn put(&mut self, header: EntryHeader, payload: Bytes) {
        self.bytes += payload.len();
        if let Some(old) = self.entries.insert(header.index, Entry { header, payload }) {
            self.bytes -= old.payload.len();
        }
    }

    pub(crate) fn get(&self, index: LogIndex) -> Option<&Entry> {
        self.entries.get(&index)
    }

    /// The entries from `first` to `last`, if all are here.
    pub(crate) fn range(&self, first: LogIndex, last: LogIndex) -> Option<Vec<&Entry>> {
        let entries: Vec<&Entry> = self.entries.range(first..=last).map(|(_, e)| e).collect();
        (entries.len() as u64 == last.0 + 1 - first.0).then_some(entries)
    }

    pub(crate) fn truncate(&mut self, from: LogIndex) {
        while let Some(last) = self.entries.last_entry() {
            if *last.key() < from {
                return;
            }
            self.bytes -= last.remove().payload.len();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Forgets old entries beyond the bound; none after `keep_from`.
    pub(crate) fn trim(&mut self, keep_from: LogIndex) {
        while self.bytes > self.bytes_max || self.entries.len() > ENTRIES_MAX {
            let Some(first) = self.entries.first_entry() else { return };
            if *first.key() >= keep_from {
                return;
            }
            self.bytes -= first.remove().payload.len();
        }
    }
}

/// Bound on the number of entries kept; headers weigh more than small payloads.
const ENTRIES_MAX: usize = 16_384;
