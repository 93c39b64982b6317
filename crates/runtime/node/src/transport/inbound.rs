//! Connections that other members open: each has a thread, which reads.
//!
//! Messages of a caller that has passed the handshake ([`greet`]) become events. What a caller may
//! send, and for how long it may be silent, follows from whether the driver knows it at that
//! moment ([`Standing`]): a stranger that becomes a member keeps its connections.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use synod_consensus::MemberId;
use synod_member::{Event, Level, lock};
use synod_tls::PeerCredential;
use synod_wire::{
    ClientHello, Frame, FrameReader, HandshakeError, Hello, Lane, PeerMessage, StreamError,
};

use super::Transport;
use super::channel::Channel;
use super::encryption::EncryptionError;
use super::greeting::{Admitted, AdmittedCaller, greet, log_refusal};
use super::link::Link;
use super::open_connections::{AcceptedSlot, ConnectionSlot};
use super::stranger_limits::Allowance;

/// Pause after a failed accept (out of file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Largest body of a frame of a stranger, in bytes.
const STRANGER_FRAME_MAX: u32 = 64 * 1024;
/// A stranger that sends nothing for this time is disconnected.
const STRANGER_IDLE: Duration = Duration::from_secs(15);
/// Pings of a connection that come sooner than this after an answered one are not answered: members
/// ping four times a second.
const PING_PAUSE: Duration = Duration::from_millis(100);
/// Bytes that a small message takes in memory, beside its frame.
const FRAME_OVERHEAD: usize = 256;

/// Takes connections until stopped.
pub(super) fn accept(transport: &Arc<Transport>) {
    loop {
        let accepted = transport.listener.accept();
        if transport.is_stopping() {
            return;
        }
        match accepted {
            Ok((stream, from)) => start(transport, stream, from),
            Err(error) => {
                transport.host.log(
                    Level::Warning,
                    &format!("cannot accept a connection: {error}"),
                );
                std::thread::park_timeout(ACCEPT_PAUSE);
            }
        }
    }
}

fn start(transport: &Arc<Transport>, stream: TcpStream, from: SocketAddr) {
    let may_open = || transport.may_open();
    let accepted = transport.connections.accepted(&stream, from.ip(), may_open);
    let Some(AcceptedSlot { slot, made_room }) = accepted else {
        return;
    };
    if made_room {
        let why = "too many connections that say nothing";
        transport.log_about(from.ip(), Level::Warning, why, || {
            format!("{why}: closing the oldest of the address with the most, now for {from}")
        });
    }
    let serving = transport.clone();
    let started = transport.run("synod-in", move || serve(&serving, stream, &slot, from));
    if let Err(error) = started {
        transport.host.log(Level::Error, &error.to_string());
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum InboundError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Encryption(#[from] EncryptionError),
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error("{0}")]
    Stream(#[from] StreamError),
    #[error("{0}")]
    Decode(#[from] synod_wire::DecodeError),
    #[error(
        "it waited for a greeting and hung up, as nodes of Galera do. If a server of this group \
         runs there, have it load this library as well, and start it again"
    )]
    WaitsForGreeting,
    #[error("another process with this identity is heard")]
    DuplicateIdentity,
    #[error("it is no member of the group, and has sent nothing for a while")]
    Idle,
    #[error("it is no member of the group, and sends too many messages")]
    TooMany,
}

fn serve(transport: &Arc<Transport>, stream: TcpStream, slot: &ConnectionSlot, from: SocketAddr) {
    match greet(transport, stream, from) {
        Ok(Some(Admitted::Caller(caller))) => converse(transport, caller, slot, from),
        Ok(Some(Admitted::Client(client))) => serve_client(transport, client, slot, from),
        Ok(None) => {}
        Err(error) => {
            let level = match error {
                // A look whether the port is open, as of a monitor or 'synod doctor'.
                InboundError::Handshake(HandshakeError::Ended) => Level::Debug,
                _ => Level::Warning,
            };
            let why = error.to_string();
            transport.log_about(from.ip(), level, &why, || {
                format!("connection from {from} refused: {why}")
            });
        }
    }
}

fn serve_client(
    transport: &Transport,
    client: AdmittedClient,
    slot: &ConnectionSlot,
    from: SocketAddr,
) {
    let shown = client.reader.get_ref().peer();
    if !slot.welcomed_client(shown, |shown| transport.encryption.accepts(shown)) {
        return;
    }
    let Some(handler) = transport.command_handler.get() else {
        return;
    };
    let mut connection = CommandConnection::new(client, from, slot);
    if let Err(why) = handler(&mut connection) {
        transport.log_about(from.ip(), Level::Warning, &why, || {
            format!("closing the connection of {}: {why}", connection.client())
        });
    }
}

fn converse(
    transport: &Arc<Transport>,
    mut caller: AdmittedCaller,
    slot: &ConnectionSlot,
    from: SocketAddr,
) {
    let (member, group) = (caller.hello.member, caller.hello.group);
    let shown = caller.reader.get_ref().peer();
    let is_welcome = slot.welcomed(member, group, shown, |member, shown| {
        transport.admission(member, shown)
    });
    if !is_welcome {
        return;
    }
    // This member may have got its group since it has answered.
    let compared = lock(&transport.identity).compare_group(&caller.hello);
    if let Err(refusal) = compared {
        return log_refusal(transport, &caller.hello.name, from, &refusal);
    }
    transport.called_by(&caller);
    let presence = LinkPresence::of(transport, &caller.hello);
    if slot.is_known() {
        transport.send_event_on(caller.hello.lane, Event::InboundLink { member });
    }
    let mut received_any = false;
    let received = receive(transport, &mut caller, slot, &mut received_any);
    transport.drive();
    if let Err(error) = received {
        log_end(transport, &caller.hello, from, &error);
    }
    drop(presence);
    // A caller of discovery sends no message and leaves no trace. A peer that closes its connection
    // has ended.
    if slot.is_known() && (received_any || caller.hello.lane == Lane::Bulk) {
        transport.send_event_on(caller.hello.lane, Event::LinkDown { member });
    }
}

fn log_end(transport: &Transport, hello: &Hello, from: SocketAddr, error: &InboundError) {
    if matches!(error, InboundError::Stream(StreamError::Io(_))) {
        return;
    }
    let (name, why) = (&hello.name, error.to_string());
    transport.log_about(from.ip(), Level::Warning, &why, || {
        format!("closing the connection from {name} ({from}): {why}")
    });
}

/// The link to a caller knows of the caller's connection until this is dropped.
struct LinkPresence(Option<Arc<Link>>);

impl LinkPresence {
    fn of(transport: &Transport, hello: &Hello) -> LinkPresence {
        let link = transport.link(hello.member);
        if let Some(link) = &link {
            link.inbound_opened(hello.session);
        }
        LinkPresence(link)
    }
}

impl Drop for LinkPresence {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            link.inbound_closed();
        }
    }
}

/// Rights of a caller at the moment.
struct Standing<'a> {
    transport: &'a Transport,
    slot: &'a ConnectionSlot,
    lane: Lane,
    allowance: Allowance,
    ping_answered: Option<Instant>,
}

impl Standing<'_> {
    /// The largest body of its next frame, in bytes.
    fn frame_max(&self) -> u32 {
        let limit = self.transport.limits.of(self.lane);
        if self.slot.is_known() {
            limit
        } else {
            limit.min(STRANGER_FRAME_MAX)
        }
    }

    /// Sets how long it may be silent from now on.
    fn await_next(&self, channel: &mut Channel) -> io::Result<()> {
        if !self.slot.is_known() {
            channel.socket_mut().limit(STRANGER_IDLE);
            return Ok(());
        }
        channel.socket_mut().no_limit()
    }

    fn count(&mut self, now: Instant) -> Result<(), InboundError> {
        if self.slot.is_known() {
            return Ok(());
        }
        self.slot.used();
        if self.allowance.permits(now) {
            Ok(())
        } else {
            Err(InboundError::TooMany)
        }
    }

    /// The message, unless it is between the transports. Such a message of a stranger is ignored,
    /// and so is a ping right after another one: nothing needs it.
    fn without_pings(
        &mut self,
        from: MemberId,
        now: Instant,
        message: PeerMessage,
    ) -> Option<PeerMessage> {
        match message {
            PeerMessage::Ping { number } => {
                let is_due = |last: Instant| now - last >= PING_PAUSE;
                if self.slot.is_known() && self.ping_answered.is_none_or(is_due) {
                    self.ping_answered = Some(now);
                    self.transport.answer_ping(from, number);
                }
                None
            }
            PeerMessage::Pong { number, wall_us } => {
                if self.slot.is_known() {
                    self.transport.ping_answered(from, number, wall_us);
                }
                None
            }
            message => Some(message),
        }
    }
}

/// Queues what comes, and drives whenever the next message has to be waited for: what came
/// together is handled together. The caller drives once more.
fn receive(
    transport: &Transport,
    caller: &mut AdmittedCaller,
    slot: &ConnectionSlot,
    received_any: &mut bool,
) -> Result<(), InboundError> {
    let certificate = caller.certificate();
    let mut standing = Standing {
        transport,
        slot,
        lane: caller.hello.lane,
        allowance: Allowance::new(Instant::now()),
        ping_answered: None,
    };
    while let Some(frame) = next_frame(caller, &standing)? {
        if transport.is_isolated() {
            return Ok(());
        }
        *received_any = true;
        let now = Instant::now();
        standing.count(now)?;
        let bytes = frame.body.len() + FRAME_OVERHEAD;
        let message = PeerMessage::decode(caller.version, frame)?;
        if !caller.presence.heard(now) {
            return Err(InboundError::DuplicateIdentity);
        }
        let Some(message) = standing.without_pings(caller.hello.member, now, message) else {
            continue;
        };
        let budget = if slot.is_known() {
            transport.inbound_budgets.of(standing.lane)
        } else {
            &transport.stranger_budget
        };
        if !budget.take_now(bytes) {
            // What is queued holds bytes.
            transport.drive();
            if !budget.take(bytes) {
                return Ok(());
            }
        }
        let event = Event::Peer {
            from: caller.hello.member,
            certificate: certificate.clone(),
            group: caller.hello.group,
            message,
        };
        transport.queue_event(event, standing.lane, budget, bytes);
    }
    Ok(())
}

fn next_frame(
    caller: &mut AdmittedCaller,
    standing: &Standing<'_>,
) -> Result<Option<Frame>, InboundError> {
    if let Some(frame) = caller.reader.buffered_frame(standing.frame_max())? {
        return Ok(Some(frame));
    }
    standing.transport.drive();
    loop {
        standing.await_next(caller.reader.get_mut())?;
        match caller.reader.read_frame_below(|| standing.frame_max()) {
            Err(StreamError::Io(_)) if caller.reader.get_ref().socket().is_too_late() => {
                // Its other lane may be in use, or the driver knows it by now.
                let is_heard = caller.presence.was_heard_within(STRANGER_IDLE);
                if !standing.slot.is_known() && !is_heard {
                    return Err(InboundError::Idle);
                }
            }
            frame => return Ok(frame?),
        }
    }
}

/// Serves a client until it goes; if it ends because of what the client has sent, says why. Runs on
/// a thread of the node, which ends with the connection; it must not stop the node.
pub type CommandHandler = dyn Fn(&mut CommandConnection<'_>) -> Result<(), String> + Send + Sync;

/// A client's connection, encrypted and authenticated. Nothing of it reaches the driver: the host's
/// handler serves it, on the thread of the connection. It counts as no member: it is judged by what
/// it shows only, has a pool of its own, and is not called back. The node breaks it when it stops,
/// when the credentials that the client has shown are withdrawn, and to make room.
pub struct CommandConnection<'a> {
    channel: Channel,
    /// Read behind the hello, and not used yet.
    unread: Vec<u8>,
    client: String,
    slot: &'a ConnectionSlot,
}

pub(super) struct AdmittedClient {
    pub(super) hello: ClientHello,
    pub(super) reader: FrameReader<Channel>,
}

impl<'a> CommandConnection<'a> {
    fn new(
        client: AdmittedClient,
        from: SocketAddr,
        slot: &'a ConnectionSlot,
    ) -> CommandConnection<'a> {
        let (channel, unread) = client.reader.into_parts();
        let shown = match channel.peer() {
            PeerCredential::Certificate { subject } => format!("with the certificate {subject}"),
            PeerCredential::Secret { .. } => "with the group secret".to_owned(),
            PeerCredential::None => "in clear".to_owned(),
        };
        let name = client.hello.name;
        CommandConnection {
            channel,
            unread,
            client: format!("{name}, from {from}, {shown}"),
            slot,
        }
    }

    /// Description of the client: its own name for itself, its address, and the credential that it
    /// has proven to hold. A part of a sentence, for the log.
    pub fn client(&self) -> &str {
        &self.client
    }

    pub fn limit_read(&mut self, limit: Duration) {
        self.channel.socket_mut().limit(limit);
    }

    pub fn limit_write(&mut self, limit: Duration) {
        self.channel.socket_mut().limit_writes(limit);
    }
}

impl Read for CommandConnection<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.unread.is_empty() {
            let len = buffer.len().min(self.unread.len());
            buffer[..len].copy_from_slice(&self.unread[..len]);
            self.unread.drain(..len);
            return Ok(len);
        }
        let read = self.channel.read(buffer);
        self.slot.used();
        read
    }
}

impl Write for CommandConnection<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.slot.used();
        self.channel.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.channel.flush()
    }
}
