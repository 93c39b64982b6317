//! Events of MariaDB's binary log: those in write sets are read, those for readers of a binlog are
//! written.
//!
//! A write set holds row events as the server's own binlog has them, without the events that open
//! and close a transaction, and without positions and checksums. This crate adds what lacks:
//!
//! ```text
//! write sets of one action ──► Transaction / statement ──► Outgoing ──► BinlogWriter ──► Placed
//!                               GTID first, XID last                    header with position and
//!                               events checked                          server id, checksum
//! ```
//!
//! The formats are those that MariaDB documents under "Replication Protocol". Numbers in events are
//! little-endian. Everything here is pure: no I/O, no clock. Made-up input is an error, never a
//! panic, and makes nothing larger than itself.
#![forbid(unsafe_code)]

pub mod bodies;
pub mod event;
pub mod gtid;
pub mod mysql_gtid;
pub mod transaction;
pub mod words;
pub mod write_set;
pub mod writer;

pub use event::{Checksum, Event, EventError, EventHeader, EventType, Events, until_zero};
pub use gtid::{Gtid, GtidList, GtidTextError};
pub use mysql_gtid::{MysqlGtid, MysqlGtidError, MysqlGtidSet};
pub use transaction::{Transaction, TransactionError, statement};
pub use writer::{BinlogWriter, Outgoing, Placed};
