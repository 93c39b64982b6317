//! A dump of an upstream's binlog, and its control from other threads: acknowledge and stop.
//!
//! Packets of a dump hold events, with or without the wish for an acknowledgement, or its end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use synod_binlog::{GtidList, MysqlGtidSet};

use crate::config::UpstreamConfig;
use crate::error::{Obstacle, UpstreamError};
use crate::link::{Link, LinkReader, PacketError, lock, read_packet, small_packet};
use crate::messages::{SEMI_SYNC_MARK, ServerError, acknowledgement, is_end};
use crate::position::{FilePosition, Held, Incoming, Position};
use crate::session::{Session, is_silence};
use crate::stream::Decoder;

/// So many heartbeats may be missing: with fewer, a busy upstream would be taken for a dead one.
const SILENT_PERIODS: u32 = 5;
/// The upstream may search its files for so long, without a heartbeat, until the first event.
const SEARCH_LIMIT: Duration = Duration::from_secs(60);
/// A larger event is an error, in bytes: an event is in memory as a whole.
const EVENT_BYTES_MAX: usize = 256 << 20;
/// Most bytes before an event in its packet.
const PREFIX_BYTES_MAX: usize = 3;

/// A dump of an upstream's binlog. One thread reads it; others reach it by its handle.
#[derive(Debug)]
pub struct Upstream {
    handle: UpstreamHandle,
    reader: LinkReader,
    decoder: Decoder,
    form: Option<Form>,
    server_id: u32,
    silent_after: Duration,
    version: String,
    start: GtidList,
    mysql_start: Option<MysqlGtidSet>,
    begins: String,
    limit: Duration,
    /// End of the reader's last transaction, until that is acknowledged.
    held: Option<FilePosition>,
}

impl Upstream {
    /// Connects, asks what a replica asks, and has the dump begin. Bounded in time. What is wrong
    /// with the position may show only at the first [`Upstream::next`].
    pub fn connect(
        config: &UpstreamConfig,
        position: &Position,
    ) -> Result<Upstream, UpstreamError> {
        Upstream::connect_holding(config, position, None)
    }

    /// A commit of the upstream may wait for the last transaction up to the position, `held`, which
    /// the upstream does not send again. So it is acknowledged, if it ends in this upstream's
    /// binlog where it ended when received. MySQL is asked to send it again instead.
    pub fn connect_holding(
        config: &UpstreamConfig,
        position: &Position,
        held: Option<&Held>,
    ) -> Result<Upstream, UpstreamError> {
        match Upstream::begin(config, position, held) {
            // It reads its file up to that place, which may be large: then the commit waits.
            Err(UpstreamError::Silent(_)) if held.is_some() => {
                Upstream::begin(config, position, None)
            }
            begun => begun,
        }
    }

    fn begin(
        config: &UpstreamConfig,
        position: &Position,
        held: Option<&Held>,
    ) -> Result<Upstream, UpstreamError> {
        let mut session = Session::open(config)?;
        let prepared = if session.is_mysql {
            session.prepare_mysql(config, position, held)?
        } else {
            session.prepare(config, position, held)?
        };
        session.send(0, &prepared.dump)?;
        let silent_after = config.heartbeat.saturating_mul(SILENT_PERIODS);
        let limit = silent_after.max(SEARCH_LIMIT);
        session.link.set_limit(limit).map_err(UpstreamError::Lost)?;
        let begins = prepared.begins();
        let filter = config.filter.clone();
        Ok(Upstream {
            handle: UpstreamHandle::new(session.link),
            reader: session.reader,
            decoder: Decoder::new(
                filter,
                config.part_bytes,
                prepared.checksum,
                prepared.translator,
            )
            .with_explicit_defaults(prepared.explicit_defaults),
            form: None,
            server_id: config.server_id,
            silent_after,
            version: session.version,
            begins,
            start: prepared.start,
            mysql_start: prepared.mysql_start,
            limit,
            held: prepared.held,
        })
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// The transactions before the first one that comes: the newest of each domain. A position in a
    /// file, or now, has become this list.
    pub fn start(&self) -> &GtidList {
        &self.start
    }

    /// The transactions of MySQL before the first one that comes; none: the upstream is MariaDB.
    pub fn mysql_start(&self) -> Option<&MysqlGtidSet> {
        self.mysql_start.as_ref()
    }

    pub fn place(&self) -> &FilePosition {
        self.decoder.place()
    }

    /// Waits for the next thing: as long as a few heartbeats, at most; the first time up to a
    /// minute. After an error the connection is of no use, and the next call gives an error again.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end after an error, and errors are what callers wait for"
    )]
    pub fn next(&mut self) -> Result<Incoming, UpstreamError> {
        let next = self.read_on();
        match &next {
            Ok(_) => self.expect_heartbeats()?,
            Err(_) => self.handle.stop(),
        }
        next
    }

    /// [`UpstreamHandle::acknowledge`] on the same thread.
    pub fn acknowledge(&mut self, end: &FilePosition) -> Result<(), UpstreamError> {
        self.handle.acknowledge(end)
    }

    pub fn handle(&self) -> UpstreamHandle {
        self.handle.clone()
    }

    fn read_on(&mut self) -> Result<Incoming, UpstreamError> {
        loop {
            // What has been read ahead is not wanted any more.
            if self.handle.link.is_stopped() {
                return Err(UpstreamError::Stopped);
            }
            if let Some(incoming) = self.decoder.give() {
                return Ok(incoming);
            }
            self.read_event()?;
        }
    }

    fn read_event(&mut self) -> Result<(), UpstreamError> {
        let read = read_packet(&mut self.reader, EVENT_BYTES_MAX + PREFIX_BYTES_MAX);
        let payload = read.map_err(|error| self.explain(error))?.payload;
        let form = *self.form.get_or_insert_with(|| Form::of_first(&payload));
        let (skipped, wants_acknowledgement) = form
            .parse(&payload)
            .map_err(|end| end.explain(self.server_id, &self.begins))?;
        if let Some(held) = self.held.take().filter(|_| form == Form::SemiSync) {
            self.handle.acknowledge_held(&held)?;
        }
        self.decoder.take(payload, skipped)?;
        if wants_acknowledgement {
            let place = self.decoder.place().clone();
            if self.decoder.is_skipping() {
                self.handle.acknowledge_held(&place)?;
            } else {
                self.handle.want(place);
            }
        }
        Ok(())
    }

    /// The upstream has found its place: from now on it is silent for short times only.
    fn expect_heartbeats(&mut self) -> Result<(), UpstreamError> {
        if self.limit != self.silent_after {
            self.limit = self.silent_after;
            let set = self.handle.link.set_limit(self.limit);
            set.map_err(UpstreamError::Lost)?;
        }
        Ok(())
    }

    fn explain(&self, error: PacketError) -> UpstreamError {
        match error {
            _ if self.handle.link.is_stopped() => UpstreamError::Stopped,
            PacketError::Io(error) if is_silence(&error) => UpstreamError::Silent(self.limit),
            PacketError::Io(error) => UpstreamError::Lost(error),
            PacketError::TooLarge => UpstreamError::NotFollowed {
                place: self.decoder.place().clone(),
                why: Obstacle::TooLarge(EVENT_BYTES_MAX),
            },
        }
    }
}

/// Reaches a dump from any thread, also while one waits in
/// [`Upstream::next`](crate::Upstream::next).
#[derive(Clone, Debug)]
pub struct UpstreamHandle {
    link: Link,
    wanted: Arc<Mutex<Wanted>>,
}

/// The places that the upstream wants an acknowledgement of, in their order.
#[derive(Debug, Default)]
struct Wanted(VecDeque<FilePosition>);

impl Wanted {
    /// Takes what is safe with everything up to `end`. Returns the newest of them: the upstream
    /// takes its acknowledgement for those before it, too.
    fn take(&mut self, end: &FilePosition) -> Option<FilePosition> {
        let safe = self.0.partition_point(|place| place <= end);
        self.0.drain(..safe).next_back()
    }
}

impl UpstreamHandle {
    fn new(link: Link) -> UpstreamHandle {
        UpstreamHandle {
            link,
            wanted: Arc::default(),
        }
    }

    fn want(&self, place: FilePosition) {
        lock(&self.wanted).0.push_back(place);
    }

    /// Everything up to `end` (of a [`Part`](crate::Part)) is safe here. If the upstream waits for
    /// that, it is told, and its clients get their answers; otherwise nothing is sent.
    pub fn acknowledge(&self, end: &FilePosition) -> Result<(), UpstreamError> {
        // Sent with the lock, so that acknowledgements leave in their order.
        let mut wanted = lock(&self.wanted);
        match wanted.take(end) {
            Some(newest) => self.send(&newest),
            None => Ok(()),
        }
    }

    /// [`UpstreamHandle::acknowledge`] for a transaction received over an earlier connection.
    fn acknowledge_held(&self, end: &FilePosition) -> Result<(), UpstreamError> {
        let _ordered = lock(&self.wanted);
        self.send(end)
    }

    fn send(&self, end: &FilePosition) -> Result<(), UpstreamError> {
        let packet = small_packet(0, &acknowledgement(end));
        self.link.send(&packet).map_err(|error| {
            if self.link.is_stopped() {
                return UpstreamError::Stopped;
            }
            UpstreamError::Lost(error)
        })
    }

    /// Ends the connection: a waiting [`Upstream::next`](crate::Upstream::next) gives
    /// [`UpstreamError::Stopped`] at once.
    pub fn stop(&self) {
        self.link.stop();
    }
}

/// `ER_MASTER_FATAL_ERROR_READING_BINLOG`: all that is wrong with a position.
const FATAL: u16 = 1236;
const ACCESS: [u16; 2] = [1045, 1227];

#[derive(Clone, Debug, PartialEq, Eq)]
enum DumpEnd {
    Orderly,
    Failed(ServerError),
    Unknown(u8),
}

/// Form of a dump's packets; the first one shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// An event follows the first byte.
    Plain,
    /// A mark and bits come before the event.
    SemiSync,
}

impl Form {
    /// The form of a dump whose first packet this is. Its event was made for this reader, so its
    /// timestamp is zero: no first byte of an event is like the mark.
    fn of_first(payload: &[u8]) -> Form {
        match payload.get(1) {
            Some(&SEMI_SYNC_MARK) => Form::SemiSync,
            Some(_) | None => Form::Plain,
        }
    }

    /// Bytes before the event, and whether the upstream waits for an acknowledgement of it.
    fn parse(self, payload: &[u8]) -> Result<(usize, bool), DumpEnd> {
        if is_end(payload) {
            return Err(DumpEnd::Orderly);
        }
        match (self, payload) {
            (Form::SemiSync, [0, SEMI_SYNC_MARK, bits, ..]) => Ok((3, bits & 1 != 0)),
            (Form::Plain, [0, ..]) => Ok((1, false)),
            (_, [0xff, rest @ ..]) => Err(DumpEnd::Failed(ServerError::parse(rest))),
            (_, [first, ..]) => Err(DumpEnd::Unknown(*first)),
            (_, []) => Err(DumpEnd::Unknown(0)),
        }
    }
}

impl DumpEnd {
    /// The end in words, for a reader with this number that began at this position.
    fn explain(self, server_id: u32, position: &str) -> UpstreamError {
        match self {
            DumpEnd::Orderly => UpstreamError::Ended,
            DumpEnd::Unknown(first) => {
                UpstreamError::Protocol(format!("a packet of the dump begins with {first}"))
            }
            DumpEnd::Failed(error) => failed(error, server_id, position),
        }
    }
}

fn failed(error: ServerError, server_id: u32, position: &str) -> UpstreamError {
    let ServerError { code, text } = error;
    let position = position.to_owned();
    let has = |words: &str| text.contains(words);
    if ACCESS.contains(&code) {
        let step = "the dump".to_owned();
        return UpstreamError::Step { step, code, text };
    }
    // Versions give this one different numbers.
    if has("same server_uuid/server_id") {
        return UpstreamError::ServerIdTaken { server_id, text };
    }
    if code != FATAL {
        return UpstreamError::Dump { code, text };
    }
    if has("purged") {
        UpstreamError::Purged { position, text }
    } else if has("not in the master's binlog") {
        UpstreamError::UnknownGtid { position, text }
    } else {
        UpstreamError::Dump { code, text }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use synod_binlog::{Checksum, EventHeader, EventType};

    use super::*;
    use crate::config::Filter;
    use crate::link::Link;

    /// A dump that comes by this socket.
    fn upstream(socket: TcpStream) -> Upstream {
        let link = Link::clear(socket);
        Upstream {
            reader: link.reader(),
            handle: UpstreamHandle::new(link),
            decoder: Decoder::new(Filter::default(), 1000, Checksum::None, None),
            form: None,
            server_id: 1,
            silent_after: SEARCH_LIMIT,
            version: String::new(),
            start: GtidList::default(),
            mysql_start: None,
            begins: String::new(),
            limit: SEARCH_LIMIT,
            held: None,
        }
    }

    fn heartbeat() -> Vec<u8> {
        let header = EventHeader {
            timestamp: 0,
            event_type: EventType::HEARTBEAT,
            server_id: 1,
            event_bytes: 0,
            end_position: 0,
            flags: 0,
        };
        let (_, event) = header.with_body(b"file");
        small_packet(0, &[&[0], &*event].concat())
    }

    #[test]
    fn what_was_read_ahead_is_not_given_after_a_stop() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&heartbeat().repeat(2)).unwrap();
        let mut upstream = upstream(socket);
        assert_eq!(upstream.next().unwrap(), Incoming::Heartbeat);
        upstream.handle().stop();
        let ended = upstream.next().unwrap_err();
        assert!(matches!(ended, UpstreamError::Stopped), "{ended}");
    }

    #[test]
    fn newest_safe_place_is_acknowledged_once() {
        let at = |file: &str, offset| FilePosition {
            file: file.to_owned(),
            offset,
        };
        let places = [at("log.9", 5), at("log.9", 8), at("log.10", 4)];
        let mut wanted = Wanted(places.into());
        assert_eq!(wanted.take(&at("log.9", 4)), None);
        assert_eq!(wanted.take(&at("log.9", 9)), Some(at("log.9", 8)));
        assert_eq!(wanted.take(&at("log.9", 9)), None);
        assert_eq!(wanted.take(&at("log.11", 4)), Some(at("log.10", 4)));
    }

    #[test]
    fn packets_are_told_apart() {
        let plain = Form::of_first(&[0, 0, 0]);
        assert_eq!(plain.parse(&[0, SEMI_SYNC_MARK, 1]), Ok((1, false)));
        let semi = Form::of_first(&[0, SEMI_SYNC_MARK, 0]);
        assert_eq!(semi.parse(&[0, SEMI_SYNC_MARK, 1, 9]), Ok((3, true)));
        assert_eq!(semi.parse(&[0, 0, 1, 9]), Err(DumpEnd::Unknown(0)));
        assert_eq!(plain.parse(&[0xfe, 0, 0, 2, 0]), Err(DumpEnd::Orderly));
        assert_eq!(plain.parse(&[]), Err(DumpEnd::Unknown(0)));
    }

    #[test]
    fn ends_are_explained() {
        let end = |code: u16, text: &str| {
            let text = text.to_owned();
            DumpEnd::Failed(ServerError { code, text }).explain(7, "GTID '0-1-2'")
        };
        let purged = end(1236, "required binlog files have been purged");
        assert!(purged.to_string().contains("GTID '0-1-2'"), "{purged}");
        assert!(matches!(purged, UpstreamError::Purged { .. }));
        let unknown = end(1236, "GTID 0-1-9, which is not in the master's binlog");
        assert!(matches!(unknown, UpstreamError::UnknownGtid { .. }));
        let taken = end(
            4052,
            "A slave with the same server_uuid/server_id as this one",
        );
        assert!(matches!(
            taken,
            UpstreamError::ServerIdTaken { server_id: 7, .. }
        ));
        assert!(matches!(end(1227, "no"), UpstreamError::Step { .. }));
        assert!(matches!(
            end(1236, "event too big"),
            UpstreamError::Dump { .. }
        ));
        assert!(DumpEnd::Orderly.explain(7, "").may_pass());
    }
}
