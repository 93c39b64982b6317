//! Bytes of batches and records. The layout is in `docs/log-format.md`. A checksum covers the place
//! of the bytes (segment id and offset). So bytes that belong to another place (a reused block, a
//! misdirected write) never pass. An entry's payload is bound to its place through its own CRC32C,
//! which is part of the covered header.

use std::path::Path;

use bytes::Bytes;
use synod_consensus::{
    EntryHeader, EntryId, EntryKind, HardState, LogBase, LogIndex, MemberId, Origin, Seqno,
    SessionId, Term,
};

use crate::format::codec::{Fields, OtherVersion, PutFields, Unreadable, put_base, take_base};
use crate::{Entry, LogError, PAYLOAD_BYTES_MAX};

/// Bytes before every body: magic 4, checksum 4, type 1, kind 1, reserved 2, body length 4.
pub(crate) const PREFIX_BYTES: usize = 16;
pub(crate) const BATCH_BODY_BYTES: usize = 64;
pub(crate) const BATCH_HEADER_BYTES: usize = PREFIX_BYTES + BATCH_BODY_BYTES;
/// Fixed fields of an entry, before its payload.
pub(crate) const ENTRY_FIXED_BYTES: usize = 64;
/// Everything starts at a multiple of this.
pub(crate) const ALIGNMENT: usize = 8;
/// Largest body that is not an entry's (a base with its configuration).
pub(crate) const OTHER_BODY_BYTES_MAX: usize = 48 << 10;

const BATCH_MAGIC: u32 = u32::from_le_bytes(*b"SynB");
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"SynR");

const _: () = assert!(aligned(BATCH_HEADER_BYTES) == BATCH_HEADER_BYTES);
const _: () =
    assert!(aligned(PREFIX_BYTES + ENTRY_FIXED_BYTES) == PREFIX_BYTES + ENTRY_FIXED_BYTES);
// The fields of a base beside its configuration take 36 bytes.
const _: () = assert!(synod_consensus::CONFIG_BYTES_MAX + 36 <= OTHER_BODY_BYTES_MAX);
const _: () = assert!(OTHER_BODY_BYTES_MAX + 1024 < crate::options::SEGMENT_BYTES_MIN as usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment_id: u64,
    /// Bytes from the start of the file.
    pub(crate) offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    /// Grows by one from batch to batch of a log.
    pub(crate) number: u64,
    /// Everything in this segment before this offset was durable when the batch was written.
    pub(crate) floor: u64,
    pub(crate) records_bytes: u64,
    pub(crate) records: u32,
    pub(crate) after: Promises,
}

/// Promises of a log's member at a position of the stream. Every batch header and segment header
/// repeats them, so that they are known even if records are damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promises {
    pub(crate) vote: HardState,
    pub(crate) last: EntryId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Entry(Entry),
    Truncate(LogIndex),
    Vote(HardState),
    /// All entries are removed; the log starts again at this base.
    Reset(LogBase),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) expected: String,
    pub(crate) found: String,
    /// The bytes are good, and of a version that this program does not read.
    pub(crate) version: Option<OtherVersion>,
}

impl Mismatch {
    pub(crate) fn new(expected: impl Into<String>, found: impl Into<String>) -> Mismatch {
        Mismatch {
            expected: expected.into(),
            found: found.into(),
            version: None,
        }
    }

    pub(crate) fn of_version(other: OtherVersion) -> Mismatch {
        Mismatch {
            expected: format!("a known version of the {}", other.what),
            found: other.found.to_string(),
            version: Some(other),
        }
    }

    /// `index` is the last good one before the mismatch.
    pub(crate) fn at(self, path: &Path, offset: u64, index: Option<LogIndex>) -> LogError {
        if let Some(other) = self.version {
            return other.in_file(path);
        }
        LogError::Damaged {
            path: path.to_owned(),
            offset,
            index,
            expected: self.expected,
            found: self.found,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum RecordType {
    Entry = 1,
    Truncate = 2,
    Vote = 3,
    Reset = 4,
    Batch = 5,
}

impl RecordType {
    fn from_code(code: u8) -> Option<RecordType> {
        Some(match code {
            1 => RecordType::Entry,
            2 => RecordType::Truncate,
            3 => RecordType::Vote,
            4 => RecordType::Reset,
            5 => RecordType::Batch,
            _ => return None,
        })
    }
}

pub(crate) const fn aligned(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

/// Bytes of an entry's record with this payload, padding included.
pub(crate) fn entry_record_bytes(payload_len: usize) -> usize {
    aligned(PREFIX_BYTES + ENTRY_FIXED_BYTES + payload_len)
}

impl Record {
    /// Size on disk, padding included. `None` for a base that does not fit its limit.
    pub(crate) fn encoded_bytes(&self) -> Option<usize> {
        Some(match self {
            Record::Entry(entry) => entry_record_bytes(entry.payload.len()),
            Record::Truncate(_) => PREFIX_BYTES + 8,
            Record::Vote(_) => PREFIX_BYTES + 16,
            Record::Reset(base) => {
                let mut body = Vec::new();
                put_base(&mut body, base)?;
                if body.len() > OTHER_BODY_BYTES_MAX {
                    return None;
                }
                aligned(PREFIX_BYTES + body.len())
            }
        })
    }

    /// Appends the record; `place` is where its first byte will be.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, place: Place) {
        let start = out.len();
        match self {
            Record::Entry(entry) => put_entry(out, entry),
            Record::Truncate(from) => {
                put_prefix(out, RECORD_MAGIC, RecordType::Truncate, 0, 8);
                out.put_u64(from.0);
            }
            Record::Vote(vote) => {
                put_prefix(out, RECORD_MAGIC, RecordType::Vote, 0, 16);
                out.put_vote(*vote);
            }
            Record::Reset(base) => {
                put_prefix(out, RECORD_MAGIC, RecordType::Reset, 0, 0);
                // The caller asked `encoded_bytes` first, so the base fits.
                let fits = put_base(out, base);
                debug_assert!(fits.is_some());
                let len = (out.len() - start - PREFIX_BYTES) as u32; // at most 48 KiB
                out[start + 12..start + 16].copy_from_slice(&len.to_le_bytes());
            }
        }
        let covered = match self {
            Record::Entry(_) => start + PREFIX_BYTES + ENTRY_FIXED_BYTES,
            Record::Truncate(_) | Record::Vote(_) | Record::Reset(_) => out.len(),
        };
        seal(&mut out[start..covered], place);
        if let Record::Entry(entry) = self {
            out.extend_from_slice(&entry.payload);
        }
        out.resize(start + aligned(out.len() - start), 0);
    }
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    let h = &entry.header;
    let body = ENTRY_FIXED_BYTES as u32 + h.payload_len; // at most 64 MiB plus the fixed fields
    put_prefix(out, RECORD_MAGIC, RecordType::Entry, h.kind as u8, body); // repr(u8)
    out.put_u64(h.term.0);
    out.put_u64(h.index.0);
    out.put_i64(h.seqno.0);
    out.put_i64(h.depends_on.0);
    out.put_u64(h.origin.member.0);
    out.put_u64(h.origin.session.0);
    out.put_u64(h.origin.number);
    out.put_u32(h.payload_len);
    out.put_u32(h.payload_crc);
}

fn put_prefix(out: &mut Vec<u8>, magic: u32, record_type: RecordType, kind: u8, body: u32) {
    out.put_u32(magic);
    out.put_u32(0); // checksum, by `seal`
    out.push(record_type as u8); // repr(u8)
    out.push(kind);
    out.put_u16(0);
    out.put_u32(body);
}

/// Checksum over the place and everything after the checksum field.
fn checksum(covered: &[u8], place: Place) -> u32 {
    let mut position = [0; 16];
    position[..8].copy_from_slice(&place.segment_id.to_le_bytes());
    position[8..].copy_from_slice(&place.offset.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&position), &covered[8..])
}

pub(crate) fn seal(covered: &mut [u8], place: Place) {
    let crc = checksum(covered, place);
    covered[4..8].copy_from_slice(&crc.to_le_bytes());
}

impl BatchHeader {
    pub(crate) fn encode(&self, place: Place) -> Vec<u8> {
        let mut out = Vec::with_capacity(BATCH_HEADER_BYTES);
        put_prefix(
            &mut out,
            BATCH_MAGIC,
            RecordType::Batch,
            0,
            BATCH_BODY_BYTES as u32,
        );
        out.put_u64(self.number);
        out.put_u64(self.floor);
        out.put_u64(self.records_bytes);
        out.put_u32(self.records);
        out.put_u32(0);
        out.put_vote(self.after.vote);
        out.put_id(self.after.last);
        seal(&mut out, place);
        out
    }

    /// Reads a batch header; at least [`BATCH_HEADER_BYTES`] are needed.
    pub(crate) fn decode(bytes: &[u8], place: Place) -> Result<BatchHeader, Mismatch> {
        let prefix = Prefix::decode(bytes, BATCH_MAGIC, "a batch header")?;
        let covered = bytes
            .get(..BATCH_HEADER_BYTES)
            .filter(|_| prefix.record_type == RecordType::Batch && prefix.body == BATCH_BODY_BYTES)
            .ok_or_else(|| Mismatch::new("a batch header", "another type or length"))?;
        prefix.check(covered, place)?;
        let mut fields = Fields::new(&covered[PREFIX_BYTES..]);
        let header = (|| {
            let (number, floor, records_bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
            let (records, _reserved) = (fields.u32()?, fields.u32()?);
            let (vote, last) = (fields.vote()?, fields.held_id()?);
            Some(BatchHeader {
                number,
                floor,
                records_bytes,
                records,
                after: Promises { vote, last },
            })
        })();
        header.ok_or_else(|| Mismatch::new("a batch header", "too few bytes"))
    }

    /// Whether the bytes could start a batch header; cheap filter for searching.
    pub(crate) fn may_start(bytes: &[u8]) -> bool {
        bytes.get(..4) == Some(&BATCH_MAGIC.to_le_bytes())
    }
}

struct Prefix {
    crc: u32,
    record_type: RecordType,
    kind: u8,
    body: usize,
}

impl Prefix {
    fn decode(bytes: &[u8], magic: u32, wanted: &str) -> Result<Prefix, Mismatch> {
        let mut fields = Fields::new(bytes);
        let short = || Mismatch::new(wanted, "the end of the data");
        let found_magic = fields.u32().ok_or_else(short)?;
        if found_magic != magic {
            return Err(Mismatch::new(wanted, format!("bytes {found_magic:08x}")));
        }
        let crc = fields.u32().ok_or_else(short)?;
        let code = fields.u8().ok_or_else(short)?;
        let kind = fields.u8().ok_or_else(short)?;
        let reserved = fields.u16().ok_or_else(short)?;
        let body = fields.u32().ok_or_else(short)? as usize; // usize has at least 32 bits here
        let record_type = RecordType::from_code(code)
            .ok_or_else(|| Mismatch::new("a record type from 1 to 5", code.to_string()))?;
        if reserved != 0 {
            return Err(Mismatch::new(
                "zero in the reserved field",
                reserved.to_string(),
            ));
        }
        Ok(Prefix {
            crc,
            record_type,
            kind,
            body,
        })
    }

    fn check(&self, covered: &[u8], place: Place) -> Result<(), Mismatch> {
        let crc = checksum(covered, place);
        if crc == self.crc {
            return Ok(());
        }
        Err(Mismatch::new(
            format!("checksum {:08x}", self.crc),
            format!("{crc:08x}"),
        ))
    }
}

/// A record's size and, for entries, its verified header: enough to walk over it.
pub(crate) struct Outline {
    /// Bytes on disk, padding included.
    pub(crate) bytes: usize,
    /// Length of the body in bytes, without padding.
    body: usize,
    record_type: RecordType,
    pub(crate) entry: Option<EntryHeader>,
}

impl Outline {
    /// Reads the checked part of a record: at least [`PREFIX_BYTES`] + [`ENTRY_FIXED_BYTES`] bytes
    /// of it, or everything up to the end of the data, must be given. `Ok(None)`: more bytes
    /// needed.
    pub(crate) fn decode(bytes: &[u8], place: Place) -> Result<Option<Outline>, Mismatch> {
        let prefix = Prefix::decode(bytes, RECORD_MAGIC, "a record")?;
        let (covered_len, body_max) = match prefix.record_type {
            RecordType::Entry => (
                ENTRY_FIXED_BYTES,
                ENTRY_FIXED_BYTES + PAYLOAD_BYTES_MAX as usize,
            ),
            RecordType::Truncate | RecordType::Vote | RecordType::Reset => {
                (prefix.body, OTHER_BODY_BYTES_MAX)
            }
            RecordType::Batch => return Err(Mismatch::new("a record", "a batch header")),
        };
        if prefix.body > body_max || prefix.body < covered_len {
            return Err(Mismatch::new(
                "a record of possible length",
                format!("length {}", prefix.body),
            ));
        }
        let Some(covered) = bytes.get(..PREFIX_BYTES + covered_len) else {
            return Ok(None);
        };
        prefix.check(covered, place)?;
        let entry = match prefix.record_type {
            RecordType::Entry => Some(decode_entry_header(&prefix, &covered[PREFIX_BYTES..])?),
            RecordType::Truncate | RecordType::Vote | RecordType::Reset | RecordType::Batch => None,
        };
        Ok(Some(Outline {
            bytes: aligned(PREFIX_BYTES + prefix.body),
            body: prefix.body,
            record_type: prefix.record_type,
            entry,
        }))
    }

    /// Reads the rest; all `self.bytes` bytes of the record must be given. Checks the payload.
    pub(crate) fn complete(&self, bytes: &Bytes) -> Result<Record, Mismatch> {
        let range = PREFIX_BYTES..PREFIX_BYTES + self.body;
        if bytes.len() < range.end {
            return Err(Mismatch::new(
                format!("a record of {} bytes", self.bytes),
                "the end of the data",
            ));
        }
        if let Some(header) = self.entry {
            let payload = bytes.slice(PREFIX_BYTES + ENTRY_FIXED_BYTES..range.end);
            return complete_entry(header, payload);
        }
        let mut fields = Fields::new(&bytes[range]);
        let record = match self.record_type {
            RecordType::Truncate => fields.index().map(Record::Truncate),
            RecordType::Vote => fields.vote().map(Record::Vote),
            RecordType::Reset => match take_base(&mut fields) {
                Ok(base) => Some(Record::Reset(base)),
                Err(Unreadable::Version(other)) => return Err(Mismatch::of_version(other)),
                Err(Unreadable::Fields) => None,
            },
            RecordType::Entry | RecordType::Batch => None,
        };
        record
            .filter(|_| fields.is_empty())
            .ok_or_else(|| Mismatch::new("a readable record body", "fields that do not fit"))
    }
}

fn complete_entry(header: EntryHeader, payload: Bytes) -> Result<Record, Mismatch> {
    let crc = crc32c::crc32c(&payload);
    let matches = crc == header.payload_crc;
    if !synod_planted::planted!(ServeDamage, matches, else true) {
        return Err(Mismatch::new(
            format!(
                "payload checksum {:08x} at index {}",
                header.payload_crc, header.index
            ),
            format!("{crc:08x}"),
        ));
    }
    Ok(Record::Entry(Entry { header, payload }))
}

fn decode_entry_header(prefix: &Prefix, fixed: &[u8]) -> Result<EntryHeader, Mismatch> {
    let kind = EntryKind::from_code(prefix.kind)
        .ok_or_else(|| Mismatch::new("a known entry kind", prefix.kind.to_string()))?;
    let mut fields = Fields::new(fixed);
    let header = (|| {
        Some(EntryHeader {
            term: Term(fields.u64()?),
            index: fields.index()?,
            seqno: fields.seqno()?,
            depends_on: Seqno(fields.i64()?),
            kind,
            origin: Origin::new(
                MemberId(fields.u64()?),
                SessionId(fields.u64()?),
                fields.u64()?,
            ),
            payload_len: fields.u32()?,
            payload_crc: fields.u32()?,
        })
    })();
    header
        .filter(|h| h.payload_len as usize + ENTRY_FIXED_BYTES == prefix.body)
        .ok_or_else(|| Mismatch::new("an entry whose fields fit", "impossible fields or lengths"))
}

#[cfg(test)]
mod tests;
