//! The socket for readers, and a thread for each of them.
//!
//! A relay votes. Its address for readers may be another program's, or not be there yet (one that
//! moves between machines), and that is no reason for the group to lack a voter: the relay says so
//! each minute, and tries again.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use synod_admin::protocol::{Answer as Told, Reply, Request};
use synod_admin::relay::RelayStatus;
use synod_commands::unix_ms;
use synod_logger::output::Output;
use synod_logger::{LoggerError, Service, run_with};
use synod_node::{Consequence, Level, LogRateLimit, Node, StartMode, WritePermission};
use synod_tls::Reading;

use crate::callers::{self, CallerPlace, Callers, PROOF_LIMIT, admit};
use crate::config::RelayConfig;
use crate::consequences::for_readers;
use crate::dump::{DumpError, Origin};
use crate::encryption::{Encrypting, Encryption, Link, Socket};
use crate::late_readers::LateReaderPermits;
use crate::lock;
use crate::one_reader_per_server_id::{ConnectedReaders, NoSeat, Place, Seat};
use crate::protocol::packet::{Answer, Packets, Refusal};
use crate::reader_connection::{Ended, Reader, Relay};
use crate::sql::Sql;
use crate::stalled_reader::limit_stalls;
use crate::upstream_service::{UpstreamService, shown_readers};

/// After an error of the listening socket (out of file descriptors, say).
const PAUSE: Duration = Duration::from_millis(100);

/// Runs a relay until a signal ends it. One of an upstream may begin a group.
pub fn run(config: &RelayConfig, mode: StartMode) -> Result<(), LoggerError> {
    let service = RelayService {
        config: config.clone(),
        upstream: config.upstream.clone().map(|settings| {
            let options = &config.member.options;
            let segment_bytes = options.log_options().segment_bytes;
            UpstreamService::new(settings, options.full_log_policy(), segment_bytes)
        }),
        serving: Mutex::default(),
    };
    run_with(&config.member, mode, Arc::new(service))
}

struct RelayService {
    config: RelayConfig,
    upstream: Option<UpstreamService>,
    serving: Mutex<Option<(Arc<Serving>, JoinHandle<()>)>>,
}

impl Service for RelayService {
    fn begin(&self, node: &Arc<Node>, output: &Output) -> Result<(), String> {
        let encryption = self.config.encryption.as_ref().map(Encryption::begin);
        let how = how_encrypted(encryption.as_ref(), output);
        let origin = match &self.upstream {
            Some(upstream) => Origin::Upstream(upstream.tail()),
            None => Origin::Group,
        };
        let serving = Arc::new(Serving {
            relay: Relay {
                node: node.clone(),
                accounts: self.config.accounts.clone(),
                encryption,
                domain: self.config.domain,
                sql: self.config.sql.clone().map(Sql::new),
                origin,
                permits: LateReaderPermits::of_this_machine(),
                output: output.clone(),
            },
            listening: Listening::at(self.config.listen.to_string()),
            readers_max: self.config.readers_max,
            stalled_after: self.config.stalled_after,
            callers: Callers::default(),
            seats: ConnectedReaders::default(),
            lines: Mutex::default(),
            stopped: AtomicBool::default(),
        });
        let accepting = serving.clone();
        let thread = Builder::new()
            .name("synod-readers".to_owned())
            .spawn(move || accepting.run(&how))
            .map_err(|error| format!("cannot start the thread for readers: {error}"))?;
        *lock(&self.serving) = Some((serving.clone(), thread));
        match &self.upstream {
            Some(upstream) => {
                upstream.begin(node, output, Arc::new(move || serving.seats.places()))
            }
            None => Ok(()),
        }
    }

    fn end(&self) {
        if let Some(upstream) = &self.upstream {
            upstream.end();
        }
        if let Some((serving, thread)) = lock(&self.serving).take() {
            serving.stop();
            // Its panic was printed.
            let _ = thread.join();
        }
    }

    fn write_permission(&self, permission: WritePermission) {
        if let Some(upstream) = &self.upstream {
            upstream.may_write(permission);
        }
    }

    fn consequence(&self, consequence: Consequence) -> &'static str {
        match self.upstream {
            Some(_) => for_readers(consequence),
            None => consequence.for_databases(),
        }
    }

    fn answer(&self, request: &Request) -> Option<Reply> {
        if matches!(request, Request::RelayStatus) {
            let status = Box::new(self.status());
            return Some(Reply::Answer(Told::Relay(status)));
        }
        let places = || {
            self.serving()
                .map_or_else(Vec::new, |serving| serving.seats.places())
        };
        self.upstream.as_ref()?.answer(request, places)
    }
}

impl RelayService {
    fn serving(&self) -> Option<Arc<Serving>> {
        let serving = lock(&self.serving);
        serving.as_ref().map(|(serving, _)| serving.clone())
    }

    fn status(&self) -> RelayStatus {
        let serving = self.serving();
        let places = serving
            .as_ref()
            .map_or_else(Vec::new, |serving| serving.seats.places());
        let status = match &self.upstream {
            Some(upstream) => upstream.status(&places),
            None => serving
                .as_ref()
                .map(|serving| of_group(&serving.relay, &places))
                .unwrap_or_default(),
        };
        let encryption = serving
            .as_ref()
            .and_then(|serving| serving.relay.encryption.as_ref());
        let in_use = encryption.and_then(|used| used.certificates.in_use().ok());
        RelayStatus {
            certificate_until_unix: in_use.map(|tls| tls.valid_until_unix()),
            ..status
        }
    }
}

fn of_group(relay: &Relay, places: &[Place]) -> RelayStatus {
    let last = relay.node.commit_seqno();
    let gtid = relay
        .identity()
        .map(|identity| identity.gtid(last).to_string());
    RelayStatus {
        at_unix_ms: unix_ms(),
        gtids: gtid.unwrap_or_default(),
        readers: shown_readers(places, Some(last)),
        ..RelayStatus::default()
    }
}

struct Serving {
    relay: Relay,
    listening: Listening,
    readers_max: usize,
    stalled_after: Duration,
    callers: Callers,
    seats: ConnectedReaders,
    /// Lines about callers and readers, which may be many.
    lines: Mutex<LogRateLimit<IpAddr>>,
    stopped: AtomicBool,
}

impl Serving {
    fn run(self: &Arc<Self>, how_encrypted: &str) {
        let output = &self.relay.output;
        let Some(listener) = self.listening.open(|text| output.log(Level::Error, text)) else {
            return;
        };
        if let Ok(address) = listener.local_addr() {
            let text = format!("readers connect to {address}, {how_encrypted}");
            output.log(Level::Info, &text);
        }
        self.accept(&listener);
    }

    /// Serves readers until the end. Their threads end before this does.
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        std::thread::scope(|threads| {
            for connection in 1.. {
                let accepted = listener.accept();
                if self.stopped.load(Ordering::SeqCst) {
                    return;
                }
                match accepted {
                    Ok((stream, from)) => self.welcome(threads, connection, stream, from),
                    Err(error) => {
                        let text = format!("cannot accept a reader: {error}");
                        self.relay.output.log(Level::Warning, &text);
                        std::thread::sleep(PAUSE);
                    }
                }
            }
        });
    }

    fn welcome<'scope>(
        self: &'scope Arc<Self>,
        threads: &'scope std::thread::Scope<'scope, '_>,
        connection: u32,
        stream: TcpStream,
        from: SocketAddr,
    ) {
        let place = match self.callers.enter(connection, &stream, from) {
            Ok(place) => place,
            Err(error) => {
                return self.say(from, Level::Warning, &format!("cannot be served: {error}"));
            }
        };
        if let Some(ip) = place.instead_of {
            let line = "was ended for another one: too many callers at a time have proven no \
                        password. If that lasts, let only readers reach relay.listen";
            self.say(SocketAddr::new(ip, 0), Level::Warning, line);
        }
        let serve = move || self.serve(connection, &stream, from, place);
        let name = "synod-reader".to_owned();
        if let Err(error) = Builder::new().name(name).spawn_scoped(threads, serve) {
            let text = format!("cannot start a thread for the reader at {from}: {error}");
            self.relay.output.log(Level::Warning, &text);
        }
    }

    /// A seat, on a connection with the limits of a reader.
    fn seat(
        &self,
        connection: u32,
        stream: &TcpStream,
        from: SocketAddr,
    ) -> Result<Seat<'_>, DumpError> {
        limit_stalls(stream, self.stalled_after)?;
        let seat = self.seats.take(connection, stream, from, self.readers_max);
        seat.map_err(|error| match error {
            NoSeat::System(error) => DumpError::Gone(error),
            NoSeat::Full => Refusal::too_many(format!(
                "This relay serves {} readers, as many as relay.readers_max lets it",
                self.readers_max
            ))
            .into(),
        })
    }

    fn serve(&self, connection: u32, stream: &TcpStream, from: SocketAddr, place: CallerPlace<'_>) {
        self.follow_certificates();
        let (level, text) = match self.ended(connection, stream, from, place) {
            Ended::Gone(why) => (Level::Info, format!("is gone: {why}")),
            Ended::Refused(why) => (Level::Warning, format!("was told: {why}")),
        };
        if !self.stopped.load(Ordering::SeqCst) {
            self.say(from, level, &text);
        }
    }

    fn ended(
        &self,
        connection: u32,
        stream: &TcpStream,
        from: SocketAddr,
        place: CallerPlace<'_>,
    ) -> Ended {
        let socket = Socket::until(stream, Instant::now() + PROOF_LIMIT);
        let mut packets = Packets::new(Link::Clear(socket));
        let admitted = stream.set_nodelay(true).map_err(DumpError::Gone);
        let admitted = admitted.and_then(|()| admit(&self.relay, &mut packets, connection));
        let seated = admitted.and_then(|who| {
            packets.admit();
            Ok((self.seat(connection, stream, from)?, who))
        });
        let welcomed = seated.and_then(|seated| {
            packets.answer(&Answer::Done)?;
            Ok(seated)
        });
        drop(place);
        match welcomed {
            Ok((seat, who)) => Reader::new(&self.relay, &seat, packets, who).run(),
            Err(error) => Ended::by(&mut packets, error, callers::why_gone),
        }
    }

    fn follow_certificates(&self) {
        let encryption = self.relay.encryption.as_ref();
        let read = encryption.and_then(|used| used.certificates.follow_files(Instant::now()));
        if let Some(reading) = read {
            let level = match reading {
                Reading::InUse(_) => Level::Info,
                Reading::Refused(_) => Level::Warning,
            };
            let line = format!("for readers: {reading}");
            self.relay.output.log(level, &line);
        }
    }

    /// A line about the reader at an address, if the same was not said a moment ago.
    fn say(&self, from: SocketAddr, level: Level, text: &str) {
        let permitted = lock(&self.lines).permits(from.ip(), text, Instant::now());
        let Some(omitted) = permitted else {
            return;
        };
        let omitted = match omitted {
            0 => String::new(),
            1 => " (one line about readers was left out before)".to_owned(),
            count => format!(" ({count} lines about readers were left out before)"),
        };
        let who = match from.port() {
            0 => from.ip().to_string(),
            _ => from.to_string(),
        };
        let line = format!("the reader at {who} {text}{omitted}");
        self.relay.output.log(level, &line);
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.listening.end();
        self.callers.end_connections();
        self.seats.end_connections();
    }
}

/// Encryption of readers' connections, for the log, which is told what is wrong with it.
fn how_encrypted(encryption: Option<&Encrypting>, output: &Output) -> String {
    let Some(encryption) = encryption else {
        return "in clear".to_owned();
    };
    match encryption.certificates.in_use() {
        Ok(tls) => {
            if let Some(warning) = tls.warning() {
                let line = format!(
                    "{warning}. Readers that look at it are not served: put another certificate \
                     and its key into these places, which needs no restart"
                );
                output.log(Level::Warning, &line);
            }
            format!("encrypted, {}", tls.summary())
        }
        Err(error) => {
            let line = format!(
                "{error}. Readers that encrypt are refused until this is right, which needs no \
                 restart"
            );
            output.log(Level::Error, &line);
            "without a certificate that can be used".to_owned()
        }
    }
}

const RETRY: Duration = Duration::from_secs(1);
/// The reason is told again after this time.
const TELL: Duration = Duration::from_secs(60);

struct Listening {
    address: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    socket: Option<TcpListener>,
    has_ended: bool,
}

impl Listening {
    fn at(address: String) -> Listening {
        Listening {
            address,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits until the address can be had, and tells why it cannot; `None`: the relay has ended.
    /// The socket that is given shares its end with this one.
    fn open(&self, tell: impl Fn(&str)) -> Option<TcpListener> {
        let mut told: Option<Instant> = None;
        loop {
            match self.bind() {
                Ok(socket) => return socket,
                Err(error) => {
                    if told.is_none_or(|at| at.elapsed() >= TELL) {
                        told = Some(Instant::now());
                        tell(&format!(
                            "cannot listen for readers on {}: {error}. This relay votes, and \
                             serves no reader. It tries again by itself; if the address is wrong, \
                             correct relay.listen and restart it",
                            self.address
                        ));
                    }
                }
            }
            let state = lock(&self.state);
            let waited = self
                .changed
                .wait_timeout_while(state, RETRY, |state| !state.has_ended);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn bind(&self) -> io::Result<Option<TcpListener>> {
        let mut state = lock(&self.state);
        if state.has_ended {
            return Ok(None);
        }
        let socket = TcpListener::bind(&self.address)?;
        state.socket = Some(socket.try_clone()?);
        Ok(Some(socket))
    }

    fn end(&self) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        if let Some(socket) = state.socket.take() {
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
        }
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn address_that_is_taken_is_waited_for_and_the_reason_told_once() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let listening = Listening::at(address.to_string());
        let (tell, told) = mpsc::channel();
        thread::scope(|threads| {
            let opened =
                threads.spawn(|| listening.open(|text| tell.send(text.to_owned()).unwrap()));
            let text = told.recv().unwrap();
            assert!(
                text.contains("cannot listen for readers on 127.0.0.1:"),
                "{text}"
            );
            drop(taken);
            let socket = opened.join().unwrap().expect("the address is free");
            assert_eq!(socket.local_addr().unwrap(), address);
        });
        assert!(told.try_recv().is_err());
        let socket = lock(&listening.state)
            .socket
            .as_ref()
            .unwrap()
            .try_clone()
            .unwrap();
        listening.end();
        assert!(socket.accept().is_err(), "the accepting thread ends, too");
    }

    #[test]
    fn relay_that_ends_does_not_wait_for_its_address() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = Listening::at(taken.local_addr().unwrap().to_string());
        let (tell, told) = mpsc::channel();
        thread::scope(|threads| {
            let opened = threads.spawn(|| listening.open(|_| tell.send(()).unwrap()).is_none());
            told.recv().unwrap();
            listening.end();
            assert!(opened.join().unwrap());
        });
    }
}
