//! The event that is sent while there is no other: a reader knows by it that the connection works.
//!
//! Its body is the name of the binlog, without an end. Its header has the position that the reader
//! has got to.

/// The body of the event.
pub fn body(file: &str) -> Vec<u8> {
    file.as_bytes().to_vec()
}
