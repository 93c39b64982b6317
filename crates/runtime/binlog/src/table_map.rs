//! The event that gives a table its number for the row events that follow.
//!
//! ```text
//! table u48 | flags u16 | schema: length u8, name, zero u8 | table: the same | columns
//! ```

use crate::event::EventError;
use crate::fields::Fields;
use crate::header::EventType;

/// Table that a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMap<'a> {
    pub table_id: u64,
    /// Bits about the table.
    pub flags: u16,
    pub schema: &'a [u8],
    pub table: &'a [u8],
    /// Number and types of its columns, as they are in the event.
    pub columns: &'a [u8],
}

impl<'a> TableMap<'a> {
    /// Reads the body of the event.
    ///
    /// # Errors
    /// If the bytes are not the body of such an event.
    pub fn parse(body: &'a [u8]) -> Result<TableMap<'a>, EventError> {
        let mut fields = Fields::of(EventType::TABLE_MAP, body);
        Ok(TableMap {
            table_id: fields.u48()?,
            flags: fields.u16()?,
            schema: fields.name()?,
            table: fields.name()?,
            columns: fields.rest(),
        })
    }
}
