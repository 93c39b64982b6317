//! A transaction of which a filter leaves some tables, cut into parts.
//!
//! Rows of tables that are left out go, and what only they need: the tables' names, the text of
//! their statement. The mark of a statement's end moves to the last rows that are kept, because a
//! replica waits for it.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_binlog::bodies::{RowsHead, STATEMENT_END, TableMap};
use synod_binlog::transaction::TABLES_MAX;
use synod_binlog::{Gtid, MysqlGtid};

use crate::config::Filter;
use crate::error::Corruption;
use crate::position::{FilePosition, NotWholeRows, Part};
use crate::stream::raw::RawEvent;

#[derive(Debug)]
pub(crate) struct Parts {
    gtid: Gtid,
    mysql: Option<MysqlGtid>,
    part_bytes: usize,
    /// No part has been given yet.
    is_first: bool,
    events: Vec<Bytes>,
    bytes: usize,
    not_whole_rows: Option<NotWholeRows>,
}

impl Parts {
    pub(crate) fn new(gtid: Gtid, part_bytes: usize) -> Parts {
        Parts {
            gtid,
            mysql: None,
            part_bytes,
            is_first: true,
            events: Vec::new(),
            bytes: 0,
            not_whole_rows: None,
        }
    }

    pub(crate) fn gtid(&self) -> Gtid {
        self.gtid
    }

    pub(crate) fn set_mysql(&mut self, mysql: Option<MysqlGtid>) {
        self.mysql = mysql;
    }

    /// The first event of the transaction, if it has not been given yet.
    pub(crate) fn beginning_mut(&mut self) -> Option<&mut Bytes> {
        self.events.first_mut().filter(|_| self.is_first)
    }

    /// Adds an event. If it has no room, gives the part before it, which ends at `place`.
    pub(crate) fn add(&mut self, event: Bytes, place: &FilePosition) -> Option<Part> {
        let is_full = !self.events.is_empty() && self.bytes + event.len() > self.part_bytes;
        let full = is_full.then(|| self.part(place, false));
        self.bytes += event.len();
        self.events.push(event);
        full
    }

    /// The event that was added last lacks this.
    pub(crate) fn note(&mut self, lack: Option<NotWholeRows>) {
        self.not_whole_rows = self.not_whole_rows.take().or(lack);
    }

    pub(crate) fn finish(mut self, place: &FilePosition) -> Part {
        self.part(place, true)
    }

    fn part(&mut self, place: &FilePosition, last: bool) -> Part {
        self.bytes = 0;
        Part {
            gtid: self.gtid,
            mysql: self.mysql,
            first: std::mem::take(&mut self.is_first),
            last,
            events: std::mem::take(&mut self.events),
            not_whole_rows: self.not_whole_rows.take(),
            end: place.clone(),
        }
    }
}

/// Offset of the flags in the body of an event with rows.
const FLAGS_AT: usize = 6;
/// The number that stands for no table, in an event that only ends a statement.
const NO_TABLE: u64 = 0xff_ffff;

#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// The tables that it has named, and whether their rows are kept.
    tables: BTreeMap<u64, bool>,
    /// Events after the newest rows that are kept, or before the first ones.
    head: Vec<RawEvent>,
    /// The newest rows that are kept: they may have to be marked as the last ones.
    newest: Option<RawEvent>,
}

impl Selection {
    pub(crate) fn before(&mut self, event: RawEvent) -> Result<(), Corruption> {
        if self.head.len() >= TABLES_MAX {
            return Err(Corruption::TooManyTables(TABLES_MAX));
        }
        self.head.push(event);
        Ok(())
    }

    pub(crate) fn table_map(&mut self, event: RawEvent, filter: &Filter) -> Result<(), Corruption> {
        let map = TableMap::parse(event.body())?;
        let keeps = filter.keeps_table(map.schema, map.table);
        if self.tables.len() >= TABLES_MAX {
            return Err(Corruption::TooManyTables(TABLES_MAX));
        }
        self.tables.insert(map.table_id, keeps);
        if keeps {
            self.before(event)?;
        }
        Ok(())
    }

    pub(crate) fn rows(
        &mut self,
        event: RawEvent,
        out: &mut Vec<RawEvent>,
    ) -> Result<(), Corruption> {
        let head = RowsHead::parse(event.event_type(), event.body())?;
        let is_kept = match self.tables.get(&head.table_id) {
            Some(is_kept) => *is_kept,
            None if head.table_id == NO_TABLE => false,
            None => return Err(Corruption::UnknownTable(head.table_id)),
        };
        if is_kept {
            out.extend(self.newest.take());
            out.append(&mut self.head);
            self.newest = Some(event);
        }
        if head.ends_statement() {
            out.extend(self.newest.take().map(marked_as_end));
            self.tables.clear();
            self.head.clear();
        }
        Ok(())
    }

    pub(crate) fn query(&mut self, event: RawEvent, out: &mut Vec<RawEvent>) {
        out.extend(self.newest.take());
        out.append(&mut self.head);
        out.push(event);
    }

    /// A statement was left out, and what was before it is not needed.
    pub(crate) fn leave_out(&mut self) {
        self.head.clear();
    }

    pub(crate) fn end(&mut self, event: RawEvent, out: &mut Vec<RawEvent>) {
        out.extend(self.newest.take());
        self.head.clear();
        out.push(event);
    }
}

/// The same rows, the last ones of their statement.
fn marked_as_end(rows: RawEvent) -> RawEvent {
    let mut body = rows.body().to_vec();
    let [low, high] = STATEMENT_END.to_le_bytes();
    for (byte, bit) in body.iter_mut().skip(FLAGS_AT).zip([low, high]) {
        *byte |= bit;
    }
    rows.replaced(rows.event_type(), &body)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use synod_binlog::EventType;

    use super::*;

    proptest! {
        #[test]
        fn parts_have_all_events_in_order_and_are_bounded(
            sizes in proptest::collection::vec(1_usize..40, 1..60),
            part_bytes in 1_usize..100,
        ) {
            let gtid = Gtid { domain: 1, server_id: 2, sequence: 3 };
            let mut parts = Parts::new(gtid, part_bytes);
            let (mut out, mut place) = (Vec::new(), FilePosition::default());
            let events: Vec<Bytes> = sizes
                .iter()
                .enumerate()
                .map(|(number, size)| Bytes::from(vec![number as u8; *size]))
                .collect();
            for event in &events {
                out.extend(parts.add(event.clone(), &place));
                place.offset += event.len() as u64;
            }
            out.push(parts.finish(&place));
            let mut end = 0;
            for (number, part) in out.iter().enumerate() {
                prop_assert_eq!(part.first, number == 0);
                prop_assert_eq!(part.last, number + 1 == out.len());
                prop_assert!(part.bytes() <= part_bytes || part.events.len() == 1);
                end += part.bytes() as u64;
                prop_assert_eq!(part.end.offset, end);
            }
            let all: Vec<Bytes> = out.into_iter().flat_map(|part| part.events).collect();
            prop_assert_eq!(all, events);
        }
    }

    fn map(table_id: u8, name: u8) -> RawEvent {
        let body = [
            table_id, 0, 0, 0, 0, 0, 1, 0, 1, b's', 0, 1, name, 0, 1, 3, 0, 1,
        ];
        RawEvent::for_test(EventType::TABLE_MAP, &body)
    }

    fn rows(table_id: u8, ends: bool) -> RawEvent {
        let body = [table_id, 0, 0, 0, 0, 0, ends.into(), 0, 1, 0xff, 0xfe, 5];
        RawEvent::for_test(EventType::WRITE_ROWS_V1, &body)
    }

    /// Events left by a filter that keeps table `a` only.
    fn left(events: &[RawEvent]) -> Result<Vec<RawEvent>, Corruption> {
        let filter = Filter {
            keep: vec!["s.a".parse().unwrap()],
            ignore: Vec::new(),
        };
        let (mut selection, mut out) = (Selection::default(), Vec::new());
        for event in events.iter().cloned() {
            match event.event_type() {
                EventType::TABLE_MAP => selection.table_map(event, &filter)?,
                EventType::WRITE_ROWS_V1 => selection.rows(event, &mut out)?,
                EventType::XID => selection.end(event, &mut out),
                _ => selection.before(event)?,
            }
        }
        Ok(out)
    }

    #[test]
    fn rows_of_other_tables_go_with_what_only_they_need() {
        let (text, end) = (
            RawEvent::for_test(EventType::ANNOTATE_ROWS, b"x"),
            RawEvent::for_test(EventType::XID, &[0; 8]),
        );
        let statement =
            |rows: &[RawEvent]| [&[text.clone(), map(1, b'a'), map(2, b'b')], rows].concat();
        let mut events = statement(&[rows(2, true)]);
        events.extend(statement(&[rows(1, false), rows(1, true)]));
        events.push(end.clone());
        let kept = [
            text.clone(),
            map(1, b'a'),
            rows(1, false),
            rows(1, true),
            end.clone(),
        ];
        assert_eq!(left(&events).unwrap(), kept);
        let mut others = statement(&[rows(2, false), rows(2, true)]);
        others.push(end.clone());
        assert_eq!(left(&others).unwrap(), [end]);
    }

    #[test]
    fn mark_of_the_end_moves_to_the_last_rows_that_are_kept() {
        let events = [
            map(1, b'a'),
            map(2, b'b'),
            rows(1, false),
            rows(1, false),
            rows(2, true),
        ];
        let kept = [map(1, b'a'), rows(1, false), rows(1, true)];
        assert_eq!(left(&events).unwrap(), kept);
        let dummy =
            RawEvent::for_test(EventType::WRITE_ROWS_V1, &[0xff, 0xff, 0xff, 0, 0, 0, 1, 0]);
        let events = [map(1, b'a'), rows(1, false), dummy];
        assert_eq!(left(&events).unwrap(), [map(1, b'a'), rows(1, true)]);
    }

    #[test]
    fn rows_of_no_table_are_refused() {
        let refused = left(&[map(1, b'a'), rows(1, true), rows(1, true)]);
        assert_eq!(refused, Err(Corruption::UnknownTable(1)));
        let endless = vec![RawEvent::for_test(EventType::ANNOTATE_ROWS, b"x"); TABLES_MAX + 1];
        assert!(left(&endless).is_err());
    }
}
