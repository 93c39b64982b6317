//! The beginning that all events with rows have in common.
//!
//! ```text
//! table u48 | flags u16 | [extra: its size u16, itself counted, ..] | columns: how many, packed |
//! bits of the columns that the rows have | [of an update: those of the rows after it] | rows
//! ```
//!
//! The extra data are in the form of MySQL 5.6 only. Rows may be compressed, what is before them is
//! not.

use crate::event::EventError;
use crate::fields::Fields;
use crate::header::EventType;

/// The event is the last one of its statement.
pub const STATEMENT_END: u16 = 1;
/// Bytes of the size of extra data, which it counts itself.
const EXTRA_SIZE_BYTES: u16 = 2;
/// A packed number up to here is one byte; this byte says that two follow.
const PACKED_MAX: u8 = 250;
const PACKED_TWO: u8 = 252;

/// Table and flags of an event with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsHead {
    /// The number that a table map has given it.
    pub table_id: u64,
    /// Bits such as [`STATEMENT_END`].
    pub flags: u16,
}

impl RowsHead {
    /// Reads the beginning of the body of an event of this type.
    ///
    /// # Errors
    /// If the bytes are not the body of an event with rows.
    pub fn parse(event_type: EventType, body: &[u8]) -> Result<RowsHead, EventError> {
        let mut fields = Fields::of(event_type, body);
        Ok(RowsHead {
            table_id: fields.u48()?,
            flags: fields.u16()?,
        })
    }

    /// Whether its statement ends with it.
    pub fn ends_statement(self) -> bool {
        self.flags & STATEMENT_END != 0
    }
}

/// Whether the rows in the body of an event of this type have all columns of their table.
///
/// # Errors
/// If the bytes are not the body of an event with rows.
pub fn have_all_columns(event_type: EventType, body: &[u8]) -> Result<bool, EventError> {
    let mut fields = Fields::of(event_type, body);
    fields.u48()?;
    fields.u16()?;
    if event_type.has_extra_data() {
        let bytes = fields.u16()?;
        let Some(extra) = bytes.checked_sub(EXTRA_SIZE_BYTES) else {
            return Err(fields.malformed("its extra data are smaller than their size"));
        };
        fields.bytes(extra.into())?;
    }
    let columns = match fields.u8()? {
        columns @ 0..=PACKED_MAX => u16::from(columns),
        PACKED_TWO => fields.u16()?,
        _ => return Err(fields.malformed("no table has so many columns")),
    };
    let images = if event_type.is_update() { 2 } else { 1 };
    for _ in 0..images {
        let bits = fields.bytes(columns.div_ceil(8).into())?;
        let has = |column: u16| {
            let byte = bits.get(usize::from(column / 8));
            byte.is_some_and(|byte| byte >> (column % 8) & 1 == 1)
        };
        if !(0..columns).all(has) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Beginnings of events that MariaDB 10.11 has written, of a table with six columns; after a
    /// statement under this `binlog_row_image`.
    #[test]
    fn columns_are_all_there_only_in_full_images() {
        const HEAD: [u8; 8] = [0x13, 0, 0, 0, 0, 0, 1, 0];
        for (event_type, columns, expected) in [
            (EventType::WRITE_ROWS_V1, &[6, 0x3f, 0xc0][..], true),
            (EventType::UPDATE_ROWS_V1, &[6, 0x3f, 0x3f, 0xc0], true),
            // MINIMAL
            (EventType::WRITE_ROWS_V1, &[6, 0x17, 0xf0], false),
            (EventType::UPDATE_ROWS_V1, &[6, 0x01, 0x12, 0xfe], false),
            (EventType::DELETE_ROWS_V1, &[6, 0x01, 0xfe], false),
            // NOBLOB
            (EventType::UPDATE_ROWS_V1, &[6, 0x3b, 0x3b], false),
            // FULL_NODUP: what has not changed is in the image before only.
            (EventType::UPDATE_ROWS_V1, &[6, 0x3f, 0x02], false),
            // Compressed: an update, full; a row that was inserted, MINIMAL.
            (EventType(167), &[6, 0x3f, 0x3f, 0x82, 8], true),
            (EventType(166), &[6, 0x17, 0x82, 3], false),
            // The form of MySQL 5.6, with extra data.
            (EventType::WRITE_ROWS, &[2, 0, 6, 0x3f], true),
            (EventType::UPDATE_ROWS, &[4, 0, 9, 9, 6, 0x3f, 0x3e], false),
        ] {
            let body = [&HEAD, columns].concat();
            let found = have_all_columns(event_type, &body);
            assert_eq!(found, Ok(expected), "{event_type:?} {columns:x?}");
        }
    }

    #[test]
    fn all_columns_of_a_wide_table_are_looked_at() {
        let mut body = vec![1, 0, 0, 0, 0, 0, 1, 0, PACKED_TWO, 0x2c, 1];
        body.extend([0xff; 38]);
        let event_type = EventType::WRITE_ROWS_V1;
        assert_eq!(have_all_columns(event_type, &body), Ok(true));
        // Column 299 of 300.
        *body.last_mut().unwrap() = 0b0111;
        assert_eq!(have_all_columns(event_type, &body), Ok(false));
    }

    proptest! {
        #[test]
        fn made_up_bodies_never_panic(
            number in any::<u8>(),
            body in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let _ = have_all_columns(EventType(number), &body);
        }
    }
}
