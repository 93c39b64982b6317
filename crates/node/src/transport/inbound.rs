//! Connections that other members open: each has a thread, which reads.
//!
//! A caller passes the handshake (encryption, hello, allowlist, one process for each member) before
//! its messages become events. A refused caller gets the reason, and this member's log a line.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use synod_member::{Event, Level, lock};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    FrameReader, FrameWriter, HandshakeError, Hello, HelloReply, Lane, PeerMessage, RefuseReason,
    read_hello, write_reply,
};

use super::channel::Channel;
use super::dial::{HANDSHAKE_LIMIT, IO_LIMIT, TimedSocket, prepare};
use super::security::SecurityError;
use super::session_registry::{Admission, duplicate_identity_text};
use super::{INBOUND_MAX, Transport};

/// Pause after a failed accept (out of file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
    let Some(id) = transport.remember(&stream, INBOUND_MAX) else {
        if !transport.is_stopping() && !transport.is_isolated() {
            transport.host.log(
                Level::Warning,
                &format!("too many connections: refusing {from}"),
            );
        }
        return;
    };
    let serving = transport.clone();
    let started = transport.run("synod-in", move || {
        serve(&serving, stream, id, from);
        serving.forget(id);
    });
    if let Err(error) = started {
        transport.forget(id);
        transport.host.log(Level::Error, &error.to_string());
    }
}

/// Why an inbound connection ended.
#[derive(Debug, thiserror::Error)]
enum InboundError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Security(#[from] SecurityError),
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error("{0}")]
    Stream(#[from] synod_wire::StreamError),
    #[error("{0}")]
    Decode(#[from] synod_wire::DecodeError),
    #[error("another process with this identity is heard")]
    DuplicateIdentity,
}

fn serve(transport: &Arc<Transport>, stream: TcpStream, id: u64, from: SocketAddr) {
    let AdmittedCaller {
        hello,
        version,
        alone,
        mut reader,
    } = match greet(transport, stream, from) {
        Ok(Some(admitted)) => admitted,
        Ok(None) => return,
        Err(error) => {
            if !transport.is_stopping() && is_worth_logging(transport, &error, from) {
                let level = match error {
                    InboundError::Handshake(HandshakeError::Ended) => Level::Info,
                    _ => Level::Warning,
                };
                let text = format!("connection from {from} refused: {error}");
                transport.host.log(level, &text);
            }
            return;
        }
    };
    converse(transport, &hello, (version, alone), &mut reader, (id, from));
    transport.sessions.closed(hello.member, hello.session);
}

/// From the handshake to the end of the connection.
fn converse(
    transport: &Arc<Transport>,
    hello: &Hello,
    (version, alone): (u16, bool),
    reader: &mut FrameReader<Channel>,
    (id, from): (u64, SocketAddr),
) {
    if !transport.introduced(id, hello.group) {
        return;
    }
    transport.send_event(Event::MemberFound {
        member: hello.member,
        address: hello.address.clone(),
        group: hello.group,
    });
    if alone {
        transport.connect(hello.member, &hello.address);
    }
    let link = transport.link(hello.member);
    if let Some(link) = &link {
        link.inbound_opened(hello.session);
    }
    transport.send_event(Event::InboundLink {
        member: hello.member,
    });
    reader.set_max(transport.limits.of(hello.lane));
    let mut received_any = false;
    if let Err(error) = receive(transport, hello, version, reader, &mut received_any) {
        let is_noise = transport.is_stopping()
            || matches!(error, InboundError::Stream(synod_wire::StreamError::Io(_)));
        if !is_noise {
            let text = format!(
                "closing the connection from {} ({from}): {error}",
                hello.name
            );
            transport.host.log(Level::Warning, &text);
        }
    }
    if let Some(link) = &link {
        link.inbound_closed();
        // A caller of discovery sends no message and leaves no trace. A peer that closes its
        // connection has ended.
        if received_any || hello.lane == Lane::Bulk {
            transport.send_event(Event::LinkDown {
                member: hello.member,
            });
        }
    }
}

/// A peer with a wrong certificate calls again several times a second.
fn is_worth_logging(transport: &Transport, error: &InboundError, from: SocketAddr) -> bool {
    match error {
        InboundError::Security(error) => is_news(transport, from, &error.to_string()),
        _ => true,
    }
}

fn is_news(transport: &Transport, from: SocketAddr, text: &str) -> bool {
    lock(&transport.log_limit).permits(from.ip(), text, Instant::now())
}

/// A caller that passed the handshake.
struct AdmittedCaller {
    hello: Hello,
    version: u16,
    /// See [`Admission::Welcome`].
    alone: bool,
    reader: FrameReader<Channel>,
}

/// The handshake. `None` if the caller was refused; otherwise [`SessionRegistry::closed`] must
/// follow.
///
/// [`SessionRegistry::closed`]: super::session_registry::SessionRegistry::closed
fn greet(
    transport: &Transport,
    stream: TcpStream,
    from: SocketAddr,
) -> Result<Option<AdmittedCaller>, InboundError> {
    prepare(&stream)?;
    stream.set_write_timeout(Some(IO_LIMIT))?;
    let socket = TimedSocket::new(stream, HANDSHAKE_LIMIT);
    let channel = transport.security.secure_incoming(socket)?;
    let mut reader = FrameReader::new(channel, HANDSHAKE_FRAME_MAX);
    let hello = read_hello(&mut reader)?;
    let mut reply = lock(&transport.identity).answer(&hello);
    // A socket for IPv6 and IPv4 shows IPv4 callers in IPv6 form; the allowlist has the usual form.
    let ip = from.ip().to_canonical();
    if !transport.deals_with(hello.member, hello.session, ip) {
        let text = format!("{ip} is not in the allowlist");
        reply = HelloReply::Refused {
            reason: RefuseReason::NotAllowed,
            text,
        };
    }
    let mut alone = true;
    if matches!(reply, HelloReply::Welcome { .. }) {
        match transport
            .sessions
            .opened(hello.member, hello.session, Instant::now())
        {
            Admission::Welcome { alone: is_alone } => alone = is_alone,
            Admission::Wait => {
                let text = "another session of this member was heard just now".to_owned();
                reply = HelloReply::Refused {
                    reason: RefuseReason::Busy,
                    text,
                };
            }
            Admission::DuplicateIdentity => {
                reply = HelloReply::Refused {
                    reason: RefuseReason::DuplicateIdentity,
                    text: duplicate_identity_text(hello.member),
                };
            }
        }
    }
    let sent = send_reply(reader.get_mut(), &reply);
    match reply {
        HelloReply::Welcome { version, .. } => {
            if let Err(error) = sent {
                transport.sessions.closed(hello.member, hello.session);
                return Err(error);
            }
            Ok(Some(AdmittedCaller {
                hello,
                version,
                alone,
                reader,
            }))
        }
        HelloReply::Refused { reason, text } => {
            sent?;
            let subject = format!("{}: {text}", hello.name);
            let is_routine = matches!(reason, RefuseReason::Self_ | RefuseReason::Busy);
            if !is_routine && is_news(transport, from, &subject) {
                let text = format!("connection from {} ({from}) refused: {text}", hello.name);
                transport.host.log(Level::Warning, &text);
            }
            Ok(None)
        }
    }
}

fn send_reply(channel: &mut Channel, reply: &HelloReply) -> Result<(), InboundError> {
    write_reply(
        &mut FrameWriter::new(&mut *channel, HANDSHAKE_FRAME_MAX),
        reply,
    )?;
    channel.no_limit()?;
    Ok(())
}

fn receive(
    transport: &Transport,
    hello: &Hello,
    version: u16,
    reader: &mut FrameReader<Channel>,
    received_any: &mut bool,
) -> Result<(), InboundError> {
    while let Some(frame) = reader.read_frame()? {
        *received_any = true;
        let bytes = frame.body.len() + FRAME_OVERHEAD;
        let message = PeerMessage::decode(version, frame)?;
        let now = Instant::now();
        if !transport.sessions.heard(hello.member, hello.session, now) {
            return Err(InboundError::DuplicateIdentity);
        }
        if !transport.inbound_budget.take(bytes) {
            return Ok(());
        }
        let event = Event::Peer {
            from: hello.member,
            certificate: None,
            group: hello.group,
            message,
        };
        transport.send_event_with_bytes(event, bytes);
    }
    Ok(())
}

/// Bytes that a small message takes in memory, beside its frame.
const FRAME_OVERHEAD: usize = 256;
