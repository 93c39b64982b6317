//! Connections that other members open: one thread each, reading.

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

use super::callers::{Admission, twin_text};
use super::channel::Channel;
use super::dial::{HANDSHAKE_LIMIT, IO_LIMIT, Timed, prepare};
use super::security::SecurityError;
use super::{INBOUND_MAX, Peers};

/// Pause after a failed accept (out of file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes connections until stopped.
pub(super) fn accept(peers: &Arc<Peers>) {
    loop {
        let accepted = peers.listener.accept();
        if peers.is_stopping() {
            return;
        }
        match accepted {
            Ok((stream, from)) => start(peers, stream, from),
            Err(error) => {
                peers.host.log(
                    Level::Warning,
                    &format!("cannot accept a connection: {error}"),
                );
                std::thread::park_timeout(ACCEPT_PAUSE);
            }
        }
    }
}

fn start(peers: &Arc<Peers>, stream: TcpStream, from: SocketAddr) {
    let Some(id) = peers.remember(&stream, INBOUND_MAX) else {
        if !peers.is_stopping() && !peers.is_isolated() {
            peers.host.log(
                Level::Warning,
                &format!("too many connections: refusing {from}"),
            );
        }
        return;
    };
    let serving = peers.clone();
    let started = peers.run("synod-in", move || {
        serve(&serving, stream, id, from);
        serving.forget(id);
    });
    if let Err(error) = started {
        peers.forget(id);
        peers.host.log(Level::Error, &error.to_string());
    }
}

/// What goes wrong on an inbound connection.
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

fn serve(peers: &Arc<Peers>, stream: TcpStream, id: u64, from: SocketAddr) {
    let Admitted {
        hello,
        version,
        alone,
        mut reader,
    } = match greet(peers, stream, from) {
        Ok(Some(admitted)) => admitted,
        Ok(None) => return,
        Err(error) => {
            if !peers.is_stopping() && is_worth_saying(peers, &error, from) {
                let level = match error {
                    InboundError::Handshake(HandshakeError::Ended) => Level::Info,
                    _ => Level::Warning,
                };
                let text = format!("connection from {from} refused: {error}");
                peers.host.log(level, &text);
            }
            return;
        }
    };
    converse(peers, &hello, (version, alone), &mut reader, (id, from));
    peers.callers.closed(hello.member, hello.session);
}

/// From the greeting to the end of the connection.
fn converse(
    peers: &Arc<Peers>,
    hello: &Hello,
    (version, alone): (u16, bool),
    reader: &mut FrameReader<Channel>,
    (id, from): (u64, SocketAddr),
) {
    if !peers.introduced(id, hello.group) {
        return;
    }
    peers.tell(Event::MemberFound {
        member: hello.member,
        address: hello.address.clone(),
        group: hello.group,
    });
    if alone {
        peers.connect(hello.member, &hello.address);
    }
    let link = peers.link(hello.member);
    if let Some(link) = &link {
        link.inbound_opened(hello.session);
    }
    peers.tell(Event::InboundLink {
        member: hello.member,
    });
    reader.set_max(peers.limits.of(hello.lane));
    let mut received_any = false;
    if let Err(error) = receive(peers, hello, version, reader, &mut received_any) {
        let is_noise = peers.is_stopping()
            || matches!(error, InboundError::Stream(synod_wire::StreamError::Io(_)));
        if !is_noise {
            let text = format!(
                "closing the connection from {} ({from}): {error}",
                hello.name
            );
            peers.host.log(Level::Warning, &text);
        }
    }
    if let Some(link) = &link {
        link.inbound_closed();
        // A caller that only looked around leaves no trace; a peer that hung up is gone.
        if received_any || hello.lane == Lane::Bulk {
            peers.tell(Event::LinkDown {
                member: hello.member,
            });
        }
    }
}

/// A peer with a wrong certificate goes on calling, several times a second.
fn is_worth_saying(peers: &Peers, error: &InboundError, from: SocketAddr) -> bool {
    match error {
        InboundError::Security(error) => is_news(peers, from, &error.to_string()),
        _ => true,
    }
}

fn is_news(peers: &Peers, from: SocketAddr, complaint: &str) -> bool {
    lock(&peers.complaints).is_news(from.ip(), complaint, Instant::now())
}

/// A caller that was let in.
struct Admitted {
    hello: Hello,
    version: u16,
    /// See [`Admission::Welcome`].
    alone: bool,
    reader: FrameReader<Channel>,
}

/// The handshake; `None` if the caller was refused. If it was not, [`Callers::closed`] is owed.
///
/// [`Callers::closed`]: super::callers::Callers::closed
fn greet(
    peers: &Peers,
    stream: TcpStream,
    from: SocketAddr,
) -> Result<Option<Admitted>, InboundError> {
    prepare(&stream)?;
    stream.set_write_timeout(Some(IO_LIMIT))?;
    let socket = Timed::new(stream, HANDSHAKE_LIMIT);
    let channel = peers.security.secure_incoming(socket)?;
    let mut reader = FrameReader::new(channel, HANDSHAKE_FRAME_MAX);
    let hello = read_hello(&mut reader)?;
    let mut reply = lock(&peers.identity).answer(&hello);
    // An IPv4 caller of a socket for both: the list has the address in its usual form.
    let ip = from.ip().to_canonical();
    if !peers.deals_with(hello.member, hello.session, ip) {
        let text = format!("{ip} is not in the allowlist");
        reply = HelloReply::Refused {
            reason: RefuseReason::NotAllowed,
            text,
        };
    }
    let mut alone = true;
    if matches!(reply, HelloReply::Welcome { .. }) {
        match peers
            .callers
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
                    text: twin_text(hello.member),
                };
            }
        }
    }
    let told = tell(reader.get_mut(), &reply);
    match reply {
        HelloReply::Welcome { version, .. } => {
            if let Err(error) = told {
                peers.callers.closed(hello.member, hello.session);
                return Err(error);
            }
            Ok(Some(Admitted {
                hello,
                version,
                alone,
                reader,
            }))
        }
        HelloReply::Refused { reason, text } => {
            told?;
            let complaint = format!("{}: {text}", hello.name);
            let is_routine = matches!(reason, RefuseReason::Self_ | RefuseReason::Busy);
            if !is_routine && is_news(peers, from, &complaint) {
                let text = format!("connection from {} ({from}) refused: {text}", hello.name);
                peers.host.log(Level::Warning, &text);
            }
            Ok(None)
        }
    }
}

fn tell(channel: &mut Channel, reply: &HelloReply) -> Result<(), InboundError> {
    write_reply(
        &mut FrameWriter::new(&mut *channel, HANDSHAKE_FRAME_MAX),
        reply,
    )?;
    channel.no_limit()?;
    Ok(())
}

fn receive(
    peers: &Peers,
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
        if !peers.callers.heard(hello.member, hello.session, now) {
            return Err(InboundError::DuplicateIdentity);
        }
        if !peers.inbound_budget.take(bytes) {
            return Ok(());
        }
        let event = Event::Peer {
            from: hello.member,
            group: hello.group,
            message,
        };
        peers.tell_weighing(event, bytes);
    }
    Ok(())
}

/// What a small message weighs in memory.
const FRAME_OVERHEAD: usize = 256;
