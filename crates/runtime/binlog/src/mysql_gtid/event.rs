//! Events that carry one identifier of MySQL.
//!
//! ```text
//! event without a tag:  flags u8 | uuid 16 bytes | number i64 | ...
//! event with a tag:     1 | bytes | fields | id, value | id, value ...    all are packed numbers
//! its fields:     0 flags | 1 uuid: 16 numbers | 2 number, above its sign | 3 bytes, then the tag
//! packed number:  a one for each byte after the first, a zero, the value, from the lower end on
//! ```
//! Fields of an event after the name are for MySQL's replicas.

use super::{MysqlGtid, NUMBER_MAX, TAG_BYTES_MAX, Tag, UUID_BYTES, Uuid};
use crate::event::{EventError, EventType, Fields};

pub const MYSQL_GTID: EventType = EventType(33);
pub const TAGGED_GTID: EventType = EventType(42);
/// The form of the event with a tag.
const FORM: u64 = 1;
/// Bytes of the largest number: all bits of its first one say how many follow.
const LONGEST: usize = 9;

pub fn parse_mysql_gtid(event_type: EventType, body: &[u8]) -> Result<MysqlGtid, EventError> {
    let mut fields = Fields::of(event_type, body);
    let (uuid, tag, number) = if event_type == TAGGED_GTID {
        tagged(&mut fields)?
    } else {
        fields.u8()?;
        let mut uuid = [0; UUID_BYTES];
        uuid.copy_from_slice(fields.bytes(UUID_BYTES)?);
        (uuid, Tag::default(), fields.u64()?)
    };
    if !(1..=NUMBER_MAX).contains(&number) {
        return Err(fields.malformed("the number of its transaction cannot be"));
    }
    Ok(MysqlGtid {
        uuid: Uuid(uuid),
        tag,
        number,
    })
}

fn tagged(fields: &mut Fields<'_>) -> Result<([u8; UUID_BYTES], Tag, u64), EventError> {
    if packed(fields)? != FORM {
        return Err(fields.malformed("it has another form than 1"));
    }
    let _bytes = packed(fields)?;
    let _fields = packed(fields)?;
    field(fields, 0)?;
    let _flags = packed(fields)?;
    field(fields, 1)?;
    let mut uuid = [0; UUID_BYTES];
    for byte in &mut uuid {
        let value = u8::try_from(packed(fields)?);
        *byte = value.map_err(|_| fields.malformed("a byte of its UUID is none"))?;
    }
    field(fields, 2)?;
    // A negative number has the lowest bit, and is none of a transaction.
    let signed = packed(fields)?;
    let number = if signed & 1 == 0 { signed >> 1 } else { 0 };
    field(fields, 3)?;
    let length = usize::try_from(packed(fields)?).unwrap_or(usize::MAX);
    let text = fields.bytes(length.min(TAG_BYTES_MAX + 1))?;
    let tag = Tag::of(text).ok_or_else(|| fields.malformed("its tag is none"))?;
    Ok((uuid, tag, number))
}

fn field(fields: &mut Fields<'_>, id: u64) -> Result<(), EventError> {
    match packed(fields)? {
        found if found == id => Ok(()),
        _ => Err(fields.malformed("its fields stand in another order")),
    }
}

fn packed(fields: &mut Fields<'_>) -> Result<u64, EventError> {
    let first = fields.u8()?;
    let more = first.trailing_ones() as usize;
    let mut bytes = [0; 16];
    if let Some(place) = bytes.first_mut() {
        *place = first;
    }
    if let Some(place) = bytes.get_mut(1..=more) {
        place.copy_from_slice(fields.bytes(more)?);
    }
    // The ones, and the zero after them unless they fill the first byte.
    let marks = (more + 1).min(LONGEST - 1);
    Ok((u128::from_le_bytes(bytes) >> marks) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bodies of such events of MySQL 9.7.4.
    const PLAIN: &[u8] = b"\x01\x21\x2e\x95\x8d\xe9\xbe\x11\xf1\xa3\x88\x3a\xeb\xeb\xd6\x72\xb5\
        \x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0";
    const TAGGED: &[u8] = b"\x02\x7e\0\0\0\x02\x42\x5c\x55\x02\x35\x02\xa5\x03\xf9\x02\x22\xc5\x03\
        \x8d\x02\x21\x02\x74\xad\x03\xad\x03\x59\x03\xe4\xd5\x02\x04\x08\x06\x0corders\x08\x1c\
        \x0a\x24\x0c\x7f\xd8\x49\xca\x35\x31\x61\x06\x10\x59\x04\x12\x83\x12\x0b";

    #[test]
    fn both_forms_are_read() {
        let gtid = parse_mysql_gtid(MYSQL_GTID, PLAIN).unwrap();
        assert_eq!(gtid.to_string(), "212e958d-e9be-11f1-a388-3aebebd672b5:2");
        let gtid = parse_mysql_gtid(TAGGED_GTID, TAGGED).unwrap();
        assert_eq!(
            gtid.to_string(),
            "212e958d-e9be-11f1-a388-3aebebd672b5:orders:2"
        );
        for cut in 0..42 {
            assert!(parse_mysql_gtid(TAGGED_GTID, &TAGGED[..cut]).is_err());
        }
    }

    #[test]
    fn numbers_of_all_lengths_are_read() {
        let read = |bytes: &[u8]| packed(&mut Fields::of(TAGGED_GTID, bytes)).ok();
        assert_eq!(read(&[0xfe]), Some(127));
        assert_eq!(read(&[0xd5, 2]), Some(0xb5));
        assert_eq!(read(&[0xff; 9]), Some(u64::MAX));
        assert_eq!(read(&[0x7f, 0, 0, 0, 0, 0, 0, 1]), Some(1 << 48));
        assert_eq!(read(&[1]), None);
    }

    proptest! {
        #[test]
        fn made_up_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse_mysql_gtid(MYSQL_GTID, &bytes);
            let _ = parse_mysql_gtid(TAGGED_GTID, &bytes);
        }
    }
}
