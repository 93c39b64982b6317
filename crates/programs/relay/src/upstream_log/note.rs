//! Notes that any relay may write into the log, about readers and purging.
//!
//! ```text
//! register, remove: kind u8 | server_id u32
//! at:               kind u8 | server_id u32 | passed i64 | seen_s u64
//! purge:            kind u8 | last i64 | is_forced u8
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use synod_node::Seqno;

use super::entry::{EntryError, need};

const REGISTER: u8 = 0;
const REMOVE: u8 = 1;
const AT: u8 = 2;
const PURGE: u8 = 3;

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The place of this reader is held from now on.
    Register { server_id: u32 },
    /// Unregister a reader: nothing is held for it any longer.
    Remove { server_id: u32 },
    /// Position of a registered reader.
    At {
        server_id: u32,
        /// Action up to which the reader has everything.
        passed: Seqno,
        /// Time of that position, in seconds since 1970.
        seen_s: u64,
    },
    /// The log may be purged, whatever its size.
    Purge {
        /// The last action that may be purged.
        last: Seqno,
        /// Even if readers need it.
        is_forced: bool,
    },
}

impl Note {
    /// Writes it.
    pub(super) fn put(&self, out: &mut BytesMut) {
        match *self {
            Note::Register { server_id } => {
                out.put_u8(REGISTER);
                out.put_u32_le(server_id);
            }
            Note::Remove { server_id } => {
                out.put_u8(REMOVE);
                out.put_u32_le(server_id);
            }
            Note::At {
                server_id,
                passed,
                seen_s,
            } => {
                out.put_u8(AT);
                out.put_u32_le(server_id);
                out.put_i64_le(passed.0);
                out.put_u64_le(seen_s);
            }
            Note::Purge { last, is_forced } => {
                out.put_u8(PURGE);
                out.put_i64_le(last.0);
                out.put_u8(is_forced.into());
            }
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// The bytes are none.
    pub(super) fn get(bytes: &mut Bytes) -> Result<Note, EntryError> {
        need(bytes, 1)?;
        let kind = bytes.get_u8();
        need(
            bytes,
            match kind {
                REGISTER | REMOVE => 4,
                AT => 4 + 8 + 8,
                _ => 8 + 1,
            },
        )?;
        match kind {
            REGISTER => Ok(Note::Register {
                server_id: bytes.get_u32_le(),
            }),
            REMOVE => Ok(Note::Remove {
                server_id: bytes.get_u32_le(),
            }),
            AT => Ok(Note::At {
                server_id: bytes.get_u32_le(),
                passed: Seqno(bytes.get_i64_le()),
                seen_s: bytes.get_u64_le(),
            }),
            PURGE => Ok(Note::Purge {
                last: Seqno(bytes.get_i64_le()),
                is_forced: bytes.get_u8() != 0,
            }),
            _ => Err(EntryError::Malformed("its note is not known")),
        }
    }
}
