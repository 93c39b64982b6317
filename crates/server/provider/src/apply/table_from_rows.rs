//! `CREATE TABLE ... SELECT` is a transaction for the group: the table's definition, then its rows.
//!
//! The server makes the table durable by itself, before the rows, and its engine's position follows
//! with the rows on servers that apply them. It does not follow where the client was, nor if there
//! are no rows (seen on 10.11.19). A server that starts again from that position is given the
//! action although the table is there, perhaps without rows, and would fail for good with error
//! 1050. As the group's table did not exist then, the table is replaced: that ends alike however
//! often it is done.

use bytes::Bytes;
use synod_binlog::bodies::Query;
use synod_binlog::event::HEADER_BYTES;
use synod_binlog::write_set::WsFlags;
use synod_binlog::{Event, EventType, Events};

const MAKES: &[u8] = b"CREATE TABLE `";
const REPLACES: &[u8] = b"CREATE OR REPLACE TABLE `";

/// The event that defines the table, and where it begins, if the write set is of such a statement.
/// Servers write its text themselves, so it has always the same beginning.
fn definition(flags: WsFlags, events: &[u8]) -> Option<(usize, Event<'_>, Query<'_>)> {
    if flags.contains(WsFlags::ISOLATION) {
        return None;
    }
    let mut at = 0;
    for event in Events::of(events) {
        let event = event.ok()?;
        match event.header.event_type {
            EventType::QUERY => {
                let query = Query::parse(event.body).ok()?;
                let is_one = [MAKES, REPLACES]
                    .iter()
                    .any(|begin| query.statement.starts_with(begin));
                return is_one.then_some((at, event, query));
            }
            EventType::GTID => at += HEADER_BYTES + event.body.len(),
            _ => return None,
        }
    }
    None
}

/// Whether the write set is of `CREATE TABLE ... SELECT`.
pub(super) fn is_made(flags: WsFlags, events: &[u8]) -> bool {
    definition(flags, events).is_some()
}

/// The write set with the table replaced if it is there; none: it is of another statement, or
/// replaces the table anyhow.
pub(super) fn replacing(flags: WsFlags, events: &[u8]) -> Option<Bytes> {
    let (at, event, query) = definition(flags, events)?;
    let columns = query.statement.strip_prefix(MAKES)?;
    let statement = [REPLACES, columns].concat();
    let body = Query {
        statement: &statement,
        ..query
    }
    .body()
    .ok()?;
    let (_, replaced) = event.header.with_body(&body);
    let after = at + HEADER_BYTES + event.body.len();
    let [before, rest] = [events.get(..at)?, events.get(after..)?];
    Some(Bytes::from([before, &replaced, rest].concat()))
}

#[cfg(test)]
mod tests {
    use synod_binlog::EventHeader;

    use super::*;

    fn event(event_type: EventType, body: &[u8]) -> Vec<u8> {
        let header = EventHeader {
            timestamp: 7,
            event_type,
            server_id: 1,
            event_bytes: 0,
            end_position: 0,
            flags: 0,
        };
        header.with_body(body).1
    }

    fn query(statement: &[u8]) -> Vec<u8> {
        let query = Query {
            schema: b"d",
            statement,
            ..Query::default()
        };
        event(EventType::QUERY, &query.body().unwrap())
    }

    #[test]
    fn definition_of_a_table_is_replaced_and_all_else_stays() {
        let whole = WsFlags::TRX_START | WsFlags::TRX_END;
        let gtid = event(EventType::GTID, &[0; 13]);
        let rows = event(EventType::TABLE_MAP, b"rows");
        let made = [&gtid[..], &query(b"CREATE TABLE `t` (x)"), &rows].concat();
        let replaced = [&gtid[..], &query(b"CREATE OR REPLACE TABLE `t` (x)"), &rows].concat();
        assert!(is_made(whole, &made));
        assert_eq!(replacing(whole, &made).unwrap(), replaced);
        assert!(is_made(whole, &replaced));
        assert_eq!(replacing(whole, &replaced), None, "it is so already");
        for other in [
            &query(b"CREATE TABLE IF NOT EXISTS `t` (x)")[..],
            &query(b"SAVEPOINT `s`"),
            &[&rows[..], &made].concat(),
            &made[..made.len() / 2 - rows.len()],
            b"",
        ] {
            assert!(!is_made(whole, other), "{other:?}");
        }
        assert!(
            !is_made(WsFlags::ISOLATION, &made),
            "a statement in total order"
        );
    }
}
