//! Reading the whole stream once, in order. Recovery and the offline tools share it. No file is
//! changed here. The result states what the stream amounts to and how it ends. Where the valid
//! batches of a segment end, [`crate::recovery::decisions`] decides what that means.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use synod_consensus::{
    ConfigAt, EntryHeader, EntryId, EntryKind, GroupId, HardState, LogBase, LogIndex, Term,
};

use crate::LogError;
use crate::files::{File, Files, OpenMode, read_what_can_be};
use crate::format::codec::{OtherVersion, Unreadable, read_config};
use crate::format::control::{Control, StreamPosition};
use crate::format::names::segment_path;
use crate::format::record::{BATCH_HEADER_BYTES, BatchHeader, Mismatch, Record};
use crate::format::segment::{HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::recovery::decisions::{StopDecision, StopFacts, Successor, decide_stop};
use crate::recovery::scan::{BlockReader, MismatchAt, TailScan, read_batch, scan_tail};
use crate::retention::index::StreamIndex;
use crate::retention::summaries::Summaries;
use crate::shared::Segment;

const BLOCK_BYTES: usize = 1 << 20;
/// Enough of a segment's first page for its header.
const HEADER_READ_BYTES: usize = 512;

pub(crate) struct SegmentFile {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
    pub(crate) header: SegmentHeader,
}

pub(crate) enum Event<'a> {
    Segment(&'a SegmentFile),
    Batch {
        at: StreamPosition,
        header: &'a BatchHeader,
    },
    Record {
        at: StreamPosition,
        record: &'a Record,
    },
}

pub(crate) type Watch<'a> = &'a mut dyn FnMut(Event<'_>) -> Result<(), LogError>;

pub(crate) struct ReplayResult {
    pub(crate) base: LogBase,
    pub(crate) vote: HardState,
    pub(crate) last: EntryId,
    pub(crate) term_starts: Vec<(Term, LogIndex)>,
    pub(crate) configs: Vec<ConfigAt>,
    pub(crate) index: StreamIndex,
    pub(crate) summaries: Summaries,
    /// Newest headers; fewer than asked for if the stream ends with truncations.
    pub(crate) tail: VecDeque<EntryHeader>,
    pub(crate) next_batch: u64,
    pub(crate) segments: Vec<Segment>,
    pub(crate) end: StreamEnd,
    /// Damage after `end`: something that was durable is missing there.
    pub(crate) damage: Option<LogError>,
    tail_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamEnd {
    /// End of the last good batch, in the last segment.
    pub(crate) offset: u64,
    pub(crate) torn: bool,
    /// Highest floor stated for the last segment; what follows it may not be durable.
    pub(crate) floor: u64,
}

/// The segments of a log as far as they form one chain.
pub(crate) struct Chain {
    pub(crate) segments: Vec<SegmentFile>,
    /// Number of the segment that was made to follow them, and of which nothing was durable yet.
    pub(crate) unused: Option<u64>,
    pub(crate) broken: Option<LogError>,
}

pub(crate) fn open_segments(
    files: &dyn Files,
    dir: &Path,
    control: &Control,
    numbers: &[u64],
) -> Result<Chain, LogError> {
    let mut chain = open_chain(files, dir, control, numbers)?;
    chain.broken.take().map_or(Ok(chain), Err)
}

pub(crate) fn open_chain(
    files: &dyn Files,
    dir: &Path,
    control: &Control,
    numbers: &[u64],
) -> Result<Chain, LogError> {
    let first = first_segment(control);
    let last = last_segment(control, numbers);
    let mut chain = Chain {
        segments: Vec::new(),
        unused: None,
        broken: None,
    };
    for (i, number) in (first..=last).enumerate() {
        let opened = if numbers.get(i) == Some(&number) {
            open_next(files, dir, control, number, chain.segments.last())
        } else {
            let mismatch = Mismatch::new("this segment file", "no such file");
            Err(mismatch.at(&segment_path(dir, number), 0, None))
        };
        match opened {
            Ok(segment) if !segment.header.open => chain.segments.push(segment),
            Ok(segment) if number == last && number > first && !segment.was_used(control)? => {
                chain.unused = Some(number);
            }
            Ok(segment) => {
                chain.broken = Some(segment.header_is_lost());
                break;
            }
            Err(error @ LogError::Damaged { .. }) => {
                chain.broken = Some(error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(chain)
}

impl SegmentFile {
    /// Whether anything of a segment with an open header was durable. Its first batch completes the
    /// header. So if some floor is stated above the header, the complete header was lost.
    fn was_used(&self, control: &Control) -> Result<bool, LogError> {
        let header = &self.header;
        let tail = self.tail_from(SEGMENT_HEADER_BYTES)?;
        let noted = control.floor.segment >= header.number;
        Ok(noted || tail.floor > SEGMENT_HEADER_BYTES)
    }

    pub(crate) fn tail_from(&self, offset: u64) -> Result<TailScan, LogError> {
        let header = &self.header;
        let mut blocks = BlockReader::new(self.file.clone(), header.size, BLOCK_BYTES);
        scan_tail(&mut blocks, header.id, offset)
            .map_err(|error| LogError::io("read", &self.path, 0, error))
    }

    fn header_is_lost(&self) -> LogError {
        let expected = "the header that the first batch of this segment has completed";
        Mismatch::new(expected, "a header that is open").at(&self.path, 0, None)
    }
}

pub(crate) fn first_segment(control: &Control) -> u64 {
    control.first_segment.max(1)
}

pub(crate) fn last_segment(control: &Control, numbers: &[u64]) -> u64 {
    let existing = numbers.last().copied().unwrap_or_default();
    existing
        .max(control.floor.segment)
        .max(control.newest_segment)
        .max(first_segment(control))
}

fn open_next(
    files: &dyn Files,
    dir: &Path,
    control: &Control,
    number: u64,
    previous: Option<&SegmentFile>,
) -> Result<SegmentFile, LogError> {
    let segment = open_segment(files, dir, number)?;
    check_owner(&segment, control)?;
    if let Some(previous) = previous {
        check_predecessor(&segment, &previous.header)?;
    }
    Ok(segment)
}

pub(crate) fn open_segment(
    files: &dyn Files,
    dir: &Path,
    number: u64,
) -> Result<SegmentFile, LogError> {
    let path = segment_path(dir, number);
    let read = (|| {
        let file = files.open(&path, OpenMode::Read)?;
        let mut bytes = vec![0; HEADER_READ_BYTES];
        let len = read_what_can_be(&*file, &mut bytes, 0)?;
        bytes.truncate(len);
        let size = file.len()?;
        Ok((file, bytes, size))
    })();
    let (file, bytes, size) = read.map_err(|error| LogError::io("read", &path, 0, error))?;
    let header = match SegmentHeader::decode(&bytes) {
        Ok(header) => header,
        Err(HeaderError::Version(found)) => {
            return Err(OtherVersion::of_format(found).in_file(&path));
        }
        Err(HeaderError::Mismatch(mismatch)) => return Err(mismatch.at(&path, 0, None)),
    };
    if header.number != number {
        let mismatch = Mismatch::new(
            format!("segment {number}"),
            format!("segment {}", header.number),
        );
        return Err(mismatch.at(&path, 0, None));
    }
    if size < header.size {
        let mismatch = Mismatch::new(format!("{} bytes", header.size), format!("{size} bytes"));
        return Err(mismatch.at(&path, size, None));
    }
    Ok(SegmentFile { path, file, header })
}

pub(crate) fn check_owner(segment: &SegmentFile, control: &Control) -> Result<(), LogError> {
    let (header, identity) = (&segment.header, control.identity);
    let foreign = |what, expected: String, found: String| {
        Err(LogError::Foreign {
            path: segment.path.clone(),
            what,
            expected,
            found,
        })
    };
    if header.member != identity.member {
        return foreign(
            "the member",
            identity.member.to_string(),
            header.member.to_string(),
        );
    }
    if header.group != GroupId::NONE && header.group != identity.group {
        return foreign(
            "the group",
            identity.group.to_string(),
            header.group.to_string(),
        );
    }
    Ok(())
}

fn check_predecessor(segment: &SegmentFile, previous: &SegmentHeader) -> Result<(), LogError> {
    let found = segment.header.predecessor.map(|p| (p.number, p.id));
    if found == Some((previous.number, previous.id)) {
        return Ok(());
    }
    let mismatch = Mismatch::new(
        format!(
            "predecessor {} with id {:016x}",
            previous.number, previous.id
        ),
        format!("{found:x?}"),
    );
    Err(mismatch.at(&segment.path, 0, None))
}

pub(crate) fn replay(
    segments: &[SegmentFile],
    control: &Control,
    tail_max: usize,
    watch: Watch<'_>,
) -> Result<ReplayResult, LogError> {
    let mut state = replay_good(segments, control, tail_max, watch)?;
    if let Some(damage) = state.damage {
        return Err(damage);
    }
    state.finish(segments)?;
    Ok(state)
}

/// Does not check whether the entries follow the base; [`ReplayResult::finish`] does.
pub(crate) fn replay_good(
    segments: &[SegmentFile],
    control: &Control,
    tail_max: usize,
    watch: Watch<'_>,
) -> Result<ReplayResult, LogError> {
    let mut state = ReplayResult::start(segments, control, tail_max);
    for (i, segment) in segments.iter().enumerate() {
        watch(Event::Segment(segment))?;
        let successor = segments.get(i + 1).map(|next| &next.header);
        state.replay_segment(segment, successor, control, watch)?;
        if state.damage.is_some() {
            break;
        }
    }
    Ok(state)
}

impl ReplayResult {
    fn start(segments: &[SegmentFile], control: &Control, tail_max: usize) -> ReplayResult {
        let first = segments.first().map(|segment| &segment.header);
        ReplayResult {
            base: control.base.clone(),
            vote: first.map(|header| header.vote).unwrap_or_default(),
            last: first.map(|header| header.last).unwrap_or_default(),
            term_starts: Vec::new(),
            configs: Vec::new(),
            index: StreamIndex::default(),
            summaries: Summaries::default(),
            tail: VecDeque::new(),
            next_batch: first.map_or(1, |header| header.first_batch),
            segments: Vec::new(),
            end: StreamEnd {
                offset: SEGMENT_HEADER_BYTES,
                torn: false,
                floor: 0,
            },
            damage: None,
            tail_max: tail_max.max(1),
        }
    }

    fn replay_segment(
        &mut self,
        segment: &SegmentFile,
        successor: Option<&SegmentHeader>,
        control: &Control,
        watch: Watch<'_>,
    ) -> Result<(), LogError> {
        let header = &segment.header;
        if header.first_batch != self.next_batch {
            let expected = format!("first batch {}", self.next_batch);
            let mismatch = Mismatch::new(expected, header.first_batch.to_string());
            return Err(mismatch.at(&segment.path, 0, Some(self.last.index)));
        }
        // Usually what the replay has found. A repair states more here: what may have been
        // promised.
        self.vote = header.vote;
        let stream_end = successor.and_then(|next| next.predecessor).map(|p| p.end);
        let limit = stream_end.unwrap_or(header.size).min(header.size);
        let mut blocks = BlockReader::new(segment.file.clone(), limit, BLOCK_BYTES);
        let mut stop = Stop {
            offset: SEGMENT_HEADER_BYTES,
            floor: SEGMENT_HEADER_BYTES,
            mismatch: None,
        };
        if control.floor.segment == header.number {
            stop.floor = stop.floor.max(control.floor.offset);
        }
        // The end of the data is not a bad place; a torn header there is one.
        while stop.mismatch.is_none() && stop.offset + BATCH_HEADER_BYTES as u64 <= limit {
            self.replay_batch(segment, &mut blocks, &mut stop, watch)?;
        }
        self.end_segment(segment, successor.is_some(), stream_end, &mut blocks, stop)
    }

    fn replay_batch(
        &mut self,
        segment: &SegmentFile,
        blocks: &mut BlockReader,
        stop: &mut Stop,
        watch: Watch<'_>,
    ) -> Result<(), LogError> {
        let header = &segment.header;
        let read = read_batch(blocks, header.id, stop.offset, self.next_batch);
        let batch = match read.map_err(|error| LogError::io("read", &segment.path, 0, error))? {
            Ok(batch) => batch,
            Err(MismatchAt { offset, mismatch }) if mismatch.version.is_some() => {
                // Neither torn nor damaged: nothing may be cut or repaired here.
                return Err(mismatch.at(&segment.path, offset, Some(self.last.index)));
            }
            Err(mismatch) => {
                stop.mismatch = Some(mismatch);
                return Ok(());
            }
        };
        let at = StreamPosition {
            segment: header.number,
            offset: stop.offset,
        };
        watch(Event::Batch {
            at,
            header: &batch.header,
        })?;
        for (offset, record) in &batch.records {
            let at = StreamPosition {
                segment: header.number,
                offset: *offset,
            };
            watch(Event::Record { at, record })?;
            let before = self.last.index;
            self.apply(at, record)
                .map_err(|mismatch| mismatch.at(&segment.path, *offset, Some(before)))?;
        }
        self.next_batch += 1;
        stop.offset = batch.end;
        stop.floor = stop.floor.max(batch.header.floor);
        Ok(())
    }

    /// Decides what the end of the valid batches means, and notes how the segment ends.
    fn end_segment(
        &mut self,
        segment: &SegmentFile,
        has_successor: bool,
        stream_end: Option<u64>,
        blocks: &mut BlockReader,
        stop: Stop,
    ) -> Result<(), LogError> {
        let successor = match (has_successor, stream_end == Some(stop.offset)) {
            (false, _) => Successor::Missing,
            (true, true) => Successor::FromHere,
            (true, false) => Successor::FromElsewhere,
        };
        let tail = match successor {
            Successor::FromHere => TailScan {
                blank: true,
                floor: 0,
            },
            Successor::Missing | Successor::FromElsewhere => {
                scan_tail(blocks, segment.header.id, stop.offset)
                    .map_err(|error| LogError::io("read", &segment.path, 0, error))?
            }
        };
        let below_floor = stop.floor.max(tail.floor) > stop.offset;
        let decision = decide_stop(StopFacts {
            successor,
            below_floor,
            blank: tail.blank,
        });
        self.segments.push(Segment {
            number: segment.header.number,
            id: segment.header.id,
            file: segment.file.clone(),
            size: segment.header.size,
            end: stop.offset,
            created_ms: segment.header.created_ms,
        });
        let torn = decision == StopDecision::Cut;
        self.end = StreamEnd {
            offset: stop.offset,
            torn,
            floor: stop.floor,
        };
        if decision == StopDecision::Damaged {
            let floor = stop.floor.max(tail.floor).max(stream_end.unwrap_or(0));
            self.damage = Some(stop.damaged(segment, self.last.index, floor));
        }
        Ok(())
    }

    fn apply(&mut self, at: StreamPosition, record: &Record) -> Result<(), Mismatch> {
        match record {
            Record::Entry(entry) => {
                self.append(at, &entry.header)?;
                if entry.header.kind == EntryKind::Config {
                    let config = read_config(&entry.payload).map_err(|why| match why {
                        Unreadable::Version(other) => Mismatch::of_version(other),
                        Unreadable::Fields => Mismatch::new("a configuration", "other bytes"),
                    })?;
                    self.configs.push(ConfigAt {
                        index: entry.header.index,
                        config,
                    });
                }
            }
            Record::Truncate(from) => self.truncate(*from),
            Record::Vote(vote) => self.vote = *vote,
            Record::Reset(base) => self.reset(base),
        }
        Ok(())
    }

    fn append(&mut self, at: StreamPosition, header: &EntryHeader) -> Result<(), Mismatch> {
        if header.index != self.last.index.next() || header.term < self.last.term {
            let expected = format!("an entry that follows {}", self.last);
            return Err(Mismatch::new(expected, header.id().to_string()));
        }
        if self
            .term_starts
            .last()
            .is_none_or(|(term, _)| *term != header.term)
        {
            self.term_starts.push((header.term, header.index));
        }
        self.index.push(at.segment, at.offset, header);
        self.summaries.push(header);
        self.last = header.id();
        self.tail.push_back(*header);
        if self.tail.len() > self.tail_max {
            self.tail.pop_front();
        }
        Ok(())
    }

    fn truncate(&mut self, from: LogIndex) {
        if from > self.last.index {
            return;
        }
        let index = from.prev();
        self.term_starts.retain(|(_, first)| *first < from);
        self.configs.retain(|config| config.index < from);
        while self.tail.back().is_some_and(|header| header.index >= from) {
            self.tail.pop_back();
        }
        self.index.truncate(from);
        self.summaries.truncate(from);
        // Before the first entry held, the term is neither known here nor needed. The base may be
        // of a later moment, and of a later term at this very index; `finish` checks it.
        let term = self.term_starts.last().map_or(Term(0), |(term, _)| *term);
        self.last = EntryId { term, index };
    }

    fn reset(&mut self, base: &LogBase) {
        self.term_starts.clear();
        self.configs.clear();
        self.tail.clear();
        self.index.clear();
        self.summaries.clear();
        self.last = base.last;
        self.base = base.clone();
    }

    pub(crate) fn finish(&mut self, segments: &[SegmentFile]) -> Result<(), LogError> {
        let first = self.index.first();
        if first.is_none() && self.last.index == self.base.last.index {
            self.last = self.base.last;
        }
        let follows = match first {
            Some(first) => first == self.base.last.index.next(),
            None => self.last == self.base.last,
        };
        if follows {
            return Ok(());
        }
        let path = segments
            .first()
            .map(|segment| segment.path.clone())
            .unwrap_or_default();
        let mismatch = Mismatch::new(
            format!("entries from index {}", self.base.last.index.next()),
            first.map_or("none".to_owned(), |first| {
                format!("entries from index {first}")
            }),
        );
        Err(mismatch.at(&path, SEGMENT_HEADER_BYTES, Some(self.base.last.index)))
    }
}

struct Stop {
    offset: u64,
    /// Highest floor stated for the segment so far.
    floor: u64,
    mismatch: Option<MismatchAt>,
}

impl Stop {
    fn damaged(self, segment: &SegmentFile, last: LogIndex, floor: u64) -> LogError {
        let mismatch = self.mismatch.unwrap_or(MismatchAt {
            offset: self.offset,
            mismatch: Mismatch::new(format!("batches up to offset {floor}"), "the end of them"),
        });
        mismatch
            .mismatch
            .at(&segment.path, mismatch.offset, Some(last))
    }
}
