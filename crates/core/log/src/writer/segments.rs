//! From one segment to the next: what is ready before the writer needs it, and its header.

use super::LogWriter;
use crate::LogError;
use crate::format::record::BATCH_HEADER_BYTES;
use crate::format::segment::{Predecessor, SEGMENT_HEADER_BYTES, SegmentHeader, unix_ms};
use crate::shared::Segment;

pub(crate) struct ActiveSegment {
    pub(crate) segment: Segment,
    /// Everything before this offset is durable.
    pub(crate) floor: u64,
    /// Highest floor that some header or the control file states.
    pub(super) stated_floor: u64,
    /// The complete header, until the first batch has written it.
    pub(super) header_due: Option<Box<SegmentHeader>>,
}

impl LogWriter {
    /// Begins the next segment with room for a record of this size. All of the old one is durable.
    pub(super) fn next_segment(&mut self, record_bytes: usize) -> Result<(), LogError> {
        let wanted = SegmentHeader {
            size: segment_size(self.segment_bytes(), record_bytes),
            ..self.next_open_header()
        };
        let ready = self.next.take(wanted).inspect_err(|error| {
            self.needs_space = matches!(error, LogError::NoSpace { .. });
        })?;
        let old = &self.active.segment;
        let header = SegmentHeader {
            predecessor: Some(Predecessor {
                number: old.number,
                id: old.id,
                end: old.end,
            }),
            last: self.stream.tip.id,
            seqno: self.stream.tip.seqno,
            vote: self.stream.vote,
            first_batch: self.stream.next_batch,
            created_ms: unix_ms(self.files.now()),
            open: false,
            ..ready.header
        };
        let segment = Segment::new(&header, ready.file);
        self.shared
            .state()
            .segments
            .insert(segment.number, segment.clone());
        self.active = ActiveSegment {
            header_due: Some(Box::new(header)),
            ..ActiveSegment::new(segment)
        };
        Ok(())
    }

    pub(super) fn prepare_next(&mut self) {
        let Segment { end, size, .. } = self.active.segment;
        if end > size / 4 {
            self.next.start(self.next_open_header());
        }
        if end > size / 4 * 3 {
            self.next.hurry();
        }
    }

    fn next_open_header(&self) -> SegmentHeader {
        let active = &self.active.segment;
        let (identity, format) = {
            let control = self.control.values();
            (control.identity, control.format)
        };
        SegmentHeader {
            format,
            number: active.number + 1,
            size: self.segment_bytes(),
            member: identity.member,
            group: identity.group,
            predecessor: Some(Predecessor {
                number: active.number,
                id: active.id,
                end: 0,
            }),
            open: true,
            ..SegmentHeader::default()
        }
    }

    fn segment_bytes(&self) -> u64 {
        let member = self.control.values().identity.member;
        self.options.spread_segment_bytes(member)
    }
}

impl ActiveSegment {
    pub(crate) fn new(segment: Segment) -> ActiveSegment {
        let floor = segment.end;
        ActiveSegment {
            segment,
            floor,
            stated_floor: floor,
            header_due: None,
        }
    }
}

fn segment_size(segment_bytes: u64, record_bytes: usize) -> u64 {
    let needed = SEGMENT_HEADER_BYTES + (BATCH_HEADER_BYTES + record_bytes) as u64;
    segment_bytes.max(needed.next_multiple_of(SEGMENT_HEADER_BYTES))
}
