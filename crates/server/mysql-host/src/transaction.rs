//! A transaction of MySQL as the group's log has it, and its keys.
//!
//! ```text
//! version u8 | flags u8 | reserved u16 | server version u32 | commit time u64, microseconds
//!     | server id u32 | events
//! ```
//! With the flag of a beginning, the text of a set of GTIDs stands in the place of events: what
//! the servers had executed of others when the group began, without which its history is nothing.
//!
//! Numbers are little-endian. The events are those of the server's binlog cache, without checksums
//! and without a GTID: that is made from the place in the order.

use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BufMut, Bytes};
use synod_binlog::bodies::Query;
use synod_binlog::event::whole_events;
use synod_binlog::mysql_gtid::MysqlGtidSet;
use synod_binlog::{Event, EventError, EventType, Events};
use synod_node::{Action, Class, KeySet, KeyType};

use crate::server::ClientTransaction;

const VERSION: u8 = 1;
pub(crate) const HEADER_BYTES: usize = 20;
const HAS_STATEMENTS: u8 = 1;
const IS_BEGINNING: u8 = 2;
/// A compressed transaction: it is not looked into.
const PAYLOAD: EventType = EventType(40);
/// Transactions with more keys conflict with all others, instead of holding each key.
const KEYS_MAX: NonZeroUsize = NonZeroUsize::new(500_000).unwrap();
/// Events of larger transactions are read a second time, in parts: those in memory at once are
/// bounded. It is the usual size of a chunk.
const PART_BYTES: usize = 1 << 20;
/// Larger ones are refused: the applier of another server takes no larger event.
pub(crate) const BYTES_MAX: u64 = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotOrderable {
    #[error(
        "its binlog events have {bytes} bytes, and a transaction may have {BYTES_MAX}: split it"
    )]
    TooLarge { bytes: u64 },
    #[error("the server's binlog cache cannot be read: see its error log, and the disk of tmpdir")]
    Unreadable,
    #[error("it is prepared in two phases (XA), which the group does not support")]
    Xa,
    #[error("its events are not those of a binlog: {0}")]
    Events(#[from] EventError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotReadable {
    #[error("it has {0} bytes, which are too few")]
    Short(usize),
    #[error(
        "it has version {0} of the format, which this server does not read: install a newer one"
    )]
    Version(u8),
}

/// Facts about the server where a transaction began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) server_version: u32,
    pub(crate) server_id: u32,
    pub(crate) committed_us: u64,
}

/// The beginning of a transaction in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) origin: Origin,
    pub(crate) has_statements: bool,
    /// The text of a set follows.
    pub(crate) is_beginning: bool,
}

impl Header {
    pub(crate) fn take(data: &mut Bytes) -> Result<Header, NotReadable> {
        if data.len() < HEADER_BYTES {
            return Err(NotReadable::Short(data.len()));
        }
        let version = data.get_u8();
        if version != VERSION {
            return Err(NotReadable::Version(version));
        }
        let flags = data.get_u8();
        data.advance(2);
        let origin = Origin {
            server_version: data.get_u32_le(),
            committed_us: data.get_u64_le(),
            server_id: data.get_u32_le(),
        };
        Ok(Header {
            origin,
            has_statements: flags & HAS_STATEMENTS != 0,
            is_beginning: flags & IS_BEGINNING != 0,
        })
    }
}

/// Cuts data that come in parts into events. An event is in memory as a whole, as servers have
/// it, and a part beside it.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    /// The beginning of an event.
    rest: Vec<u8>,
}

impl Cutter {
    /// Hands over the events that end in this part, each with all its bytes.
    pub(crate) fn add<E>(
        &mut self,
        part: &[u8],
        damaged: impl Fn(EventError) -> E,
        mut take: impl FnMut(&Event<'_>, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_joined = !self.rest.is_empty();
        if is_joined {
            self.rest.extend_from_slice(part);
        }
        let bytes = if is_joined { &self.rest } else { part };
        let whole = whole_events(bytes);
        let mut at = 0;
        for event in Events::of(&bytes[..whole]) {
            let event = event.map_err(&damaged)?;
            let end = at + event.header.event_bytes as usize;
            take(&event, &bytes[at..end])?;
            at = end;
        }
        if is_joined {
            self.rest.drain(..whole);
        } else {
            self.rest.extend_from_slice(&part[whole..]);
        }
        Ok(())
    }

    pub(crate) fn end(self) -> Result<(), EventError> {
        match Events::of(&self.rest).next() {
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Ok(()),
        }
    }
}

/// Microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or(Duration::ZERO).as_micros()).unwrap_or(u64::MAX)
}

/// A client's transaction as it is proposed.
pub(crate) struct Proposed {
    /// Its snapshot position comes later.
    pub(crate) action: Action,
    /// Bytes of its data that are not in the action: [`read_parts`] hands them over.
    pub(crate) later_bytes: usize,
}

/// Looks through a client's transaction, and takes its events if they are few.
pub(crate) fn propose(
    transaction: &dyn ClientTransaction,
    origin: Origin,
) -> Result<Proposed, NotOrderable> {
    let bytes = transaction.bytes();
    if bytes > BYTES_MAX {
        return Err(NotOrderable::TooLarge { bytes });
    }
    let bytes = bytes as usize;
    let is_small = bytes <= PART_BYTES;
    let mut data = header(origin, 0, if is_small { bytes } else { 0 });
    let (mut look, mut found_bytes) = (Look::default(), 0);
    let mut looked = Ok(());
    let is_read = transaction.read(&mut |piece| {
        if is_small {
            data.extend_from_slice(piece);
        }
        found_bytes += piece.len();
        looked = look.at(piece);
        looked.is_ok()
    });
    looked?;
    if !is_read || found_bytes != bytes {
        return Err(NotOrderable::Unreadable);
    }
    look.cutter.end()?;
    if look.has_statements {
        data[1] = HAS_STATEMENTS;
    }
    let hashes = transaction.hashes();
    // Without a hash its keys are not known.
    let runs_alone = look.has_statements || transaction.runs_alone() || hashes.is_empty();
    let action = Action {
        class: Class::WriteSet {
            pa_unsafe: runs_alone,
        },
        keys: keys(hashes, runs_alone),
        last_seen: 0,
        data: data.into(),
    };
    Ok(Proposed {
        action,
        later_bytes: if is_small { 0 } else { bytes },
    })
}

/// Hands over the events of a transaction, until `take` wants no more; false: they cannot be read.
pub(crate) fn read_parts(
    transaction: &dyn ClientTransaction,
    take: &mut dyn FnMut(Bytes) -> bool,
) -> bool {
    // The header comes before the first one, and makes a chunk of usual size with it.
    let mut room = PART_BYTES - HEADER_BYTES;
    let mut part = Vec::with_capacity(room);
    let mut is_wanted = true;
    let is_read = transaction.read(&mut |mut piece| {
        while let Some((first, rest)) = piece.split_at_checked(room) {
            part.extend_from_slice(first);
            let full = std::mem::replace(&mut part, Vec::with_capacity(PART_BYTES));
            is_wanted = take(full.into());
            if !is_wanted {
                return false;
            }
            (piece, room) = (rest, PART_BYTES);
        }
        part.extend_from_slice(piece);
        room -= piece.len();
        true
    });
    if is_read && !part.is_empty() {
        take(part.into());
    }
    is_read || !is_wanted
}

/// Facts that a look at all events finds.
#[derive(Default)]
struct Look {
    cutter: Cutter,
    has_statements: bool,
}

impl Look {
    fn at(&mut self, piece: &[u8]) -> Result<(), NotOrderable> {
        let has_statements = &mut self.has_statements;
        self.cutter.add(piece, NotOrderable::Events, |event, _| {
            if event.header.event_type == EventType::XA_PREPARE {
                return Err(NotOrderable::Xa);
            }
            *has_statements |= is_statement(event)?;
            Ok(())
        })
    }
}

/// The action that says what the servers had executed of others when the group began.
pub(crate) fn beginning(executed: &MysqlGtidSet, origin: Origin) -> Action {
    let text = executed.to_string();
    let mut data = header(origin, IS_BEGINNING, text.len());
    data.put_slice(text.as_bytes());
    Action {
        class: Class::WriteSet { pa_unsafe: true },
        keys: keys(&[], true),
        last_seen: 0,
        data: data.into(),
    }
}

/// The header of an action, with room for `bytes` bytes behind it.
fn header(origin: Origin, flags: u8, bytes: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(HEADER_BYTES + bytes);
    data.put_slice(&[VERSION, flags, 0, 0]);
    data.put_u32_le(origin.server_version);
    data.put_u64_le(origin.committed_us);
    data.put_u32_le(origin.server_id);
    data
}

/// Whether the event changes something that no row event tells.
fn is_statement(event: &Event<'_>) -> Result<bool, EventError> {
    if event.header.event_type != EventType::QUERY {
        return Ok(event.header.event_type == PAYLOAD);
    }
    let statement = Query::parse(event.body)?.statement;
    Ok(statement != b"BEGIN" && statement != b"COMMIT")
}

/// Every set holds the whole server, at least as a reference: so that one whose keys are not known,
/// which holds it exclusively, conflicts with all that it has not seen, and they with it.
fn keys(hashes: &[u64], runs_alone: bool) -> KeySet {
    let mut keys = KeySet::new();
    if runs_alone {
        keys.append(&[], KeyType::Exclusive);
    }
    keys.bound_rows(KEYS_MAX);
    for hash in hashes {
        // The server has hashed schema and table with the key.
        keys.append(&[b"", b"", &hash.to_le_bytes()], KeyType::Exclusive);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events;
    use crate::tests::Played;
    use synod_node::Fingerprint;

    fn origin() -> Origin {
        Origin {
            server_version: 90_704,
            server_id: 3,
            committed_us: 12,
        }
    }

    /// The action of a small transaction.
    fn action(client: &Played) -> Action {
        let proposed = propose(client, origin()).unwrap();
        assert_eq!(proposed.later_bytes, 0);
        proposed.action
    }

    fn refused_for(client: &Played) -> NotOrderable {
        propose(client, origin()).err().unwrap()
    }

    /// Events of data in these parts.
    fn events_of(parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, EventError> {
        let (mut cutter, mut events) = (Cutter::default(), Vec::new());
        for part in parts {
            let damaged = |error| error;
            cutter.add(part, damaged, |_, event| {
                events.push(event.to_vec());
                Ok(())
            })?;
        }
        cutter.end().map(|()| events)
    }

    #[test]
    fn events_are_cut_out_of_parts_of_any_size() {
        let [begin, commit] = events::nothing(3).unwrap();
        let all = [&begin[..], &commit, &begin, &commit].concat();
        for size in 1..=all.len() {
            let parts: Vec<&[u8]> = all.chunks(size).collect();
            let events = events_of(&parts).unwrap();
            assert_eq!(events, [&begin[..], &commit, &begin, &commit], "{size}");
        }
        assert!(events_of(&[&all[..30], &all[30..all.len() - 1]]).is_err());
        let mut damaged = all.clone();
        damaged[9] = 1; // size of the first event
        assert!(events_of(&[&damaged[..40], &damaged[40..]]).is_err());
    }

    #[test]
    fn large_transaction_comes_in_chunks_only_of_the_size_of_a_chunk() {
        let [begin, _] = events::nothing(3).unwrap();
        let count = 2 * PART_BYTES / begin.len() + 100;
        let large = Played::of(&vec![&begin[..]; count], &[1]);
        let proposed = propose(&large, origin()).unwrap();
        assert_eq!(proposed.action.data.len(), HEADER_BYTES);
        assert_eq!(proposed.later_bytes as u64, large.bytes);
        let mut parts = Vec::new();
        assert!(read_parts(&large, &mut |part| {
            parts.push(part);
            true
        }));
        let sizes: Vec<usize> = parts.iter().map(Bytes::len).collect();
        assert_eq!(sizes[..2], [PART_BYTES - HEADER_BYTES, PART_BYTES]);
        assert_eq!(sizes.len(), 3);
        let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        assert_eq!(events_of(&parts).unwrap().len(), count);
        // Its client has been killed.
        let mut taken = 0;
        assert!(read_parts(&large, &mut |_| {
            taken += 1;
            false
        }));
        assert_eq!(taken, 1);
        let mut unreadable = large;
        unreadable.is_readable = false;
        assert!(!read_parts(&unreadable, &mut |_| true));
    }

    #[test]
    fn transaction_comes_back_as_it_was_with_its_events_apart() {
        let [begin, commit] = events::nothing(3).unwrap();
        let client = Played::of(&[&begin, &commit], &[1, 2]);
        let mut data = action(&client).data;
        let header = Header::take(&mut data).unwrap();
        assert_eq!(header.origin, origin());
        assert!(!header.has_statements);
        assert_eq!(events_of(&[&data]).unwrap(), [begin, commit]);
    }

    #[test]
    fn beginning_has_the_set_and_conflicts_with_all() {
        let set: MysqlGtidSet = "5e0dc0de-0000-4000-8000-000000000001:1-7".parse().unwrap();
        let action = beginning(&set, origin());
        assert_eq!(action.class, Class::WriteSet { pa_unsafe: true });
        let mut data = action.data;
        let header = Header::take(&mut data).unwrap();
        assert!(header.is_beginning && !header.has_statements);
        assert_eq!(data, set.to_string().as_bytes());
    }

    #[test]
    fn rows_hold_their_keys_and_statements_the_server() {
        let everything = Fingerprint::of(&[]);
        let held = |action: &Action| {
            let mut keys = action.keys.iter();
            keys.find(|key| key.fingerprint == everything).unwrap().kind
        };
        let [begin, commit] = events::nothing(3).unwrap();
        let rows = action(&Played::of(&[&begin, &commit], &[1]));
        assert_eq!(rows.class, Class::WriteSet { pa_unsafe: false });
        assert_eq!(held(&rows), KeyType::Reference);
        let ddl = action(&Played::statement(b"create table t (a int)"));
        assert_eq!(ddl.class, Class::WriteSet { pa_unsafe: true });
        assert_eq!(held(&ddl), KeyType::Exclusive);
        assert!(Header::take(&mut ddl.data.clone()).unwrap().has_statements);
        let no_keys = action(&Played::of(&[&begin, &commit], &[]));
        assert_eq!(held(&no_keys), KeyType::Exclusive);
    }

    #[test]
    fn what_cannot_be_ordered_is_refused_with_its_reason() {
        let mut client = Played::of(&[], &[]);
        client.bytes = BYTES_MAX + 1;
        let refused = refused_for(&client);
        assert!(refused.to_string().contains("split it"), "{refused}");
        let mut unreadable = Played::of(&[], &[]);
        unreadable.is_readable = false;
        assert_eq!(refused_for(&unreadable), NotOrderable::Unreadable);
        let mut shorter = Played::statement(b"create table t (a int)");
        shorter.bytes += 1;
        assert_eq!(refused_for(&shorter), NotOrderable::Unreadable);
        let mut xa = events::nothing(3).unwrap()[0].clone();
        xa[4] = EventType::XA_PREPARE.0;
        assert_eq!(refused_for(&Played::of(&[&xa], &[1])), NotOrderable::Xa);
    }

    #[test]
    fn later_format_is_not_guessed() {
        let mut data = vec![0; HEADER_BYTES];
        data[0] = VERSION + 1;
        assert_eq!(
            Header::take(&mut data.into()).unwrap_err(),
            NotReadable::Version(VERSION + 1)
        );
        let short = Header::take(&mut Bytes::from_static(&[VERSION])).unwrap_err();
        assert_eq!(short, NotReadable::Short(1));
    }
}
