//! Reads the rest of a log beyond its first damage, for [`crate::recovery::repair`]. A valid record
//! or header there proves nothing about the damage. But what a header states about the member's
//! promises was true when it was written. The newest such statement counts as exact only if nothing
//! newer can have been durable; [`decide_end`] decides that.

use std::io;
use std::path::Path;

use synod_consensus::{Config, EntryKind, Term};

use crate::LogError;
use crate::files::Files;
use crate::format::control::{Control, StreamPosition};
use crate::format::record::{BATCH_HEADER_BYTES, BatchHeader, Promises, Record};
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::recovery::decisions::{EndDecision, EndFacts, decide_end};
use crate::recovery::replay::{SegmentFile, check_owner, last_segment, open_segment};
use crate::recovery::scan::{BlockReader, read_batch, search_batches};

const BLOCK_BYTES: usize = 1 << 20;

/// The part of a log that starts at the end of its good part.
pub(crate) struct BeyondDamage<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) dir: &'a Path,
    pub(crate) control: &'a Control,
    pub(crate) numbers: &'a [u64],
    pub(crate) start: StreamPosition,
}

/// Evidence of the promises that the member had made when it stopped.
pub(crate) struct PromiseEvidence {
    /// The promises, if they are known: none was made beyond these.
    pub(crate) exact: Option<Promises>,
    pub(crate) highest_term: Term,
}

/// Promises stated by one header, and the position they hold for.
#[derive(Clone, Copy)]
struct Statement {
    /// Zero for a segment header.
    number: u64,
    promises: Promises,
    /// Offset of the end of what the statement covers.
    end: u64,
}

impl BeyondDamage<'_> {
    /// Reads the newest statement about promises, and judges whether it is exact.
    pub(crate) fn promises(&self) -> Result<PromiseEvidence, LogError> {
        let mut evidence = PromiseEvidence {
            exact: None,
            highest_term: self.control.repair_until.unwrap_or_default().term,
        };
        let mut last = last_segment(self.control, self.numbers);
        let Some(mut segment) = self.newest_segment(last)? else {
            return Ok(evidence);
        };
        let was_used = self.control.floor.segment >= last;
        if segment.header.number == last && !was_used && segment.is_blank()? {
            // Made ahead, and not used: nothing was promised in it.
            last -= 1;
            let Some(before) = self.newest_segment(last)? else {
                return Ok(evidence);
            };
            segment = before;
        }
        let (stated, floor) = self.newest_statement(&segment)?;
        if let Some(stated) = stated {
            let Promises { vote, last } = stated.promises;
            evidence.highest_term = evidence.highest_term.max(vote.term).max(last.term);
        }
        evidence.highest_term = evidence.highest_term.max(segment.header.vote.term);
        let decision = decide_end(EndFacts {
            newest_segment_readable: segment.header.number == last,
            statement_found: stated.is_some(),
            floor_beyond: stated.is_some_and(|stated| floor > stated.end),
            blank_beyond: self.is_blank_beyond(&segment, stated)?,
        });
        if decision == EndDecision::Exact {
            evidence.exact = stated.map(|stated| stated.promises);
        }
        Ok(evidence)
    }

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

    fn newest_segment(&self, last: u64) -> Result<Option<SegmentFile>, LogError> {
        for number in self
            .numbers
            .iter()
            .rev()
            .filter(|n| (self.start.segment..=last).contains(*n))
        {
            if let Some(segment) = self.open(*number)? {
                return Ok(Some(segment));
            }
        }
        Ok(None)
    }

    /// `None` if the header is damaged or the file too short.
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

    fn newest_statement(
        &self,
        segment: &SegmentFile,
    ) -> Result<(Option<Statement>, u64), LogError> {
        let header = &segment.header;
        let begins_here = header.number > self.start.segment && !header.open;
        let mut newest = begins_here.then_some(Statement {
            number: 0,
            promises: Promises {
                vote: header.vote,
                last: header.last,
            },
            end: SEGMENT_HEADER_BYTES,
        });
        let mut floor = if self.control.floor.segment == header.number {
            self.control.floor.offset
        } else {
            0
        };
        self.search(segment, &mut |_, offset, batch| {
            floor = floor.max(batch.floor);
            if newest.is_none_or(|newest| batch.number > newest.number) {
                newest = Some(Statement {
                    number: batch.number,
                    promises: batch.after,
                    end: (offset + BATCH_HEADER_BYTES as u64).saturating_add(batch.records_bytes),
                });
            }
            Ok(())
        })?;
        Ok((newest, floor))
    }

    /// Whether only zeros follow the place that the statement covers.
    fn is_blank_beyond(
        &self,
        segment: &SegmentFile,
        stated: Option<Statement>,
    ) -> Result<bool, LogError> {
        let Some(stated) = stated else {
            return Ok(false);
        };
        segment.tail_from(stated.end).map(|tail| tail.blank)
    }

    fn search(
        &self,
        segment: &SegmentFile,
        visit: &mut dyn FnMut(&mut BlockReader, u64, BatchHeader) -> io::Result<()>,
    ) -> Result<(), LogError> {
        let header = &segment.header;
        let from = if header.number == self.start.segment {
            self.start.offset
        } else {
            SEGMENT_HEADER_BYTES
        };
        let mut blocks = BlockReader::new(segment.file.clone(), header.size, BLOCK_BYTES);
        search_batches(&mut blocks, header.id, from, visit)
            .map(drop)
            .map_err(|error| LogError::io("read", &segment.path, 0, error))
    }
}

impl SegmentFile {
    fn is_blank(&self) -> Result<bool, LogError> {
        Ok(self.header.open && self.tail_from(SEGMENT_HEADER_BYTES)?.blank)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::control::ControlFile;
    use crate::format::names::segment_path;
    use crate::{Log, LogOptions, MemoryFiles};
    use synod_consensus::HardState;

    const DIR: &str = "/log";

    /// A log whose second segment is made and not used yet, and what its control file says.
    fn written() -> (MemoryFiles, Control, Term) {
        let files = MemoryFiles::new(1);
        let options = LogOptions {
            segment_bytes: 64 << 10,
            ..LogOptions::default()
        };
        let opened = Log::open(Arc::new(files.clone()), Path::new(DIR), options);
        let mut writer = opened.unwrap().writer;
        let mut term = Term(0);
        while files.content(&segment_path(Path::new(DIR), 2)).is_none() {
            term = term.next();
            let voted_for = None;
            writer.save_vote(HardState { term, voted_for }).unwrap();
            writer.sync().unwrap();
        }
        writer.write_floor().unwrap();
        writer.close().unwrap();
        let ControlFile::Valid(control) = Control::read(&files, Path::new(DIR)).unwrap() else {
            panic!("the log has been closed");
        };
        (files, control, term)
    }

    fn promises(files: &MemoryFiles, control: &Control) -> Option<Promises> {
        let beyond = BeyondDamage {
            files,
            dir: Path::new(DIR),
            control,
            numbers: &[1, 2],
            start: StreamPosition {
                segment: 1,
                offset: SEGMENT_HEADER_BYTES,
            },
        };
        beyond.promises().unwrap().exact
    }

    #[test]
    fn segment_that_looks_unused_was_used_if_a_floor_is_in_it() {
        let (files, mut control, term) = written();
        let known = promises(&files, &control).map(|promises| promises.vote.term);
        assert_eq!(known, Some(term));
        // What was written to it is missing: a write has landed elsewhere.
        control.floor = StreamPosition {
            segment: 2,
            offset: 5664,
        };
        assert!(promises(&files, &control).is_none());
    }
}
