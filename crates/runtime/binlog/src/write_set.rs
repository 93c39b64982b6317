//! The data part of an action: the write set with what other servers must know about it.
//!
//! ```text
//! version u8 | note u8 | error u16 | flags u32 | trx u64 | conn u64 | write set
//! ```
//! Little-endian. The provider writes and reads it; the relay reads it. `note` is 1 for a statement
//! whose outcome is going to be noted, and 2 for the note: then `error` is the outcome, and `trx`
//! the seqno of the statement. Programs that know no notes take all three fields for zero, and a
//! note for a write set without effect.

use std::ops::RangeInclusive;

use bytes::{Buf, BufMut, Bytes};

/// The versions that this program reads. Logs keep write sets for days, so a program reads what
/// older ones have written; it writes the newest that the group reads.
const VERSIONS: RangeInclusive<u8> = 1..=1;
/// Bytes before the server's own.
pub const HEADER_BYTES: usize = 24;

/// Flags of a write set: the `WSREP_FLAG_*` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WsFlags(pub u32);

impl WsFlags {
    /// Last (or only) fragment: the commit.
    pub const TRX_END: WsFlags = WsFlags(1);
    /// Towards the server: roll back.
    pub const ROLLBACK: WsFlags = WsFlags(1 << 1);
    /// Towards the server: total order isolation.
    pub const ISOLATION: WsFlags = WsFlags(1 << 2);
    /// Nothing may run in parallel with it.
    pub const PA_UNSAFE: WsFlags = WsFlags(1 << 3);
    /// First (or only) fragment.
    pub const TRX_START: WsFlags = WsFlags(1 << 6);

    pub fn contains(self, other: WsFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for WsFlags {
    type Output = WsFlags;

    fn bitor(self, other: WsFlags) -> WsFlags {
        WsFlags(self.0 | other.0)
    }
}

/// A write set's statement about the outcome of a statement in total order. Servers do not need it:
/// it is for readers that have no database to execute the statement in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Note {
    #[default]
    None,
    /// A statement whose origin will note the outcome.
    Promised,
    Outcome {
        statement: u64,
        /// The server's number of the error that it ended with; zero: it succeeded.
        error: u16,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteSet {
    /// Flags of the server, plus `ISOLATION` for statements in total order.
    pub flags: WsFlags,
    pub note: Note,
    /// Transaction at the origin. A note has none.
    pub trx: u64,
    pub conn: u64,
    pub data: Bytes,
}

/// A write set in the making: the server's bytes, with room for the header before them, so that
/// they travel from where they were gathered, without a copy.
#[derive(Debug, Default)]
pub struct Draft {
    /// Empty, or the header's bytes and the server's.
    bytes: Vec<u8>,
}

impl Draft {
    pub fn extend(&mut self, data: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.reserve(HEADER_BYTES + data.len());
            self.bytes.resize(HEADER_BYTES, 0);
        }
        self.bytes.extend_from_slice(data);
    }

    pub fn server_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(HEADER_BYTES)
    }

    pub fn finish(mut self, flags: WsFlags, trx: u64, conn: u64) -> Bytes {
        self.bytes.resize(self.bytes.len().max(HEADER_BYTES), 0);
        if let Some(header) = self.bytes.first_chunk_mut() {
            *header = encode_header(flags, Note::None, trx, conn);
        }
        Bytes::from(self.bytes)
    }
}

const PROMISED: u8 = 1;
const OUTCOME: u8 = 2;

fn encode_header(flags: WsFlags, note: Note, trx: u64, conn: u64) -> [u8; HEADER_BYTES] {
    let (code, error, trx) = match note {
        Note::None => (0, 0, trx),
        Note::Promised => (PROMISED, 0, trx),
        Note::Outcome { statement, error } => (OUTCOME, error, statement),
    };
    let mut header = [0; HEADER_BYTES];
    let mut out = &mut header[..];
    out.put_u8(*VERSIONS.end());
    out.put_u8(code);
    out.put_u16_le(error);
    out.put_u32_le(flags.0);
    out.put_u64_le(trx);
    out.put_u64_le(conn);
    header
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "action {seqno} is no write set that this program reads: {len} bytes of version {version}, it \
     reads versions {} to {}; run the program version of the other servers",
    VERSIONS.start(),
    VERSIONS.end()
)]
pub struct WriteSetError {
    pub seqno: i64,
    pub len: usize,
    pub version: u8,
}

impl WriteSet {
    /// Encodes the write set. Copies the data once.
    pub fn encode(&self) -> Bytes {
        let header = encode_header(self.flags, self.note, self.trx, self.conn);
        Bytes::from([&header[..], &self.data].concat())
    }

    /// The note that the statement with this seqno ended with this error, or with none. Servers
    /// that know no notes take it for a transaction that failed.
    pub fn outcome(statement: u64, error: u16) -> WriteSet {
        WriteSet {
            flags: WsFlags::TRX_START | WsFlags::TRX_END | WsFlags::ROLLBACK,
            note: Note::Outcome { statement, error },
            trx: statement,
            conn: u64::MAX,
            data: Bytes::new(),
        }
    }

    pub fn decode(seqno: i64, mut bytes: Bytes) -> Result<WriteSet, WriteSetError> {
        let version = bytes.first().copied().unwrap_or(0);
        if bytes.len() < HEADER_BYTES || !VERSIONS.contains(&version) {
            return Err(WriteSetError {
                seqno,
                len: bytes.len(),
                version,
            });
        }
        bytes.advance(1);
        let code = bytes.get_u8();
        let error = bytes.get_u16_le();
        let flags = WsFlags(bytes.get_u32_le());
        let trx = bytes.get_u64_le();
        let conn = bytes.get_u64_le();
        let note = match code {
            PROMISED => Note::Promised,
            OUTCOME => Note::Outcome {
                statement: trx,
                error,
            },
            _ => Note::None,
        };
        Ok(WriteSet {
            flags,
            note,
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
            note: Note::Promised,
            trx: 7,
            conn: 9,
            data: Bytes::from_static(b"rows"),
        };
        assert_eq!(WriteSet::decode(1, write_set.encode()).unwrap(), write_set);
    }

    #[test]
    fn note_is_a_failed_transaction_for_who_knows_no_notes() {
        let note = WriteSet::outcome(4711, 1050);
        let read = WriteSet::decode(1, note.encode()).unwrap();
        assert_eq!(read, note);
        assert!(read.flags.contains(WsFlags::ROLLBACK) && read.data.is_empty());
        let mut unknown = note.encode().to_vec();
        unknown[1] = 9;
        let read = WriteSet::decode(1, Bytes::from(unknown)).unwrap();
        assert_eq!(read.note, Note::None);
    }

    #[test]
    fn draft_is_sent_from_where_it_was_gathered() {
        let mut draft = Draft::default();
        assert_eq!(draft.server_bytes(), 0);
        draft.extend(b"ro");
        draft.extend(b"ws");
        assert_eq!(draft.server_bytes(), 4);
        let gathered = draft.bytes.as_ptr();
        let encoded = draft.finish(WsFlags(0x41), 7, 9);
        assert_eq!(encoded.as_ptr(), gathered);
        let write_set = WriteSet::decode(1, encoded).unwrap();
        assert_eq!((write_set.flags, write_set.trx), (WsFlags(0x41), 7));
        assert_eq!((write_set.conn, &write_set.data[..]), (9, &b"rows"[..]));
        let empty = Draft::default().finish(WsFlags(0x09), 7, 9);
        assert!(WriteSet::decode(1, empty).unwrap().data.is_empty());
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
