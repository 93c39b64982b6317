//! The beginning that all events with rows have in common.
//!
//! ```text
//! table u48 | flags u16 | columns and rows
//! ```

use crate::event::EventError;
use crate::fields::Fields;
use crate::header::EventType;

/// The event is the last one of its statement.
pub const STATEMENT_END: u16 = 1;

/// Which table an event with rows is about.
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
    /// The bytes are none.
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
