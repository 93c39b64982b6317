//! The header of a segment file, in its first page. A segment gets its name only after its header
//! is durable. So a file that bears a segment's name and has no valid header is damaged, never
//! torn. A segment is made ahead of need, when it is not yet known where the one before it ends.
//! Until then its header is *open*. The write of the first batch completes it: header and batch are
//! one write, and the used bytes of a header are in one sector, so it is found open or complete. A
//! segment whose header is open was not used, or nothing of it was durable.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use synod_consensus::{EntryId, GroupId, HardState, MemberId, Seqno};

use crate::format::codec::{Fields, PutFields};
use crate::format::record::Mismatch;
use crate::format::version::{LogFormat, NEXT_MARK};

/// Room for the header; the stream starts here, in another page.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 4096;

const MAGIC: &[u8; 8] = b"SYNODSEG";
/// Magic, version, checksum, then these fields.
const FIELDS_BYTES: usize = 144;
pub(crate) const USED_BYTES: usize = 16 + FIELDS_BYTES;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) format: LogFormat,
    /// Number of the segment, from 1, increasing by one. Also in the file's name.
    pub(crate) number: u64,
    /// Random; part of every checksum in the segment.
    pub(crate) id: u64,
    pub(crate) size: u64,
    pub(crate) member: MemberId,
    /// The member's group when the segment was made. [`GroupId::NONE`]: none yet.
    pub(crate) group: GroupId,
    /// The segment before; `None` for the first of a log.
    pub(crate) predecessor: Option<Predecessor>,
    /// Last entry of the log when the segment was made.
    pub(crate) last: EntryId,
    /// Seqno at that entry; undefined if a repair could not know it.
    pub(crate) seqno: Seqno,
    /// Vote in force when the segment was made: votes in purged segments must not be lost.
    pub(crate) vote: HardState,
    pub(crate) first_batch: u64,
    /// Creation time, in milliseconds since 1970: all entries of the predecessor are older.
    pub(crate) created_ms: u64,
    /// No batch has completed the header: the predecessor's end and all fields from `last` on are
    /// zero.
    pub(crate) open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    pub(crate) number: u64,
    pub(crate) id: u64,
    pub(crate) end: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Version(u32),
    Mismatch(Mismatch),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::with_capacity(FIELDS_BYTES);
        fields.put_u64(self.number);
        fields.put_u64(self.id);
        fields.put_u64(self.size);
        fields.put_u64(self.member.0);
        fields.extend_from_slice(&self.group.0);
        let predecessor = self.predecessor.unwrap_or(Predecessor {
            number: 0,
            id: 0,
            end: 0,
        });
        fields.put_u64(predecessor.number);
        fields.put_u64(predecessor.id);
        fields.put_u64(predecessor.end);
        fields.put_id(self.last);
        fields.put_i64(self.seqno.0);
        fields.put_vote(self.vote);
        fields.put_u64(self.first_batch);
        fields.put_u64(self.created_ms);
        fields.push(u8::from(self.open));
        if self.format.has_next_mark() {
            fields.extend_from_slice(NEXT_MARK);
        }
        fields.resize(FIELDS_BYTES, 0);
        let mut out = MAGIC.to_vec();
        out.put_u32(self.format.number());
        out.put_u32(self.format.checksum(&fields));
        out.extend_from_slice(&fields);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderError> {
        let mismatch =
            |found: &str| HeaderError::Mismatch(Mismatch::new("a segment header", found));
        let bytes = bytes
            .get(..USED_BYTES)
            .ok_or_else(|| mismatch("a shorter file"))?;
        let mut fields = Fields::new(bytes);
        if fields.bytes(8) != Some(MAGIC) {
            return Err(mismatch("other bytes"));
        }
        let version = fields.u32().ok_or_else(|| mismatch("a shorter file"))?;
        let format = LogFormat::read(version).ok_or(HeaderError::Version(version))?;
        let crc = fields.u32().ok_or_else(|| mismatch("a shorter file"))?;
        let found = format.checksum(&bytes[16..]);
        if found != crc {
            let mismatch =
                Mismatch::new(format!("header checksum {crc:08x}"), format!("{found:08x}"));
            return Err(HeaderError::Mismatch(mismatch));
        }
        decode_fields(&mut fields, format).ok_or_else(|| mismatch("impossible fields"))
    }
}

fn decode_fields(fields: &mut Fields<'_>, format: LogFormat) -> Option<SegmentHeader> {
    let (number, id, size) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (member, group) = (MemberId(fields.u64()?), fields.group()?);
    let predecessor = Predecessor {
        number: fields.u64()?,
        id: fields.u64()?,
        end: fields.u64()?,
    };
    let header = SegmentHeader {
        format,
        number,
        id,
        size,
        member,
        group,
        predecessor: (predecessor.number != 0).then_some(predecessor),
        last: fields.held_id()?,
        seqno: fields.seqno()?,
        vote: fields.vote()?,
        first_batch: fields.counter()?,
        created_ms: fields.u64()?,
        open: match fields.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        },
    };
    let is_marked = !format.has_next_mark() || fields.bytes(NEXT_MARK.len())? == NEXT_MARK;
    is_marked.then_some(header)
}

/// Milliseconds since 1970; zero before.
pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{LogIndex, Term};

    fn header() -> SegmentHeader {
        SegmentHeader {
            format: LogFormat::default(),
            number: 2,
            id: 77,
            size: 65536,
            member: MemberId(5),
            group: GroupId([9; 16]),
            predecessor: Some(Predecessor {
                number: 1,
                id: 76,
                end: 60000,
            }),
            last: EntryId::new(Term(1), LogIndex(12)),
            seqno: Seqno(10),
            vote: HardState::new(Term(2), Some(MemberId(5))),
            first_batch: 30,
            created_ms: 1234,
            open: false,
        }
    }

    #[test]
    fn header_comes_back_and_every_flipped_bit_is_detected() {
        let mut bytes = header().encode();
        assert_eq!(bytes.len(), USED_BYTES);
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header()));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn numbers_that_no_batch_could_follow_are_refused() {
        let mut batch = header();
        batch.first_batch = u64::MAX;
        let mut index = header();
        index.last.index = LogIndex(u64::MAX);
        let mut seqno = header();
        seqno.seqno = Seqno(i64::MAX);
        for mismatch in [batch, index, seqno] {
            assert!(
                SegmentHeader::decode(&mismatch.encode()).is_err(),
                "{mismatch:?}"
            );
        }
    }
}
