//! What can still be read behind damage. A good record or header there proves nothing about the damage;
//! but what a header states about promises was true when it was written.

use std::io;
use std::path::Path;

use synod_consensus::{Config, EntryKind, Term};

use crate::LogError;
use crate::files::Files;
use crate::format::control::{Control, StreamPosition};
use crate::format::record::{BATCH_HEADER_BYTES, BatchHeader, Promised, Record};
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::recovery::decisions::{EndDecision, EndFacts, decide_end};
use crate::recovery::replay::{SegmentFile, check_owner, last_segment, open_segment};
use crate::recovery::scan::{BlockReader, look_behind, read_batch, search_batches};

const BLOCK_BYTES: usize = 1 << 20;

/// A log from the end of its good part on.
pub(crate) struct Behind<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) dir: &'a Path,
    pub(crate) control: &'a Control,
    /// Segments that are there.
    pub(crate) numbers: &'a [u64],
    /// End of the good part.
    pub(crate) start: StreamPosition,
}

/// What the member had promised when it stopped.
pub(crate) struct Found {
    /// Nothing was promised beyond this.
    pub(crate) exact: Option<Promised>,
    /// Highest term that was read.
    pub(crate) highest_term: Term,
}

/// What one place of the stream states, and the place.
#[derive(Clone, Copy)]
struct Stated {
    number: u64,
    promised: Promised,
    end: u64,
}

impl Behind<'_> {
    /// What the newest header says, if nothing newer was durable.
    pub(crate) fn promised(&self) -> Result<Found, LogError> {
        let mut found = Found {
            exact: None,
            highest_term: self.control.repair_until.unwrap_or_default().term,
        };
        let last = last_segment(self.control, self.numbers);
        let Some(segment) = self.newest_segment()? else {
            return Ok(found);
        };
        let (stated, floor) = self.newest_statement(&segment)?;
        if let Some(stated) = stated {
            let Promised { vote, last } = stated.promised;
            found.highest_term = found.highest_term.max(vote.term).max(last.term);
        }
        found.highest_term = found.highest_term.max(segment.header.vote.term);
        let decision = decide_end(EndFacts {
            newest_segment_readable: segment.header.number == last,
            stated: stated.is_some(),
            floor_beyond: stated.is_some_and(|stated| floor > stated.end),
            blank_beyond: self.is_blank_beyond(&segment, stated)?,
        });
        if decision == EndDecision::Exact {
            found.exact = stated.map(|stated| stated.promised);
        }
        Ok(found)
    }

    /// The newest configuration behind the good part, as far as batches can be read.
    pub(crate) fn newest_config(&self) -> Result<Option<Config>, LogError> {
        let mut newest = None;
        for number in self.numbers.iter().filter(|n| **n >= self.start.segment) {
            if let Some(segment) = self.open(*number)? {
                self.search(&segment, &mut |blocks, offset, header| {
                    let id = segment.header.id;
                    if let Ok(batch) = read_batch(blocks, id, offset, header.number)? {
                        newest = config_in(&batch.records).or(newest.take());
                    }
                    Ok(())
                })?;
            }
        }
        Ok(newest)
    }

    /// The last segment with a good header.
    fn newest_segment(&self) -> Result<Option<SegmentFile>, LogError> {
        for number in self
            .numbers
            .iter()
            .rev()
            .filter(|n| **n >= self.start.segment)
        {
            if let Some(segment) = self.open(*number)? {
                return Ok(Some(segment));
            }
        }
        Ok(None)
    }

    /// `None` if the header is damaged, or the file too short.
    fn open(&self, number: u64) -> Result<Option<SegmentFile>, LogError> {
        match open_segment(self.files, self.dir, number) {
            Ok(segment) => {
                check_owner(&segment, self.control)?;
                Ok(Some(segment))
            }
            Err(LogError::Damaged { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The newest statement in a segment, and the highest floor in it.
    fn newest_statement(&self, segment: &SegmentFile) -> Result<(Option<Stated>, u64), LogError> {
        let header = &segment.header;
        let begins_here = header.number > self.start.segment;
        let mut newest = begins_here.then_some(Stated {
            number: 0,
            promised: Promised {
                vote: header.vote,
                last: header.last,
            },
            end: SEGMENT_HEADER_BYTES,
        });
        let mut floor = match self.control.floor.segment == header.number {
            true => self.control.floor.offset,
            false => 0,
        };
        self.search(segment, &mut |_, offset, batch| {
            floor = floor.max(batch.floor);
            if newest.is_none_or(|newest| batch.number > newest.number) {
                newest = Some(Stated {
                    number: batch.number,
                    promised: batch.after,
                    end: (offset + BATCH_HEADER_BYTES as u64).saturating_add(batch.records_bytes),
                });
            }
            Ok(())
        })?;
        Ok((newest, floor))
    }

    /// Whether nothing follows the place for which this is stated.
    fn is_blank_beyond(
        &self,
        segment: &SegmentFile,
        stated: Option<Stated>,
    ) -> Result<bool, LogError> {
        let Some(stated) = stated else {
            return Ok(false);
        };
        let header = &segment.header;
        let mut blocks = BlockReader::new(segment.file.clone(), header.size, BLOCK_BYTES);
        look_behind(&mut blocks, header.id, stated.end)
            .map(|behind| behind.blank)
            .map_err(|error| LogError::io("read", &segment.path, 0, error))
    }

    fn search(
        &self,
        segment: &SegmentFile,
        visit: &mut dyn FnMut(&mut BlockReader, u64, BatchHeader) -> io::Result<()>,
    ) -> Result<(), LogError> {
        let header = &segment.header;
        let from = match header.number == self.start.segment {
            true => self.start.offset,
            false => SEGMENT_HEADER_BYTES,
        };
        let mut blocks = BlockReader::new(segment.file.clone(), header.size, BLOCK_BYTES);
        search_batches(&mut blocks, header.id, from, visit)
            .map(drop)
            .map_err(|error| LogError::io("read", &segment.path, 0, error))
    }
}

fn config_in(records: &[(u64, Record)]) -> Option<Config> {
    let configs = records.iter().rev().filter_map(|(_, record)| match record {
        Record::Entry(entry) if entry.header.kind == EntryKind::Config => {
            Config::decode(&entry.payload).ok()
        }
        Record::Reset(base) => Some(base.config.config.clone()),
        Record::Entry(_) | Record::Truncate(_) | Record::Vote(_) => None,
    });
    configs.into_iter().next()
}
