//! Format of an action in a relay group: a part of an upstream's transaction, an order, or a note.
//!
//! ```text
//! version u8 | content u8
//! note:  see below
//! else:  flags u8 | address_bytes u8 | gtids u16 | address | gtids times GTID | known | mysql
//! order: nothing follows
//! part:  pull u64 | number u32 | GTID | MySQL's GTID | file_bytes u8 | file | offset u64 | events
//! GTID:  domain u32 | server_id u32 | sequence u64
//! known: after i64 | purged i64 | forced i64 | readers u8 | readers times reader
//! reader: server_id u32 | passed i64 | seen_s u64
//! mysql: set_bytes u16 | set
//! MySQL's GTID: uuid 16 bytes | tag_bytes u8 | tag | number u64
//!
//! note to register, or to remove: kind u8 | server_id u32
//! note of a position:             kind u8 | server_id u32 | passed i64 | seen_s u64
//! note to purge:                  kind u8 | last i64 | is_forced u8
//! ```
//! What is MySQL's is there in version 3 only, which entries have whose upstream is MySQL.
//!
//! All numbers are little-endian. Orders and parts are the leader's. Each of them says where the
//! upstream was before it, what operators have ordered, and what is registered. So any of them is
//! enough to continue from, and a reader's place is found without an index. The whole head is in
//! the first piece of an action. Notes are of any relay, and say one thing each.

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use synod_binlog::{Gtid, MysqlGtid, MysqlGtidSet};
use synod_node::Seqno;
use synod_upstream::FilePosition;

use crate::upstream_log::history::GtidState;
use crate::upstream_log::registry::{Known, Registered, RegisteredReaders};

/// The version of an entry whose upstream is MariaDB, and of notes.
const VERSION: u8 = 1;
/// The version of one whose upstream is MySQL.
const VERSION_OF_MYSQL: u8 = 3;
const ORDER: u8 = 0;
const PART: u8 = 1;
const NOTE: u8 = 2;
/// Nothing is pulled.
const PAUSED: u8 = 1;
/// The part is the last one of its transaction.
const LAST: u8 = 2;
const GTID_BYTES: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("it holds no part of an upstream's binlog: {0}")]
    Malformed(&'static str),
    #[error(
        "it is of version {0}, and this program knows {VERSION} and {VERSION_OF_MYSQL}: run the \
         newest program of the group here"
    )]
    Version(u8),
    #[error(
        "the upstream's set of executed GTIDs has too many gaps or servers to be kept: it takes \
         {0} bytes, and 65535 are possible. Close the gaps there, by empty transactions with the \
         GTIDs that are missing (gtid_next)"
    )]
    Set(usize),
}

const SHORT: EntryError = EntryError::Malformed("it ends too early");

impl From<TryGetError> for EntryError {
    fn from(_: TryGetError) -> EntryError {
        SHORT
    }
}

/// Orders of operators about the pull. The newest entry has those in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// Nothing is pulled until an operator orders otherwise.
    pub(crate) is_paused: bool,
    /// The upstream, as `host:port`; none: the one in the relays' files.
    pub(crate) address: Option<String>,
}

/// An action of a relay group, without the events of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Head(Box<Head>),
    Note(Note),
}

impl Entry {
    /// Reads an entry; what is left of `bytes` are the events of a part.
    pub(crate) fn decode(bytes: &mut Bytes) -> Result<Entry, EntryError> {
        let version = bytes.try_get_u8()?;
        let is_mysql = match version {
            VERSION => false,
            VERSION_OF_MYSQL => true,
            other => return Err(EntryError::Version(other)),
        };
        match bytes.try_get_u8()? {
            ORDER => Ok(Entry::Head(Box::new(Head::decode(bytes, false, is_mysql)?))),
            PART => Ok(Entry::Head(Box::new(Head::decode(bytes, true, is_mysql)?))),
            NOTE => Ok(Entry::Note(Note::get(bytes)?)),
            _ => Err(EntryError::Malformed("its kind is not known")),
        }
    }
}

impl Note {
    /// The bytes of an entry with this note.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(VERSION);
        out.put_u8(NOTE);
        self.put(&mut out);
        out.freeze()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Upstream's position before the transaction, or at the order.
    pub(crate) before: GtidState,
    /// The same by MySQL's GTIDs; none: the upstream is MariaDB.
    pub(crate) mysql: Option<MysqlGtidSet>,
    pub(crate) orders: Orders,
    /// Registry, after an action before this entry.
    pub(crate) known: Known,
    pub(crate) part: Option<PartHead>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartHead {
    /// Number of the pull, in the session of the relay that has pulled it.
    pub(crate) pull: u64,
    /// Number of the part in its transaction, from zero.
    pub(crate) number: u32,
    pub(crate) is_last: bool,
    pub(crate) gtid: Gtid,
    pub(crate) mysql: Option<MysqlGtid>,
    pub(crate) end: FilePosition,
}

impl Head {
    /// The state after the entry, if it is the last of its transaction.
    pub(crate) fn after(&self) -> GtidState {
        let mut after = self.before.clone();
        if let Some(part) = &self.part {
            after.add(part.gtid);
        }
        after
    }

    pub(crate) fn encode(&self, events: &[Bytes]) -> Result<Bytes, EntryError> {
        let address = self.orders.address.as_deref().unwrap_or_default();
        let gtids = self.before.list().0;
        let bytes: usize = events.iter().map(Bytes::len).sum();
        let mut out = BytesMut::with_capacity(512 + gtids.len() * GTID_BYTES + bytes);
        let is_last = self.part.as_ref().is_some_and(|part| part.is_last);
        let flags = u8::from(self.orders.is_paused) * PAUSED + u8::from(is_last) * LAST;
        let long = |_| EntryError::Malformed("an address, a file's name or a list is too long");
        out.put_u8(match self.mysql {
            Some(_) => VERSION_OF_MYSQL,
            None => VERSION,
        });
        out.put_u8(if self.part.is_some() { PART } else { ORDER });
        out.put_u8(flags);
        out.put_u8(u8::try_from(address.len()).map_err(long)?);
        out.put_u16_le(u16::try_from(gtids.len()).map_err(long)?);
        out.put_slice(address.as_bytes());
        gtids.iter().for_each(|gtid| gtid.put(&mut out));
        put_known(&mut out, &self.known)?;
        if let Some(set) = &self.mysql {
            put_set(&mut out, set)?;
        }
        if let Some(part) = &self.part {
            out.put_u64_le(part.pull);
            out.put_u32_le(part.number);
            part.gtid.put(&mut out);
            if self.mysql.is_some() {
                let missing = EntryError::Malformed("a part of MySQL has no GTID of MySQL");
                part.mysql.ok_or(missing)?.put(&mut out);
            }
            out.put_u8(u8::try_from(part.end.file.len()).map_err(long)?);
            out.put_slice(part.end.file.as_bytes());
            out.put_u64_le(part.end.offset);
            events.iter().for_each(|event| out.put_slice(event));
        }
        Ok(out.freeze())
    }

    fn decode(bytes: &mut Bytes, is_part: bool, is_mysql: bool) -> Result<Head, EntryError> {
        let flags = bytes.try_get_u8()?;
        let address_bytes = usize::from(bytes.try_get_u8()?);
        let count = usize::from(bytes.try_get_u16_le()?);
        let address = text(bytes, address_bytes)?;
        let mut before = GtidState::default();
        for _ in 0..count {
            before.add(Gtid::get(bytes)?);
        }
        let known = get_known(bytes)?;
        let mysql = is_mysql.then(|| get_set(bytes)).transpose()?;
        let is_last = flags & LAST != 0;
        let part = is_part.then(|| PartHead::decode(bytes, is_last, is_mysql));
        Ok(Head {
            before,
            mysql,
            orders: Orders {
                is_paused: flags & PAUSED != 0,
                address: Some(address).filter(|address| !address.is_empty()),
            },
            known,
            part: part.transpose()?,
        })
    }
}

impl PartHead {
    fn decode(bytes: &mut Bytes, is_last: bool, is_mysql: bool) -> Result<PartHead, EntryError> {
        let pull = bytes.try_get_u64_le()?;
        let number = bytes.try_get_u32_le()?;
        let gtid = Gtid::get(bytes)?;
        let mysql = match is_mysql {
            true => Some(MysqlGtid::get(bytes).ok_or(EntryError::Malformed("its GTID is none"))?),
            false => None,
        };
        let file_bytes = usize::from(bytes.try_get_u8()?);
        let file = text(bytes, file_bytes)?;
        let offset = bytes.try_get_u64_le()?;
        Ok(PartHead {
            pull,
            number,
            is_last,
            gtid,
            mysql,
            end: FilePosition { file, offset },
        })
    }
}

fn put_set(out: &mut BytesMut, set: &MysqlGtidSet) -> Result<(), EntryError> {
    let bytes = set.bytes().unwrap_or_default();
    let length = u16::try_from(bytes.len()).ok().filter(|length| *length > 0);
    let length = length.ok_or(EntryError::Set(set.bytes_for_dump().len()))?;
    out.put_u16_le(length);
    out.put_slice(&bytes);
    Ok(())
}

fn get_set(bytes: &mut Bytes) -> Result<MysqlGtidSet, EntryError> {
    let length = usize::from(bytes.try_get_u16_le()?);
    let set = MysqlGtidSet::of_bytes(&take(bytes, length)?);
    set.ok_or(EntryError::Malformed("its set of MySQL's GTIDs is none"))
}

fn put_known(out: &mut BytesMut, known: &Known) -> Result<(), EntryError> {
    let RegisteredReaders {
        readers,
        purged,
        forced,
    } = &known.registry;
    let many = |_| EntryError::Malformed("it names too many readers");
    out.put_i64_le(known.after.0);
    out.put_i64_le(purged.0);
    out.put_i64_le(forced.0);
    out.put_u8(u8::try_from(readers.len()).map_err(many)?);
    for (server_id, reader) in readers {
        out.put_u32_le(*server_id);
        out.put_i64_le(reader.passed.0);
        out.put_u64_le(reader.seen_s);
    }
    Ok(())
}

fn get_known(bytes: &mut Bytes) -> Result<Known, EntryError> {
    let after = Seqno(bytes.try_get_i64_le()?);
    let mut registry = RegisteredReaders {
        purged: Seqno(bytes.try_get_i64_le()?),
        forced: Seqno(bytes.try_get_i64_le()?),
        ..RegisteredReaders::default()
    };
    let count = usize::from(bytes.try_get_u8()?);
    for _ in 0..count {
        let server_id = bytes.try_get_u32_le()?;
        let reader = Registered {
            passed: Seqno(bytes.try_get_i64_le()?),
            seen_s: bytes.try_get_u64_le()?,
        };
        registry.readers.insert(server_id, reader);
    }
    Ok(Known { after, registry })
}

/// The next bytes, so many.
fn take(bytes: &mut Bytes, count: usize) -> Result<Bytes, EntryError> {
    if bytes.remaining() < count {
        return Err(SHORT);
    }
    Ok(bytes.split_to(count))
}

fn text(bytes: &mut Bytes, count: usize) -> Result<String, EntryError> {
    let text = take(bytes, count)?;
    String::from_utf8(text.to_vec()).map_err(|_| EntryError::Malformed("a name is no text"))
}

const REGISTER: u8 = 0;
const REMOVE: u8 = 1;
const AT: u8 = 2;
const PURGE: u8 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The place of this reader is held from now on.
    Register { server_id: u32 },
    /// Unregister a reader: nothing is held for it any longer.
    Remove { server_id: u32 },
    At {
        server_id: u32,
        /// Action up to which the reader has everything.
        passed: Seqno,
        /// Time of that position, in seconds since 1970.
        seen_s: u64,
    },
    Purge {
        /// The last action that may be purged.
        last: Seqno,
        /// Even if readers need it.
        is_forced: bool,
    },
}

impl Note {
    fn put(&self, out: &mut BytesMut) {
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

    fn get(bytes: &mut Bytes) -> Result<Note, EntryError> {
        let kind = bytes.try_get_u8()?;
        match kind {
            REGISTER => Ok(Note::Register {
                server_id: bytes.try_get_u32_le()?,
            }),
            REMOVE => Ok(Note::Remove {
                server_id: bytes.try_get_u32_le()?,
            }),
            AT => Ok(Note::At {
                server_id: bytes.try_get_u32_le()?,
                passed: Seqno(bytes.try_get_i64_le()?),
                seen_s: bytes.try_get_u64_le()?,
            }),
            PURGE => Ok(Note::Purge {
                last: Seqno(bytes.try_get_i64_le()?),
                is_forced: bytes.try_get_u8()? != 0,
            }),
            _ => Err(EntryError::Malformed("its note is not known")),
        }
    }
}

#[cfg(test)]
mod tests {

    use synod_binlog::mysql_gtid::{Tag, Uuid};

    use super::*;

    fn head(part: Option<PartHead>) -> Head {
        Head {
            before: GtidState::of(&"0-1-5,3-2-9".parse().unwrap()),
            orders: Orders {
                is_paused: part.is_none(),
                address: Some("db2.example:3306".to_owned()),
            },
            known: known(),
            mysql: None,
            part,
        }
    }

    /// Marks the head as from an upstream of MySQL.
    fn of_mysql(mut head: Head) -> Head {
        let server = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        head.mysql = Some(format!("{server}:1-5:9:tag:1").parse().unwrap());
        if let Some(part) = &mut head.part {
            part.mysql = Some(MysqlGtid {
                uuid: server.parse().unwrap(),
                tag: Tag::of(b"tag").unwrap(),
                number: 6,
            });
        }
        head
    }

    fn known() -> Known {
        let (passed, seen_s) = (Seqno(1 << 40), 1 << 33);
        let registry = RegisteredReaders {
            readers: [(7, Registered { passed, seen_s })].into(),
            purged: Seqno(8),
            forced: Seqno(5),
        };
        let after = Seqno(12);
        Known { after, registry }
    }

    fn part() -> PartHead {
        PartHead {
            pull: 7,
            number: 2,
            is_last: true,
            gtid: "3-2-10".parse().unwrap(),
            mysql: None,
            end: FilePosition {
                file: "binlog.000003".to_owned(),
                offset: 1 << 33,
            },
        }
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        for head in [
            head(None),
            head(Some(part())),
            of_mysql(head(None)),
            of_mysql(head(Some(part()))),
        ] {
            let events = [Bytes::from_static(b"one"), Bytes::from_static(b"two")];
            let mut bytes = head.encode(&events).unwrap();
            assert_eq!(
                Entry::decode(&mut bytes),
                Ok(Entry::Head(Box::new(head.clone())))
            );
            let rest: &[u8] = if head.part.is_some() { b"onetwo" } else { b"" };
            assert_eq!(bytes, rest);
        }
        assert_eq!(head(Some(part())).after().to_string(), "0-1-5,3-2-10");
    }

    #[test]
    fn set_that_does_not_fit_is_refused_with_what_to_do() {
        let mut set = MysqlGtidSet::default();
        for number in 1..5000 {
            set.add(MysqlGtid {
                uuid: Uuid([1; 16]),
                tag: Tag::default(),
                number: number * 2,
            });
        }
        let head = Head {
            mysql: Some(set),
            ..head(None)
        };
        let refused = head.encode(&[]).unwrap_err().to_string();
        assert!(refused.contains("gtid_next"), "{refused}");
    }

    #[test]
    fn notes_are_read_as_they_were_written() {
        let server_id = 1 << 31;
        for note in [
            Note::Register { server_id },
            Note::Remove { server_id },
            Note::At {
                server_id,
                passed: Seqno(1 << 40),
                seen_s: 1 << 33,
            },
            Note::Purge {
                last: Seqno(1 << 40),
                is_forced: true,
            },
        ] {
            let whole = note.encode();
            let read = Entry::decode(&mut whole.clone());
            assert_eq!(read, Ok(Entry::Note(note)));
            for length in 0..whole.len() {
                assert!(Entry::decode(&mut whole.slice(..length)).is_err());
            }
        }
    }

    #[test]
    fn other_versions_and_broken_heads_are_errors() {
        let whole = of_mysql(head(Some(part()))).encode(&[]).unwrap();
        for length in 0..whole.len() {
            let mut bytes = whole.slice(..length);
            assert!(Entry::decode(&mut bytes).is_err(), "{length}");
        }
        let mut newer = whole.to_vec();
        newer[0] = 4;
        let error = Entry::decode(&mut newer.into()).unwrap_err();
        assert!(error.to_string().contains("newest program"), "{error}");
    }
}
