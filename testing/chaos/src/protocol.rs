//! Commands of clients and replies of members: one line of JSON each way, over a Unix socket.
//!
//! A client sends a command and waits for the reply; the parent uses the same commands.

use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A command of a client or of the parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Commit a transaction that writes these rows.
    Write {
        /// Number of the transaction; never given twice.
        id: u64,
        /// Rows in ascending order, each once.
        rows: Vec<u32>,
        /// Further bytes of the action.
        padding: usize,
        /// Whether it is a statement in total order, which never conflicts.
        total_order: bool,
    },
    /// Read a row, causally.
    Read {
        /// Number of the row.
        row: u32,
    },
    /// Report the member's status.
    Status,
    /// Write everything that was applied to the database's file.
    Flush,
    /// Shut down in an orderly way, and end.
    Leave,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The transaction is committed, and applied here.
    Committed { position: i64 },
    /// The transaction did not happen, and never will.
    Refused { why: String },
    /// The group was lost before the result was known.
    Unknown,
    /// Result of a read.
    Row {
        /// Position of the row's last write.
        version: i64,
        /// Position of the snapshot.
        position: i64,
    },
    /// The read found no quorum in time.
    NoRead,
    /// The status that was asked for.
    Status(Status),
    /// Everything up to this position is in the file.
    Flushed { position: i64 },
    /// The member has left.
    Left,
}

/// The status of a member.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Its database has everything that was committed when it joined.
    pub(crate) synced: bool,
    /// Whether the member is a voter.
    pub(crate) voter: bool,
    /// Whether the member is the leader.
    pub(crate) leader: bool,
    pub(crate) applied: i64,
}

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
