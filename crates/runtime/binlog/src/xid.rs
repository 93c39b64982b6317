//! The event that commits a transaction. Its body is a number of eight bytes, which only the crash
//! recovery of the server that wrote it needs.

use crate::event::EventError;
use crate::fields::Fields;
use crate::header::EventType;

/// The body of the event.
pub fn body(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

/// Reads the body of the event.
///
/// # Errors
/// If the bytes are not the body of such an event.
pub fn parse(body: &[u8]) -> Result<u64, EventError> {
    Fields::of(EventType::XID, body).u64()
}
