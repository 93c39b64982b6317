//! Items received from an upstream.

use bytes::Bytes;
use synod_binlog::{Gtid, MysqlGtid};

use crate::position::FilePosition;

/// The next thing that an upstream has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A transaction, or a part of a large one.
    Part(Part),
    /// There is nothing new.
    Heartbeat,
    /// The upstream continues in another file. A transaction of which the last part has not come
    /// will not come: the upstream has crashed while it wrote it.
    Rotated {
        /// Name of the file.
        file: String,
    },
}

/// A part of a transaction. Parts of a transaction come one after the other; the first part of
/// another transaction before the last one means that the upstream has not committed the former.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub gtid: Gtid,
    /// Its GTID in an upstream of MySQL; then `gtid` was given here.
    pub mysql: Option<MysqlGtid>,
    pub kind: Kind,
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
    /// Bytes of its events.
    pub fn bytes(&self) -> usize {
        self.events.iter().map(Bytes::len).sum()
    }
}

/// Kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Transaction,
    /// A statement that changes a schema, accounts and the like.
    Ddl,
}

/// Changes that are in the binlog, and not as whole rows: a replica executes them, and a reader of
/// rows (CDC) does not get them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWholeRows {
    /// A statement stands for them: its beginning.
    #[error("a statement instead of rows (binlog_format): {0}")]
    Statement(String),
    /// The rows lack columns.
    #[error("rows without all columns (binlog_row_image)")]
    Columns,
}
