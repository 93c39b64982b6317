//! Errors of messages, frames, streams and handshakes.
//!
//! Each type is one step of the way: a message that cannot be written or read, a frame that is not
//! one, a connection that failed, a handshake that did not come about.

use std::io;

use synod_consensus::VersionRange;

use crate::region::RegionError;

/// A frame's body is not the message that its kind says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error("message ends early: {needed} more bytes expected, {left} left")]
    Truncated {
        /// Bytes the next field needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// There are bytes after the last field.
    #[error("{left} bytes too many at the end of the message")]
    TrailingBytes {
        /// How many bytes.
        left: usize,
    },
    /// A code that this version does not know.
    #[error("unknown {what} code {code}")]
    UnknownCode {
        /// The field that the code is in.
        what: &'static str,
        /// The code.
        code: u8,
    },
    /// A field is longer than it may be.
    #[error("{what} of {len} bytes is longer than the {max} allowed")]
    TooLong {
        /// The field.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The most it may have.
        max: usize,
    },
    /// A list claims more items than the message has bytes for.
    #[error("list of {count} {what} cannot be in {left} bytes")]
    ImpossibleCount {
        /// Name of the items.
        what: &'static str,
        /// Items claimed.
        count: u32,
        /// Bytes that are left.
        left: usize,
    },
    /// A text is no name of a region.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A text is not UTF-8.
    #[error("{what} is not valid UTF-8")]
    NotUtf8 {
        /// The field.
        what: &'static str,
    },
    /// A list that must ascend does not.
    #[error("{what} are not in ascending order")]
    NotAscending {
        /// Name of the items.
        what: &'static str,
    },
    /// The entries of an append do not follow one another.
    #[error("entry with index {found} where {expected} should be")]
    NotConsecutive {
        /// The index that follows from the entry before it.
        expected: u64,
        /// The index that the entry has.
        found: u64,
    },
    /// The message that came with payloads is not an append.
    #[error("message with payloads is not an append")]
    NotAnAppend,
    /// Entries with payloads came in a message that carries none.
    #[error("{count} entries with payloads in a message without payloads")]
    PayloadsMissing {
        /// Number of those entries.
        count: usize,
    },
    /// The connection's version is not one this program speaks.
    #[error("protocol version {version} is not known here")]
    UnknownVersion {
        /// The version.
        version: u16,
    },
    /// Not a Synod hello.
    #[error("the peer does not speak Synod's protocol (it began with {found:02x?})")]
    NotSynod {
        /// The first bytes.
        found: [u8; 8],
    },
}

/// A message cannot be sent as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A field is longer than it may be.
    #[error("{what} of {len} bytes is longer than the {max} allowed")]
    TooLong {
        /// The field.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The most it may have.
        max: usize,
    },
    /// A list has more items than a message may carry.
    #[error("list of {len} {what} is longer than the {max} allowed")]
    TooMany {
        /// Name of the items.
        what: &'static str,
        /// Number of items.
        len: usize,
        /// The most there may be.
        max: usize,
    },
    /// The payloads do not fit the entries of an append.
    #[error("append with {entries} entries and {payloads} payloads, of other lengths or number")]
    PayloadMismatch {
        /// Entries in the message.
        entries: usize,
        /// Payloads given.
        payloads: usize,
    },
    /// [`crate::PeerMessage::Append`] holds a message other than an append.
    #[error("message with payloads is not an append")]
    NotAnAppend,
    /// The connection's version is not one this program speaks.
    #[error("protocol version {version} is not known here")]
    UnknownVersion {
        /// The version.
        version: u16,
    },
    /// The connection's version is older than the message.
    #[error("protocol version {version} has no message of kind {kind}")]
    NotInVersion {
        /// The message's kind.
        kind: u8,
        /// The version.
        version: u16,
    },
}

/// The byte stream is not what a peer would send; the connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not the start of a frame: not a Synod peer, or the stream is out of step.
    #[error("the stream is not in Synod's format (found {found:02x?} where a frame should begin)")]
    NotAFrame {
        /// The first bytes.
        found: [u8; 2],
    },
    /// The header's checksum does not fit.
    #[error("frame header is damaged: checksum {found:08x}, expected {expected:08x}")]
    HeaderDamaged {
        /// Computed over the header.
        expected: u32,
        /// In the header.
        found: u32,
    },
    /// The body's checksum does not fit.
    #[error("frame of kind {kind} is damaged: checksum {found:08x}, expected {expected:08x}")]
    BodyDamaged {
        /// The frame's kind.
        kind: u8,
        /// Computed over the body.
        expected: u32,
        /// In the header.
        found: u32,
    },
    /// More than this connection may carry.
    #[error("frame of kind {kind} with {len} bytes exceeds the limit of {max}")]
    TooLarge {
        /// The frame's kind.
        kind: u8,
        /// Its body's length in bytes.
        len: u32,
        /// The limit in bytes.
        max: u32,
    },
    /// Flags that this version does not know.
    #[error("frame of kind {kind} has unknown flags {flags:#04x}")]
    UnknownFlags {
        /// The frame's kind.
        kind: u8,
        /// The flags.
        flags: u8,
    },
    /// The body is marked as compressed and is not, or not to the length that it says.
    #[error("frame of kind {kind} cannot be decompressed")]
    NotCompressed {
        /// The frame's kind.
        kind: u8,
    },
}

/// Reading or writing frames failed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The transport failed. After `WouldBlock`, `TimedOut` or `Interrupted` the call may be
    /// repeated; nothing is lost.
    #[error("connection failed: {0}")]
    Io(#[from] io::Error),
    /// The peer sent bytes that no Synod peer sends.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The message cannot be sent.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The message is larger than this connection may carry.
    #[error("message of kind {kind} with {len} bytes exceeds the limit of {max}")]
    TooLarge {
        /// The frame's kind.
        kind: u8,
        /// Its body's length in bytes.
        len: usize,
        /// The limit in bytes.
        max: u32,
    },
    /// The connection ended inside a frame.
    #[error("connection ended inside a frame")]
    EndedInside,
}

/// The first exchange on a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The transport or the framing failed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The frame is not a hello.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The hello cannot be sent.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Another frame came first.
    #[error("frame of kind {found} where kind {expected} must come first")]
    UnexpectedKind {
        /// The kind that must come.
        expected: u8,
        /// The kind that came.
        found: u8,
    },
    /// The connection ended before the first frame.
    #[error("connection ended before the handshake")]
    Ended,
    /// The called chose a version that was not offered.
    #[error("peer chose protocol version {version}, offered were {} to {}",
        offered.min, offered.max)]
    WrongVersion {
        /// The version it chose.
        version: u16,
        /// Versions that were offered.
        offered: VersionRange,
    },
}
