//! Reading a segment from front to back: blocks, batches, records. Nothing is decided here. A batch
//! is given only if every byte of it was verified; otherwise the answer says where the bytes differ
//! from a batch, and how. What that means is decided by [`crate::recovery::decisions`], with what
//! [`scan_tail`] finds after the place.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::files::{File, read_what_can_be};
use crate::format::record::{
    BATCH_HEADER_BYTES, BatchHeader, ENTRY_FIXED_BYTES, Mismatch, Outline, PREFIX_BYTES, Place,
    Record,
};

pub(crate) struct BlockReader {
    file: Arc<dyn File>,
    block: Bytes,
    block_at: u64,
    block_bytes: usize,
    /// No byte at or after this offset is given.
    end: u64,
}

impl BlockReader {
    pub(crate) fn new(file: Arc<dyn File>, end: u64, block_bytes: usize) -> BlockReader {
        BlockReader {
            file,
            block: Bytes::new(),
            block_at: 0,
            block_bytes,
            end,
        }
    }

    /// `len` bytes from `offset`, or fewer at the end. Earlier slices keep their block alive.
    pub(crate) fn bytes(&mut self, offset: u64, len: usize) -> io::Result<Bytes> {
        let range = self.range(offset, len)?;
        Ok(self.block.slice(range))
    }

    /// [`BlockReader::bytes`] without keeping the block.
    pub(crate) fn look(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let range = self.range(offset, len)?;
        Ok(&self.block[range])
    }

    /// Range of these bytes in the block, or of as many as there are. Reads a block if need be.
    fn range(&mut self, offset: u64, len: usize) -> io::Result<Range<usize>> {
        let len = self.available(offset, len);
        if !self.holds(offset, len) {
            let want = self.available(offset, len.max(self.block_bytes));
            let mut block = vec![0; want];
            let read = read_what_can_be(&*self.file, &mut block, offset)?;
            block.truncate(read);
            (self.block, self.block_at) = (block.into(), offset);
        }
        let start = usize::try_from(offset - self.block_at).unwrap_or(usize::MAX);
        let start = start.min(self.block.len());
        Ok(start..(start + len).min(self.block.len()))
    }

    fn available(&self, offset: u64, len: usize) -> usize {
        usize::try_from(self.end.saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(len)
    }

    /// Whether these bytes can be given without reading the file.
    pub(crate) fn holds(&self, offset: u64, len: usize) -> bool {
        offset >= self.block_at && offset + len as u64 <= self.block_at + self.block.len() as u64
    }
}

/// A batch whose every record was verified.
pub(crate) struct Batch {
    pub(crate) header: BatchHeader,
    /// The records in order, each with its offset.
    pub(crate) records: Vec<(u64, Record)>,
    pub(crate) end: u64,
}

/// A place where the bytes are not a batch, and why not.
#[derive(Clone, Debug)]
pub(crate) struct MismatchAt {
    pub(crate) offset: u64,
    pub(crate) mismatch: Mismatch,
}

pub(crate) fn read_batch(
    blocks: &mut BlockReader,
    segment_id: u64,
    offset: u64,
    expected_number: u64,
) -> io::Result<Result<Batch, MismatchAt>> {
    let bytes = blocks.bytes(offset, BATCH_HEADER_BYTES)?;
    let header = match BatchHeader::decode(&bytes, Place { segment_id, offset }) {
        Ok(header) => header,
        Err(mismatch) => return Ok(Err(MismatchAt { offset, mismatch })),
    };
    if header.number != expected_number {
        let found = header.number.to_string();
        let mismatch = Mismatch::new(format!("batch number {expected_number}"), found);
        return Ok(Err(MismatchAt { offset, mismatch }));
    }
    let mut at = offset + BATCH_HEADER_BYTES as u64;
    let end = at.saturating_add(header.records_bytes);
    let mut records = Vec::new();
    for _ in 0..header.records {
        match read_record(
            blocks,
            Place {
                segment_id,
                offset: at,
            },
        )? {
            Ok((bytes, record)) => {
                records.push((at, record));
                at += bytes as u64;
            }
            Err(mismatch) => {
                return Ok(Err(MismatchAt {
                    offset: at,
                    mismatch,
                }));
            }
        }
    }
    if at != end {
        let mismatch = Mismatch::new(
            format!("a batch that ends at {end}"),
            format!("records to {at}"),
        );
        return Ok(Err(MismatchAt {
            offset: at,
            mismatch,
        }));
    }
    Ok(Ok(Batch {
        header,
        records,
        end,
    }))
}

fn read_record(
    blocks: &mut BlockReader,
    place: Place,
) -> io::Result<Result<(usize, Record), Mismatch>> {
    let outline = match read_outline(blocks, place)? {
        Ok(outline) => outline,
        Err(mismatch) => return Ok(Err(mismatch)),
    };
    let bytes = blocks.bytes(place.offset, outline.bytes)?;
    Ok(outline
        .complete(&bytes)
        .map(|record| (outline.bytes, record)))
}

pub(crate) fn read_outline(
    blocks: &mut BlockReader,
    place: Place,
) -> io::Result<Result<Outline, Mismatch>> {
    let head = blocks.look(place.offset, PREFIX_BYTES + ENTRY_FIXED_BYTES)?;
    let longer = match Outline::decode(head, place) {
        Ok(Some(outline)) => return Ok(Ok(outline)),
        Ok(None) => blocks.look(
            place.offset,
            PREFIX_BYTES + crate::format::record::OTHER_BODY_BYTES_MAX,
        )?,
        Err(mismatch) => return Ok(Err(mismatch)),
    };
    let outline = Outline::decode(longer, place);
    Ok(outline
        .and_then(|found| found.ok_or_else(|| Mismatch::new("a record", "the end of the data"))))
}

/// Contents of a segment after a bad place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TailScan {
    pub(crate) blank: bool,
    /// Highest durable floor in a batch header there, or zero. Only a header's floor proves
    /// anything about the bad place; a valid header or record there does not.
    pub(crate) floor: u64,
}

pub(crate) fn scan_tail(
    blocks: &mut BlockReader,
    segment_id: u64,
    offset: u64,
) -> io::Result<TailScan> {
    let mut floor = 0;
    let blank = search_batches(blocks, segment_id, offset, &mut |_, _, header| {
        floor = floor.max(header.floor);
        Ok(())
    })?;
    Ok(TailScan { blank, floor })
}

/// Called with the reader, the offset of a valid batch header, and the header.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&mut BlockReader, u64, BatchHeader) -> io::Result<()>;

/// Visits every valid batch header to the end of the reader's range, wherever it is. Answers
/// whether all bytes are zero.
pub(crate) fn search_batches(
    blocks: &mut BlockReader,
    segment_id: u64,
    offset: u64,
    visit: Visit<'_>,
) -> io::Result<bool> {
    let mut blank = true;
    let mut at = offset;
    loop {
        let chunk = blocks.bytes(at, SEARCH_CHUNK_BYTES)?;
        if chunk.is_empty() {
            return Ok(blank);
        }
        if chunk.iter().any(|byte| *byte != 0) {
            blank = false;
            search_chunk(blocks, segment_id, at, &chunk, visit)?;
        }
        at += chunk.len() as u64;
    }
}

const SEARCH_CHUNK_BYTES: usize = 64 << 10;

fn search_chunk(
    blocks: &mut BlockReader,
    segment_id: u64,
    at: u64,
    chunk: &[u8],
    visit: Visit<'_>,
) -> io::Result<()> {
    for (i, word) in chunk.chunks(crate::format::record::ALIGNMENT).enumerate() {
        if !BatchHeader::may_start(word) {
            continue;
        }
        let offset = at + (i * crate::format::record::ALIGNMENT) as u64;
        let bytes = blocks.bytes(offset, BATCH_HEADER_BYTES)?;
        if let Ok(header) = BatchHeader::decode(&bytes, Place { segment_id, offset }) {
            visit(blocks, offset, header)?;
        }
    }
    Ok(())
}
