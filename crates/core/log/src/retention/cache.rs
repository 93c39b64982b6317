//! The newest entries, in memory: read from here until they are written, and as long as the limit
//! allows after that, because followers ask for them. The writer adds; readers look up.

use std::collections::VecDeque;

use synod_consensus::LogIndex;

use crate::Entry;

/// Memory that an entry takes besides its payload, roughly. Bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 128;

/// Consecutive entries ending with the last one of the log. Invariant: it holds every entry that is
/// not yet written. Of the others it keeps as many as the limit allows, the newest.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: VecDeque<Entry>,
    bytes: u64,
    bytes_max: u64,
}

fn cost(entry: &Entry) -> u64 {
    u64::from(entry.header.payload_len) + ENTRY_OVERHEAD_BYTES
}

impl Cache {
    pub(crate) fn new(bytes_max: u64) -> Cache {
        Cache {
            entries: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        debug_assert!(
            self.entries
                .back()
                .is_none_or(|e| e.header.index.next() == entry.header.index)
        );
        self.bytes += cost(&entry);
        self.entries.push_back(entry);
    }

    /// Evicts the oldest entries while there are too many bytes, but none above `written`.
    pub(crate) fn evict(&mut self, written: LogIndex) {
        while self.bytes > self.bytes_max
            && self
                .entries
                .front()
                .is_some_and(|entry| entry.header.index <= written)
        {
            self.pop_front();
        }
    }

    pub(crate) fn purge_to(&mut self, index: LogIndex) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.header.index <= index)
        {
            self.pop_front();
        }
    }

    fn pop_front(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= cost(&entry);
        }
    }

    pub(crate) fn truncate(&mut self, from: LogIndex) {
        while self
            .entries
            .back()
            .is_some_and(|entry| entry.header.index >= from)
        {
            if let Some(entry) = self.entries.pop_back() {
                self.bytes -= cost(&entry);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    pub(crate) fn get(&self, index: LogIndex) -> Option<&Entry> {
        let first = self.entries.front()?.header.index;
        let at = index.0.checked_sub(first.0)?;
        self.entries.get(usize::try_from(at).ok()?)
    }
}
