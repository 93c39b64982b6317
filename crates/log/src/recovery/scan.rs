//! Reading a segment from front to back.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::files::{File, read_what_can_be};
use crate::format::record::{
    BATCH_HEADER_BYTES, Bad, BatchHeader, ENTRY_FIXED_BYTES, Outline, PREFIX_BYTES, Place, Record,
};

/// Gives slices of a file, reading a block at a time ahead.
pub(crate) struct BlockReader {
    file: Arc<dyn File>,
    block: Bytes,
    block_at: u64,
    block_bytes: usize,
    /// Nothing at or after this offset is given.
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

    /// Bytes from `offset`: `len` of them, or fewer at the end. Earlier slices keep their block alive.
    pub(crate) fn bytes(&mut self, offset: u64, len: usize) -> io::Result<Bytes> {
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
        Ok(self.block.slice(start..(start + len).min(self.block.len())))
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
    /// Each with its offset.
    pub(crate) records: Vec<(u64, Record)>,
    /// Offset after the batch.
    pub(crate) end: u64,
}

/// Bytes that are not a batch, and where.
#[derive(Clone, Debug)]
pub(crate) struct BadAt {
    pub(crate) offset: u64,
    pub(crate) bad: Bad,
}

/// Reads and verifies the batch at `offset`.
pub(crate) fn read_batch(
    blocks: &mut BlockReader,
    segment_id: u64,
    offset: u64,
    expected_number: u64,
) -> io::Result<Result<Batch, BadAt>> {
    let bytes = blocks.bytes(offset, BATCH_HEADER_BYTES)?;
    let header = match BatchHeader::decode(&bytes, Place { segment_id, offset }) {
        Ok(header) => header,
        Err(bad) => return Ok(Err(BadAt { offset, bad })),
    };
    if header.number != expected_number {
        let found = header.number.to_string();
        let bad = Bad::new(format!("batch number {expected_number}"), found);
        return Ok(Err(BadAt { offset, bad }));
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
            Err(bad) => return Ok(Err(BadAt { offset: at, bad })),
        }
    }
    if at != end {
        let bad = Bad::new(
            format!("a batch that ends at {end}"),
            format!("records to {at}"),
        );
        return Ok(Err(BadAt { offset: at, bad }));
    }
    Ok(Ok(Batch {
        header,
        records,
        end,
    }))
}

/// Reads and verifies the record at `place`; answers its size on disk too.
fn read_record(blocks: &mut BlockReader, place: Place) -> io::Result<Result<(usize, Record), Bad>> {
    let outline = match read_outline(blocks, place)? {
        Ok(outline) => outline,
        Err(bad) => return Ok(Err(bad)),
    };
    let bytes = blocks.bytes(place.offset, outline.bytes)?;
    Ok(outline
        .complete(&bytes)
        .map(|record| (outline.bytes, record)))
}

/// Reads a record's checked part.
pub(crate) fn read_outline(
    blocks: &mut BlockReader,
    place: Place,
) -> io::Result<Result<Outline, Bad>> {
    let head = blocks.bytes(place.offset, PREFIX_BYTES + ENTRY_FIXED_BYTES)?;
    let longer = match Outline::decode(&head, place) {
        Ok(Some(outline)) => return Ok(Ok(outline)),
        Ok(None) => blocks.bytes(
            place.offset,
            PREFIX_BYTES + crate::format::record::OTHER_BODY_BYTES_MAX,
        )?,
        Err(bad) => return Ok(Err(bad)),
    };
    let outline = Outline::decode(&longer, place);
    Ok(outline.and_then(|found| found.ok_or_else(|| Bad::new("a record", "the end of the data"))))
}

/// What lies behind a bad place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Every byte is zero.
    pub(crate) blank: bool,
    /// Highest durable floor in a batch header there, or zero. Only a header's floor proves anything
    /// about the bad place; that a header or record is good does not.
    pub(crate) floor: u64,
}

/// Looks at everything from `offset` to the end of the reader's range.
pub(crate) fn look_behind(
    blocks: &mut BlockReader,
    segment_id: u64,
    offset: u64,
) -> io::Result<Behind> {
    let mut floor = 0;
    let blank = search_batches(blocks, segment_id, offset, &mut |_, _, header| {
        floor = floor.max(header.floor);
        Ok(())
    })?;
    Ok(Behind { blank, floor })
}

/// Called with the reader, the offset of a good batch header, and the header.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&mut BlockReader, u64, BatchHeader) -> io::Result<()>;

/// Finds every good batch header from `offset` to the end of the reader's range, wherever it is. Answers
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
