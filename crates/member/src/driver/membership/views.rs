//! The views in this member's log, and the one that is in force.
//!
//! A view is an entry. It is known from when it is appended, and in force once it is committed. A
//! leader compares the members present with the latest one, committed or not.

use std::collections::VecDeque;

use synod_consensus::{EntryKind, LogIndex};
use synod_log::LogReader;

use crate::payload::view::View;

/// At the start, a view entry is searched for in so many of the last entries.
const SEARCH_ENTRIES: u64 = 50_000;
/// Upper bound on the log bytes read for that search: it bounds the time of a start.
const SEARCH_BYTES: usize = 256 << 20;
/// Entries searched at a time.
const SEARCH_STEP: u64 = 256;
/// Bytes read at a time.
const READ_BYTES: usize = 4 << 20;

/// The component that follows the views from the log to their commit.
///
/// Invariant: the views are in the order of the log, and at most the first of them is committed.
#[derive(Default)]
pub(in crate::driver) struct Views {
    views: VecDeque<(LogIndex, View)>,
    /// The view in force; empty before the first one.
    committed: View,
}

impl Views {
    /// Finds the newest views in the log: two, because the last one may still be truncated.
    pub(in crate::driver) fn load(reader: &LogReader) -> Views {
        let first = reader.first_index();
        let mut views = VecDeque::new();
        let mut end = reader.last_index();
        let (mut entries_left, mut bytes_left) = (SEARCH_ENTRIES, SEARCH_BYTES);
        while end >= first && end > LogIndex(0) && views.len() < 2 {
            let start = LogIndex(first.0.max(end.0.saturating_sub(SEARCH_STEP - 1)));
            let (found, bytes) = views_between(reader, start, end);
            for view in found.into_iter().rev() {
                views.push_front(view);
            }
            entries_left = entries_left.saturating_sub(SEARCH_STEP);
            bytes_left = bytes_left.saturating_sub(bytes);
            if entries_left == 0 || bytes_left == 0 {
                break;
            }
            end = start.prev();
        }
        Views {
            views,
            committed: View::default(),
        }
    }

    /// A view was appended to the log.
    pub(in crate::driver) fn appended(&mut self, index: LogIndex, view: View) {
        self.views.push_back((index, view));
    }

    /// The log was truncated from here on.
    pub(in crate::driver) fn truncated(&mut self, from: LogIndex) {
        while self.views.back().is_some_and(|(index, _)| *index >= from) {
            self.views.pop_back();
        }
    }

    /// The log was reset. The view in force stays so until another one is committed.
    pub(in crate::driver) fn log_reset(&mut self) {
        self.views.clear();
    }

    /// The newest view, committed or not.
    pub(in crate::driver) fn latest(&self) -> Option<&View> {
        self.views.back().map(|(_, view)| view)
    }

    /// The newest view and its entry.
    pub(in crate::driver) fn latest_entry(&self) -> Option<(LogIndex, &View)> {
        self.views.back().map(|(index, view)| (*index, view))
    }

    /// The view in force; empty before the first one.
    pub(in crate::driver) fn committed(&self) -> &View {
        &self.committed
    }

    /// Everything up to `commit` is committed. The view in force, if that makes it another one.
    pub(in crate::driver) fn commit(&mut self, commit: LogIndex) -> Option<&View> {
        while self.views.get(1).is_some_and(|(index, _)| *index <= commit) {
            self.views.pop_front();
        }
        let (_, view) = self.views.front().filter(|(index, _)| *index <= commit)?;
        if *view == self.committed {
            return None;
        }
        self.committed = view.clone();
        Some(&self.committed)
    }
}

/// The views between two indexes, and the bytes read.
fn views_between(
    reader: &LogReader,
    start: LogIndex,
    end: LogIndex,
) -> (Vec<(LogIndex, View)>, usize) {
    let mut views = Vec::new();
    let mut bytes = 0;
    let mut next = start;
    while next <= end {
        // Damage will be reported where the entry is needed.
        let Ok(entries) = reader.read(next, end, READ_BYTES) else {
            break;
        };
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            next = entry.header.index.next();
            bytes += entry.payload.len();
            if entry.header.kind == EntryKind::View
                && let Ok(view) = View::decode(entry.header.seqno, entry.payload)
            {
                views.push((entry.header.index, view));
            }
        }
    }
    (views, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::Seqno;

    #[test]
    fn views_follow_commit_and_truncation() {
        let mut views = Views::default();
        for number in 1..=3 {
            let view = View {
                seqno: Seqno(number as i64),
                number,
                members: Vec::new(),
            };
            views.appended(LogIndex(number * 10), view);
        }
        assert_eq!(views.commit(LogIndex(9)), None);
        assert_eq!(views.commit(LogIndex(25)).map(|v| v.number), Some(2));
        assert_eq!(views.commit(LogIndex(26)), None, "the same view");
        views.truncated(LogIndex(30));
        assert_eq!(views.latest().map(|v| v.number), Some(2));
        assert_eq!(views.commit(LogIndex(99)), None);
        views.log_reset();
        assert_eq!(views.latest(), None);
        assert_eq!(views.committed().number, 2, "still in force");
    }
}
