//! Access for the fuzz targets in `testing/fuzz`: private decoders, each with what must hold for
//! all bytes, and functions that repair checksums, which would otherwise keep a fuzzer out. Behind
//! the feature `fuzzing`; not part of the interface.

use bytes::Bytes;

use crate::database_record::{CHECK, RECORD_BYTES, sealed};
use crate::format::control::{Control, ControlFile};
use crate::format::record::{
    BATCH_BODY_BYTES, BATCH_HEADER_BYTES, BatchHeader, ENTRY_FIXED_BYTES, Outline, PREFIX_BYTES,
    Place, Record, aligned, seal,
};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};

const RECORD_TYPE_ENTRY: u8 = 1;
const RECORD_TYPE_BATCH: u8 = 5;

pub fn check_record(bytes: &[u8], segment_id: u64, offset: u64) {
    let place = Place { segment_id, offset };
    let Some(record) = read_record(bytes, place) else {
        return;
    };
    let Some(len) = record.encoded_bytes() else {
        panic!("what was read is too large to be written: {record:?}");
    };
    let mut again = Vec::new();
    record.encode(&mut again, place);
    assert_eq!(again.len(), len);
    assert_eq!(read_record(&again, place), Some(record));
}

fn read_record(bytes: &[u8], place: Place) -> Option<Record> {
    let outline = Outline::decode(bytes, place).ok()??;
    outline.complete(&Bytes::copy_from_slice(bytes)).ok()
}

pub fn check_batch_header(bytes: &[u8], segment_id: u64, offset: u64) {
    let place = Place { segment_id, offset };
    if let Ok(header) = BatchHeader::decode(bytes, place) {
        assert_eq!(
            BatchHeader::decode(&header.encode(place), place),
            Ok(header)
        );
    }
}

pub fn check_segment_header(bytes: &[u8]) {
    if let Ok(header) = SegmentHeader::decode(bytes) {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
}

/// [`check_record`] for a control file, which has one encoding only.
pub fn check_control(bytes: &[u8]) {
    if let ControlFile::Valid(control) = Control::decode(bytes) {
        let Some(again) = control.encode() else {
            panic!("what was read cannot be written: {control:?}");
        };
        assert_eq!(again, bytes);
        assert_eq!(Control::decode(&again), ControlFile::Valid(control));
    }
}

pub fn seal_control(bytes: &mut [u8]) {
    if bytes.len() > 16 {
        seal_header(bytes);
    }
}

/// Makes the checksum right that is behind the version, and covers that and what follows.
fn seal_header(bytes: &mut [u8]) {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..12]), &bytes[16..]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// A database record of these lines, or of as many bytes of them as have room, with its checksum.
#[must_use]
pub fn seal_database_record(lines: &str) -> Vec<u8> {
    let room = RECORD_BYTES - CHECK.len() - "00000000\n".len();
    sealed(&lines[..lines.floor_char_boundary(room)]).to_vec()
}

pub fn seal_segment_header(bytes: &mut [u8]) {
    if bytes.len() >= 160 {
        seal_header(&mut bytes[..160]);
    }
}

/// Makes magic and checksums of a record or batch header right, its payload's too. Answers its
/// length on disk; `None` if it is incomplete.
pub fn seal_record(bytes: &mut [u8], segment_id: u64, offset: u64) -> Option<usize> {
    let prefix = bytes.get(..PREFIX_BYTES)?;
    let record_type = prefix[8];
    let body = u32::from_le_bytes(prefix[12..16].try_into().ok()?) as usize;
    let covered = match record_type {
        RECORD_TYPE_BATCH => BATCH_HEADER_BYTES,
        RECORD_TYPE_ENTRY => PREFIX_BYTES + ENTRY_FIXED_BYTES,
        _ => PREFIX_BYTES + body,
    };
    if record_type == RECORD_TYPE_ENTRY
        && let Some(payload) = bytes.get(covered..PREFIX_BYTES + body)
    {
        let crc = crc32c::crc32c(payload);
        bytes[covered - 4..covered].copy_from_slice(&crc.to_le_bytes());
    }
    let magic = match record_type {
        RECORD_TYPE_BATCH => b"SynB",
        _ => b"SynR",
    };
    bytes[..4].copy_from_slice(magic);
    seal(bytes.get_mut(..covered)?, Place { segment_id, offset });
    Some(aligned(PREFIX_BYTES + body))
}

/// Makes all checksums of a segment file right, as far as its lengths lead. With `count`, batch
/// headers are made to agree with the records after them, and numbered in order.
pub fn seal_segment(bytes: &mut [u8], count: bool) {
    if bytes.len() < SEGMENT_HEADER_BYTES as usize {
        return;
    }
    seal_segment_header(bytes);
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let (id, mut batch) = (number(24), number(128));
    let mut at = SEGMENT_HEADER_BYTES as usize;
    while has_record(bytes, at) {
        if count && bytes[at + 8] == RECORD_TYPE_BATCH && at + BATCH_HEADER_BYTES <= bytes.len() {
            count_records(bytes, at, batch);
            batch = batch.wrapping_add(1);
        }
        match seal_record(&mut bytes[at..], id, at as u64) {
            Some(len) => at += len,
            None => return,
        }
    }
}

fn has_record(bytes: &[u8], at: usize) -> bool {
    bytes
        .get(at..at + PREFIX_BYTES)
        .is_some_and(|prefix| prefix[8] != 0)
}

fn count_records(bytes: &mut [u8], batch_at: usize, number: u64) {
    let start = batch_at + BATCH_HEADER_BYTES;
    let (mut at, mut records) = (start, 0u32);
    while has_record(bytes, at) && bytes[at + 8] != RECORD_TYPE_BATCH {
        let body = u32::from_le_bytes(std::array::from_fn(|i| bytes[at + 12 + i])) as usize;
        at += aligned(PREFIX_BYTES + body);
        records += 1;
    }
    let body = batch_at + PREFIX_BYTES;
    bytes[batch_at + 12..body].copy_from_slice(&(BATCH_BODY_BYTES as u32).to_le_bytes());
    bytes[body..body + 8].copy_from_slice(&number.to_le_bytes());
    bytes[body + 16..body + 24].copy_from_slice(&((at - start) as u64).to_le_bytes());
    bytes[body + 24..body + 28].copy_from_slice(&records.to_le_bytes());
}
