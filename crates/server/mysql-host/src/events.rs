//! Events that the host writes for the channel of its server: those that a group's log has no
//! entry of, because each server has its own.
//!
//! ```text
//! format: binlog version u16 | server version 50 bytes | time u32 | header bytes u8
//!         | sizes of fixed parts, one u8 for each type | checksum u8 | 4 bytes
//! gtid:   flags u8 | uuid 16 bytes | number i64 | 2 | last_committed i64 | sequence i64
//!         | commit time in microseconds, 7 bytes | 254 | bytes of the transaction u64
//!         | server version u32
//! ```

use bytes::BufMut;
use synod_binlog::bodies::Query;
use synod_binlog::event::HEADER_BYTES;
use synod_binlog::mysql_gtid::Uuid;
use synod_binlog::{EventError, EventHeader, EventType};

/// The beginning of a transaction of MySQL, with its GTID.
const GTID: EventType = EventType(33);
const BINLOG_VERSION: u16 = 4;
const SERVER_VERSION_BYTES: usize = 50;
/// Sizes of the fixed parts of MySQL's event types, from type 1 on, as servers of 9.7 write them.
const FIXED_PARTS: [u8; 42] = [
    0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10,
    10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0, 0,
];
/// Statements may be in the transaction, not only rows.
const MAY_HAVE_STATEMENTS: u8 = 1;
const LOGICAL_TIMESTAMPS: u8 = 2;
const EIGHT_BYTES: u8 = 254;
/// Bits of a commit time.
const TIME_MASK: u64 = (1 << 55) - 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerVersion {
    /// Such as 90704.
    pub(crate) number: u32,
    /// Such as `9.7.4`.
    pub(crate) text: String,
}

/// The event that says how the others are to be read: without checksums.
pub(crate) fn format_description(version: &ServerVersion, server_id: u32) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_u16_le(BINLOG_VERSION);
    let text = version.text.as_bytes();
    // A zero byte ends it.
    let text = text.get(..SERVER_VERSION_BYTES - 1).unwrap_or(text);
    body.put_slice(text);
    body.put_bytes(0, SERVER_VERSION_BYTES - text.len());
    body.put_u32_le(0);
    body.put_u8(HEADER_BYTES as u8);
    body.put_slice(&FIXED_PARTS);
    body.put_u8(0); // no checksums
    body.put_u32_le(0);
    event(EventType::FORMAT_DESCRIPTION, 0, server_id, &body)
}

/// A transaction's place in the group's order, and what replicas say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: Uuid,
    pub(crate) seqno: i64,
    /// Applied before it.
    pub(crate) depends_on: i64,
    /// Microseconds since 1970.
    pub(crate) committed_us: u64,
    pub(crate) server_version: u32,
    pub(crate) server_id: u32,
    pub(crate) has_statements: bool,
    pub(crate) bytes: usize,
}

pub(crate) fn gtid(place: &Place) -> Vec<u8> {
    assert!(
        place.depends_on < place.seqno,
        "the applier would wait for {} before {}",
        place.depends_on,
        place.seqno
    );
    let mut body = Vec::new();
    body.put_u8(if place.has_statements {
        MAY_HAVE_STATEMENTS
    } else {
        0
    });
    body.put_slice(&place.group.0);
    body.put_i64_le(place.seqno);
    body.put_u8(LOGICAL_TIMESTAMPS);
    body.put_i64_le(place.depends_on.max(0));
    body.put_i64_le(place.seqno);
    // The same for the origin: one number says both.
    body.put_uint_le(place.committed_us & TIME_MASK, 7);
    body.put_u8(EIGHT_BYTES);
    let rest = size_of::<u64>() + size_of::<u32>();
    let total = HEADER_BYTES + body.len() + rest + place.bytes;
    body.put_u64_le(total as u64);
    body.put_u32_le(place.server_version);
    let seconds = u32::try_from(place.committed_us / 1_000_000).unwrap_or(u32::MAX);
    event(GTID, seconds, place.server_id, &body)
}

/// Events of a transaction that changes nothing, without its GTID: for a number of the group's
/// order that is no transaction.
pub(crate) fn nothing(server_id: u32) -> Result<[Vec<u8>; 2], EventError> {
    let query = |statement: &'static [u8]| {
        let query = Query {
            statement,
            ..Query::default()
        };
        Ok(event(EventType::QUERY, 0, server_id, &query.body()?))
    };
    Ok([query(b"BEGIN")?, query(b"COMMIT")?])
}

fn event(event_type: EventType, timestamp: u32, server_id: u32, body: &[u8]) -> Vec<u8> {
    let header = EventHeader {
        timestamp,
        event_type,
        server_id,
        event_bytes: 0,
        end_position: 0,
        flags: 0,
    };
    header.with_body(body).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_binlog::Events;
    use synod_binlog::mysql_gtid::parse_mysql_gtid;

    const GROUP: Uuid = Uuid([7; 16]);

    fn place(seqno: i64, depends_on: i64) -> Place {
        Place {
            group: GROUP,
            seqno,
            depends_on,
            committed_us: 1_790_000_000_000_000,
            server_version: 90_704,
            server_id: 3,
            has_statements: false,
            bytes: 1000,
        }
    }

    #[test]
    fn format_is_the_one_that_a_server_of_9_7_writes() {
        let version = ServerVersion {
            number: 90_704,
            text: "9.7.4-2".to_owned(),
        };
        let event = format_description(&version, 7);
        // As in the binlog of such a server with binlog_checksum=NONE.
        assert_eq!(event.len(), 123);
        assert_eq!(event[4], 15);
        assert_eq!(&event[19..21], [4, 0]);
        assert_eq!(&event[21..29], b"9.7.4-2\0");
        assert_eq!(event[75], 19);
        assert_eq!(event[76..80], [0, 13, 0, 8]);
        assert_eq!(event[118], 0);
    }

    #[test]
    fn gtid_names_the_transaction_and_its_size() {
        let event = gtid(&place(12, 9));
        let read = Events::of(&event).next().unwrap().unwrap();
        let gtid = parse_mysql_gtid(read.header.event_type, read.body).unwrap();
        assert_eq!((gtid.uuid, gtid.number), (GROUP, 12));
        assert_eq!(read.body[26..34], 9_i64.to_le_bytes());
        assert_eq!(read.body[34..42], 12_i64.to_le_bytes());
        let total = u64::try_from(event.len() + 1000).unwrap();
        assert_eq!(read.body[50..58], total.to_le_bytes());
    }

    #[test]
    #[should_panic(expected = "the applier would wait")]
    fn transaction_that_depends_on_itself_is_a_defect() {
        gtid(&place(12, 12));
    }

    #[test]
    fn empty_transaction_begins_and_commits() {
        let [begin, commit] = nothing(3).unwrap();
        let text = |event: &[u8]| {
            let event = Events::of(event).next().unwrap().unwrap();
            let query = Query::parse(event.body).unwrap();
            String::from_utf8(query.statement.to_vec()).unwrap()
        };
        assert_eq!(
            (text(&begin), text(&commit)),
            ("BEGIN".into(), "COMMIT".into())
        );
    }
}
