//! One reader's connection after its [admission](crate::callers): questions, and the dump at the
//! end.
//!
//! A reader may have the number of another one: of a server whose transactions it lacks, or of a
//! reader. A replica leaves out what has its own `server_id`: it takes it for its own, come back to
//! it. So it would follow, say that all is well, and have nothing. A primary with that number is
//! refused by the replica itself; behind a relay, the replica sees the relay's number only.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use synod_binlog::words::excerpt;

use synod_binlog::{Checksum, Gtid, GtidList};
use synod_commands::unix_ms;
use synod_logger::output::Output;
use synod_node::{CommittedLog, GroupId, Node};

use crate::accounts::Accounts;
use crate::callers::Admitted;
use crate::dump::{Dump, DumpError, Origin};
use crate::encryption::Encrypting;
use crate::late_readers::LateReaderPermits;
use crate::one_reader_per_server_id::Seat;
use crate::protocol::packet::{Answer, Connection, Packets, Refusal};
use crate::protocol::question::{Facts, ReaderVariables, answer};
use crate::protocol::whose::{Whose, bare, is_of_relay, whose};
use crate::request::{Identity, Request};
use crate::sql::{Lost, Response, Sql, SqlSession};
use crate::stalled_reader::why_reader_is_gone;
use crate::upstream_log::history::GtidState;

mod command {
    pub(super) use crate::sql::command::{INIT_DB, PING, PREPARE, QUERY};

    pub(super) const QUIT: u8 = 1;
    pub(super) const BINLOG_DUMP: u8 = 18;
    pub(super) const REGISTER_SLAVE: u8 = 21;
}

/// The reader knows GTIDs of MariaDB.
const KNOWS_GTIDS: u32 = 4;
/// The dump has the texts of statements before their rows: `BINLOG_SEND_ANNOTATE_ROWS_EVENT`.
const ANNOTATES: u16 = 2;
/// The dump ends where the log does: `BINLOG_DUMP_NON_BLOCK`.
const ENDS: u16 = 1;

/// A relay may read its log for so long before it knows where the upstream is.
const TAIL_LIMIT: Duration = Duration::from_secs(5);

/// State shared by all readers.
pub(crate) struct Relay {
    pub(crate) node: Arc<Node>,
    pub(crate) accounts: Accounts,
    pub(crate) encryption: Option<Encrypting>,
    pub(crate) domain: Option<u32>,
    /// Servers for the statements that are not the relay's; none: those are refused.
    pub(crate) sql: Option<Sql>,
    pub(crate) origin: Origin,
    pub(crate) permits: LateReaderPermits,
    pub(crate) output: Output,
}

impl Relay {
    /// Domain and server of the group's GTIDs; none before this member is in a group.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let group = self.node.status().group;
        (group != GroupId::NONE).then(|| Identity::of(group, self.domain))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The reader has gone, or got all that it wanted.
    Gone(String),
    Refused(String),
}

impl Ended {
    /// An end by this error, which the other side is told if the error is for it. `why_gone` says
    /// what has happened if the other side is gone.
    pub(crate) fn by<S: Connection>(
        packets: &mut Packets<S>,
        error: DumpError,
        why_gone: impl FnOnce(&io::Error) -> String,
    ) -> Ended {
        match error {
            DumpError::Gone(error) => Ended::Gone(why_gone(&error)),
            DumpError::Refused(refusal) => {
                let text = refusal.text.clone();
                // The reader may be gone.
                let _ = packets.answer(&Answer::Refused(refusal));
                Ended::Refused(text)
            }
        }
    }
}

pub(crate) struct Reader<'a, S> {
    relay: &'a Relay,
    seat: &'a Seat<'a>,
    packets: Packets<S>,
    who: Admitted,
    variables: ReaderVariables,
    session: Option<SqlSession<'a>>,
    /// `server_id` by which the reader has registered; zero: none.
    server_id: u32,
}

impl<'a, S: Connection> Reader<'a, S> {
    pub(crate) fn new(
        relay: &'a Relay,
        seat: &'a Seat<'a>,
        packets: Packets<S>,
        who: Admitted,
    ) -> Reader<'a, S> {
        Reader {
            relay,
            seat,
            packets,
            who,
            variables: ReaderVariables::default(),
            session: None,
            server_id: 0,
        }
    }

    pub(crate) fn run(mut self) -> Ended {
        let Err(error) = self.serve() else {
            return Ended::Gone("it has ended the connection".to_owned());
        };
        let is_in_dump = self.seat.place().get().began.is_some();
        let (newer, server_id) = (self.seat.newer(), self.server_id);
        Ended::by(&mut self.packets, error, |error| match newer {
            Some(newer) => displaced_in_silence(server_id, newer),
            None => why_reader_is_gone(error, is_in_dump),
        })
    }

    fn serve(&mut self) -> Result<(), DumpError> {
        loop {
            let payload = match self.packets.read() {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            };
            let Some((command, rest)) = payload.split_first() else {
                return Err(unknown_command(0).into());
            };
            match *command {
                command::QUIT => return Ok(()),
                command::BINLOG_DUMP => {
                    self.session = None;
                    return self.dump(rest);
                }
                command::QUERY => self.statement(&payload, rest)?,
                command::REGISTER_SLAVE => {
                    self.server_id = u32_at(rest, 0).unwrap_or(0);
                    self.packets.answer(&Answer::Done)?;
                }
                command::PING if self.session.is_none() => self.packets.answer(&Answer::Done)?,
                command::PREPARE if self.relay.sql.is_some() && !is_servers(rest) => {
                    self.packets.answer(&Answer::Refused(not_prepared()))?;
                }
                other if self.relay.sql.is_some() && passes(other) => {
                    self.pass(&payload, &|_| None)?;
                }
                command::INIT_DB => self.packets.answer(&Answer::Done)?,
                other => self
                    .packets
                    .answer(&Answer::Refused(unknown_command(other)))?,
            }
        }
    }

    fn statement(&mut self, payload: &[u8], text: &[u8]) -> Result<(), DumpError> {
        let text = String::from_utf8_lossy(text);
        let whose = match &self.relay.sql {
            Some(_) => whose(&text),
            None => Whose::Relay,
        };
        if whose == Whose::Server {
            return self.pass(payload, &|_| None);
        }
        let Some(mut facts) = self.facts() else {
            return Ok(self.packets.answer(&Answer::Refused(not_in_group()))?);
        };
        if matches!(whose, Whose::Place | Whose::Variables)
            && let Err(refusal) = self.begin_where_the_session_reads(&mut facts)?
        {
            return Ok(self.packets.answer(&Answer::Refused(refusal))?);
        }
        if whose == Whose::Variables {
            let known = facts.variables();
            return self.pass(payload, &|name| {
                let found = known
                    .iter()
                    .find(|(own, _)| own.eq_ignore_ascii_case(name))?;
                is_of_relay(found.0).then(|| found.1.clone())
            });
        }
        let answered = answer(bare(&text), &facts, &mut self.variables);
        if whose == Whose::Both && answered == Answer::Done {
            return self.pass(payload, &|_| None);
        }
        Ok(self.packets.answer(&answered)?)
    }

    /// Has the facts be those of the place of what the session reads.
    fn begin_where_the_session_reads(
        &mut self,
        facts: &mut Facts,
    ) -> Result<Result<(), Refusal>, DumpError> {
        let position = self.session()?.position()?;
        Ok(position.map(|seqno| {
            facts.last = seqno;
            facts.gtids = GtidList(vec![facts.identity.gtid(seqno)]);
        }))
    }

    /// The session at a server, begun if need be.
    fn session(&mut self) -> Result<&mut SqlSession<'a>, DumpError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => {
                let relay = self.relay;
                let sql = relay.sql.as_ref().ok_or_else(not_in_group)?;
                let status = relay.node.status();
                let session = sql.open(&self.who, status.group, relay.node.commit_seqno())?;
                self.packets.may_be_silent()?;
                session
            }
        };
        Ok(self.session.insert(session))
    }

    fn pass(
        &mut self,
        payload: &[u8],
        value_of: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), DumpError> {
        self.session()?;
        match &mut self.session {
            Some(session) => Ok(session.pass(payload, &mut self.packets, value_of)?),
            None => Ok(()),
        }
    }

    fn facts(&self) -> Option<Facts> {
        let identity = self.relay.identity()?;
        let log: CommittedLog = self.relay.node.committed_log();
        let last = log.commit_seqno();
        let gtids = match &self.relay.origin {
            Origin::Group => GtidList(vec![identity.gtid(last)]),
            Origin::Upstream(tail) => tail.end().state.unwrap_or_default().list(),
        };
        Some(Facts {
            identity,
            first: log.first_seqno(),
            last,
            gtids,
            now: unix_ms() / 1000,
        })
    }

    fn dump(&mut self, rest: &[u8]) -> Result<(), DumpError> {
        let identity = self.relay.identity();
        let identity = identity.ok_or_else(not_in_group)?;
        let request = self.request(rest)?;
        check_account(&self.relay.accounts, &self.who.account, self.server_id)?;
        self.seat.place().is_server(self.server_id);
        let log = self.relay.node.committed_log();
        self.check_server_id(identity, &request, &log)?;
        let (relay, packets) = (self.relay, &mut self.packets);
        Dump::new(packets, relay, log, identity, request, self.seat).run()
    }

    fn check_server_id(
        &self,
        identity: Identity,
        request: &Request,
        log: &CommittedLog,
    ) -> Result<(), Refusal> {
        check_relay(self.server_id, identity)?;
        let Origin::Upstream(tail) = &self.relay.origin else {
            return Ok(());
        };
        // A relay that has just started may not have read it.
        tail.await_seqno(log.commit_seqno(), TAIL_LIMIT);
        let newest = tail.end().state.unwrap_or_default();
        check_upstream(self.server_id, request.gtids.as_deref(), &newest)
    }

    /// Request made by COM_BINLOG_DUMP and the variables before it.
    fn request(&mut self, rest: &[u8]) -> Result<Request, Refusal> {
        const FILE: usize = 4 + 2 + 4;
        let short = || Refusal::dump("COM_BINLOG_DUMP is shorter than 10 bytes");
        let position = u32_at(rest, 0).ok_or_else(short)?;
        let flags = rest.get(4..6).and_then(|bytes| bytes.first_chunk());
        let flags = u16::from_le_bytes(*flags.ok_or_else(short)?);
        if self.server_id == 0 {
            self.server_id = u32_at(rest, 6).ok_or_else(short)?;
        }
        let capability = self.number("mariadb_slave_capability").unwrap_or(0);
        if capability < u64::from(KNOWS_GTIDS) {
            return Err(Refusal::dump(
                "This relay serves readers that know the GTIDs of MariaDB: they say SET \
                 @mariadb_slave_capability = 4 before they ask for a dump",
            ));
        }
        let file = rest.get(FILE..).unwrap_or_default();
        let file = file.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Request {
            server_id: self.server_id,
            gtids: self.variables.get("slave_connect_state").map(str::to_owned),
            until: self.variables.get("slave_until_gtid").map(str::to_owned),
            file: excerpt(file),
            position,
            ends: flags & ENDS != 0,
            annotates: flags & ANNOTATES != 0,
            checksum: self.checksum(),
            heartbeat: Duration::from_nanos(self.number("master_heartbeat_period").unwrap_or(0)),
            acknowledges: self.number("rpl_semi_sync_slave") == Some(1),
        })
    }

    /// A reader that names no kind of checksum knows none.
    fn checksum(&self) -> Checksum {
        match self.variables.get("master_binlog_checksum") {
            Some(name) if name.eq_ignore_ascii_case("CRC32") => Checksum::Crc32,
            Some(_) | None => Checksum::None,
        }
    }

    fn number(&self, variable: &str) -> Option<u64> {
        self.variables.get(variable)?.parse().ok()
    }
}

impl From<Lost> for DumpError {
    fn from(lost: Lost) -> DumpError {
        match lost {
            Lost::Reader(error) => DumpError::Gone(error),
            Lost::Server {
                is_amid_payload: true,
                ..
            } => DumpError::Gone(io::Error::other(lost)),
            Lost::Server { .. } => Refusal::not_yet(lost.to_string()).into(),
        }
    }
}

/// Whether this command is one that goes to a server.
fn passes(command: u8) -> bool {
    Response::to(command).is_ok()
}

fn is_servers(statement: &[u8]) -> bool {
    whose(&String::from_utf8_lossy(statement)) == Whose::Server
}

/// `ER_UNSUPPORTED_PS`: programs send the statement itself then.
fn not_prepared() -> Refusal {
    let text = "This relay answers statements about its binlog as they are, not prepared";
    Refusal::new(1295, "HY000", text)
}

/// Why the connection of an older reader has ended without an error to it: that reader takes
/// nothing, or takes a large transaction slowly.
fn displaced_in_silence(server_id: u32, newer: SocketAddr) -> String {
    format!(
        "it did not end within two seconds when the reader at {newer}, which has server_id \
         {server_id}, too, began its dump"
    )
}

pub(crate) fn not_in_group() -> Refusal {
    Refusal::not_yet("This relay is in no group yet. Try again; its log says what it waits for")
}

fn unknown_command(number: u8) -> Refusal {
    let text = format!("This is a synod relay: it does not know command {number}");
    Refusal::new(1047, "08S01", text)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn check_relay(server_id: u32, identity: Identity) -> Result<(), Refusal> {
    if server_id != identity.server_id {
        return Ok(());
    }
    Err(Refusal::dump(format!(
        "The reader's server_id is {server_id}, which this group has for its readers. Give the \
         reader another server_id"
    )))
}

/// Refuses a reader that has these GTIDs, and the number of a server that has written a newest
/// transaction which the reader lacks: at once, though the dump would come to it, too
/// ([`own_transaction`]). A former primary that lacks nothing of its own may follow.
fn check_upstream(server_id: u32, gtids: Option<&str>, newest: &GtidState) -> Result<(), Refusal> {
    // What is no list is refused where the dump begins.
    let has = gtids.and_then(|list| list.parse::<GtidList>().ok());
    let has = GtidState::of(&has.unwrap_or_default());
    match newest.of_server(server_id, &has) {
        None => Ok(()),
        Some(lacked) => Err(Refusal::dump(own_transaction(lacked))),
    }
}

/// The error for a reader that lacks a transaction which a server with the reader's number has
/// written.
pub(crate) fn own_transaction(lacked: Gtid) -> String {
    format!(
        "The reader's server_id is {}, and so is that of the server that has written {lacked}, \
         which the reader lacks: a replica leaves out what has its own number, without an error. \
         Give the reader another server_id",
        lacked.server_id
    )
}

/// Refuses a number that is bound to another account, or that is none of the reader's account.
fn check_account(accounts: &Accounts, account: &str, server_id: u32) -> Result<(), Refusal> {
    if accounts.may_have_server_id(account, server_id) {
        return Ok(());
    }
    Err(Refusal::dump(format!(
        "The reader's server_id is {server_id}, which account '{account}' may not have \
         (relay.server_ids in the relay's file). Give the reader its own server_id, or add it there"
    )))
}

/// The error for a reader whose dump ends because a newer reader has its `server_id`.
///
/// The text begins as that of MySQL does: a relay that reads from this one knows these words.
pub(crate) fn displaced_by(server_id: u32, newer: SocketAddr) -> Refusal {
    Refusal::dump(format!(
        "A slave with the same server_uuid/server_id as this one has connected to this relay, from \
         {newer}. Both readers have server_id {server_id}, and a relay serves the newer one. Give \
         one of them another server_id, then start this reader again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(server_id: u32, gtids: &str) -> Option<String> {
        let newest = GtidState::of(&"0-7-30,1-8-4".parse().unwrap());
        let checked = check_upstream(server_id, Some(gtids), &newest);
        checked.err().map(|refusal| refusal.text)
    }

    #[test]
    fn number_of_a_server_is_refused_to_readers_that_lack_what_it_wrote() {
        let text = refused(7, "0-7-29").unwrap();
        assert!(text.contains("server_id is 7") && text.contains("0-7-30"));
        assert!(refused(8, "0-7-30").is_some() && refused(7, "nonsense").is_some());
        assert_eq!(refused(7, "0-7-30"), None, "a former primary");
        assert_eq!(refused(9, ""), None);
        assert_eq!(refused(0, ""), None, "mariadb-binlog");
    }

    #[test]
    fn number_of_the_relay_is_refused() {
        let identity = Identity {
            domain: 1,
            server_id: 5,
        };
        assert!(check_relay(5, identity).is_err() && check_relay(6, identity).is_ok());
    }
}
