//! The socket for readers, and a thread for each of them.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use synod_admin::protocol::{Reply, Request};
use synod_logger::output::Output;
use synod_logger::{LoggerError, Service, run_with};
use synod_node::{Level, Node, StartMode, WritePermission};

use crate::config::RelayConfig;
use crate::dump::Origin;
use crate::encryption::Link;
use crate::permits::Permits;
use crate::protocol::answer::{Answer, Refusal};
use crate::protocol::packet::Packets;
use crate::reader::{Ended, Reader, Relay};
use crate::seats::{NoSeat, Seat, Seats};
use crate::upstream_service::UpstreamService;

/// A reader that says nothing for so long, before its dump, is disconnected: programs ask at once,
/// and a caller without a password must not keep a place for long.
const QUESTION_LIMIT: Duration = Duration::from_secs(10);
/// After an error of the listening socket (out of file descriptors, say).
const PAUSE: Duration = Duration::from_millis(100);

/// Runs a relay until a signal ends it. One of an upstream may begin a group.
///
/// # Errors
/// It does not start, or has failed.
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

/// What a relay does besides being a member.
struct RelayService {
    config: RelayConfig,
    upstream: Option<UpstreamService>,
    serving: Mutex<Option<(Arc<Serving>, JoinHandle<()>)>>,
}

impl Service for RelayService {
    fn begin(&self, node: &Arc<Node>, output: &Output) -> Result<(), String> {
        let address = self.config.listen.to_string();
        let listener = TcpListener::bind(&address).map_err(|error| {
            format!(
                "cannot listen for readers on {address}: {error}. Name a free address of this \
                 machine with relay.listen"
            )
        })?;
        let encryption = &self.config.encryption;
        let encrypted = encryption.as_ref().map(|files| files.load()).transpose();
        let encrypted = encrypted.map_err(|error| error.to_string())?;
        let origin = match &self.upstream {
            Some(upstream) => Origin::Upstream(upstream.tail()),
            None => Origin::Group,
        };
        let serving = Arc::new(Serving {
            relay: Relay {
                node: node.clone(),
                accounts: self.config.accounts.clone(),
                encryption: encryption.clone(),
                domain: self.config.domain,
                server_id: self.config.server_id,
                origin,
                permits: Permits::of_this_machine(),
            },
            listener,
            output: output.clone(),
            readers_max: self.config.readers_max,
            stalled_after: self.config.stalled_after,
            seats: Seats::default(),
            stopped: AtomicBool::default(),
        });
        let accepting = serving.clone();
        let thread = Builder::new()
            .name("synod-readers".to_owned())
            .spawn(move || accepting.accept())
            .map_err(|error| format!("cannot start the thread for readers: {error}"))?;
        let how = match encrypted {
            Some(tls) => format!("encrypted, {}", tls.summary()),
            None => "in clear".to_owned(),
        };
        let text = format!("readers connect to {address}, {how}");
        output.log(Level::Info, &text);
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

    fn answer(&self, request: &Request) -> Option<Reply> {
        let places = || match &*lock(&self.serving) {
            Some((serving, _)) => serving.seats.places(),
            None => Vec::new(),
        };
        self.upstream.as_ref()?.answer(request, places)
    }
}

/// The socket, and who is connected.
struct Serving {
    relay: Relay,
    listener: TcpListener,
    output: Output,
    readers_max: usize,
    stalled_after: Duration,
    seats: Seats,
    stopped: AtomicBool,
}

impl Serving {
    /// The accepting thread. The threads of readers end before it does.
    fn accept(self: &Arc<Self>) {
        std::thread::scope(|threads| {
            for connection in 1.. {
                let accepted = self.listener.accept();
                if self.stopped.load(Ordering::SeqCst) {
                    return;
                }
                match accepted {
                    Ok((stream, from)) => self.welcome(threads, connection, stream, from),
                    Err(error) => {
                        let text = format!("cannot accept a reader: {error}");
                        self.output.log(Level::Warning, &text);
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
        let seat = match self.seat(connection, &stream, from) {
            Ok(seat) => seat,
            Err(refusal) => {
                // A reader beyond the limit gets an error, if it still listens.
                let _ = Packets::new(&stream).answer(&Answer::Refused(refusal));
                return;
            }
        };
        let serve = move || self.serve(connection, &stream, from, &seat);
        let name = "synod-reader".to_owned();
        if let Err(error) = Builder::new().name(name).spawn_scoped(threads, serve) {
            let text = format!("cannot start a thread for the reader at {from}: {error}");
            self.output.log(Level::Warning, &text);
        }
    }

    /// A seat, on a connection with its limits.
    fn seat(
        &self,
        connection: u32,
        stream: &TcpStream,
        from: SocketAddr,
    ) -> Result<Seat<'_>, Refusal> {
        let system = |error: std::io::Error| Refusal::too_many(error.to_string());
        stream.set_nodelay(true).map_err(system)?;
        let asked = stream.set_read_timeout(Some(QUESTION_LIMIT));
        asked.map_err(system)?;
        let taken = stream.set_write_timeout(Some(self.stalled_after));
        taken.map_err(system)?;
        let seat = self.seats.take(connection, stream, from, self.readers_max);
        seat.map_err(|error| match error {
            NoSeat::System(error) => system(error),
            NoSeat::Full => Refusal::too_many(format!(
                "This relay serves {} readers, as many as relay.readers_max lets it",
                self.readers_max
            )),
        })
    }

    fn serve(&self, connection: u32, stream: &TcpStream, from: SocketAddr, seat: &Seat<'_>) {
        let reader = Reader::new(&self.relay, seat, Link::Clear(stream));
        let line = match reader.run(connection) {
            Ended::Gone(why) => (Level::Info, format!("the reader at {from} is gone: {why}")),
            Ended::Failed(why) => {
                let text = format!("the reader at {from} cannot be served: {why}");
                (Level::Warning, text)
            }
            Ended::Refused(why) => {
                let text = format!("the reader at {from} was told: {why}");
                (Level::Warning, text)
            }
        };
        if !self.stopped.load(Ordering::SeqCst) {
            self.output.log(line.0, &line.1);
        }
    }

    /// Ends all connections, and the accepting thread.
    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        self.seats.end_connections();
    }
}

/// Locks even if a thread panicked while holding it: the values are valid at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
