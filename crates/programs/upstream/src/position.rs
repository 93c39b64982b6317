//! Positions in an upstream's binlog, and the items received from there.

use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;
use synod_binlog::{Gtid, GtidList, MysqlGtid, MysqlGtidSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// After these transactions, the newest of each domain. An empty list: at the beginning of all.
    Gtids(GtidList),
    Mysql(MysqlPosition),
    /// At a place in a file. The upstream is asked which GTIDs are before it, once.
    File(FilePosition),
    Now,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Gtids(list) => write!(f, "GTID '{list}'"),
            Position::Mysql(position) => write!(f, "{position}"),
            Position::File(place) => write!(f, "{place}"),
            Position::Now => write!(f, "the newest transaction"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MysqlPosition {
    pub has: MysqlGtidSet,
    /// The GTID of MariaDB that the newest of them was given here; empty: the reader begins after
    /// these transactions, or with the first one.
    pub given: GtidList,
}

impl MysqlPosition {
    /// The position of a reader that begins after these transactions. They have got no GTIDs here,
    /// so the last one is known by its number alone.
    pub(crate) fn after(has: MysqlGtidSet, domain: u32) -> MysqlPosition {
        let given = has.given_after(domain);
        MysqlPosition { has, given }
    }

    /// Whether the transactions were numbered in this domain.
    pub(crate) fn is_in(&self, domain: u32) -> bool {
        let newest = self.given.of_domain(domain);
        self.given.0.len() <= 1 && newest.map_or(0, |gtid| gtid.sequence) == self.has.size()
    }
}

impl fmt::Display for MysqlPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the set of MySQL's GTIDs '{}'", self.has)
    }
}

/// The last transaction that a reader has, which the upstream may wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// MariaDB: end of the transaction when it was received.
    Place(FilePosition),
    Mysql(MysqlGtid),
}

/// A place in one of the upstream's files: between two events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilePosition {
    pub file: String,
    /// Bytes before the place.
    pub offset: u64,
}

impl PartialOrd for FilePosition {
    fn partial_cmp(&self, other: &FilePosition) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FilePosition {
    /// Files have one name with an ascending number after it, so a longer name is a later one.
    fn cmp(&self, other: &FilePosition) -> Ordering {
        let key = |place: &FilePosition| place.file.len();
        key(self)
            .cmp(&key(other))
            .then_with(|| self.file.cmp(&other.file))
            .then(self.offset.cmp(&other.offset))
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.file, self.offset)
    }
}

/// The next thing that an upstream has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A transaction, or a part of a large one.
    Part(Part),
    /// There is nothing new.
    Heartbeat,
    /// The upstream continues in another file. A transaction of which the last part has not come
    /// will not come: the upstream has crashed while it wrote it.
    Rotated { file: String },
}

/// A part of a transaction. Parts of a transaction come one after the other; the first part of
/// another transaction before the last one means that the upstream has not committed the former.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub gtid: Gtid,
    /// Its GTID in an upstream of MySQL; then `gtid` was given here.
    pub mysql: Option<MysqlGtid>,
    /// First part: begins with the GTID event.
    pub first: bool,
    /// Last part: ends the transaction.
    pub last: bool,
    /// Whole events with their headers, as the upstream has written them, or translated from MySQL;
    /// without checksums, and the sizes in their headers say so. A part in the middle of a filtered
    /// transaction may have none.
    pub events: Vec<Bytes>,
    /// First lack of these events for readers of rows; none: nothing.
    pub not_whole_rows: Option<NotWholeRows>,
    /// End of the last event in the upstream's file.
    pub end: FilePosition,
}

impl Part {
    pub fn bytes(&self) -> usize {
        self.events.iter().map(Bytes::len).sum()
    }
}

/// Changes that are in the binlog, and not as whole rows: a replica executes them, and a reader of
/// rows (CDC) does not get them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWholeRows {
    #[error("a statement instead of rows (binlog_format): {0}")]
    Statement(String),
    #[error("rows without all columns (binlog_row_image)")]
    Columns,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ordered_as_files_are_written() {
        let at = |file: &str, offset| FilePosition {
            file: file.to_owned(),
            offset,
        };
        let sorted = [
            at("log.000009", 900),
            at("log.000010", 4),
            at("log.000010", 5),
            at("log.999999", 1),
            at("log.1000000", 0),
        ];
        assert!(sorted.is_sorted());
    }
}
