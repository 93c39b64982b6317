//! Floors that the bytes of a log state as durable: in batch headers, in the header of the next
//! segment and in the control file, by docs/log-format.md.
//!
//! A disk fault asks whether it removes the last statement about the end of a log. This file reads
//! the bytes itself: a checker does not ask the code under test.

use std::ops::Range;
use std::path::{Path, PathBuf};

use synod_log::{MemoryFiles, offline};

use crate::member::start::LOG_DIR;

/// So many of the newest writes to a file are considered.
const RECENT_WRITES: usize = 200;
/// Size of a batch header.
const BATCH_HEADER_BYTES: u64 = 80;
/// Offset of the floor in a batch header.
const BATCH_FLOOR_AT: usize = 24;
/// The first batch of a segment is here, and is written together with the segment's header.
pub(super) const FIRST_BATCH_AT: u64 = 4096;
/// Offset in a segment of the place where the one before it ends.
const PREDECESSOR_END_AT: usize = 80;
/// Offset in a segment of the byte that says whether its header is open.
pub(super) const OPEN_AT: usize = 144;
/// Offset in the control file of the segment that its floor belongs to.
const CONTROL_SEGMENT_AT: usize = 52;
/// Offset of the floor in the control file.
const CONTROL_FLOOR_AT: usize = 60;

/// The newest writes of which no later write has replaced a byte.
pub(super) fn lasting_writes(writes: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut replaced: Vec<Range<u64>> = Vec::new();
    let mut last = Vec::new();
    for write in writes.iter().rev().take(RECENT_WRITES) {
        let overlaps = |later: &Range<u64>| later.start < write.end && write.start < later.end;
        if !replaced.iter().any(overlaps) {
            last.push(write.clone());
        }
        replaced.push(write.clone());
    }
    last
}

/// A batch as it was written: a header and records.
struct Batch {
    place: Range<u64>,
    /// Everything before it was durable.
    floor: u64,
}

/// The newest batches of a segment, as far as each is a write of its own. (At a start, the batches
/// that were read become one write, and the control file states a floor above them.)
fn newest_batches(files: &MemoryFiles, segment: &Path) -> Vec<Batch> {
    let content = files.content(segment).unwrap_or_default();
    let batch = |mut place: Range<u64>| {
        if place.start == 0 {
            place.start = FIRST_BATCH_AT.min(place.end);
        }
        let at = usize::try_from(place.start).ok()?;
        // A header that was written by itself is followed by a batch, and is none.
        let is_batch = !place.is_empty() && content.get(at..at + 4)? == b"SynB";
        let floor = number_at(&content, at + BATCH_FLOOR_AT)?;
        // A header that states more than what came before it is damaged, and states nothing.
        (is_batch && floor <= place.start).then_some(Batch { place, floor })
    };
    let writes = lasting_writes(&files.writes(segment));
    writes.into_iter().filter_map(batch).collect()
}

/// The floor that the control file states for a segment; zero if it states one for another segment.
fn control_floor(files: &MemoryFiles, segment: &Path) -> u64 {
    let control = files.content(&Path::new(LOG_DIR).join("synod-control.log"));
    let control = control.unwrap_or_default();
    if number_at(&control, CONTROL_SEGMENT_AT) == segment_number(segment) {
        number_at(&control, CONTROL_FLOOR_AT).unwrap_or(0)
    } else {
        0
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Whether damage removes all headers that stated that a damaged batch was durable. A shorter log
/// then looks as good as the real one. One write can cover all these headers. A misdirected write
/// can also land on the only header that stated that its own batch, missing now, was durable. With
/// `damaged_before`, the removed headers may have been about the earlier damage.
pub(super) fn takes_end(files: &MemoryFiles, damaged: &MemoryFiles, damaged_before: bool) -> bool {
    let is_open = |path: &PathBuf| {
        let content = files.content(path).unwrap_or_default();
        content.get(OPEN_AT) == Some(&1)
    };
    let mut used = files.paths();
    used.retain(|path| is_segment(path) && !is_open(path));
    let newest_two = used.iter().enumerate().rev().take(2);
    newest_two.into_iter().any(|(i, path)| {
        let segment = Segment {
            path,
            successor: used.get(i + 1),
        };
        segment.takes_end(files, damaged, damaged_before)
    })
}

/// One of the segments at the end of a log.
struct Segment<'a> {
    path: &'a Path,
    /// The one after it, if that was used.
    successor: Option<&'a PathBuf>,
}

impl Segment<'_> {
    fn takes_end(&self, files: &MemoryFiles, damaged: &MemoryFiles, damaged_before: bool) -> bool {
        let differs = |place: Range<u64>| differs(files, damaged, self.path, place);
        let batches = newest_batches(files, self.path);
        let control = control_floor(files, self.path);
        let (stated_after, left_after) = self.stated_by_successor(files, damaged);
        let header = |batch: &Batch| batch.place.start..batch.place.start + BATCH_HEADER_BYTES;
        let left = batches.iter().filter(|batch| !differs(header(batch)));
        let left = left.map(|batch| batch.floor).fold(control, u64::max);
        let stated = batches.iter().map(|batch| batch.floor);
        let stated = stated.fold(control, u64::max);
        let (left, stated) = (left.max(left_after), stated.max(stated_after));
        let mut hit = batches.iter().filter(|batch| differs(batch.place.clone()));
        left < stated
            && (damaged_before || hit.any(|batch| (left..stated).contains(&batch.place.start)))
    }

    /// The floor that the header of the next segment states for this one, before the damage and
    /// after it; zero: none.
    fn stated_by_successor(&self, files: &MemoryFiles, damaged: &MemoryFiles) -> (u64, u64) {
        let Some(next) = self.successor else {
            return (0, 0);
        };
        let content = files.content(next).unwrap_or_default();
        let stated = number_at(&content, PREDECESSOR_END_AT).unwrap_or(0);
        let is_lost = differs(files, damaged, next, 0..FIRST_BATCH_AT);
        (stated, if is_lost { 0 } else { stated })
    }
}

fn differs(files: &MemoryFiles, damaged: &MemoryFiles, path: &Path, place: Range<u64>) -> bool {
    let (before, after) = (files.content(path), damaged.content(path));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let range = at(place.start)..at(place.end);
    before.get(range.clone()) != after.get(range)
}

pub(super) fn is_segment(path: &Path) -> bool {
    segment_number(path).is_some()
}

fn segment_number(path: &Path) -> Option<u64> {
    let number = path.file_stem()?.to_str()?.strip_prefix("synod-")?;
    let is_number = number.len() == 16;
    u64::from_str_radix(number, 16).ok().filter(|_| is_number)
}

/// Number of readable batches of a log, including batches that only state a floor.
pub(super) fn count_batches(files: &MemoryFiles) -> usize {
    let mut lines = Vec::new();
    // If there is damage, what comes before it was written.
    let _ = offline::dump_with(files, Path::new(LOG_DIR), &mut lines, true);
    let lines = lines.split(|byte| *byte == b'\n');
    let batch: &[u8] = br#"{"type":"batch","#;
    lines.filter(|line| line.starts_with(batch)).count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use synod_consensus::{HardState, Term};
    use synod_log::{Log, LogOptions, LogWriter};

    /// A log of so many batches, and its only segment.
    fn log_of(batches: u64) -> (MemoryFiles, LogWriter, PathBuf) {
        let files = MemoryFiles::new(1);
        let options = LogOptions {
            segment_bytes: 64 << 10,
            ..LogOptions::default()
        };
        let opened = Log::open(Arc::new(files.clone()), Path::new(LOG_DIR), options);
        let mut writer = opened.unwrap().writer;
        for term in 1..=batches {
            let vote = HardState::new(Term(term), None);
            writer.save_vote(vote).unwrap();
            writer.sync().unwrap();
        }
        let segment = files.paths().into_iter().find(|path| is_segment(path));
        (files, writer, segment.unwrap())
    }

    #[test]
    fn lost_statement_of_a_floor_makes_a_log_shorter() {
        let (files, mut writer, segment) = log_of(1);
        assert_eq!(count_batches(&files), 1);
        writer.write_floor().unwrap();
        assert_eq!(count_batches(&files), 2);
        let statement = files.writes(&segment).pop().unwrap();
        files.harm(&segment, statement.end, &[1]);
        assert_eq!(count_batches(&files), 2, "beyond the end");
        files.harm(&segment, statement.start, &[0]);
        assert_eq!(count_batches(&files), 1);
    }

    #[test]
    fn end_is_taken_with_the_last_header_that_states_it() {
        let (files, writer, segment) = log_of(3);
        let mut batches = newest_batches(&files, &segment);
        batches.sort_unstable_by_key(|batch| batch.place.start);
        let places: Vec<_> = batches.iter().map(|batch| batch.place.clone()).collect();
        let floors: Vec<_> = batches.iter().map(|batch| batch.floor).collect();
        let [first, second, third] = &places[..] else {
            panic!("{places:?}");
        };
        assert_eq!(floors, [first.start, second.start, third.start]);
        let takes = |hit: &[u64]| {
            let damaged = files.crash(u64::MAX);
            for at in hit {
                damaged.harm(&segment, *at, &[0xaa]);
            }
            takes_end(&files, &damaged, false)
        };
        let records = |place: &Range<u64>| place.start + BATCH_HEADER_BYTES + 8;
        assert!(!takes(&[]) && !takes(&[third.start + 8]));
        assert!(!takes(&[records(second)]) && !takes(&[second.start + 8]));
        assert!(takes(&[records(second), third.start + 8]));
        assert!(takes(&[second.start + 8, third.start + 8]));
        assert!(!takes(&[second.start + 8, records(third)]));
        assert!(
            !takes(&[records(first), third.start + 8]),
            "the second states it"
        );
        assert!(takes(&[records(first), second.start + 8, third.start + 8]));
        let floor_at = first.start + BATCH_FLOOR_AT as u64;
        files.harm(&segment, floor_at, &[0xff; 8]);
        assert!(
            takes(&[second.start + 8, third.start + 8]),
            "damage states nothing"
        );
        writer.close().unwrap();
        assert!(
            !takes(&[records(second), third.start + 8]),
            "the control file"
        );
    }
}
