//! Transactions: what write sets hold, made whole.

use proptest::prelude::*;
use synod_binlog::bodies::Query;
use synod_binlog::gtid::{self, GtidEvent};
use synod_binlog::{
    EventHeader, EventType, Gtid, Outgoing, Transaction, TransactionError, statement,
};

const GTID: Gtid = Gtid::new(3, 7, 4711);

/// An event as a server puts it into a write set.
fn event(event_type: EventType, timestamp: u32, body: &[u8]) -> Vec<u8> {
    let header = EventHeader {
        timestamp,
        event_type,
        server_id: 1,
        event_bytes: 0,
        end_position: 0,
        flags: 0,
    };
    header.with_body(body).1
}

fn table_map(table: u8) -> Vec<u8> {
    let mut body = vec![table, 0, 0, 0, 0, 0, 1, 0];
    body.extend_from_slice(b"\x01d\0\x01t\0");
    body.extend_from_slice(&[1, 3, 0, 1]);
    event(EventType::TABLE_MAP, 10, &body)
}

fn rows(table: u8, ends: bool, data: u8) -> Vec<u8> {
    let body = [table, 0, 0, 0, 0, 0, u8::from(ends), 0, 1, 0xff, data];
    event(EventType::WRITE_ROWS_V1, 10, &body)
}

fn query(text: &[u8]) -> Vec<u8> {
    let fixed = [4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    event(EventType::QUERY, 20, &[&fixed[..], b"d\0", text].concat())
}

fn whole(write_sets: &[Vec<u8>]) -> Result<Vec<Outgoing<'static>>, TransactionError> {
    let mut transaction = Transaction::new(GTID);
    let mut all = Vec::new();
    for write_set in write_sets {
        let events = transaction.add(write_set)?;
        all.extend(events.into_iter().map(|event| Outgoing {
            body: event.body.into_owned().into(),
            ..event
        }));
    }
    all.extend(transaction.finish()?);
    Ok(all)
}

fn types(events: &[Outgoing<'_>]) -> Vec<u8> {
    events.iter().map(|event| event.event_type.0).collect()
}

#[test]
fn rows_get_a_beginning_with_the_gtid_and_a_commit() {
    let events = whole(&[[table_map(1), rows(1, true, 5)].concat()]).unwrap();
    assert_eq!(types(&events), [162, 19, 23, 16]);
    let beginning = GtidEvent::parse(&events[0].body).unwrap();
    assert_eq!((beginning.sequence, beginning.domain), (4711, 3));
    assert_eq!(beginning.flags, gtid::TRANSACTIONAL | gtid::ALLOW_PARALLEL);
    assert_eq!(events[0].timestamp, 10);
    assert_eq!(*events[3].body, 4711_u64.to_le_bytes());
}

#[test]
fn fragments_amid_a_statement_become_one_statement() {
    let annotation = event(EventType::ANNOTATE_ROWS, 10, b"INSERT");
    let first = [
        annotation.clone(),
        table_map(1),
        table_map(2),
        rows(1, false, 1),
    ]
    .concat();
    let second = [annotation, table_map(1), table_map(2), rows(2, false, 2)].concat();
    let third = [table_map(1), table_map(2), rows(1, true, 3)].concat();
    let events = whole(&[first, second, third, Vec::new()]).unwrap();
    assert_eq!(types(&events), [162, 160, 19, 19, 23, 23, 23, 16]);
}

#[test]
fn statements_name_their_tables_each_for_itself() {
    let one = [table_map(1), rows(1, true, 1)].concat();
    let events = whole(&[one.clone(), one]).unwrap();
    assert_eq!(types(&events), [162, 19, 23, 19, 23, 16]);
}

#[test]
fn what_changes_nothing_is_no_transaction() {
    assert_eq!(whole(&[Vec::new()]), Ok(Vec::new()));
    assert_eq!(whole(&[]), Ok(Vec::new()));
}

#[test]
fn rows_that_readers_could_not_apply_are_refused() {
    let unnamed = whole(&[rows(1, true, 1)]);
    assert_eq!(unnamed, Err(TransactionError::UnknownTable(1)));
    let open = whole(&[[table_map(1), rows(1, false, 1)].concat()]);
    assert_eq!(open, Err(TransactionError::Unfinished));
    let statement_amid = [table_map(1), rows(1, false, 1), query(b"x")].concat();
    assert_eq!(whole(&[statement_amid]), Err(TransactionError::Unfinished));
    let incident = whole(&[event(EventType(26), 1, &[0; 8])]);
    assert_eq!(incident, Err(TransactionError::Unexpected(26)));
}

#[test]
fn table_created_with_rows_is_applied_alone() {
    let created = [query(b"CREATE TABLE t"), table_map(1), rows(1, true, 5)].concat();
    let events = whole(&[created]).unwrap();
    assert_eq!(types(&events), [162, 2, 19, 23, 16]);
    let beginning = GtidEvent::parse(&events[0].body).unwrap();
    assert_eq!(beginning.flags, gtid::DDL | gtid::ALLOW_PARALLEL);
}

#[test]
fn statement_is_a_transaction_of_its_own() {
    let bytes = query(b"CREATE TABLE t (a INT)");
    let events = statement(GTID, &bytes).unwrap();
    assert_eq!(types(&events), [162, 2]);
    let beginning = GtidEvent::parse(&events[0].body).unwrap();
    let flags = gtid::STANDALONE | gtid::DDL | gtid::ALLOW_PARALLEL;
    assert_eq!(beginning.flags, flags);
    assert_eq!(events[0].timestamp, 20);
    let read = Query::parse(&events[1].body).unwrap();
    assert_eq!((read.thread, read.error_code), (4, 0));
    assert_eq!(
        (read.schema, read.statement),
        (&b"d"[..], &b"CREATE TABLE t (a INT)"[..])
    );
}

#[test]
fn action_in_total_order_is_one_statement() {
    assert_eq!(statement(GTID, &[]), Err(TransactionError::Statements(0)));
    let two = [query(b"a"), query(b"b")].concat();
    assert_eq!(statement(GTID, &two), Err(TransactionError::Statements(2)));
    let with_rows = [query(b"a"), table_map(1)].concat();
    assert_eq!(
        statement(GTID, &with_rows),
        Err(TransactionError::Unexpected(19))
    );
}

proptest! {
    /// However a transaction is cut into fragments, readers get the same events.
    #[test]
    fn fragments_do_not_show(
        statements in proptest::collection::vec((1..4u8, 1..5usize), 1..5),
        cuts in proptest::collection::vec(any::<bool>(), 20),
    ) {
        let mut cuts = cuts.into_iter().cycle();
        let (mut plain, mut fragments) = (Vec::new(), vec![Vec::new()]);
        for (table, count) in statements {
            let last = fragments.last_mut().unwrap();
            plain.extend(table_map(table));
            last.extend(table_map(table));
            for number in 1..=count {
                let row = rows(table, number == count, number as u8);
                plain.extend_from_slice(&row);
                fragments.last_mut().unwrap().extend(row);
                if cuts.next().unwrap() {
                    // The server names the tables again in each fragment of a statement.
                    let again = if number < count { table_map(table) } else { Vec::new() };
                    fragments.push(again);
                }
            }
        }
        prop_assert_eq!(whole(&fragments).unwrap(), whole(&[plain]).unwrap());
    }

    #[test]
    fn made_up_write_sets_are_an_error_or_no_larger(
        table in table_and_rows(),
        garbage in proptest::collection::vec(any::<u8>(), 0..60),
        at in any::<prop::sample::Index>(),
    ) {
        let mut input = table;
        let at = at.index(input.len());
        input.splice(at..at, garbage);
        if let Ok(events) = whole(std::slice::from_ref(&input)) {
            let bodies: usize = events.iter().map(|event| event.body.len()).sum();
            // Besides those of the write set: a beginning of 19 bytes and a commit of 8.
            prop_assert!(bodies <= input.len() + 27);
        }
        let _ = statement(GTID, &input);
    }
}

fn table_and_rows() -> impl Strategy<Value = Vec<u8>> {
    any::<u8>().prop_map(|data| [table_map(1), rows(1, true, data)].concat())
}
