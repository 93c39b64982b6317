//! What clients and members say to each other: a line of JSON each way, over a Unix socket.

use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A client's wish.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Commit a transaction that writes these rows.
    Write {
        /// Never given twice.
        id: u64,
        /// Ascending, each once.
        rows: Vec<u32>,
        /// Size of what else the action carries.
        padding: usize,
        /// As a statement in total order, which never conflicts.
        total_order: bool,
    },
    /// Read a row, causally.
    Read {
        /// Which.
        row: u32,
    },
    /// How is it going?
    Status,
    /// Write everything that was applied to the database's file.
    Flush,
    /// Leave the group in good order, and end.
    Leave,
}

/// A member's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The transaction is committed, and applied here.
    Committed {
        /// Its position.
        position: i64,
    },
    /// It did not happen, and will not.
    Refused {
        /// Why.
        why: String,
    },
    /// The group was lost before its fate was known.
    Unknown,
    /// What was read.
    Row {
        /// Position of the row's last write.
        version: i64,
        /// Position of the snapshot.
        position: i64,
    },
    /// The read found no quorum in time.
    NoRead,
    /// How it is going.
    Status(Status),
    /// Done; everything up to here is in the file.
    Flushed {
        /// Last position applied.
        position: i64,
    },
    /// The member has left.
    Left,
}

/// How a member is doing.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Its database has everything that was committed when it joined.
    pub(crate) synced: bool,
    /// It votes.
    pub(crate) voter: bool,
    /// It leads.
    pub(crate) leader: bool,
    /// Last position applied.
    pub(crate) applied: i64,
}

/// Sends one line.
pub(crate) fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Receives one line; `None` at the end of the stream.
pub(crate) fn receive<T: DeserializeOwned>(stream: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}
