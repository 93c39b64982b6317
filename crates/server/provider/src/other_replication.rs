//! MariaDB's own replication beside the group: a binlog of this server, and its replica threads.
//!
//! After a crash the group's log gives back the rows that InnoDB has lost, and those that the group
//! had committed and InnoDB had not yet. It gives back nothing else that was committed with them,
//! such as `gtid_slave_pos`. The server puts the GTID of what a replica thread commits into its
//! write set only with `log_bin`, `log_slave_updates` and `wsrep_gtid_mode`; then the position
//! returns with the rows. Without, a replica thread executes them again, on all servers.
//!
//! A write set of a replica thread is known by the `server_id` in its first event: that of the
//! server which executed the transaction first. The library warns when it sees one without its
//! GTID. It refuses what has returned from the log already: a replica thread that has begun before
//! that knows an old position, and one whose position did not return will never know better. The
//! thread stops then, in the place of a silent difference.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_binlog::event::HEADER_BYTES;
use synod_binlog::gtid::GtidEvent;
use synod_binlog::{EventHeader, EventType};

use crate::api::{LogLevel, WsFlags};
use crate::boundary;
use crate::connection::session::Server;
use crate::server_program::Settings;

#[derive(Debug, Default)]
pub(crate) struct OtherReplication {
    /// This server's own number at its start; none: not known, so nothing is recognised.
    server_id: Option<u32>,
    /// `innodb_flush_log_at_trx_commit`, if it is not 1 and there is a binlog.
    weak_flush: Option<String>,
    has_warned: AtomicBool,
    /// Whether `returned` has something: asked at each commit.
    has_returned: AtomicBool,
    /// Write sets of this server's replica threads that have returned from the log, by the
    /// `server_id` of their source.
    returned: Mutex<BTreeMap<u32, Returned>>,
}

#[derive(Debug, Default)]
struct Returned {
    /// By domain: the last GTID's number. The position has returned with it.
    up_to: BTreeMap<u32, u64>,
    /// Transactions after that, of which the position did not.
    after: u64,
    /// Whether any came without its GTID.
    lacks_gtids: bool,
}

/// The source of a write set, by its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A client of this server, or a part of which nothing is known.
    Here,
    Outside {
        server_id: u32,
        /// Domain and number; none: the write set does not name it.
        gtid: Option<(u32, u64)>,
    },
}

/// The first event that says where a write set comes from, and what follows its header. A statement
/// has a description of the format before it, which is this server's own.
fn first_event(events: &[u8]) -> Option<(EventHeader, &[u8])> {
    let first = EventHeader::parse(events).ok()?;
    if first.event_type != EventType::FORMAT_DESCRIPTION {
        return Some((first, &events[HEADER_BYTES..]));
    }
    let rest = events.get(usize::try_from(first.event_bytes).ok()?..)?;
    Some((EventHeader::parse(rest).ok()?, &rest[HEADER_BYTES..]))
}

impl OtherReplication {
    pub(crate) fn new(settings: &Settings) -> OtherReplication {
        let binlog = settings.get("log-bin");
        let has_binlog = binlog.is_some_and(|name| !matches!(name, "0" | "(No default value)"));
        let flush = settings.get("innodb-flush-log-at-trx-commit");
        OtherReplication {
            server_id: settings.number("server-id"),
            weak_flush: flush
                .filter(|value| has_binlog && *value != "1")
                .map(str::to_owned),
            ..OtherReplication::default()
        }
    }

    pub(crate) fn warning(&self) -> Option<String> {
        let value = self.weak_flush.as_ref()?;
        Some(format!(
            "log_bin is on, and innodb_flush_log_at_trx_commit is {value}: after a crash of this \
             server, rows of its last second are in its binary log twice, and whatever reads that \
             log gets them twice, or stops. Set innodb_flush_log_at_trx_commit = 1 and \
             sync_binlog = 1, or skip_log_bin"
        ))
    }

    fn source_of(&self, flags: WsFlags, events: &[u8]) -> Source {
        let whole = WsFlags::TRX_START | WsFlags::TRX_END;
        let is_statement = flags.contains(WsFlags::ISOLATION);
        let (Some(own), Some((first, body))) = (self.server_id, first_event(events)) else {
            return Source::Here;
        };
        if first.server_id == own || !(flags.contains(whole) || is_statement) {
            return Source::Here;
        }
        let gtid = match GtidEvent::parse(body) {
            Ok(event) if first.event_type == EventType::GTID => {
                Some((event.domain, event.sequence))
            }
            _ => None,
        };
        Source::Outside {
            server_id: first.server_id,
            gtid,
        }
    }

    /// A write set of this server's former process, which was lost here, has returned from the log.
    pub(crate) fn note_returned(&self, flags: WsFlags, events: &[u8]) {
        let Source::Outside { server_id, gtid } = self.source_of(flags, events) else {
            return;
        };
        let mut returned = self.returned();
        let of_source = returned.entry(server_id).or_default();
        match gtid {
            Some((domain, seq)) => {
                of_source.up_to.insert(domain, seq);
                of_source.after = 0;
            }
            None => {
                of_source.after += 1;
                of_source.lacks_gtids = true;
            }
        }
        self.has_returned.store(true, Ordering::Release);
    }

    fn refusal(&self, source: Source) -> Option<String> {
        let Source::Outside { server_id, gtid } = source else {
            return None;
        };
        if !self.has_returned.load(Ordering::Acquire) {
            return None;
        }
        let returned = self.returned();
        let of_source = returned.get(&server_id)?;
        if of_source.lacks_gtids {
            // Its statements, too: the GTID of one may be lost although its table is on disk.
            return Some(format!(
                "Synod refuses what comes from the server with server_id {server_id}: \
                 transactions of it came back from the group's log after a crash, and \
                 gtid_slave_pos does not say so. STOP SLAVE, correct gtid_slave_pos, and restart \
                 this server: its error log said how when it was synced"
            ));
        }
        let (domain, seq) = gtid?;
        (*of_source.up_to.get(&domain)? >= seq).then(|| {
            format!(
                "Synod refuses transaction {domain}-{server_id}-{seq}: it came back from the \
                 group's log after a crash, and is executed already. The replica thread began at \
                 an older position: STOP SLAVE; START SLAVE. So that it does not come again: \
                 skip_slave_start"
            )
        })
    }

    /// Tells how much a replica thread would execute again; none: nothing, or the thread knows.
    pub(crate) fn what_returned(&self) -> Option<String> {
        let returned = self.returned();
        let lacking = returned.iter().filter(|(_, of)| of.lacks_gtids);
        let counts =
            lacking.map(|(server_id, of)| format!("{} of server_id {server_id}", of.after));
        let counts: Vec<String> = counts.collect();
        if counts.is_empty() {
            return None;
        }
        Some(format!(
            "transactions that a replica thread of this server had executed have come back from \
             the group's log after a crash, and the thread's position has not: the thread would \
             execute them again, on all servers of the group. After @@gtid_slave_pos these are \
             {}. What comes from there is refused until this server is restarted, and the thread \
             stops. Do: STOP SLAVE; find the GTID that many transactions with rows after \
             @@gtid_slave_pos, by mariadb-binlog at the source; SET GLOBAL gtid_slave_pos to it; \
             restart this server; START SLAVE. So that it does not come again: log_bin, \
             log_slave_updates and wsrep_gtid_mode = ON on all servers of the group",
            counts.join(", ")
        ))
    }

    fn returned(&self) -> MutexGuard<'_, BTreeMap<u32, Returned>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a local write set is taken, as far as it is of a replica thread; the thread is told
    /// why not.
    pub(crate) fn takes(&self, server: &Server, flags: WsFlags, events: &[u8]) -> bool {
        let source = self.source_of(flags, events);
        if let Some(text) = self.refusal(source) {
            // A client gets it. A replica thread stops without a word.
            boundary::refuse_statement(&text);
            server.log(LogLevel::Error, text);
            return false;
        }
        if let Source::Outside {
            server_id,
            gtid: None,
        } = source
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            let text = format!(
                "transactions of the server with server_id {server_id} are executed here, by a \
                 replica thread or from mariadb-binlog, and the group is not told their GTIDs: if \
                 this server crashes, they come back from the group's log, and the replica's \
                 position does not; then this server refuses what would be executed twice. For a \
                 replica, set log_bin, log_slave_updates and wsrep_gtid_mode = ON on all servers \
                 of the group. This line is not repeated until the next start"
            );
            server.log(LogLevel::Warn, text);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: WsFlags = WsFlags(WsFlags::TRX_START.0 | WsFlags::TRX_END.0);

    fn settings(lines: &str) -> OtherReplication {
        OtherReplication::new(&Settings::parse(lines))
    }

    fn rows(server_id: u32) -> Vec<u8> {
        event(EventType::TABLE_MAP, server_id)
    }

    fn event(kind: EventType, server_id: u32) -> Vec<u8> {
        let mut event = vec![0; HEADER_BYTES];
        event[4] = kind.0;
        event[5..9].copy_from_slice(&server_id.to_le_bytes());
        event
    }

    /// Events that begin with the GTID of this number, in domain 0.
    fn named(server_id: u32, seq: u64) -> Vec<u8> {
        let mut event = event(EventType::GTID, server_id);
        event.extend(seq.to_le_bytes());
        event.extend([0; 11]);
        event
    }

    fn refusal(other: &OtherReplication, events: &[u8]) -> Option<String> {
        other.refusal(other.source_of(WHOLE, events))
    }

    #[test]
    fn binlog_wants_each_commit_flushed() {
        let warning = |binlog: &str, flush: u8| {
            let lines = format!("log-bin {binlog}\ninnodb-flush-log-at-trx-commit  {flush}\n");
            settings(&lines).warning()
        };
        assert!(warning("binlog", 0).unwrap().contains("commit is 0"));
        assert!(warning("binlog", 2).is_some());
        assert_eq!(warning("binlog", 1), None);
        assert_eq!(warning("(No default value)", 0), None);
        assert_eq!(warning("0", 0), None);
        assert_eq!(settings("").warning(), None, "not known");
    }

    #[test]
    fn returned_write_set_without_its_gtid_is_not_executed_again() {
        let other = settings("server-id 5");
        assert_eq!(refusal(&other, &rows(77)), None);
        other.note_returned(WHOLE, &rows(5));
        assert_eq!(other.what_returned(), None, "of a client");
        other.note_returned(WHOLE, &rows(77));
        other.note_returned(WHOLE, &rows(77));
        assert!(refusal(&other, &rows(77)).unwrap().contains("server_id 77"));
        assert!(other.what_returned().unwrap().contains("2 of server_id 77"));
        assert_eq!(refusal(&other, &rows(5)), None, "a client of this server");
        assert_eq!(refusal(&other, &rows(78)), None, "another source");
        let part = other.source_of(WsFlags::TRX_START, &rows(77));
        assert_eq!(part, Source::Here, "a fragment");
    }

    /// A thread that began before it returned repeats it; the next one does not.
    #[test]
    fn transaction_that_has_returned_is_refused_by_its_gtid() {
        let other = settings("server-id 5");
        other.note_returned(WHOLE, &named(77, 40));
        other.note_returned(WHOLE, &named(77, 41));
        assert_eq!(other.what_returned(), None, "the position is right");
        assert!(refusal(&other, &named(77, 40)).unwrap().contains("0-77-40"));
        assert!(refusal(&other, &named(77, 41)).is_some());
        assert_eq!(refusal(&other, &named(77, 42)), None);
        assert_eq!(refusal(&other, &named(78, 41)), None, "another server's");
    }

    /// A statement in total order always has its GTID.
    #[test]
    fn gtid_that_has_returned_says_the_position() {
        let other = settings("server-id 5");
        other.note_returned(WHOLE, &rows(77));
        let mut described = event(EventType::FORMAT_DESCRIPTION, 5);
        described[9..13].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        let statement = [described, named(77, 40)].concat();
        other.note_returned(WsFlags::ISOLATION, &statement);
        other.note_returned(WHOLE, &rows(77));
        assert!(other.what_returned().unwrap().contains("1 of server_id 77"));
        assert!(refusal(&other, &rows(77)).is_some());
        let statement = other.source_of(WsFlags::ISOLATION, &statement);
        assert!(other.refusal(statement).is_some());
    }

    #[test]
    fn short_data_and_an_unknown_number_are_no_replica() {
        let other = settings("server-id 5");
        assert_eq!(other.source_of(WHOLE, &[1; 8]), Source::Here);
        let other = settings("");
        assert_eq!(other.source_of(WHOLE, &rows(77)), Source::Here);
    }
}
