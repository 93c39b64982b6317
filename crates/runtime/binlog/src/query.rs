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
    /// Duration of the statement, in seconds.
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
    /// If the bytes are not the body of such an event.
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

/// Bytes before the error code.
const ERROR_AT: usize = 4 + 4 + 1;

/// The body of the event with another error code: what a reader is to expect of the statement.
///
/// # Errors
/// If the bytes are not the body of such an event.
pub fn with_error(body: &[u8], code: u16) -> Result<Vec<u8>, EventError> {
    Query::parse(body)?;
    let mut out = body.to_vec();
    for (byte, new) in out.iter_mut().skip(ERROR_AT).zip(code.to_le_bytes()) {
        *byte = new;
    }
    Ok(out)
}

/// Bytes before the status variables.
const STATUS_AT: usize = ERROR_AT + 2 + 2;

/// The body of the event with other status variables.
///
/// # Errors
/// If the bytes are not the body of such an event, or the variables are longer than they can be.
pub fn with_status(body: &[u8], status: &[u8]) -> Result<Vec<u8>, EventError> {
    let old = Query::parse(body)?.status.len();
    let length = u16::try_from(status.len()).map_err(|_| EventError::Malformed {
        event_type: EventType::QUERY,
        why: "its status variables are too long",
    })?;
    let before = body.get(..STATUS_AT - 2).unwrap_or_default();
    let after = body.get(STATUS_AT + old..).unwrap_or_default();
    Ok([before, &length.to_le_bytes(), status, after].concat())
}

/// The body of the event with another statement.
///
/// # Errors
/// If the bytes are not the body of such an event.
pub fn with_statement(body: &[u8], statement: &[u8]) -> Result<Vec<u8>, EventError> {
    let before = body.len() - Query::parse(body)?.statement.len();
    Ok([body.get(..before).unwrap_or_default(), statement].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_status_and_statement_are_replaced_and_nothing_else() {
        let mut body = vec![0; 8];
        body.extend_from_slice(&[2, 0, 0, 3, 0, 1, 2, 3, b'd', b'b', 0]);
        body.extend_from_slice(b"DROP TABLE t");
        let failed = with_error(&body, 1051).unwrap();
        let other = with_statement(&failed, b"SELECT 1").unwrap();
        let status = with_status(&body, &[9; 5]).unwrap();
        let read = Query::parse(&status).unwrap();
        assert_eq!((read.status, read.schema), (&[9; 5][..], &b"db"[..]));
        assert_eq!(read.statement, b"DROP TABLE t");
        assert!(with_status(&body, &[0; 1 << 16]).is_err());
        let read = Query::parse(&other).unwrap();
        assert_eq!((read.error_code, read.statement), (1051, &b"SELECT 1"[..]));
        assert_eq!((read.schema, read.status), (&b"db"[..], &[1, 2, 3][..]));
        assert_eq!(Query::parse(&failed).unwrap().statement, b"DROP TABLE t");
        assert!(with_error(&body[..5], 1).is_err() && with_statement(b"", b"x").is_err());
    }
}
