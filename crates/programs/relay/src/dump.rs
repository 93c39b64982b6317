//! A dump: a reader gets the transactions from its place on, until it or the relay ends.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use synod_binlog::writer::FIRST_POSITION;
use synod_binlog::{BinlogWriter, EventError, EventType, Outgoing, Placed};
use synod_node::{CommittedLog, FollowError, Level, Seqno};

use crate::late_readers::LateReaderTurns;
use crate::one_reader_per_server_id::Seat;
use crate::protocol::greeting::SERVER_VERSION;
use crate::protocol::packet::{Connection, Packets, Refusal};
use crate::reader_connection::{Relay, displaced_by};
use crate::request::{Identity, Request, file_name};
use crate::source::{Sink, Source, SourceError, Transactions};
use crate::upstream_log::history::GtidState;
use crate::upstream_log::source::{KeptSource, Lacks};
use crate::upstream_log::tail::Tail;

/// A binlog that has become so large ends after its transaction, in bytes: positions have 32 bits.
const ROTATE_AT: u32 = 1 << 30;
/// A reader may be ahead of this relay, if it comes from another one. For so long this one waits.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(15);
/// A relay that has everything from its upstream so long after a reader asked will not get what the
/// reader has: the upstream did not have it then.
const LEVEL_AFTER: Duration = Duration::from_secs(7);
/// Pause at the end of the log, whose entries can be read a moment after it has moved.
const TAIL_PAUSE: Duration = Duration::from_millis(50);
/// Time of a binlog's format, in seconds. Debezium 3.2 ends with an error at a transaction before
/// which it has seen none but zero.
const FORMAT_TIME: u32 = 1;
/// Before each event of a dump: an event follows.
const EVENT: [u8; 1] = [0];
/// The same for a reader that wants to acknowledge events: this one needs no acknowledgement. The
/// group's commits wait for its own majority, never for readers.
const EVENT_WITHOUT_ACKNOWLEDGEMENT: [u8; 3] = [0, 0xef, 0];
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{0}")]
    Gone(#[from] io::Error),
}

impl From<SourceError> for DumpError {
    fn from(error: SourceError) -> DumpError {
        match error {
            SourceError::Reader(error) => DumpError::Gone(error),
            SourceError::Follow(FollowError::Purged { first }) => purged(first).into(),
            SourceError::Follow(error @ FollowError::Broken(_)) => {
                unreadable(&error.to_string()).into()
            }
            SourceError::Kept(error) if error.is_of_the_disk() => {
                unreadable(&error.to_string()).into()
            }
            error => Refusal::dump(error.to_string()).into(),
        }
    }
}

/// This relay cannot read its own log at present. A reader connects again, here or elsewhere.
fn unreadable(why: &str) -> Refusal {
    Refusal::not_yet(format!(
        "This relay cannot read its log at present: {why}. It tries again; another relay of the \
         group may serve"
    ))
}

fn purged(first: Seqno) -> Refusal {
    Refusal::dump(format!(
        "What the reader lacks has been purged: this relay's log begins with action {}. Copy a \
         server of the group again and set gtid_slave_pos from the copy, or use a relay whose log \
         begins earlier; synod.log_retain_size and synod.log_retain_age say how much is kept",
        first.0
    ))
}

#[derive(Clone)]
pub(crate) enum Origin {
    Group,
    /// An upstream whose transactions the group keeps unchanged, with the log's end.
    Upstream(Arc<Tail>),
}

/// The line about a reader that gets compressed rows. No reader announces whether it knows them.
const COMPRESSED: &str = "gets rows that are compressed (log_bin_compress = ON where they were \
                          written). Replicas of MariaDB know them, but programs for change data \
                          capture may pass over them without an error, and lose their changes: \
                          SET GLOBAL log_bin_compress = OFF on the servers, also in their files, \
                          and copy what such a program has lost";

/// Takes a line about the reader, for the log.
type Say<'a> = &'a dyn Fn(&str);

pub(crate) struct Dump<'a, S> {
    packets: &'a mut Packets<S>,
    relay: &'a Relay,
    log: CommittedLog,
    identity: Identity,
    request: Request,
    seat: &'a Seat<'a>,
}

impl<'a, S: Connection> Dump<'a, S> {
    pub(crate) fn new(
        packets: &'a mut Packets<S>,
        relay: &'a Relay,
        log: CommittedLog,
        identity: Identity,
        request: Request,
        seat: &'a Seat<'a>,
    ) -> Dump<'a, S> {
        Dump {
            packets,
            relay,
            log,
            identity,
            request,
            seat,
        }
    }

    /// Gives the reader what it has asked for. Ends without an error where the log does or at a
    /// GTID, if the reader wants that, and when the relay stops. An error if the reader cannot get
    /// that, or is gone; or a reader with its `server_id` has begun a newer dump.
    pub(crate) fn run(self) -> Result<(), DumpError> {
        let mut turns = LateReaderTurns::new(self.relay.permits.clone());
        let mut source = self.begin(&mut turns)?;
        let server_id = self.request.server_id;
        // No permit is held meanwhile: the older dump may wait for one before it looks.
        turns.ends_portion();
        self.seat.begin_dump(server_id, || self.log.wake());
        turns.begins();
        let place = self.seat.place();
        place.begins(source.passed(), source.gtids());
        let (output, from) = (&self.relay.output, place.get().from);
        let say = |text: &str| output.log(Level::Warning, &format!("the reader at {from} {text}"));
        let (identity, request) = (self.identity, &self.request);
        let mut binlog = Binlog::begin(self.packets, request, identity, &*source, turns, &say)?;
        let mut quiet_until = self.request.quiet_until();
        while let Some(seen) = self.log.moves() {
            if let Some(newer) = self.seat.newer() {
                return displaced(binlog.packets, server_id, newer);
            }
            let before = source.last();
            while !source.are_given() && source.step(&mut binlog)? {
                if source.is_between() {
                    binlog.rotate_if_large(&*source)?;
                }
                place.moved(source.passed(), || source.gtids());
                binlog.turns.passes_action();
                if let Some(newer) = self.seat.newer() {
                    return displaced(binlog.packets, server_id, newer);
                }
            }
            binlog.turns.is_at_end();
            binlog.packets.flush()?;
            if source.last() != before {
                quiet_until = self.request.quiet_until();
            }
            place.is_at(source.passed(), source.gtids());
            if source.are_given() {
                binlog.say_given(&*source)?;
            }
            if self.request.ends || source.are_given() {
                binlog.packets.write_end()?;
                return Ok(binlog.packets.flush()?);
            }
            self.log.wait_beyond(seen, quiet_until);
            if Instant::now() >= quiet_until {
                if binlog.packets.have_ended() {
                    return Ok(());
                }
                if !self.request.heartbeat.is_zero() {
                    binlog.heartbeat()?;
                }
                quiet_until = self.request.quiet_until();
            }
        }
        Ok(())
    }

    /// The transactions from the reader's place on. The search for it is paced, the wait for what
    /// this relay lacks yet is not.
    fn begin(&self, turns: &mut LateReaderTurns) -> Result<Box<dyn Transactions>, DumpError> {
        let Origin::Upstream(tail) = &self.relay.origin else {
            let after = self.request.after(self.identity)?;
            let until = self.request.until_action(self.identity)?;
            self.await_action(after)?;
            turns.begins();
            let follower = self.log.follow(after).map_err(SourceError::from)?;
            return Ok(Box::new(Source::new(follower, self.identity, until)));
        };
        let reader_id = self.request.server_id;
        let until = self.request.until_state()?;
        let kept = match self.request.gtids()? {
            Some(has) => {
                let has = GtidState::of(&has);
                self.await_gtids(tail, &has)?;
                turns.begins();
                KeptSource::after_gtids(&self.log, tail, Lacks::new(reader_id, has, until))
            }
            None => {
                let after = self.request.after_file()?;
                self.await_action(after)?;
                turns.begins();
                let lacks = Lacks::new(reader_id, GtidState::default(), until);
                KeptSource::after_action(&self.log, tail, lacks, after)
            }
        };
        Ok(Box::new(kept.map_err(SourceError::from)?))
    }

    /// Waits for transactions of the upstream that the reader has, and this relay may get yet.
    fn await_gtids(&self, tail: &Tail, has: &GtidState) -> Result<(), DumpError> {
        let asked = Instant::now();
        let deadline = asked + CATCH_UP_LIMIT;
        while let Some(seen) = self.log.moves() {
            let end = tail.end();
            if let Some(broken) = end.broken {
                return Err(match broken.is_final {
                    true => Refusal::dump(broken.why).into(),
                    false => unreadable(&broken.why).into(),
                });
            }
            let state = end.state.unwrap_or_default();
            let Some((reader, here)) = state.ahead(has) else {
                return Ok(());
            };
            if reader.sequence == here.sequence {
                return Err(Refusal::dump(format!(
                    "The reader is at {reader}, and that transaction is {here} on the upstream of \
                     this relay: the reader's data are of another server. Copy the upstream again"
                ))
                .into());
            }
            if Instant::now() >= deadline {
                // So long after the reader asked, it was not on its way either.
                let is_level = end.level_at.is_some_and(|at| at > asked + LEVEL_AFTER);
                let refusal = match is_level {
                    true => Refusal::dump(format!(
                        "The reader is at {reader}, and the upstream of this relay has none after \
                         {here}: the reader's data are of another server, or the upstream has \
                         lost transactions. Copy the upstream again"
                    )),
                    false => ahead(&reader, &here, "synod relay status", "upstream"),
                };
                return Err(refusal.into());
            }
            self.log
                .wait_beyond(seen, deadline.min(Instant::now() + TAIL_PAUSE));
        }
        Ok(())
    }

    /// Waits for an action that the reader has, and this relay may get yet.
    fn await_action(&self, after: Seqno) -> Result<(), DumpError> {
        let deadline = Instant::now() + CATCH_UP_LIMIT;
        while let Some(seen) = self.log.moves() {
            let last = self.log.commit_seqno();
            if last >= after {
                break;
            }
            if Instant::now() >= deadline {
                let (reader, here) = (after.0, last.0);
                return Err(ahead(
                    &format_args!("action {reader}"),
                    &format_args!("action {here}"),
                    "synod status",
                    "group",
                )
                .into());
            }
            self.log.wait_beyond(seen, deadline);
        }
        Ok(())
    }
}

/// The reader has what this relay does not: it is of elsewhere, or the relay lags.
fn ahead(reader: &dyn Display, here: &dyn Display, command: &str, source: &str) -> Refusal {
    Refusal::not_yet(format!(
        "The reader is at {reader}, and this relay knows none after {here}. A replica tries again \
         by itself until the relay has caught up. If it has ('{command}'), the reader's data are \
         not of this {source}: copy it again"
    ))
}

/// Ends the dump of a reader whose `server_id` a newer one has, and tells it unless it has ended.
fn displaced<S: Connection>(
    packets: &mut Packets<S>,
    server_id: u32,
    newer: SocketAddr,
) -> Result<(), DumpError> {
    if packets.have_ended() {
        return Ok(());
    }
    Err(displaced_by(server_id, newer).into())
}

struct Binlog<'a, S> {
    packets: &'a mut Packets<S>,
    writer: BinlogWriter,
    /// The reader wants the texts of statements: others may not know the event.
    annotates: bool,
    head: &'static [u8],
    turns: LateReaderTurns,
    /// None: it was said that rows are compressed.
    say: Option<Say<'a>>,
}

impl<'a, S: Read + Write> Binlog<'a, S> {
    fn begin(
        packets: &'a mut Packets<S>,
        request: &Request,
        identity: Identity,
        source: &dyn Transactions,
        turns: LateReaderTurns,
        say: Say<'a>,
    ) -> Result<Binlog<'a, S>, SourceError> {
        // Tools stop at once where a binlog has another name than they asked for.
        let file = match request.file.as_str() {
            "" => file_name(source.last()),
            asked => asked.to_owned(),
        };
        let mut binlog = Binlog {
            packets,
            writer: BinlogWriter::new(identity.server_id, request.checksum, file),
            annotates: request.annotates,
            head: match request.acknowledges {
                true => &EVENT_WITHOUT_ACKNOWLEDGEMENT,
                false => &EVENT,
            },
            turns,
            say: Some(say),
        };
        let named = binlog.writer.file_name();
        binlog.send(named)?;
        binlog.open(source)?;
        Ok(binlog)
    }

    /// Sends the head of a binlog: its format, and the GTIDs before it. Their times are before all
    /// others: programs that stop at a time compare it with that of every event.
    fn open(&mut self, source: &dyn Transactions) -> Result<(), SourceError> {
        let version = SERVER_VERSION.trim_start_matches("5.5.5-");
        let format = self.writer.format(version, FORMAT_TIME);
        self.send(format)?;
        let gtids = source.gtids().body();
        self.take(&Outgoing::new(EventType::GTID_LIST, 0, gtids))
    }

    /// Ends a binlog that has become large, and begins the one after the last action.
    fn rotate_if_large(&mut self, source: &dyn Transactions) -> Result<(), SourceError> {
        if self.writer.position() < ROTATE_AT {
            return Ok(());
        }
        let file = file_name(source.last());
        let next = synod_binlog::bodies::Rotate {
            position: FIRST_POSITION.into(),
            file: file.as_bytes(),
        };
        self.take(&Outgoing::new(EventType::ROTATE, 0, next.body()))?;
        self.writer = self.writer.next(file);
        self.open(source)
    }

    /// Tells the reader that it has everything up to where it wants to stop: its SQL thread ends.
    fn say_given(&mut self, source: &dyn Transactions) -> Result<(), SourceError> {
        self.send(self.writer.until_reached(&source.gtids()))
    }

    /// Has the log say once that the reader gets compressed rows.
    fn note_kind(&mut self, event_type: EventType) {
        if event_type.is_compressed_rows()
            && let Some(say) = self.say.take()
        {
            say(COMPRESSED);
        }
    }

    fn heartbeat(&mut self) -> Result<(), SourceError> {
        self.send(self.writer.heartbeat())?;
        Ok(self.packets.flush()?)
    }

    fn send(&mut self, event: Result<Placed<'_>, EventError>) -> Result<(), SourceError> {
        let event = event.map_err(io::Error::other)?;
        let [header, body, checksum] = event.pieces();
        let pieces = [self.head, header, body, checksum];
        let bytes = self.head.len() + event.size();
        if !self.packets.are_filled_by(bytes) {
            return Ok(self.packets.write_pieces(&pieces)?);
        }
        // The socket may take nothing for long: no permit is held meanwhile.
        self.turns.ends_portion();
        let sent_bytes = self.packets.gathered_bytes() + bytes;
        self.packets.write_pieces(&pieces)?;
        self.turns.begins_portion(sent_bytes);
        Ok(())
    }
}

impl<S: Read + Write> Sink for Binlog<'_, S> {
    fn take(&mut self, event: &Outgoing<'_>) -> Result<(), SourceError> {
        if event.event_type == EventType::ANNOTATE_ROWS && !self.annotates {
            return Ok(());
        }
        self.note_kind(event.event_type);
        let placed = self.writer.place(event);
        self.send(placed)
    }
}

#[cfg(test)]
mod tests {
    use synod_binlog::Checksum;

    use super::*;
    use crate::late_readers::LateReaderPermits;

    /// A socket: while bytes are written to it, all permits must be free.
    struct Socket(LateReaderPermits);

    impl Read for Socket {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }

    impl Write for Socket {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(self.0.try_take().is_some(), "its own permit is held");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn binlog<'a>(
        packets: &'a mut Packets<Socket>,
        checksum: Checksum,
        permits: &LateReaderPermits,
    ) -> Binlog<'a, Socket> {
        Binlog {
            packets,
            writer: BinlogWriter::new(1, checksum, file_name(Seqno(0))),
            annotates: false,
            head: &EVENT,
            turns: LateReaderTurns::new(permits.clone()),
            say: None,
        }
    }

    #[test]
    fn late_reader_holds_no_permit_while_its_socket_is_written_to() {
        let permits = LateReaderPermits::new(1);
        let mut packets = Packets::new(Socket(permits.clone()));
        let mut binlog = binlog(&mut packets, Checksum::Crc32, &permits);
        let mut give = |bytes: usize, times: usize| {
            for _ in 0..times {
                let event = Outgoing::new(EventType::XID, 0, vec![1; bytes]);
                binlog.take(&event).unwrap();
            }
            permits.try_take().is_some()
        };
        assert!(give(1000, 1000), "it is not late yet");
        assert!(!give(1000, 10_000), "it is late");
        assert!(!give(40 << 20, 1), "a large event is sent in parts");
        binlog.turns.is_at_end();
        binlog.packets.flush().unwrap();
        assert!(permits.try_take().is_some());
    }

    #[test]
    fn compressed_rows_are_said_once() {
        let said = std::cell::Cell::new(0);
        let say = |text: &str| {
            assert!(text.contains("log_bin_compress"));
            said.set(said.get() + 1);
        };
        let permits = LateReaderPermits::new(1);
        let mut packets = Packets::new(Socket(permits.clone()));
        let mut binlog = Binlog {
            say: Some(&say),
            ..binlog(&mut packets, Checksum::Crc32, &permits)
        };
        for (number, expected) in [(23, 0), (165, 0), (166, 1), (168, 1), (171, 1)] {
            let event = Outgoing::new(EventType(number), 0, vec![0; 10]);
            binlog.take(&event).unwrap();
            assert_eq!(said.get(), expected, "{number}");
        }
    }

    #[test]
    fn texts_of_statements_come_to_those_that_ask_for_them() {
        let permits = LateReaderPermits::new(1);
        let sent = |annotates| {
            let mut packets = Packets::new(Socket(permits.clone()));
            let mut binlog = Binlog {
                annotates,
                ..binlog(&mut packets, Checksum::None, &permits)
            };
            let text = Outgoing::new(EventType::ANNOTATE_ROWS, 0, b"UPDATE t SET v = 1".to_vec());
            binlog.take(&text).unwrap();
            binlog.packets.gathered_bytes()
        };
        assert!(sent(true) > 0);
        assert_eq!(sent(false), 0);
    }
}
