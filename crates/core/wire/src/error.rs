//! Errors of messages, frames, streams and handshakes.

use std::io;

use synod_consensus::VersionRange;

use crate::region::RegionError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("message ends early: {needed} more bytes expected, {left} left")]
    Truncated { needed: usize, left: usize },
    #[error("{left} bytes too many at the end of the message")]
    TrailingBytes { left: usize },
    #[error("unknown {what} code {code}")]
    UnknownCode { what: &'static str, code: u8 },
    #[error("{what} of {len} bytes is longer than the {max} allowed")]
    TooLong {
        what: &'static str,
        len: usize,
        max: usize,
    },
    #[error("list of {count} {what} cannot be in {left} bytes")]
    ImpossibleCount {
        what: &'static str,
        count: u32,
        left: usize,
    },
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error("{what} is not valid UTF-8")]
    NotUtf8 { what: &'static str },
    #[error("{what} are not in ascending order")]
    NotAscending { what: &'static str },
    #[error("entry with index {found} where {expected} should be")]
    NotConsecutive {
        /// The index that follows from the entry before it.
        expected: u64,
        found: u64,
    },
    #[error("message with payloads is not an append")]
    NotAnAppend,
    #[error("{count} entries with payloads in a message without payloads")]
    PayloadsMissing { count: usize },
    #[error("protocol version {version} is not known here")]
    UnknownVersion { version: u16 },
    #[error("the peer does not speak Synod's protocol (it began with {found:02x?})")]
    NotSynod { found: [u8; 8] },
}

impl DecodeError {
    pub const fn unknown(what: &'static str, code: u8) -> DecodeError {
        DecodeError::UnknownCode { what, code }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("{what} of {len} bytes is longer than the {max} allowed")]
    TooLong {
        what: &'static str,
        len: usize,
        max: usize,
    },
    #[error("list of {len} {what} is longer than the {max} allowed")]
    TooMany {
        what: &'static str,
        len: usize,
        max: usize,
    },
    #[error("append with {entries} entries and {payloads} payloads, of other lengths or number")]
    PayloadMismatch { entries: usize, payloads: usize },
    #[error("message with payloads is not an append")]
    NotAnAppend,
    #[error("protocol version {version} is not known here, or has no message of kind {kind}")]
    NotInVersion { kind: u8, version: u16 },
}

/// The byte stream is not what a peer would send; the connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not the start of a frame: not a Synod peer, or the stream is out of step.
    #[error("the stream is not in Synod's format (found {found:02x?} where a frame should begin)")]
    NotAFrame { found: [u8; 2] },
    #[error("frame header is damaged: checksum {found:08x}, expected {expected:08x}")]
    HeaderDamaged { expected: u32, found: u32 },
    #[error("frame of kind {kind} is damaged: checksum {found:08x}, expected {expected:08x}")]
    BodyDamaged { kind: u8, expected: u32, found: u32 },
    #[error("frame of kind {kind} with {len} bytes exceeds the limit of {max}")]
    TooLarge { kind: u8, len: u32, max: u32 },
    #[error("frame of kind {kind} has unknown flags {flags:#04x}")]
    UnknownFlags { kind: u8, flags: u8 },
    #[error("frame of kind {kind} cannot be decompressed")]
    NotCompressed { kind: u8 },
}

#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The transport failed. After `WouldBlock`, `TimedOut` or `Interrupted` the call may be
    /// repeated; nothing is lost.
    #[error("connection failed: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("message of kind {kind} with {len} bytes exceeds the limit of {max}")]
    TooLarge { kind: u8, len: usize, max: u32 },
    #[error("connection ended inside a frame")]
    EndedInside,
}

#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("frame of kind {found} where kind {expected} must come first")]
    UnexpectedKind { expected: u8, found: u8 },
    #[error("connection ended before the handshake")]
    Ended,
    #[error("peer chose protocol version {version}, offered were {} to {}",
        offered.min, offered.max)]
    WrongVersion { version: u16, offered: VersionRange },
}
