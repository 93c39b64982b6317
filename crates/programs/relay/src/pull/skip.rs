//! Leaving out a transaction of MySQL that cannot be followed, by an operator's order.
//!
//! The GTID is given all the same, to a statement that fails on every replica and says why: so no
//! replica continues without the changes unless an operator has looked at it.

use bytes::Bytes;
use synod_binlog::bodies::Query;
use synod_binlog::gtid::{ALLOW_PARALLEL, DDL, GtidEvent, STANDALONE};
use synod_binlog::{EventHeader, EventType, Gtid, MysqlGtidSet};
use synod_upstream::Stopped;

use crate::registered_readers::now_s;
use crate::upstream_log::entry::PartHead;
use crate::upstream_log::tail::End;

/// No pull has this number: they begin with 1.
const NO_PULL: u64 = 0;

/// The transaction that an operator names, if the last pull has ended at it.
pub(crate) fn checked(
    named: &str,
    stopped: Option<Stopped>,
    set: Option<&MysqlGtidSet>,
) -> Result<Stopped, String> {
    let (Some(stopped), Some(set)) = (stopped, set) else {
        return Err(
            "no transaction stops the pull: only one that does can be left out. The error \
                    in 'synod relay status' names it"
                .to_owned(),
        );
    };
    let wanted: MysqlGtidSet = named.parse().map_err(|error| format!("{error}"))?;
    if wanted.to_string() != stopped.to_string() || set.contains(stopped.gtid) {
        return Err(format!(
            "transaction '{named}' does not stop the pull; the last one that did is {stopped}"
        ));
    }
    Ok(stopped)
}

/// Placeholder for a skipped transaction: the head of its only part, and its events.
pub(crate) fn in_place_of(stopped: Stopped, domain: u32, end: &End) -> (PartHead, Vec<Bytes>) {
    let executed = end.mysql.as_ref().map_or(0, MysqlGtidSet::size);
    let gtid = Gtid::new(domain, stopped.server_id, executed.saturating_add(1));
    let beginning = GtidEvent {
        sequence: gtid.sequence,
        domain,
        flags: STANDALONE | DDL | ALLOW_PARALLEL,
    };
    let events = vec![
        event(EventType::GTID, gtid.server_id, &beginning.body()),
        event(EventType::QUERY, gtid.server_id, &statement(stopped)),
    ];
    let head = PartHead {
        pull: NO_PULL,
        number: 0,
        is_last: true,
        gtid,
        mysql: Some(stopped.gtid),
        end: end.place.clone(),
    };
    (head, events)
}

fn statement(stopped: Stopped) -> Vec<u8> {
    let text = format!(
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'The relays have left out transaction {stopped} \
         of MySQL, by order. Make its changes here, then: SET GLOBAL sql_slave_skip_counter = 1; \
         START SLAVE'"
    );
    let query = Query {
        statement: text.as_bytes(),
        ..Query::default()
    };
    // Only variables and schemas can be too long.
    query.body().unwrap_or_default()
}

fn event(event_type: EventType, server_id: u32, body: &[u8]) -> Bytes {
    let header = EventHeader {
        timestamp: u32::try_from(now_s()).unwrap_or(u32::MAX),
        event_type,
        server_id,
        event_bytes: 0,
        end_position: 0,
        flags: 0,
    };
    header.with_body(body).1.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_binlog::mysql_gtid::Tag;
    use synod_binlog::{Events, MysqlGtid};

    const SERVER: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn stopped() -> Stopped {
        let gtid = MysqlGtid {
            uuid: SERVER.parse().unwrap(),
            tag: Tag::default(),
            number: 6,
        };
        Stopped { gtid, server_id: 9 }
    }

    fn set(text: &str) -> MysqlGtidSet {
        format!("{SERVER}:{text}").parse().unwrap()
    }

    #[test]
    fn only_the_transaction_that_stops_the_pull_can_be_left_out() {
        let six = format!("{SERVER}:6");
        let (set, later) = (set("1-5"), set("1-6"));
        assert_eq!(checked(&six, Some(stopped()), Some(&set)), Ok(stopped()));
        for (named, at, set) in [
            (&*six, None, Some(&set)),
            (&six, Some(stopped()), None),
            (&six, Some(stopped()), Some(&later)),
            (&format!("{SERVER}:7"), Some(stopped()), Some(&set)),
            (&format!("{SERVER}:6-7"), Some(stopped()), Some(&set)),
            ("6", Some(stopped()), Some(&set)),
        ] {
            assert!(checked(named, at, set).is_err(), "{named}");
        }
    }

    #[test]
    fn readers_are_told_in_its_place() {
        let end = End {
            mysql: Some(set("1-5")),
            ..End::default()
        };
        let (head, events) = in_place_of(stopped(), 3, &end);
        assert_eq!(
            (head.gtid.to_string(), head.is_last),
            ("3-9-6".to_owned(), true)
        );
        let events: Vec<_> = events.iter().flat_map(|event| Events::of(event)).collect();
        let begin = GtidEvent::parse(events[0].as_ref().unwrap().body).unwrap();
        assert_eq!((begin.sequence, begin.domain), (6, 3));
        let query = Query::parse(events[1].as_ref().unwrap().body).unwrap();
        let text = String::from_utf8_lossy(query.statement).into_owned();
        assert!(
            text.contains(&format!("transaction {SERVER}:6 of MySQL")),
            "{text}"
        );
        assert!(query.schema.is_empty() && query.status.is_empty());
    }
}
