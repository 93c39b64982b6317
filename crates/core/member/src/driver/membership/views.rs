//! The views in this member's log, and the one that is in force. A view is an entry. It is known
//! from when it is appended, and in force once it is committed. A leader compares the members
//! present with the latest one, committed or not.

use std::collections::VecDeque;

use synod_consensus::{EntryKind, LogIndex};
use synod_log::LogReader;

use crate::payload::view::View;

/// More than a view has.
const READ_BYTES: usize = 4 << 20;

/// The component that follows the views from the log to their commit. Invariant: the views are in
/// the order of the log, and at most the first of them is committed.
#[derive(Default)]
pub(in crate::driver) struct Views {
    views: VecDeque<(LogIndex, View)>,
    committed: View,
    /// The newest view that was lost with a reset of the log.
    lost: Option<View>,
}

impl Views {
    /// Finds the newest views in the log: two, because the last one may still be truncated.
    pub(in crate::driver) fn load(reader: &LogReader) -> Views {
        let mut views = VecDeque::new();
        let mut end = reader.last_index();
        while views.len() < 2
            && let Some(index) = reader.last_of(EntryKind::View, end)
            // Damage will be reported where the entry is needed.
            && let Some(view) = view_at(reader, index)
        {
            views.push_front((index, view));
            end = index.prev();
        }
        Views {
            views,
            ..Views::default()
        }
    }

    pub(in crate::driver) fn appended(&mut self, index: LogIndex, view: View) {
        self.views.push_back((index, view));
    }

    pub(in crate::driver) fn truncated(&mut self, from: LogIndex) {
        while self.views.back().is_some_and(|(index, _)| *index >= from) {
            self.views.pop_back();
        }
    }

    /// The log was reset. The view in force stays so until another one is committed.
    pub(in crate::driver) fn log_reset(&mut self) {
        self.lost = self.latest_known().cloned();
        self.views.clear();
    }

    pub(in crate::driver) fn latest(&self) -> Option<&View> {
        self.views.back().map(|(_, view)| view)
    }

    /// The newest view that this member has ever known; if it is not in the log, the group may have
    /// had others since.
    pub(in crate::driver) fn latest_known(&self) -> Option<&View> {
        self.latest().or(self.lost.as_ref())
    }

    pub(super) fn latest_entry(&self) -> Option<(LogIndex, &View)> {
        self.views.back().map(|(index, view)| (*index, view))
    }

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

fn view_at(reader: &LogReader, index: LogIndex) -> Option<View> {
    let entries = reader.read(index, index, READ_BYTES).ok()?;
    let entry = entries.into_iter().next()?;
    View::decode(entry.header.seqno, entry.payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::path::Path;
    use std::sync::Arc;
    use synod_consensus::{EntryHeader, Seqno, Term};
    use synod_log::{Entry, Log, LogOptions, MemoryFiles};

    fn entry(index: u64, kind: EntryKind, payload: Bytes) -> Entry {
        let header = EntryHeader {
            payload_len: payload.len() as u32,
            payload_crc: crc32c::crc32c(&payload),
            ..EntryHeader::bare(Term(1), LogIndex(index), Seqno(index as i64), kind)
        };
        Entry { header, payload }
    }

    #[test]
    fn newest_views_are_found_however_far_back_they_are() {
        const LAST: u64 = 70_000;
        let views_at = [3, 5, 9];
        let files = Arc::new(MemoryFiles::new(1));
        let opened = Log::open(files, Path::new("log"), LogOptions::default()).unwrap();
        let mut writer = opened.writer;
        writer.set_group(synod_consensus::GroupId([1; 16])).unwrap();
        let entries: Vec<Entry> = (1..=LAST)
            .map(|index| match views_at.iter().position(|at| *at == index) {
                Some(at) => {
                    let view = View {
                        number: at as u64 + 1,
                        ..View::default()
                    };
                    entry(index, EntryKind::View, view.encode())
                }
                None => entry(index, EntryKind::Action, Bytes::from_static(b"x")),
            })
            .collect();
        for some in entries.chunks(1000) {
            writer.append(some).unwrap();
        }
        writer.sync().unwrap();
        let views = Views::load(&opened.reader);
        let found: Vec<(u64, u64)> = views.views.iter().map(|(at, v)| (at.0, v.number)).collect();
        assert_eq!(found, [(5, 2), (9, 3)]);
    }

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
        assert_eq!(views.latest_known().map(|v| v.number), Some(2));
    }
}
