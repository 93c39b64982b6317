//! The event that names the binlog that comes next, or the one that a reader gets now.
//!
//! ```text
//! position u64 | file
//! ```

use crate::event::EventError;
use crate::fields::Fields;
use crate::header::EventType;

/// Binlog and position at which a reader continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate<'a> {
    /// Position of the next event there.
    pub position: u64,
    /// Name of the binlog.
    pub file: &'a [u8],
}

impl<'a> Rotate<'a> {
    /// Reads the body of the event.
    ///
    /// # Errors
    /// If the bytes are not the body of such an event.
    pub fn parse(body: &'a [u8]) -> Result<Rotate<'a>, EventError> {
        let mut fields = Fields::of(EventType::ROTATE, body);
        Ok(Rotate {
            position: fields.u64()?,
            file: fields.rest(),
        })
    }

    /// The body of the event.
    pub fn body(&self) -> Vec<u8> {
        [&self.position.to_le_bytes()[..], self.file].concat()
    }
}
