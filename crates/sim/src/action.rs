//! What the simulated clients put into their actions: keys for certification, and the rows they
//! claim to have read and written, for the checker.
//!
//! The encoding is the simulator's own, with the fields of production's: certification data in the
//! last piece, keys and data cut into chunks if they are large.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use synod_certify::{Class, KeySet, KeyType};

/// A row that a transaction changed.
pub(crate) type Row = u16;

/// Columns of the tables: a row's table is its number modulo this.
pub(crate) const TABLES: u16 = 3;

/// An action, or the last piece of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) class: Class,
    /// Of the origin's locks.
    pub(crate) epoch: u64,
    pub(crate) last_seen: i64,
    /// The origin's number of an action in chunks; zero: this is all of it.
    pub(crate) chunked: u64,
    pub(crate) chunks: u32,
    /// Encoded keys (the rest of them, if some went in chunks).
    pub(crate) keys: Bytes,
    pub(crate) rows: Vec<Row>,
}

/// A part of the keys of a large action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chunk {
    pub(crate) chunked: u64,
    pub(crate) ordinal: u32,
    pub(crate) keys: Bytes,
}

/// A payload that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a payload of {bytes} bytes is no {what}")]
pub(crate) struct BadPayload {
    what: &'static str,
    bytes: usize,
}

const PIECE_BYTES: usize = 1 + 8 + 8 + 8 + 4 + 4 + 2;
const CHUNK_BYTES: usize = 8 + 4;

impl Piece {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(PIECE_BYTES + self.keys.len() + 2 * self.rows.len());
        out.put_u8(match self.class {
            Class::WriteSet { pa_unsafe: false } => 0,
            Class::WriteSet { pa_unsafe: true } => 1,
            Class::TotalOrder => 2,
            Class::Barrier => 3,
        });
        out.put_u64_le(self.epoch);
        out.put_i64_le(self.last_seen);
        out.put_u64_le(self.chunked);
        out.put_u32_le(self.chunks);
        out.put_u32_le(self.keys.len() as u32); // far below 4 GiB
        out.put_u16_le(self.rows.len() as u16); // a handful
        out.put_slice(&self.keys);
        for row in &self.rows {
            out.put_u16_le(*row);
        }
        out.freeze()
    }

    pub(crate) fn decode(mut payload: Bytes) -> Result<Piece, BadPayload> {
        let bad = BadPayload {
            what: "action",
            bytes: payload.len(),
        };
        if payload.len() < PIECE_BYTES {
            return Err(bad);
        }
        let class = match payload.get_u8() {
            0 => Class::WriteSet { pa_unsafe: false },
            1 => Class::WriteSet { pa_unsafe: true },
            2 => Class::TotalOrder,
            3 => Class::Barrier,
            _ => return Err(bad),
        };
        let epoch = payload.get_u64_le();
        let last_seen = payload.get_i64_le();
        let chunked = payload.get_u64_le();
        let chunks = payload.get_u32_le();
        let keys_len = payload.get_u32_le() as usize;
        let rows = usize::from(payload.get_u16_le());
        if payload.len() < keys_len + 2 * rows {
            return Err(bad);
        }
        let keys = payload.split_to(keys_len);
        let rows = (0..rows).map(|_| payload.get_u16_le()).collect();
        Ok(Piece {
            class,
            epoch,
            last_seen,
            chunked,
            chunks,
            keys,
            rows,
        })
    }
}

impl Chunk {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(CHUNK_BYTES + self.keys.len());
        out.put_u64_le(self.chunked);
        out.put_u32_le(self.ordinal);
        out.put_slice(&self.keys);
        out.freeze()
    }

    pub(crate) fn decode(mut payload: Bytes) -> Result<Chunk, BadPayload> {
        if payload.len() < CHUNK_BYTES {
            return Err(BadPayload {
                what: "chunk",
                bytes: payload.len(),
            });
        }
        Ok(Chunk {
            chunked: payload.get_u64_le(),
            ordinal: payload.get_u32_le(),
            keys: payload,
        })
    }
}

/// The keys of changes to these rows: `kind` on the rows, REFERENCE on what is above them.
pub(crate) fn row_keys(rows: &[Row], kind: KeyType) -> KeySet {
    let mut keys = KeySet::new();
    for row in rows {
        let table = (row % TABLES).to_le_bytes();
        keys.append(&[b"db", &table, &row.to_le_bytes()], kind);
    }
    keys
}

/// The keys of a statement that alters a table.
pub(crate) fn table_keys(table: u16) -> KeySet {
    let mut keys = KeySet::new();
    keys.append(
        &[b"db", &(table % TABLES).to_le_bytes()],
        KeyType::Exclusive,
    );
    keys
}

/// Cuts an action into chunks and a last piece, if its keys exceed `chunk_bytes`.
pub(crate) fn cut(mut piece: Piece, chunked: u64, chunk_bytes: usize) -> (Vec<Bytes>, Bytes) {
    let mut chunks = Vec::new();
    if piece.keys.len() > chunk_bytes {
        piece.chunked = chunked;
        while piece.keys.len() > chunk_bytes / 2 {
            let keys = piece.keys.split_to(piece.keys.len().min(chunk_bytes));
            let ordinal = piece.chunks;
            piece.chunks += 1;
            let chunk = Chunk {
                chunked,
                ordinal,
                keys,
            };
            chunks.push(chunk.encode());
        }
    }
    (chunks, piece.encode())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_action_comes_back_from_its_pieces() {
        let keys = Bytes::from(row_keys(&[1, 2, 3, 4, 5, 6], KeyType::Exclusive).encode());
        let piece = Piece {
            class: Class::WriteSet { pa_unsafe: false },
            epoch: 4,
            last_seen: 9,
            chunked: 0,
            chunks: 0,
            keys: keys.clone(),
            rows: vec![1, 2, 3, 4, 5, 6],
        };
        let (chunks, last) = cut(piece.clone(), 7, 64);
        assert!(chunks.len() > 1);
        let last = Piece::decode(last).unwrap();
        assert_eq!((last.chunked, last.chunks as usize), (7, chunks.len()));
        let mut whole = Vec::new();
        for chunk in chunks {
            whole.extend_from_slice(&Chunk::decode(chunk).unwrap().keys);
        }
        whole.extend_from_slice(&last.keys);
        assert_eq!(whole, keys);
        let (none, whole) = cut(piece.clone(), 7, 4096);
        assert!(none.is_empty());
        assert_eq!(Piece::decode(whole).unwrap(), piece);
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(Piece::decode(Bytes::from_static(b"x")).is_err());
        assert!(Piece::decode(Bytes::from_static(&[9; 60])).is_err());
        assert!(Chunk::decode(Bytes::from_static(&[1; 4])).is_err());
    }
}
