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
use synod_binlog::mysql_gtid::MysqlGtidSet;
use synod_binlog::{Event, EventError, EventType, Events};
use synod_node::{Action, Class, KeySet, KeyType};

use crate::server::ClientTransaction;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 20;
const HAS_STATEMENTS: u8 = 1;
const IS_BEGINNING: u8 = 2;
/// A compressed transaction: it is not looked into.
const PAYLOAD: EventType = EventType(40);
/// Transactions with more keys conflict with all others, instead of holding each key.
const KEYS_MAX: NonZeroUsize = NonZeroUsize::new(500_000).unwrap();
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) origin: Origin,
    pub(crate) has_statements: bool,
    /// `events` is the text of a set.
    pub(crate) is_beginning: bool,
    pub(crate) events: Bytes,
}

impl Logged {
    pub(crate) fn decode(mut data: Bytes) -> Result<Logged, NotReadable> {
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
        Ok(Logged {
            origin,
            has_statements: flags & HAS_STATEMENTS != 0,
            is_beginning: flags & IS_BEGINNING != 0,
            events: data,
        })
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = Result<Bytes, EventError>> + '_ {
        let mut at = 0;
        Events::of(&self.events).map(move |event| {
            let bytes = event?.header.event_bytes as usize;
            at += bytes;
            Ok(self.events.slice(at - bytes..at))
        })
    }
}

/// Microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or(Duration::ZERO).as_micros()).unwrap_or(u64::MAX)
}

/// The action of a client's transaction. The snapshot position comes later.
pub(crate) fn action(
    transaction: &dyn ClientTransaction,
    origin: Origin,
) -> Result<Action, NotOrderable> {
    let bytes = transaction.bytes();
    if bytes > BYTES_MAX {
        return Err(NotOrderable::TooLarge { bytes });
    }
    let mut data = header(origin, 0, bytes as usize);
    if !transaction.read(&mut data) {
        return Err(NotOrderable::Unreadable);
    }
    let mut has_statements = false;
    for event in Events::of(&data[HEADER_BYTES..]) {
        let event = event?;
        if event.header.event_type == EventType::XA_PREPARE {
            return Err(NotOrderable::Xa);
        }
        has_statements |= is_statement(&event)?;
    }
    if has_statements {
        data[1] = HAS_STATEMENTS;
    }
    let hashes = transaction.hashes();
    // Without a hash its keys are not known.
    let runs_alone = has_statements || transaction.runs_alone() || hashes.is_empty();
    Ok(Action {
        class: Class::WriteSet {
            pa_unsafe: runs_alone,
        },
        keys: keys(hashes, runs_alone),
        last_seen: 0,
        data: data.into(),
    })
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

    #[test]
    fn transaction_comes_back_as_it_was_with_its_events_apart() {
        let [begin, commit] = events::nothing(3).unwrap();
        let client = Played::of(&[&begin, &commit], &[1, 2]);
        let action = action(&client, origin()).unwrap();
        let logged = Logged::decode(action.data).unwrap();
        assert_eq!(logged.origin, origin());
        assert!(!logged.has_statements);
        let events: Vec<Bytes> = logged.each().map(Result::unwrap).collect();
        assert_eq!(events, [begin, commit]);
    }

    #[test]
    fn beginning_has_the_set_and_conflicts_with_all() {
        let set: MysqlGtidSet = "5e0dc0de-0000-4000-8000-000000000001:1-7".parse().unwrap();
        let action = beginning(&set, origin());
        assert_eq!(action.class, Class::WriteSet { pa_unsafe: true });
        let logged = Logged::decode(action.data).unwrap();
        assert!(logged.is_beginning && !logged.has_statements);
        assert_eq!(logged.events, set.to_string().as_bytes());
    }

    #[test]
    fn rows_hold_their_keys_and_statements_the_server() {
        let everything = Fingerprint::of(&[]);
        let held = |action: &Action| {
            let mut keys = action.keys.iter();
            keys.find(|key| key.fingerprint == everything).unwrap().kind
        };
        let [begin, commit] = events::nothing(3).unwrap();
        let rows = action(&Played::of(&[&begin, &commit], &[1]), origin()).unwrap();
        assert_eq!(rows.class, Class::WriteSet { pa_unsafe: false });
        assert_eq!(held(&rows), KeyType::Reference);
        let ddl = Played::statement(b"create table t (a int)");
        let ddl = action(&ddl, origin()).unwrap();
        assert_eq!(ddl.class, Class::WriteSet { pa_unsafe: true });
        assert_eq!(held(&ddl), KeyType::Exclusive);
        assert!(Logged::decode(ddl.data).unwrap().has_statements);
        let no_keys = action(&Played::of(&[&begin, &commit], &[]), origin()).unwrap();
        assert_eq!(held(&no_keys), KeyType::Exclusive);
    }

    #[test]
    fn what_cannot_be_ordered_is_refused_with_its_reason() {
        let mut client = Played::of(&[], &[]);
        client.bytes = BYTES_MAX + 1;
        let refused = action(&client, origin()).unwrap_err();
        assert!(refused.to_string().contains("split it"), "{refused}");
        let mut unreadable = Played::of(&[], &[]);
        unreadable.is_readable = false;
        assert_eq!(
            action(&unreadable, origin()).unwrap_err(),
            NotOrderable::Unreadable
        );
        let mut xa = events::nothing(3).unwrap()[0].clone();
        xa[4] = EventType::XA_PREPARE.0;
        let refused = action(&Played::of(&[&xa], &[1]), origin()).unwrap_err();
        assert_eq!(refused, NotOrderable::Xa);
    }

    #[test]
    fn later_format_is_not_guessed() {
        let mut data = vec![0; HEADER_BYTES];
        data[0] = VERSION + 1;
        assert_eq!(
            Logged::decode(data.into()).unwrap_err(),
            NotReadable::Version(VERSION + 1)
        );
        let short = Logged::decode(Bytes::from_static(&[VERSION])).unwrap_err();
        assert_eq!(short, NotReadable::Short(1));
    }
}
