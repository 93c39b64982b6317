//! The newest entries with their payloads, in memory: everything not yet committed or not yet written,
//! and as much behind that as fits. Replication and commit notices are served from here.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_consensus::{EntryHeader, LogIndex};
use synod_log::Entry;

/// See the module.
pub(crate) struct EntryCache {
    entries: BTreeMap<LogIndex, Entry>,
    bytes: usize,
    bytes_max: usize,
}

impl EntryCache {
    pub(crate) fn new(bytes_max: usize) -> EntryCache {
        EntryCache {
            entries: BTreeMap::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Adds an entry, in place of the one that had its index.
    pub(crate) fn put(&mut self, header: EntryHeader, payload: Bytes) {
        self.bytes += payload.len();
        if let Some(old) = self.entries.insert(header.index, Entry { header, payload }) {
            self.bytes -= old.payload.len();
        }
    }

    /// Payload bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, index: LogIndex) -> Option<&Entry> {
        self.entries.get(&index)
    }

    /// The entries from `first` to `last`, if all are here; fewer, but at least one, where they
    /// exceed `bytes_max`.
    pub(crate) fn range(
        &self,
        first: LogIndex,
        last: LogIndex,
        bytes_max: usize,
    ) -> Option<Vec<&Entry>> {
        if first > last || !self.entries.contains_key(&last) {
            return None;
        }
        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut next = first;
        for (index, entry) in self.entries.range(first..=last) {
            if *index != next {
                return None;
            }
            bytes += entry.payload.len();
            if bytes > bytes_max && !entries.is_empty() {
                return Some(entries);
            }
            entries.push(entry);
            next = next.next();
        }
        (next > last).then_some(entries)
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
            let Some(first) = self.entries.first_entry() else {
                return;
            };
            if *first.key() >= keep_from {
                return;
            }
            self.bytes -= first.remove().payload.len();
        }
    }
}

/// Bound on the number of entries kept; headers weigh more than small payloads.
const ENTRIES_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{EntryKind, Origin, Seqno, Term};

    fn entry(term: u64, index: u64, len: usize) -> (EntryHeader, Bytes) {
        let payload = Bytes::from(vec![7; len]);
        let header = EntryHeader {
            term: Term(term),
            index: LogIndex(index),
            seqno: Seqno(0),
            kind: EntryKind::NoOp,
            origin: Origin::default(),
            depends_on: Seqno::UNDEFINED,
            payload_len: len as u32,
            payload_crc: crc32c::crc32c(&payload),
        };
        (header, payload)
    }

    fn staged(indexes: std::ops::RangeInclusive<u64>, bytes_max: usize) -> EntryCache {
        let mut staged = EntryCache::new(bytes_max);
        for index in indexes {
            let (header, payload) = entry(1, index, 10);
            staged.put(header, payload);
        }
        staged
    }

    fn indexes(entries: Option<Vec<&Entry>>) -> Option<Vec<u64>> {
        entries.map(|entries| entries.iter().map(|e| e.header.index.0).collect())
    }

    #[test]
    fn range_is_whole_or_nothing_unless_it_is_too_big() {
        let staged = staged(3..=8, 1000);
        let range = |first, last, max| indexes(staged.range(LogIndex(first), LogIndex(last), max));
        assert_eq!(range(3, 5, 1000), Some(vec![3, 4, 5]));
        assert_eq!(range(2, 5, 1000), None);
        assert_eq!(range(6, 9, 1000), None);
        assert_eq!(range(3, 8, 25), Some(vec![3, 4]));
        assert_eq!(range(3, 8, 1), Some(vec![3]));
        assert_eq!(range(5, 4, 1000), None);
    }

    #[test]
    fn replacing_and_truncating_keep_the_count_of_bytes() {
        let mut staged = staged(1..=4, 1000);
        let (header, payload) = entry(2, 4, 100);
        staged.put(header, payload);
        assert_eq!(staged.bytes(), 130);
        staged.truncate(LogIndex(3));
        assert_eq!(staged.bytes(), 20);
        assert!(staged.get(LogIndex(3)).is_none() && staged.get(LogIndex(2)).is_some());
        staged.clear();
        assert_eq!(staged.bytes(), 0);
    }

    #[test]
    fn trimming_stops_at_what_must_be_kept() {
        let mut staged = staged(1..=10, 35);
        staged.trim(LogIndex(4));
        assert!(staged.get(LogIndex(3)).is_none() && staged.get(LogIndex(4)).is_some());
        assert_eq!(staged.bytes(), 70);
        staged.trim(LogIndex(11));
        assert_eq!(staged.bytes(), 30);
    }
}
