//! The data part of an action: the write set with what other servers must know about it.
//!
//! ```text
//! version u8 | reserved u8 | reserved u16 | flags u32 | trx u64 | conn u64 | write set
//! ```
//! Little-endian.

use std::ops::RangeInclusive;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::api::WsFlags;

/// The versions that this program reads. Logs keep write sets for days, so a program reads what
/// older ones have written; it writes the newest that the group reads.
const VERSIONS: RangeInclusive<u8> = 1..=1;
const HEADER_BYTES: usize = 24;

/// A write set with the header that it travels with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteSet {
    /// As the server gave them, plus `ISOLATION` for statements in total order.
    pub(crate) flags: WsFlags,
    /// Transaction at the origin.
    pub(crate) trx: u64,
    /// Connection at the origin.
    pub(crate) conn: u64,
    /// The server's bytes.
    pub(crate) data: Bytes,
}

/// An action that is no write set of this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "action {seqno} is no write set that this program reads: {len} bytes of version {version}, it \
     reads versions {} to {}; run the program version of the other servers",
    VERSIONS.start(),
    VERSIONS.end()
)]
pub(crate) struct WriteSetError {
    /// Seqno of the action.
    pub(crate) seqno: i64,
    /// Length of its data in bytes.
    pub(crate) len: usize,
    /// Its first byte.
    pub(crate) version: u8,
}

impl WriteSet {
    /// As it travels. Copies the data once.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEADER_BYTES + self.data.len());
        out.put_u8(*VERSIONS.end());
        out.put_bytes(0, 3);
        out.put_u32_le(self.flags.0);
        out.put_u64_le(self.trx);
        out.put_u64_le(self.conn);
        out.put_slice(&self.data);
        out.freeze()
    }

    /// # Errors
    /// If the bytes are too few or of another version.
    pub(crate) fn decode(seqno: i64, mut bytes: Bytes) -> Result<WriteSet, WriteSetError> {
        let version = bytes.first().copied().unwrap_or(0);
        if bytes.len() < HEADER_BYTES || !VERSIONS.contains(&version) {
            return Err(WriteSetError {
                seqno,
                len: bytes.len(),
                version,
            });
        }
        bytes.advance(4);
        let flags = WsFlags(bytes.get_u32_le());
        let trx = bytes.get_u64_le();
        let conn = bytes.get_u64_le();
        Ok(WriteSet {
            flags,
            trx,
            conn,
            data: bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_encoding() {
        let write_set = WriteSet {
            flags: WsFlags(0x45),
            trx: 7,
            conn: 9,
            data: Bytes::from_static(b"rows"),
        };
        assert_eq!(WriteSet::decode(1, write_set.encode()).unwrap(), write_set);
    }

    #[test]
    fn refuses_what_is_too_short_or_foreign() {
        assert!(WriteSet::decode(1, Bytes::from_static(&[1; 23])).is_err());
        let later = WriteSet::decode(1, Bytes::from_static(&[2; 40])).unwrap_err();
        let text = later.to_string();
        assert!(
            text.contains("version 2, it reads versions 1 to 1"),
            "{text}"
        );
    }
}
