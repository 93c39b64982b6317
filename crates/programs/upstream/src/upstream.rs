//! A dump of an upstream's binlog.

use std::time::Duration;

use synod_binlog::{GtidList, MysqlGtidSet};

use crate::config::UpstreamConfig;
use crate::dump::{Form, too_large};
use crate::error::UpstreamError;
use crate::handle::UpstreamHandle;
use crate::incoming::Incoming;
use crate::position::{FilePosition, Held, Position};
use crate::protocol::link::LinkReader;
use crate::protocol::packet::{self, PacketError};
use crate::session::{Session, is_silence};
use crate::stream::Decoder;

/// So many heartbeats may be missing: with fewer, a busy upstream would be taken for a dead one.
const SILENT_PERIODS: u32 = 5;
/// The upstream may search its files for so long, without a heartbeat, until the first event.
const SEARCH_LIMIT: Duration = Duration::from_secs(60);
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
    event_bytes_max: usize,
    silent_after: Duration,
    version: String,
    start: GtidList,
    mysql_start: Option<MysqlGtidSet>,
    /// Start of the dump, for errors.
    begins: String,
    /// Present time limit of a read.
    limit: Duration,
    /// End of the reader's last transaction, until that is acknowledged.
    held: Option<FilePosition>,
}

impl Upstream {
    /// Connects, asks what a replica asks, and has the dump begin. Bounded in time.
    ///
    /// # Errors
    /// The upstream is not there, or cannot be followed: the error says why. What is wrong with the
    /// position may show only at the first [`Upstream::next`].
    pub fn connect(
        config: &UpstreamConfig,
        position: &Position,
    ) -> Result<Upstream, UpstreamError> {
        Upstream::connect_holding(config, position, None)
    }

    /// [`Upstream::connect`] for a reader whose transactions up to the position are safe.
    ///
    /// A commit of the upstream may wait for the last of them, `held`, which the upstream does not
    /// send again. So it is acknowledged, if it ends in this upstream's binlog where it ended when
    /// received. MySQL is asked to send it again instead.
    ///
    /// # Errors
    ///
    /// Errors of [`Upstream::connect`].
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
            event_bytes_max: config.event_bytes_max,
            silent_after,
            version: session.version,
            begins,
            start: prepared.start,
            mysql_start: prepared.mysql_start,
            limit,
            held: prepared.held,
        })
    }

    /// Version that the upstream states.
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

    /// End of the newest event read.
    pub fn place(&self) -> &FilePosition {
        self.decoder.place()
    }

    /// Waits for the next thing: as long as a few heartbeats, at most; the first time up to a
    /// minute.
    ///
    /// # Errors
    /// The connection has ended, or what came cannot be followed. The connection is of no use
    /// then, and the next call gives an error again.
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

    /// Handle for other threads.
    pub fn handle(&self) -> UpstreamHandle {
        self.handle.clone()
    }

    fn read_on(&mut self) -> Result<Incoming, UpstreamError> {
        loop {
            // What has been read ahead is not wanted any more.
            if self.handle.link().is_stopped() {
                return Err(UpstreamError::Stopped);
            }
            if let Some(incoming) = self.decoder.give() {
                return Ok(incoming);
            }
            self.read_event()?;
        }
    }

    fn read_event(&mut self) -> Result<(), UpstreamError> {
        let bytes_max = self.event_bytes_max.saturating_add(PREFIX_BYTES_MAX);
        let read = packet::read(&mut self.reader, bytes_max);
        let payload = read.map_err(|error| self.explain(error))?.payload;
        let form = *self.form.get_or_insert_with(|| Form::of_first(&payload));
        let event = form
            .parse(&payload)
            .map_err(|end| end.explain(self.server_id, &self.begins))?;
        if let Some(held) = self.held.take().filter(|_| form == Form::SemiSync) {
            self.handle.acknowledge_held(&held)?;
        }
        self.decoder.take(payload, event.skipped)?;
        if event.wants_acknowledgement {
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
            let set = self.handle.link().set_limit(self.limit);
            set.map_err(UpstreamError::Lost)?;
        }
        Ok(())
    }

    fn explain(&self, error: PacketError) -> UpstreamError {
        match error {
            _ if self.handle.link().is_stopped() => UpstreamError::Stopped,
            PacketError::Io(error) if is_silence(&error) => UpstreamError::Silent(self.limit),
            PacketError::Io(error) => UpstreamError::Lost(error),
            PacketError::TooLarge => too_large(self.decoder.place(), self.event_bytes_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::protocol::link::Link;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use synod_binlog::{Checksum, EventHeader, EventType};

    /// A dump that comes by this socket.
    fn upstream(socket: TcpStream) -> Upstream {
        let link = Link::clear(socket);
        Upstream {
            reader: link.reader(),
            handle: UpstreamHandle::new(link),
            decoder: Decoder::new(Filter::default(), 1000, Checksum::None, None),
            form: None,
            server_id: 1,
            event_bytes_max: 1000,
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
            event_bytes: (synod_binlog::header::HEADER_BYTES + 4) as u32,
            end_position: 0,
            flags: 0,
        };
        let mut payload = vec![0];
        header.write(&mut payload);
        payload.extend_from_slice(b"file");
        packet::small(0, &payload)
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
}
