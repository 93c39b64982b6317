//! Actions and their chunks: certification data for the leader, opaque data for the host.
//!
//! An action that exceeds the chunk size is split into [`Chunk`]s and a last piece. Each is a
//! proposal of its own, so that proposals of other members and clients come between them. The group
//! orders the action by its last piece.
//!
//! ```text
//! action: version u8 | class u8 | reserved u16 | epoch u64 | last_seen i64 | action_no u64
//!         | chunks u32 | keys_len u32 | keys | data
//! chunk:  version u8 | part u8 | reserved u16 | chunk_index u32 | action_no u64 | bytes
//! ```
//! All numbers are little-endian. `action_no` is the origin's own number for an action in chunks,
//! and zero for an action in one piece. `chunks` is the number of chunks before the last piece.
//! `chunk_index` counts them from zero, so that the leader notices if one is missing. A chunk with
//! the greatest index comes from an origin that does not continue the action: the leader refuses it
//! as one with chunks missing before it, and discards the action at once.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use synod_certify::{Class, KeySet};
use synod_consensus::{EntryKind, Seqno};
use synod_log::PAYLOAD_BYTES_MAX;

use super::version::Versions;

const ACTION_VERSIONS: Versions = Versions::new("action", 1..=1);
const CHUNK_VERSIONS: Versions = Versions::new("chunk", 1..=1);
const ACTION_HEADER_BYTES: usize = 36;
const CHUNK_HEADER_BYTES: usize = 16;
/// Bytes of keys and data in one piece, at most: with its header a piece must fit into an entry of
/// the log.
const PIECE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX as usize - ACTION_HEADER_BYTES;
/// Bytes of keys in one piece, at most: they are compared with the history in one step.
const KEY_BYTES_MAX: usize = 1 << 20;
/// Index of a chunk that no action has: its origin will not continue the action.
const WITHDRAWN: u32 = u32::MAX;
const _: () = assert!(CHUNK_HEADER_BYTES <= ACTION_HEADER_BYTES);

#[derive(Clone, Debug)]
pub struct Action {
    pub class: Class,
    pub keys: KeySet,
    /// Snapshot position: what was ordered up to this seqno cannot conflict with the action,
    /// because the origin's locks have kept them apart. See [`ChunkSplitter::see`].
    pub last_seen: i64,
    pub data: Bytes,
}

/// The payload of an action entry: the last piece of an action, or all of it.
#[derive(Clone, Debug)]
pub struct ActionPiece {
    pub class: Class,
    /// Epoch of the origin's locks: actions of one session and epoch do not conflict with each
    /// other.
    pub epoch: u64,
    pub last_seen: i64,
    /// The origin's number of an action in chunks; zero if the piece is the whole action.
    pub action_no: u64,
    /// Number of chunks before this piece.
    pub chunks: u32,
    pub keys: Bytes,
    pub data: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Keys = 0,
    Data = 1,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub part: Part,
    /// Number of the action's chunks before this one.
    pub chunk_index: u32,
    pub action_no: u64,
    /// This chunk's slice of the encoded keys or data.
    pub bytes: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {why}")]
pub struct PayloadError {
    pub what: &'static str,
    pub why: String,
}

impl PayloadError {
    pub(crate) fn too_large(bytes: usize) -> PayloadError {
        let why = format!("it has {bytes} bytes, an entry of the log at most {PAYLOAD_BYTES_MAX}");
        bad("proposal", why)
    }
}

fn bad(what: &'static str, why: impl Into<String>) -> PayloadError {
    PayloadError {
        what,
        why: why.into(),
    }
}

impl ActionPiece {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out =
            BytesMut::with_capacity(ACTION_HEADER_BYTES + self.keys.len() + self.data.len());
        out.put_u8(ACTION_VERSIONS.newest());
        out.put_u8(class_code(self.class));
        out.put_u16_le(0);
        out.put_u64_le(self.epoch);
        out.put_i64_le(self.last_seen);
        out.put_u64_le(self.action_no);
        out.put_u32_le(self.chunks);
        let keys_len = u32::try_from(self.keys.len()).expect("at most a chunk of keys is left");
        out.put_u32_le(keys_len);
        out.put_slice(&self.keys);
        out.put_slice(&self.data);
        out.freeze()
    }

    pub fn decode(mut payload: Bytes) -> Result<ActionPiece, PayloadError> {
        const WHAT: &str = "action";
        if payload.len() < ACTION_HEADER_BYTES {
            return Err(bad(WHAT, format!("{} bytes are too few", payload.len())));
        }
        ACTION_VERSIONS.check(payload.get_u8())?;
        let class = class_from_code(payload.get_u8())?;
        payload.advance(2);
        let epoch = payload.get_u64_le();
        let last_seen = payload.get_i64_le();
        let action_no = payload.get_u64_le();
        let chunks = payload.get_u32_le();
        let keys_len = payload.get_u32_le() as usize;
        if keys_len > payload.len() {
            return Err(bad(
                WHAT,
                format!("{keys_len} bytes of keys in {}", payload.len()),
            ));
        }
        let keys = payload.split_to(keys_len);
        Ok(ActionPiece {
            class,
            epoch,
            last_seen,
            action_no,
            chunks,
            keys,
            data: payload,
        })
    }
}

impl Chunk {
    /// Stands for what an origin does not send of an action, see [`WITHDRAWN`].
    fn withdrawal(action_no: u64) -> Chunk {
        Chunk {
            part: Part::Data,
            chunk_index: WITHDRAWN,
            action_no,
            bytes: Bytes::new(),
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(CHUNK_HEADER_BYTES + self.bytes.len());
        out.put_u8(CHUNK_VERSIONS.newest());
        out.put_u8(self.part as u8);
        out.put_u16_le(0);
        out.put_u32_le(self.chunk_index);
        out.put_u64_le(self.action_no);
        out.put_slice(&self.bytes);
        out.freeze()
    }

    pub fn decode(mut payload: Bytes) -> Result<Chunk, PayloadError> {
        const WHAT: &str = "chunk";
        if payload.len() < CHUNK_HEADER_BYTES {
            return Err(bad(WHAT, format!("{} bytes are too few", payload.len())));
        }
        CHUNK_VERSIONS.check(payload.get_u8())?;
        let part = match payload.get_u8() {
            0 => Part::Keys,
            1 => Part::Data,
            other => return Err(bad(WHAT, format!("unknown part {other}"))),
        };
        payload.advance(2);
        let chunk_index = payload.get_u32_le();
        let action_no = payload.get_u64_le();
        if action_no == 0 {
            return Err(bad(WHAT, "it names no action"));
        }
        Ok(Chunk {
            part,
            chunk_index,
            action_no,
            bytes: payload,
        })
    }
}

fn class_code(class: Class) -> u8 {
    match class {
        Class::WriteSet { pa_unsafe: false } => 0,
        Class::WriteSet { pa_unsafe: true } => 1,
        Class::TotalOrder => 2,
        Class::Barrier => 3,
    }
}

fn class_from_code(code: u8) -> Result<Class, PayloadError> {
    Ok(match code {
        0 => Class::WriteSet { pa_unsafe: false },
        1 => Class::WriteSet { pa_unsafe: true },
        2 => Class::TotalOrder,
        3 => Class::Barrier,
        other => return Err(bad("action", format!("unknown class {other}"))),
    })
}

pub enum Piece {
    Chunk(Bytes),
    Last(Bytes),
}

impl Piece {
    pub fn into_proposal(self) -> (EntryKind, Bytes) {
        match self {
            Piece::Chunk(payload) => (EntryKind::Chunk, payload),
            Piece::Last(payload) => (EntryKind::Action, payload),
        }
    }
}

/// Splits an action into pieces of about `chunk_bytes`, and of no more than an entry of the log
/// holds. If there are several, `number` names the action in all of them.
pub fn split_into_chunks(
    action: &Action,
    epoch: u64,
    chunk_bytes: usize,
    number: u64,
) -> ChunkSplitter {
    split_as_it_comes(action, 0, epoch, chunk_bytes, number)
}

/// Like [`split_into_chunks`], of an action of which so many bytes of data come later, by
/// [`ChunkSplitter::append`].
pub fn split_as_it_comes(
    action: &Action,
    later_bytes: usize,
    epoch: u64,
    chunk_bytes: usize,
    number: u64,
) -> ChunkSplitter {
    let chunk_bytes = chunk_bytes.min(PIECE_BYTES_MAX);
    let mut rest = ActionPiece {
        class: action.class,
        epoch,
        last_seen: action.last_seen,
        action_no: 0,
        chunks: 0,
        keys: Bytes::from(action.keys.encode()),
        data: action.data.clone(),
    };
    let is_large = rest.keys.len() + rest.data.len() + later_bytes > chunk_bytes;
    if is_large || rest.keys.len() > KEY_BYTES_MAX {
        rest.action_no = number;
    }
    ChunkSplitter {
        rest: Some(rest),
        chunk_bytes,
    }
}

/// Yields the pieces of an action one by one, so that a large action is never in memory twice.
pub struct ChunkSplitter {
    /// Rest of the action; none after the last piece.
    rest: Option<ActionPiece>,
    chunk_bytes: usize,
}

impl ChunkSplitter {
    /// Takes the next part of the data. It is copied if what is left of the former ones is not
    /// yet a chunk.
    pub fn append(&mut self, part: Bytes) {
        let Some(rest) = &mut self.rest else {
            return;
        };
        rest.data = match rest.data.is_empty() {
            true => part,
            false => [&rest.data[..], &part[..]].concat().into(),
        };
    }

    /// Whether the next piece is the last one, which carries the snapshot position; of an action
    /// whose data is not all here, whether none is due before the next part.
    pub fn is_at_last(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| {
            let half = self.chunk_bytes / 2;
            rest.action_no == 0 || (rest.keys.len() <= half && rest.data.len() <= half)
        })
    }

    /// A chunk that cannot be the next one, to be proposed if the action is not continued: the
    /// leader refuses it, and discards what the log has of the action. `None` for an action in one
    /// piece.
    pub fn withdrawal(&self) -> Option<Piece> {
        let rest = self.rest.as_ref().filter(|rest| rest.action_no != 0)?;
        Some(Piece::Chunk(Chunk::withdrawal(rest.action_no).encode()))
    }

    /// Replaces the snapshot position. The later it is asked for, the fewer actions come between it
    /// and the action's place, so this is for the moment before the last piece is made.
    pub fn see(&mut self, last_seen: Seqno) {
        if let Some(rest) = &mut self.rest {
            rest.last_seen = last_seen.0;
        }
    }
}

impl Iterator for ChunkSplitter {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let rest = self.rest.as_mut()?;
        if rest.action_no != 0 {
            let of_keys = self.chunk_bytes.min(KEY_BYTES_MAX);
            // What is left of keys and data together must fit into the last piece.
            let source = if rest.keys.len() > of_keys / 2 {
                Some((Part::Keys, &mut rest.keys, of_keys))
            } else if rest.data.len() > self.chunk_bytes / 2 {
                Some((Part::Data, &mut rest.data, self.chunk_bytes))
            } else {
                None
            };
            if let Some((part, source, most)) = source {
                let bytes = source.split_to(source.len().min(most));
                let chunk_index = rest.chunks;
                rest.chunks += 1;
                return Some(Piece::Chunk(
                    Chunk {
                        part,
                        chunk_index,
                        action_no: rest.action_no,
                        bytes,
                    }
                    .encode(),
                ));
            }
        }
        self.rest.take().map(|last| Piece::Last(last.encode()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_certify::KeyType;

    fn action(data_len: usize) -> Action {
        let mut keys = KeySet::new();
        keys.append(&[b"db", b"t", b"1"], KeyType::Exclusive);
        Action {
            class: Class::WriteSet { pa_unsafe: true },
            keys,
            last_seen: 7,
            data: Bytes::from((0..data_len).map(|i| i as u8).collect::<Vec<u8>>()),
        }
    }

    #[test]
    fn small_action_is_one_piece() {
        let action = action(100);
        let pieces: Vec<Piece> = split_into_chunks(&action, 3, 1000, 11).collect();
        let [Piece::Last(payload)] = pieces.as_slice() else {
            panic!("expected one piece")
        };
        let piece = ActionPiece::decode(payload.clone()).unwrap();
        assert_eq!((piece.epoch, piece.last_seen, piece.action_no), (3, 7, 0));
        assert_eq!(piece.data, action.data);
        assert_eq!(piece.keys, action.keys.encode());
    }

    #[test]
    fn large_action_comes_back_from_its_pieces() {
        let action = action(10_000);
        let pieces: Vec<Piece> = split_into_chunks(&action, 3, 1000, 11).collect();
        let chunks = pieces.len() as u32 - 1;
        assert!(pieces.len() > 9);
        let (mut keys, mut data) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Chunk(payload) => {
                    let chunk = Chunk::decode(payload).unwrap();
                    assert_eq!(chunk.action_no, 11);
                    match chunk.part {
                        Part::Keys => keys.extend_from_slice(&chunk.bytes),
                        Part::Data => data.extend_from_slice(&chunk.bytes),
                    }
                }
                Piece::Last(payload) => {
                    let last = ActionPiece::decode(payload).unwrap();
                    assert_eq!((last.action_no, last.chunks), (11, chunks));
                    keys.extend_from_slice(&last.keys);
                    data.extend_from_slice(&last.data);
                }
            }
        }
        assert_eq!(data, action.data);
        assert_eq!(keys, action.keys.encode());
    }

    #[test]
    fn action_whose_data_comes_later_comes_back_from_its_pieces() {
        for (data_len, part) in [(100, 30), (10_000, 1000), (10_000, 1), (3_900, 70)] {
            let whole = action(data_len);
            let payload = |piece: Piece| piece.into_proposal().1;
            let mut begun = whole.clone();
            let mut rest = begun.data.split_off(10);
            let mut pieces = split_as_it_comes(&begun, rest.len(), 3, 1000, 11);
            let mut seen = Vec::new();
            while !rest.is_empty() {
                pieces.append(rest.split_to(part.min(rest.len())));
                while !pieces.is_at_last() {
                    seen.push(payload(pieces.next().unwrap()));
                }
            }
            seen.extend(pieces.map(payload));
            let last = ActionPiece::decode(seen.pop().unwrap()).unwrap();
            assert_eq!(last.chunks as usize, seen.len(), "{data_len} by {part}");
            assert_eq!(last.action_no > 0, data_len > 1000);
            let mut data = Vec::new();
            for chunk in seen {
                assert!(chunk.len() <= 1000 + CHUNK_HEADER_BYTES);
                data.extend_from_slice(&Chunk::decode(chunk).unwrap().bytes);
            }
            data.extend_from_slice(&last.data);
            assert!(data == whole.data, "{data_len} by {part}");
        }
    }

    #[test]
    fn snapshot_position_is_the_one_set_before_the_last_piece() {
        for data_len in [100, 10_000] {
            let action = action(data_len);
            let mut pieces = split_into_chunks(&action, 3, 1000, 11);
            while !pieces.is_at_last() {
                assert!(matches!(pieces.next(), Some(Piece::Chunk(_))));
            }
            pieces.see(Seqno(9));
            let Some(Piece::Last(payload)) = pieces.next() else {
                panic!("it was announced as the last one");
            };
            assert_eq!(ActionPiece::decode(payload).unwrap().last_seen, 9);
            assert!(pieces.next().is_none() && !pieces.is_at_last());
        }
    }

    #[test]
    fn pieces_of_the_largest_size_fit_into_entries_of_the_log() {
        let max = PAYLOAD_BYTES_MAX as usize;
        let mut action = action(0);
        // Larger than one piece; then as large as one piece could be without its header.
        for data_len in [max + 1, max - action.keys.encode().len()] {
            action.data = Bytes::from(vec![1; data_len]);
            let pieces: Vec<Piece> = split_into_chunks(&action, 3, max, 11).collect();
            assert_eq!(pieces.len(), 2, "{data_len}");
            for piece in pieces {
                let (_, payload) = piece.into_proposal();
                assert!(payload.len() <= max, "{} bytes", payload.len());
            }
        }
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(ActionPiece::decode(Bytes::from_static(b"")).is_err());
        assert!(ActionPiece::decode(Bytes::from_static(&[9; 40])).is_err());
        assert!(Chunk::decode(Bytes::from_static(&[1, 7, 0, 0, 0, 0, 0, 0, 1])).is_err());
        let mut unknown_part = vec![1, 7];
        unknown_part.resize(CHUNK_HEADER_BYTES + 3, 1);
        assert!(Chunk::decode(unknown_part.into()).is_err());
        let mut no_action = vec![1, 0];
        no_action.resize(CHUNK_HEADER_BYTES, 0);
        assert!(Chunk::decode(no_action.into()).is_err());
    }
}
