//! Cutting a transaction into parts.

use bytes::Bytes;
use synod_binlog::{Gtid, MysqlGtid};

use crate::incoming::{Kind, NotWholeRows, Part};
use crate::position::FilePosition;

/// A transaction that is cut while it comes.
#[derive(Debug)]
pub(crate) struct Parts {
    gtid: Gtid,
    mysql: Option<MysqlGtid>,
    kind: Kind,
    part_bytes: usize,
    /// No part has been given yet.
    is_first: bool,
    events: Vec<Bytes>,
    bytes: usize,
    not_whole_rows: Option<NotWholeRows>,
}

impl Parts {
    pub(crate) fn new(gtid: Gtid, kind: Kind, part_bytes: usize) -> Parts {
        Parts {
            gtid,
            mysql: None,
            kind,
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

    /// The transaction is of another kind than its beginning said.
    pub(crate) fn set_kind(&mut self, kind: Kind) {
        self.kind = kind;
    }

    /// The transaction has this GTID in MySQL.
    pub(crate) fn set_mysql(&mut self, mysql: Option<MysqlGtid>) {
        self.mysql = mysql;
    }

    /// Kind of the transaction.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
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

    /// The last part, which ends at `place`.
    pub(crate) fn finish(mut self, place: &FilePosition) -> Part {
        self.part(place, true)
    }

    fn part(&mut self, place: &FilePosition, last: bool) -> Part {
        self.bytes = 0;
        Part {
            gtid: self.gtid,
            mysql: self.mysql,
            kind: self.kind,
            first: std::mem::take(&mut self.is_first),
            last,
            events: std::mem::take(&mut self.events),
            not_whole_rows: self.not_whole_rows.take(),
            end: place.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_have_all_events_in_order_and_are_bounded(
            sizes in proptest::collection::vec(1_usize..40, 1..60),
            part_bytes in 1_usize..100,
        ) {
            let gtid = Gtid { domain: 1, server_id: 2, sequence: 3 };
            let mut parts = Parts::new(gtid, Kind::Transaction, part_bytes);
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
}
