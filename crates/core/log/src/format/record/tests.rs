//! Records and batches, whole, damaged and cut short.

use super::*;
use synod_consensus::{ConfigAt, EntryId};

const PLACE: Place = Place {
    segment_id: 0x1234_5678_9abc_def0,
    offset: 4096,
};

fn entry() -> Entry {
    let header = EntryHeader {
        origin: Origin::new(MemberId(1), SessionId(2), 3),
        depends_on: Seqno(4),
        ..EntryHeader::bare(Term(3), LogIndex(7), Seqno(5), EntryKind::Action)
    };
    Entry::new(header, Bytes::from_static(b"hello")).unwrap()
}

fn records() -> Vec<Record> {
    let vote = HardState::new(Term(9), Some(MemberId(4)));
    let base = LogBase {
        last: EntryId::new(Term(1), LogIndex(2)),
        seqno: Seqno(1),
        config: ConfigAt::default(),
    };
    vec![
        Record::Entry(entry()),
        Record::Truncate(LogIndex(6)),
        Record::Vote(vote),
        Record::Reset(base),
    ]
}

fn read(bytes: &[u8], place: Place) -> Result<Record, Mismatch> {
    let outline = Outline::decode(bytes, place)?.ok_or_else(|| Mismatch::new("all", "part"))?;
    outline.complete(&Bytes::copy_from_slice(bytes))
}

#[test]
fn records_come_back_as_written_and_as_long_as_announced() {
    for record in records() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes, PLACE);
        assert_eq!(Some(bytes.len()), record.encoded_bytes());
        assert_eq!(read(&bytes, PLACE), Ok(record));
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    for record in records() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes, PLACE);
        let body = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
        let used = PREFIX_BYTES + body as usize; // padding carries nothing
        for bit in 0..used * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bytes, PLACE).is_err(), "{record:?}, bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_good_record_at_another_place_is_refused() {
    for record in records() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes, PLACE);
        assert!(
            read(
                &bytes,
                Place {
                    offset: 4104,
                    ..PLACE
                }
            )
            .is_err()
        );
        assert!(
            read(
                &bytes,
                Place {
                    segment_id: 1,
                    ..PLACE
                }
            )
            .is_err()
        );
    }
}

#[test]
fn every_flipped_bit_of_a_batch_header_is_detected() {
    let header = BatchHeader {
        number: 1,
        floor: 4096,
        records_bytes: 80,
        records: 1,
        after: Promises {
            vote: HardState::new(Term(9), Some(MemberId(4))),
            last: entry().header.id(),
        },
    };
    let mut bytes = header.encode(PLACE);
    assert_eq!(bytes.len(), BATCH_HEADER_BYTES);
    assert_eq!(BatchHeader::decode(&bytes, PLACE), Ok(header));
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(BatchHeader::decode(&bytes, PLACE).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn positions_that_no_entry_could_follow_are_refused() {
    let sealed = |record: &Record| {
        let mut bytes = Vec::new();
        record.encode(&mut bytes, PLACE);
        read(&bytes, PLACE)
    };
    let entry_at = |index: u64, seqno: i64| {
        let mut entry = entry();
        (entry.header.index, entry.header.seqno) = (LogIndex(index), Seqno(seqno));
        Record::Entry(entry)
    };
    let base_at = |index: u64, seqno: i64| {
        let base = LogBase {
            last: EntryId::new(Term(1), LogIndex(index)),
            seqno: Seqno(seqno),
            config: ConfigAt::default(),
        };
        Record::Reset(base)
    };
    for good in [entry_at(1 << 61, 1 << 61), base_at(1 << 61, 1 << 61)] {
        assert_eq!(sealed(&good), Ok(good));
    }
    for mismatch in [
        entry_at(u64::MAX, 1),
        entry_at(1, i64::MAX),
        base_at(u64::MAX, 1),
        base_at(1, i64::MAX),
        Record::Truncate(LogIndex(u64::MAX)),
    ] {
        assert!(sealed(&mismatch).is_err(), "{mismatch:?}");
    }
}

#[test]
fn any_prefix_of_a_record_is_refused_without_a_panic() {
    for record in records() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes, PLACE);
        for len in 0..bytes.len() - ALIGNMENT {
            assert!(read(&bytes[..len], PLACE).is_err());
        }
    }
}
