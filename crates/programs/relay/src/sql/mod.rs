//! Statements that a relay passes on to a server of its group, so that programs for change data
//! capture have one address for data and changes.
//!
//! A reader's connection has one session there, until either ends: what a transaction reads, and
//! what a lock protects, is nowhere else. A reader is told a position that is no later than what
//! its transaction reads: later, and changes would be lost. It is exact if the server's commits are
//! held (`FLUSH TABLES WITH READ LOCK`) while the transaction begins.

mod response;
mod session;

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use synod_node::{GroupId, Seqno};
use synod_upstream::{UpstreamAddress, UpstreamEncryption};

use crate::callers::Admitted;
use crate::protocol::packet::Refusal;

pub(crate) use self::response::{Response, command};
pub(crate) use self::session::{Lost, SqlSession};

#[derive(Clone, Debug)]
pub struct SqlServers {
    pub servers: Vec<UpstreamAddress>,
    /// Encryption of the connections to them; none: in clear.
    pub encryption: Option<UpstreamEncryption>,
}

#[derive(Debug)]
pub(crate) struct Sql {
    servers: SqlServers,
    /// The server that served last: sessions are at one server if it can be.
    preferred: AtomicUsize,
    /// Highest position that a reader was told. A session at a server that has not reached it would
    /// read older data.
    told: AtomicI64,
    /// Sessions that hold all commits of their server.
    locks: AtomicUsize,
}

impl Sql {
    pub(crate) fn new(servers: SqlServers) -> Sql {
        Sql {
            servers,
            preferred: AtomicUsize::default(),
            told: AtomicI64::default(),
            locks: AtomicUsize::default(),
        }
    }

    /// A session at the first server that serves. `newest`: what the relay knows to be committed.
    pub(crate) fn open(
        &self,
        reader: &Admitted,
        group: GroupId,
        newest: Seqno,
    ) -> Result<SqlSession<'_>, Refusal> {
        let count = self.servers.servers.len();
        let first = self.preferred.load(Ordering::Relaxed);
        let mut reasons = String::new();
        for at in (first..first + count).map(|at| at % count) {
            let Some(address) = self.servers.servers.get(at) else {
                continue;
            };
            match SqlSession::open(self, address, reader, group, newest) {
                Ok(session) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(session);
                }
                // A text takes all.
                Err(error) => drop(write!(reasons, ". {address}: {error}")),
            }
        }
        Err(Refusal::not_yet(format!(
            "No server of relay.sql_servers takes this reader's statements{reasons}"
        )))
    }

    pub(crate) fn told(&self) -> Seqno {
        Seqno(self.told.load(Ordering::SeqCst))
    }
}
