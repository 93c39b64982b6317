//! Locations of live entries on disk: a sparse index in memory. The stream is append-only: a
//! truncated entry stays in its segment, and its successor with the same index follows later. The
//! index distinguishes them. It is a list of *extents*: runs of live entries that follow each other
//! in one segment with no dead entry between them. Truncation shortens the list from its end and
//! forces the next entry into a new extent. So every index belongs to at most one extent: that of
//! its newest version. Inside an extent there is a point every 64 KiB.

use std::collections::VecDeque;

use synod_consensus::{EntryHeader, LogIndex};

/// Distance of points in bytes; a lookup scans about this much.
const POINT_DISTANCE_BYTES: u32 = 64 << 10;

/// A place to start scanning. The index is relative to the extent's first entry, which saves
/// memory: 8 bytes per 64 KiB of log.
#[derive(Clone, Copy, Debug)]
struct Point {
    index: u32,
    offset: u32,
}

#[derive(Clone, Debug)]
struct Extent {
    segment: u64,
    first: LogIndex,
    last: LogIndex,
    /// Never empty; the first point is at `first`.
    points: Vec<Point>,
}

/// Position from which to read towards an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) segment: u64,
    /// Offset of a record of an entry at or before the index.
    pub(crate) offset: u64,
    /// Last live entry that follows there with no dead entry between.
    pub(crate) last: LogIndex,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StreamIndex {
    extents: VecDeque<Extent>,
    /// The next entry must not join the last extent.
    broken: bool,
}

impl Extent {
    fn point(&self, header: &EntryHeader, offset: u32) -> Option<Point> {
        let index = u32::try_from(header.index.0.checked_sub(self.first.0)?).ok()?;
        Some(Point { index, offset })
    }

    fn point_index(&self, point: Point) -> LogIndex {
        LogIndex(self.first.0 + u64::from(point.index))
    }

    fn join(&mut self, segment: u64, offset: u32, header: &EntryHeader) -> bool {
        if self.segment != segment || header.index != self.last.next() {
            return false;
        }
        let Some(point) = self.point(header, offset) else {
            return false;
        };
        let due = self
            .points
            .last()
            .is_none_or(|p| offset - p.offset >= POINT_DISTANCE_BYTES);
        if due {
            self.points.push(point);
        }
        self.last = header.index;
        true
    }
}

impl StreamIndex {
    /// Notes that an entry is at this offset (below 4 GiB, segments are far smaller).
    pub(crate) fn push(&mut self, segment: u64, offset: u64, header: &EntryHeader) {
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        let broken = std::mem::take(&mut self.broken);
        if let Some(extent) = self.extents.back_mut() {
            assert!(
                header.index > extent.last,
                "{} indexed again without a truncation",
                header.index
            );
            if !broken && extent.join(segment, offset, header) {
                return;
            }
        }
        self.extents.push_back(Extent {
            segment,
            first: header.index,
            last: header.index,
            points: vec![Point { index: 0, offset }],
        });
    }

    pub(crate) fn truncate(&mut self, from: LogIndex) {
        self.broken = true;
        while self
            .extents
            .back()
            .is_some_and(|extent| extent.first >= from)
        {
            self.extents.pop_back();
        }
        if let Some(extent) = self.extents.back_mut().filter(|extent| extent.last >= from) {
            extent.last = from.prev();
            let kept = u32::try_from(extent.last.0 - extent.first.0).unwrap_or(u32::MAX);
            extent.points.retain(|point| point.index <= kept);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.extents.clear();
        self.broken = true;
    }

    pub(crate) fn purge_segments_below(&mut self, number: u64) {
        while self
            .extents
            .front()
            .is_some_and(|extent| extent.segment < number)
        {
            self.extents.pop_front();
        }
    }

    pub(crate) fn first(&self) -> Option<LogIndex> {
        self.extents.front().map(|extent| extent.first)
    }

    /// Last live entry in segments up to and including this number.
    pub(crate) fn last_in_segments_to(&self, number: u64) -> Option<LogIndex> {
        let count = self
            .extents
            .partition_point(|extent| extent.segment <= number);
        count.checked_sub(1).map(|i| self.extents[i].last)
    }

    pub(crate) fn find(&self, index: LogIndex) -> Option<Spot> {
        let at = self.extents.partition_point(|extent| extent.last < index);
        let extent = self
            .extents
            .get(at)
            .filter(|extent| extent.first <= index)?;
        let count = extent
            .points
            .partition_point(|point| extent.point_index(*point) <= index);
        let point = extent.points.get(count.checked_sub(1)?)?;
        let offset = u64::from(point.offset);
        Some(Spot {
            segment: extent.segment,
            offset,
            last: extent.last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{EntryKind, Seqno, Term};

    fn header(index: u64) -> EntryHeader {
        EntryHeader {
            depends_on: Seqno(0),
            ..EntryHeader::bare(
                Term(1),
                LogIndex(index),
                Seqno(index as i64 * 2),
                EntryKind::Action,
            )
        }
    }

    fn filled() -> StreamIndex {
        let mut index = StreamIndex::default();
        for i in 1..=10 {
            index.push(1, 4096 + i * 40_000, &header(i));
        }
        for i in 11..=20 {
            index.push(2, 4096 + i * 40_000, &header(i));
        }
        index
    }

    #[test]
    fn lookup_starts_at_or_before_the_entry_and_at_most_a_point_away() {
        let index = filled();
        for i in 1..=20 {
            let spot = index.find(LogIndex(i)).unwrap();
            let offset = 4096 + i * 40_000;
            assert!(spot.offset <= offset && offset - spot.offset < 2 * 65_536);
            assert_eq!(spot.last.0, if i <= 10 { 10 } else { 20 });
        }
        assert_eq!(index.find(LogIndex(21)), None);
        assert_eq!(index.find(LogIndex(0)), None);
    }

    #[test]
    fn rewritten_index_is_found_at_its_newest_place_only() {
        let mut index = filled();
        index.truncate(LogIndex(8));
        assert_eq!(index.find(LogIndex(8)), None);
        index.push(2, 900_000, &header(8));
        assert_eq!(
            index.find(LogIndex(8)),
            Some(Spot {
                segment: 2,
                offset: 900_000,
                last: LogIndex(8)
            })
        );
        assert_eq!(index.find(LogIndex(7)).unwrap().last, LogIndex(7));
    }

    #[test]
    fn entry_after_truncation_in_the_same_segment_starts_an_extent() {
        let mut index = filled();
        index.truncate(LogIndex(18));
        index.push(2, 900_000, &header(18));
        assert_eq!(index.find(LogIndex(17)).unwrap().last, LogIndex(17));
        assert_eq!(index.find(LogIndex(18)).unwrap().offset, 900_000);
    }

    #[test]
    fn entries_of_purged_segments_are_removed() {
        let mut index = filled();
        assert_eq!(index.last_in_segments_to(1), Some(LogIndex(10)));
        index.purge_segments_below(2);
        assert_eq!(index.first(), Some(LogIndex(11)));
        assert_eq!(index.last_in_segments_to(1), None);
    }
}
