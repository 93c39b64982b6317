//! From the events of MySQL 8 to those that a MariaDB server would have written.
//!
//! A transaction gets a GTID of MariaDB: in the domain that was chosen, of the server where it
//! began, and its number is how many transactions MySQL's set of executed ones has with it. So it
//! is the same for all that read this upstream, wherever they begin. Its rows pass as they are.
//! What only replicas of MySQL use goes.

mod status;

use std::borrow::Cow;

use synod_binlog::bodies::Query;
use synod_binlog::gtid::{ALLOW_PARALLEL, DDL, GtidEvent, STANDALONE};
use synod_binlog::mysql_gtid::{MYSQL_GTID, TAGGED_GTID, parse_mysql_gtid};
use synod_binlog::{EventError, EventHeader, EventType, MysqlGtid};

use super::raw::RawEvent;
use crate::error::{Corruption, Obstacle, Stopped};
use crate::stream::{Fault, IGNORABLE, kinds};

/// Types of MySQL that MariaDB does not have, or that mean something else there.
const ANONYMOUS_GTID: EventType = EventType(34);
const PREVIOUS_GTIDS: EventType = EventType(35);
/// Both are of MySQL's group replication, and change nothing.
const TRANSACTION_CONTEXT: EventType = EventType(36);
const VIEW_CHANGE: EventType = EventType(37);
const PARTIAL_UPDATE_ROWS: EventType = EventType(39);
const TRANSACTION_PAYLOAD: EventType = EventType(40);
const HEARTBEAT_V2: EventType = EventType(41);
/// Suffix that MySQL appends to `CREATE TABLE ... SELECT`, whose rows follow.
const WITH_ROWS: &[u8] = b" START TRANSACTION";
/// MySQL's comment for an invisible column: MariaDB reads such a comment of no version of MySQL.
const INVISIBLE_OF_MYSQL: &[u8] = b"/*!80023 INVISIBLE */";
const INVISIBLE: &[u8] = b"INVISIBLE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Outside,
    /// Its GTID has come. What follows shows what it is.
    Named(MysqlGtid),
    /// `BEGIN` has come.
    Begun(MysqlGtid),
    /// Its first event has come.
    Inside(MysqlGtid),
    Skipped,
}

#[derive(Debug)]
pub(crate) struct Translator {
    domain: u32,
    /// Number of transactions that MySQL has executed up to the newest whole one.
    newest: u64,
    stage: Stage,
    /// The reader has this one, and the upstream sends it again to have it acknowledged.
    held: Option<MysqlGtid>,
}

impl Translator {
    pub(crate) fn new(domain: u32, newest: u64, held: Option<MysqlGtid>) -> Translator {
        Translator {
            domain,
            newest,
            stage: Stage::Outside,
            held,
        }
    }

    /// The transaction whose first event was given.
    pub(crate) fn open(&self) -> Option<MysqlGtid> {
        match self.stage {
            Stage::Inside(gtid) => Some(gtid),
            Stage::Outside | Stage::Named(_) | Stage::Begun(_) | Stage::Skipped => None,
        }
    }

    /// Whether what comes is a transaction that the reader has.
    pub(crate) fn is_skipping(&self) -> bool {
        self.stage == Stage::Skipped
    }

    pub(crate) fn finish(&mut self) {
        self.newest = self.newest.saturating_add(1);
        self.stage = Stage::Outside;
    }

    /// Drops the open transaction, which was not committed.
    pub(crate) fn give_up(&mut self) {
        self.stage = Stage::Outside;
    }

    /// The events of MariaDB in place of an event that is no file's own.
    pub(crate) fn take(&mut self, event: RawEvent) -> Result<Vec<RawEvent>, Fault> {
        let event_type = event.event_type();
        match event_type {
            MYSQL_GTID | TAGGED_GTID => return self.name(&event),
            ANONYMOUS_GTID => return Err(Obstacle::NoGtid.into()),
            HEARTBEAT_V2 => return Ok(vec![event.replaced(EventType::HEARTBEAT, b"")]),
            // It may have been left out because it cannot be followed.
            _ if self.is_skipping() => return Ok(Vec::new()),
            PREVIOUS_GTIDS | TRANSACTION_CONTEXT | VIEW_CHANGE | EventType::STOP => {
                return Ok(Vec::new());
            }
            // The same text after another beginning.
            EventType::ROWS_QUERY => {
                let text = event.body().get(1..).unwrap_or_default();
                let text = event.replaced(EventType::ANNOTATE_ROWS, text);
                return self.member(without_mark(text));
            }
            _ if event.header.flags & IGNORABLE != 0 => return Ok(Vec::new()),
            _ => {}
        }
        self.refuse(&event)?;
        match event_type {
            EventType::QUERY => self.query(event),
            EventType::XID
            | EventType::TABLE_MAP
            | EventType::INTVAR
            | EventType::RAND
            | EventType::USER_VAR => self.member(event),
            _ if event_type.is_rows() => self.member(event),
            EventType(number) => Err(Obstacle::UnknownEvent(number).into()),
        }
    }

    fn refuse(&self, event: &RawEvent) -> Result<(), Fault> {
        let (Stage::Named(gtid) | Stage::Begun(gtid) | Stage::Inside(gtid)) = self.stage else {
            return Ok(());
        };
        let server_id = event.header.server_id;
        let stopped = Stopped { gtid, server_id };
        match event.event_type() {
            TRANSACTION_PAYLOAD => Err(Obstacle::Compressed(stopped).into()),
            PARTIAL_UPDATE_ROWS => Err(Obstacle::PartialValues(stopped).into()),
            EventType::XA_PREPARE => Err(Obstacle::Xa(stopped).into()),
            EventType::QUERY if kinds::is_xa(Query::parse(event.body())?.statement) => {
                Err(Obstacle::Xa(stopped).into())
            }
            _ => Ok(()),
        }
    }

    fn name(&mut self, event: &RawEvent) -> Result<Vec<RawEvent>, Fault> {
        let next = parse_mysql_gtid(event.event_type(), event.body())?;
        if let Stage::Named(open) | Stage::Begun(open) | Stage::Inside(open) = self.stage {
            return Err(Corruption::Open {
                open: open.to_string(),
                next: next.to_string(),
            }
            .into());
        }
        self.stage = if self.held == Some(next) {
            Stage::Skipped
        } else {
            Stage::Named(next)
        };
        Ok(Vec::new())
    }

    fn query(&mut self, event: RawEvent) -> Result<Vec<RawEvent>, Fault> {
        let text = Query::parse(event.body())?.statement;
        if let (Stage::Named(gtid), b"BEGIN") = (self.stage, text) {
            self.stage = Stage::Begun(gtid);
            return Ok(Vec::new());
        }
        let has_rows = matches!(self.stage, Stage::Begun(_));
        self.member(translated(&event, has_rows)?)
    }

    /// An event of a transaction, with its beginning if it is the first one.
    fn member(&mut self, event: RawEvent) -> Result<Vec<RawEvent>, Fault> {
        let (gtid, flags) = match self.stage {
            Stage::Skipped => return Ok(Vec::new()),
            Stage::Outside => return Err(Corruption::Outside(event.event_type().0).into()),
            Stage::Inside(_) => return Ok(vec![event]),
            Stage::Named(gtid) if event.event_type() == EventType::QUERY => {
                (gtid, STANDALONE | DDL | ALLOW_PARALLEL)
            }
            Stage::Named(_) => {
                return Err(Corruption::Outside(event.event_type().0).into());
            }
            Stage::Begun(gtid) if creates_table(&event) => (gtid, DDL | ALLOW_PARALLEL),
            Stage::Begun(gtid) => (gtid, ALLOW_PARALLEL),
        };
        self.stage = Stage::Inside(gtid);
        let beginning = GtidEvent {
            sequence: self.newest.saturating_add(1),
            domain: self.domain,
            flags,
        };
        let header = EventHeader {
            event_type: EventType::GTID,
            flags: 0,
            ..event.header
        };
        Ok(vec![RawEvent::made(header, &beginning.body()), event])
    }
}

/// A statement as MariaDB would have written it. `has_rows`: rows follow in its transaction.
fn translated(event: &RawEvent, has_rows: bool) -> Result<RawEvent, Fault> {
    let read = Query::parse(event.body())?;
    let damaged = EventError::Malformed {
        event_type: EventType::QUERY,
        why: "its status variables are cut",
    };
    let status = status::in_mariadb(read.status).ok_or(damaged)?;
    let statement = match read.statement.strip_suffix(WITH_ROWS) {
        Some(statement) if has_rows && is_create(statement) => statement,
        Some(_) | None => read.statement,
    };
    let query = Query {
        status: &status,
        statement: &with_invisible_columns(statement),
        ..read
    };
    Ok(event.replaced(EventType::QUERY, &query.body()?))
}

/// The statement with its invisible columns as MariaDB has them, such as the primary key that MySQL
/// gives to tables without one.
fn with_invisible_columns(statement: &[u8]) -> Cow<'_, [u8]> {
    let find = |text: &[u8]| {
        let mut places = text.windows(INVISIBLE_OF_MYSQL.len());
        places.position(|place| place == INVISIBLE_OF_MYSQL)
    };
    let mut out = Cow::Borrowed(statement);
    if !is_create(statement) {
        return out;
    }
    while let Some(at) = find(&out) {
        let end = at + INVISIBLE_OF_MYSQL.len();
        out.to_mut().splice(at..end, INVISIBLE.iter().copied());
    }
    out
}

/// Whether the event makes a table, whose rows follow in its transaction.
fn creates_table(event: &RawEvent) -> bool {
    let query = Query::parse(event.body());
    event.event_type() == EventType::QUERY && query.is_ok_and(|query| is_create(query.statement))
}

fn is_create(statement: &[u8]) -> bool {
    const CREATE: &[u8] = b"CREATE";
    let first = statement.get(..CREATE.len());
    first.is_some_and(|first| first.eq_ignore_ascii_case(CREATE))
}

fn without_mark(event: RawEvent) -> RawEvent {
    let header = EventHeader {
        flags: event.header.flags & !IGNORABLE,
        ..event.header
    };
    RawEvent::made(header, event.body())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Filter;
    use crate::error::UpstreamError;
    use crate::position::{Incoming, Part};
    use crate::stream::Decoder;
    use synod_binlog::gtid::TRANSACTIONAL;
    use synod_binlog::{Checksum, Event, Events};

    /// A binlog that MySQL 8.0.46 has written.
    const CAPTURED: &[u8] = include_bytes!("captured.binlog");
    const FIRST_EVENT: usize = 4;
    /// Offset of the first XA transaction.
    const OF_XA: usize = 2486;
    const END_OF_XA: usize = 2899;
    const AFTER_XA: usize = 3067;
    const WITH_TEXT: usize = 3876;
    const COMPRESSED: usize = 4318;
    const PARTIAL: usize = 5008;

    fn translated(newest: u64, held: Option<MysqlGtid>) -> Decoder {
        let translator = Translator::new(0, newest, held);
        Decoder::new(
            Filter::default(),
            1 << 20,
            Checksum::Crc32,
            Some(translator),
        )
    }

    /// Gives the decoder the events of these bytes.
    fn take(decoder: &mut Decoder, bytes: &[u8]) -> Result<Vec<Part>, UpstreamError> {
        let (mut rest, mut parts) = (bytes, Vec::new());
        while let Ok(header) = EventHeader::parse(rest) {
            let (event, after) = rest.split_at(header.event_bytes as usize);
            decoder.take([&[0], event].concat(), 1)?;
            rest = after;
            while let Some(incoming) = decoder.give() {
                if let Incoming::Part(part) = incoming {
                    parts.push(part);
                }
            }
        }
        Ok(parts)
    }

    fn parts(begin: usize, end: usize) -> Result<Vec<Part>, UpstreamError> {
        take(&mut translated(41, None), &CAPTURED[begin..end])
    }

    fn types(part: &Part) -> Vec<u8> {
        part.events.iter().map(|event| event[4]).collect()
    }

    /// The events of a part, each with what it is made of.
    fn events(part: &Part) -> Vec<Event<'_>> {
        let events = part.events.iter().flat_map(|event| Events::of(event));
        events.collect::<Result<_, _>>().unwrap()
    }

    fn flags(part: &Part) -> u8 {
        GtidEvent::parse(events(part)[0].body).unwrap().flags
    }

    #[test]
    fn transactions_become_those_of_mariadb() {
        let parts = parts(FIRST_EVENT, OF_XA).unwrap();
        let gtids: Vec<String> = parts.iter().map(|part| part.gtid.to_string()).collect();
        assert_eq!(gtids[..2], ["0-11-42", "0-11-43"]);
        let numbers = parts.iter().map(|part| part.mysql.unwrap().number);
        assert!(numbers.eq(1..=7));
        assert!(parts.iter().all(|part| part.first && part.last));
        let (ddl, row) = (
            STANDALONE | DDL | ALLOW_PARALLEL,
            ALLOW_PARALLEL | TRANSACTIONAL,
        );
        let expected = [
            (vec![162, 2], ddl),
            (vec![162, 2], ddl),
            (vec![162, 19, 30, 16], row),
            (vec![162, 19, 31, 2, 19, 30, 16], row),
            (vec![162, 2, 19, 30, 16], DDL | ALLOW_PARALLEL),
            (vec![162, 2], ddl),
            // Of an engine that cannot roll back.
            (vec![162, 19, 30, 2], ALLOW_PARALLEL),
        ];
        for (part, expected) in parts.iter().zip(expected) {
            assert_eq!((types(part), flags(part)), expected);
        }
        let statement = |part: &Part| {
            let body = events(part)[1].body.to_vec();
            let query = Query::parse(&body).unwrap();
            (query.status.to_vec(), query.statement.to_vec())
        };
        let (status, text) = statement(&parts[0]);
        assert_eq!(text, b"CREATE DATABASE shop");
        assert!(status.ends_with(b"\x04\x21\x00\x21\x00\x04\x09"));
        let (_, text) = statement(&parts[4]);
        assert!(text.starts_with(b"CREATE TABLE `c`") && text.ends_with(b")"));
    }

    /// Translates a statement that is a transaction by itself.
    fn alone(text: &str) -> String {
        let gtid = [&[1][..], &[7; 16], &1_u64.to_le_bytes()].concat();
        let statement = [&[0; 14][..], text.as_bytes()].concat();
        let mut translator = Translator::new(0, 0, None);
        let mut take = |event_type, body: &[u8]| {
            let event = RawEvent::for_test(event_type, body);
            translator.take(event).unwrap().pop()
        };
        assert_eq!(take(MYSQL_GTID, &gtid), None);
        let event = take(EventType::QUERY, &statement).unwrap();
        let statement = Query::parse(event.body()).unwrap().statement.to_vec();
        String::from_utf8(statement).unwrap()
    }

    #[test]
    fn statement_alone_is_changed_in_its_invisible_columns_only() {
        for text in [
            "CREATE PROCEDURE p() START TRANSACTION",
            "ALTER TABLE t COMMENT '/*!80023 INVISIBLE */'",
        ] {
            assert_eq!(alone(text), text);
        }
        assert_eq!(
            alone("CREATE TABLE t (a INT /*!80023 INVISIBLE */, b INT /*!80023 INVISIBLE */)"),
            "CREATE TABLE t (a INT INVISIBLE, b INT INVISIBLE)"
        );
    }

    #[test]
    fn text_of_a_statement_is_that_of_mariadb() {
        let parts = parts(WITH_TEXT, COMPRESSED).unwrap();
        let events = events(&parts[0]);
        assert_eq!(events[1].header.event_type, EventType::ANNOTATE_ROWS);
        assert_eq!(events[1].body, b"UPDATE t SET v='q'");
        assert_eq!(events[1].header.flags & IGNORABLE, 0);
    }

    #[test]
    fn what_has_no_counterpart_is_refused_in_words() {
        for (begin, end, words) in [
            (OF_XA, END_OF_XA, "one of XA"),
            (END_OF_XA, AFTER_XA, "one of XA"),
            (COMPRESSED, PARTIAL, "binlog_transaction_compression"),
            (PARTIAL, CAPTURED.len(), "PARTIAL_JSON"),
        ] {
            let text = parts(begin, end).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn events_of_other_kinds_are_refused_in_words() {
        let end = |bytes: &[u8]| EventHeader::parse(bytes).unwrap().event_bytes as usize;
        let named = &CAPTURED[OF_XA..];
        for (event_type, words) in [
            (ANONYMOUS_GTID, "without a GTID"),
            (EventType(99), "type 99"),
        ] {
            let mut event = named[..end(named) - 4].to_vec();
            event[4] = event_type.0;
            let size = event.len() as u32;
            event[9..13].copy_from_slice(&size.to_le_bytes());
            let translator = Translator::new(0, 0, None);
            let filter = Filter::default();
            let mut decoder = Decoder::new(filter, 1, Checksum::None, Some(translator));
            let text = take(&mut decoder, &event).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn transaction_that_is_held_is_left_out_and_has_no_number() {
        let all = parts(FIRST_EVENT, OF_XA).unwrap();
        let held = all[3].mysql;
        let mut decoder = translated(41, held);
        let left = take(&mut decoder, &CAPTURED[FIRST_EVENT..OF_XA]).unwrap();
        assert_eq!(left.len(), all.len() - 1);
        assert_eq!(left[3].mysql, all[4].mysql);
        assert_eq!(left[3].gtid.sequence, all[3].gtid.sequence);
    }

    #[test]
    fn transaction_that_was_not_committed_gives_its_number_back() {
        // Amid the third transaction of the file; then it comes again.
        let mut decoder = translated(0, None);
        take(&mut decoder, &CAPTURED[FIRST_EVENT..839]).unwrap();
        decoder.open = None;
        decoder.translator.as_mut().unwrap().give_up();
        let again = take(&mut decoder, &CAPTURED[616..933]).unwrap();
        assert_eq!(again[0].gtid.sequence, 3);
    }
}
