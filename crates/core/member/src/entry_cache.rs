//! The entry cache: the newest entries of the log with their payloads, in memory. It holds every
//! entry that is not committed or not written, and as many older ones as fit. Replication and
//! commit notices read from it; the log is read only for members that lag further. Invariant:
//! `bytes` is the sum of the lengths of the payloads held.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_consensus::{EntryHeader, LogIndex};
use synod_log::Entry;

pub(crate) struct EntryCache {
    entries: BTreeMap<LogIndex, Entry>,
    bytes: usize,
    /// Bound on `bytes`; entries that must be kept may exceed it.
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

    pub(crate) fn put(&mut self, header: EntryHeader, payload: Bytes) {
        self.bytes += payload.len();
        if let Some(old) = self.entries.insert(header.index, Entry { header, payload }) {
            self.bytes -= old.payload.len();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, index: LogIndex) -> Option<&Entry> {
        self.entries.get(&index)
    }

    /// The entries from `first` to `last`, if all are held. Where they exceed `bytes_max`, fewer of
    /// them, but at least one.
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

/// Upper bound on the number of entries. Headers need more memory than small payloads do.
const ENTRIES_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{EntryKind, Seqno, Term};

    fn entry(term: u64, index: u64, len: usize) -> (EntryHeader, Bytes) {
        let payload = Bytes::from(vec![7; len]);
        let header = EntryHeader {
            payload_len: len as u32,
            payload_crc: crc32c::crc32c(&payload),
            ..EntryHeader::bare(Term(term), LogIndex(index), Seqno(0), EntryKind::NoOp)
        };
        (header, payload)
    }

    fn cached(indexes: std::ops::RangeInclusive<u64>, bytes_max: usize) -> EntryCache {
        let mut cache = EntryCache::new(bytes_max);
        for index in indexes {
            let (header, payload) = entry(1, index, 10);
            cache.put(header, payload);
        }
        cache
    }

    fn indexes(entries: Option<Vec<&Entry>>) -> Option<Vec<u64>> {
        entries.map(|entries| entries.iter().map(|e| e.header.index.0).collect())
    }

    #[test]
    fn range_is_whole_or_nothing_unless_it_is_too_big() {
        let cache = cached(3..=8, 1000);
        let range = |first, last, max| indexes(cache.range(LogIndex(first), LogIndex(last), max));
        assert_eq!(range(3, 5, 1000), Some(vec![3, 4, 5]));
        assert_eq!(range(2, 5, 1000), None);
        assert_eq!(range(6, 9, 1000), None);
        assert_eq!(range(3, 8, 25), Some(vec![3, 4]));
        assert_eq!(range(3, 8, 1), Some(vec![3]));
        assert_eq!(range(5, 4, 1000), None);
    }

    #[test]
    fn replacing_and_truncating_keep_the_count_of_bytes() {
        let mut cache = cached(1..=4, 1000);
        let (header, payload) = entry(2, 4, 100);
        cache.put(header, payload);
        assert_eq!(cache.bytes(), 130);
        cache.truncate(LogIndex(3));
        assert_eq!(cache.bytes(), 20);
        assert!(cache.get(LogIndex(3)).is_none() && cache.get(LogIndex(2)).is_some());
        cache.clear();
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn trimming_stops_at_what_must_be_kept() {
        let mut cache = cached(1..=10, 35);
        cache.trim(LogIndex(4));
        assert!(cache.get(LogIndex(3)).is_none() && cache.get(LogIndex(4)).is_some());
        assert_eq!(cache.bytes(), 70);
        cache.trim(LogIndex(11));
        assert_eq!(cache.bytes(), 30);
    }
}
