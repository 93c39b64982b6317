//! One reader's session at a server.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use synod_node::{GroupId, Seqno};
use synod_upstream::UpstreamAddress;
use synod_upstream::server::{RawPacket, ServerSession, ServerSessionError, text_row};

use super::response::{Place, Response, State};
use super::{Sql, command};
use crate::callers::Admitted;
use crate::protocol::packet::{Connection, Packets, Refusal, put_text};
use crate::protocol::question::after_word;
use crate::protocol::whose::bare;
use crate::stalled_reader::keep_alive;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// A server that serves has what is committed within a moment. One that lags is taken after this
/// time, if it has what readers were told.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(3);
const CATCH_UP_PAUSE: Duration = Duration::from_millis(20);

const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_state_uuid', \
                      'wsrep_ready', 'wsrep_last_committed')";

#[derive(Debug, thiserror::Error)]
pub(super) enum NoSession {
    #[error("{0}")]
    Server(#[from] ServerSessionError),
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("it is no server of a group (wsrep_on, wsrep_provider)")]
    Alone,
    #[error("it is in another group ({found}; this relay's is {own}): name servers of this one")]
    OtherGroup { found: String, own: String },
    #[error("it does not serve (wsrep_ready is OFF): its error log says why")]
    NotReady,
    #[error("it has applied {has}, and readers were told {told}: it lags")]
    Lags { has: i64, told: i64 },
}

/// Why a session has ended before its reader's connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    #[error(transparent)]
    Reader(io::Error),
    #[error(
        "The connection to server {address} is lost: {why}. What this session had there \
         (transaction, snapshot, locks, settings) is lost with it. Connect again: another server \
         of relay.sql_servers takes over; begin a snapshot again"
    )]
    Server {
        address: String,
        why: String,
        /// The reader has got a part of a payload, and no error can follow.
        is_amid_payload: bool,
    },
}

#[derive(Debug)]
pub(crate) struct SqlSession<'a> {
    sql: &'a Sql,
    server: ServerSession,
    address: String,
    state: State,
    /// Position that the transaction has read at least; none: not known.
    reads: Option<Seqno>,
    /// Commits of the server wait for this session.
    has_lock: bool,
}

impl<'a> SqlSession<'a> {
    pub(super) fn open(
        sql: &'a Sql,
        address: &UpstreamAddress,
        reader: &Admitted,
        group: GroupId,
        newest: Seqno,
    ) -> Result<SqlSession<'a>, NoSession> {
        let encryption = sql.servers.encryption.as_ref();
        let (account, key) = (&reader.account, &reader.key);
        let mut server = ServerSession::open(address, encryption, account, key, &reader.manner)?;
        keep_alive(server.as_fd())?;
        let begun = Instant::now();
        loop {
            let found = Found::by(&mut server)?;
            found.check(group)?;
            let has = found.last;
            // Behind a lock nothing is applied, and the reader that holds it opens this, perhaps.
            let is_late = begun.elapsed() >= CATCH_UP_LIMIT;
            let may_lag = is_late || sql.locks.load(Ordering::SeqCst) > 0;
            let told = sql.told();
            if has >= newest || (may_lag && has >= told) {
                break;
            }
            if is_late {
                let (has, told) = (has.0, told.0);
                return Err(NoSession::Lags { has, told });
            }
            sleep(CATCH_UP_PAUSE);
        }
        Ok(SqlSession {
            sql,
            server,
            address: address.to_string(),
            state: State {
                is_in_transaction: false,
                autocommits: true,
            },
            reads: None,
            has_lock: false,
        })
    }

    /// The position of what this session reads, or would read now; no later than that.
    pub(crate) fn position(&mut self) -> Result<Result<Seqno, Refusal>, Lost> {
        let position = match (self.state.is_in_transaction, self.reads) {
            (false, _) => self.newest()?,
            (true, Some(position)) => position,
            (true, None) => {
                return Ok(Err(Refusal::unsupported(
                    "This relay does not know from which position on this transaction lacks \
                     changes: it was not begun by BEGIN, START TRANSACTION or a statement without \
                     autocommit. Ask before it, or begin it so",
                )));
            }
        };
        self.sql.told.fetch_max(position.0, Ordering::SeqCst);
        Ok(Ok(position))
    }

    fn newest(&mut self) -> Result<Seqno, Lost> {
        match Found::by(&mut self.server) {
            Ok(found) => Ok(found.last),
            Err(error) => Err(self.lost(&error, false)),
        }
    }

    /// Passes a command on, and its answer back. Rows of two texts, a variable and its value, get
    /// the value that `value_of` knows.
    pub(crate) fn pass<S: Connection>(
        &mut self,
        payload: &[u8],
        packets: &mut Packets<S>,
        value_of: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), Lost> {
        let (number, statement) = match payload.split_first() {
            Some((number, rest)) => (*number, String::from_utf8_lossy(rest)),
            None => return Ok(()),
        };
        let statement = match number {
            command::QUERY => bare(&statement),
            _ => "",
        };
        self.note_place(number, statement)?;
        self.server
            .send(payload)
            .map_err(|error| self.lost(&error, false))?;
        let Ok(Some(mut response)) = Response::to(number) else {
            return Ok(());
        };
        let mut is_amid_payload = false;
        loop {
            let received = self.server.receive(&mut || !packets.are_gone());
            let packet = received.map_err(|error| match packets.are_gone() {
                true => Lost::Reader(io::ErrorKind::UnexpectedEof.into()),
                false => self.lost(&error, is_amid_payload),
            })?;
            let place = match is_amid_payload {
                true => Place::Other,
                false => response
                    .take(packet.payload(), &mut self.state)
                    .map_err(|error| self.lost(&error, false))?,
            };
            is_amid_payload = packet.is_continued();
            match replaced(place, &packet, value_of) {
                Some(row) => packets.write(&row),
                None => packets.pass(&packet),
            }
            .map_err(Lost::Reader)?;
            if place == Place::Last {
                self.note_lock(statement, packet.payload());
                return packets.flush().map_err(Lost::Reader);
            }
        }
    }

    /// Notes the position before a statement that may begin to read.
    fn note_place(&mut self, number: u8, statement: &str) -> Result<(), Lost> {
        let begins = after_word(statement, "BEGIN")
            .or_else(|| after_word(statement, "START"))
            .is_some();
        let reads = matches!(number, command::QUERY | command::EXECUTE);
        if begins || (reads && !self.state.is_in_transaction && !self.state.autocommits) {
            self.reads = Some(self.newest()?);
        } else if !self.state.is_in_transaction {
            self.reads = None;
        }
        Ok(())
    }

    fn note_lock(&mut self, statement: &str, last: &[u8]) {
        if last.first() != Some(&0) {
            return;
        }
        let is_lock = after_word(statement, "FLUSH").is_some_and(|rest| {
            rest.trim_end_matches([';', ' '])
                .to_uppercase()
                .ends_with("WITH READ LOCK")
        });
        if is_lock && !self.has_lock {
            self.has_lock = true;
            self.sql.locks.fetch_add(1, Ordering::SeqCst);
        }
        if after_word(statement, "UNLOCK").is_some() {
            self.unlock();
        }
    }

    fn unlock(&mut self) {
        if std::mem::take(&mut self.has_lock) {
            self.sql.locks.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn lost(&self, error: &dyn std::error::Error, is_amid_payload: bool) -> Lost {
        Lost::Server {
            address: self.address.clone(),
            why: error.to_string(),
            is_amid_payload,
        }
    }
}

impl Drop for SqlSession<'_> {
    fn drop(&mut self) {
        self.unlock();
    }
}

/// A row with the relay's value of its variable, if it has one.
fn replaced(
    place: Place,
    packet: &RawPacket,
    value_of: &dyn Fn(&str) -> Option<String>,
) -> Option<Vec<u8>> {
    if place != Place::Row || packet.is_continued() {
        return None;
    }
    let row = text_row(packet.payload())?;
    let [Some(name), Some(_)] = row.as_slice() else {
        return None;
    };
    let value = value_of(name)?;
    let mut payload = Vec::new();
    put_text(&mut payload, name);
    put_text(&mut payload, &value);
    Some(payload)
}

/// A server's state, as it says it.
#[derive(Debug, Default)]
struct Found {
    group: String,
    is_ready: bool,
    last: Seqno,
}

impl Found {
    fn by(server: &mut ServerSession) -> Result<Found, ServerSessionError> {
        let mut found = Found::default();
        for row in server.ask(STATUS)? {
            if let [Some(name), Some(value)] = row.as_slice() {
                match name.as_str() {
                    "wsrep_cluster_state_uuid" => found.group.clone_from(value),
                    "wsrep_ready" => found.is_ready = value == "ON",
                    _ => found.last = Seqno(value.parse().unwrap_or(-1)),
                }
            }
        }
        Ok(found)
    }

    fn check(&self, group: GroupId) -> Result<(), NoSession> {
        let own = group.to_string();
        match () {
            () if self.group.is_empty() => Err(NoSession::Alone),
            () if !self.is_ready => Err(NoSession::NotReady),
            () if self.group != own => Err(NoSession::OtherGroup {
                found: self.group.clone(),
                own,
            }),
            () => Ok(()),
        }
    }
}
