//! The event that holds a statement.
//!
//! ```text
//! thread u32 | exec_seconds u32 | schema_bytes u8 | error_code u16 | status_bytes u16
//!     | status variables | schema | zero u8 | statement
//! ```

use crate::event::EventError;
use crate::fields::Fields;
use crate::header::EventType;

/// A statement, with what it needs to mean the same elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// The connection's number at its server; keeps temporary tables apart.
    pub thread: u32,
    /// How long the statement took, in seconds.
    pub exec_seconds: u32,
    /// The error that it ended with where it began; zero: none.
    pub error_code: u16,
    /// Modes and character sets, one after the other, each with its code.
    pub status: &'a [u8],
    /// The default schema; empty: none.
    pub schema: &'a [u8],
    /// The text; compressed in a compressed event.
    pub statement: &'a [u8],
}

impl<'a> Query<'a> {
    /// Reads the body of the event.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn parse(body: &'a [u8]) -> Result<Query<'a>, EventError> {
        let mut fields = Fields::of(EventType::QUERY, body);
        let thread = fields.u32()?;
        let exec_seconds = fields.u32()?;
        let schema_bytes = usize::from(fields.u8()?);
        let error_code = fields.u16()?;
        let status_bytes = usize::from(fields.u16()?);
        let status = fields.bytes(status_bytes)?;
        let schema = fields.bytes(schema_bytes)?;
        fields.zero()?;
        Ok(Query {
            thread,
            exec_seconds,
            error_code,
            status,
            schema,
            statement: fields.rest(),
        })
    }
}
