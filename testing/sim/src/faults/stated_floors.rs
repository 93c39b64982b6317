//! What the bytes of a log state about what is durable: floors in batch headers and in the control
//! file, by docs/log-format.md.
//!
//! A disk fault asks whether it removes the last statement about the end of a log. This file reads
//! the bytes itself: a checker does not ask the code under test.

use std::ops::Range;
use std::path::Path;

use synod_log::{MemoryFiles, offline};

use crate::member::start::LOG_DIR;

/// So many of the newest writes to a file are considered.
const RECENT_WRITES: usize = 200;
/// Size of a batch header.
const BATCH_HEADER_BYTES: u64 = 80;
/// Offset of the floor in a batch header.
const BATCH_FLOOR_AT: usize = 24;
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
    let batch = |place: Range<u64>| {
        let at = usize::try_from(place.start).ok()?;
        let is_batch = content.get(at..at + 4)? == b"SynB";
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
    let mut paths = files.paths();
    paths.retain(|path| is_segment(path));
    let Some(newest) = paths.last() else {
        return false;
    };
    let (before, after) = (files.content(newest), damaged.content(newest));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let differs = |place: Range<u64>| {
        let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let range = at(place.start)..at(place.end);
        before.get(range.clone()) != after.get(range)
    };
    let batches = newest_batches(files, newest);
    let control = control_floor(files, newest);
    let highest = |floors: &mut dyn Iterator<Item = u64>| floors.fold(control, u64::max);
    let header = |batch: &Batch| batch.place.start..batch.place.start + BATCH_HEADER_BYTES;
    let left = batches.iter().filter(|batch| !differs(header(batch)));
    let left = highest(&mut left.map(|batch| batch.floor));
    let stated = highest(&mut batches.iter().map(|batch| batch.floor));
    let mut damaged = batches.iter().filter(|batch| differs(batch.place.clone()));
    left < stated
        && (damaged_before || damaged.any(|batch| (left..stated).contains(&batch.place.start)))
}

pub(super) fn is_segment(path: &Path) -> bool {
    segment_number(path).is_some()
}

fn segment_number(path: &Path) -> Option<u64> {
    let number = path.file_stem()?.to_str()?.strip_prefix("synod-")?;
    let is_number = number.len() == 16;
    u64::from_str_radix(number, 16).ok().filter(|_| is_number)
}

/// How many batches of a log can be read, including batches that only state a floor.
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
    use std::path::PathBuf;
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
            let vote = HardState {
                term: Term(term),
                voted_for: None,
            };
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
