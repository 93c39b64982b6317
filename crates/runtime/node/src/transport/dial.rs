//! Opening a connection: connect, encrypt, send the hello, read the answer.
//!
//! Every step has a limit of time, and a node that stops closes the socket under it, so a dial
//! never keeps a thread for long.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use synod_member::SignOfLife;
use synod_tls::TlsHandshakeError;
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    FrameError, FrameReader, FrameWriter, HandshakeError, Hello, HelloReply, Lane, StreamError,
    read_reply, write_hello,
};

use super::channel::{Channel, TimedSocket, prepare};
use super::galera;
use super::link::Target;
use super::{ConnectionEncryption, Transport};

/// A whole handshake must not take longer, however the bytes trickle in.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallLimits {
    connect: Duration,
    handshake: Duration,
}

impl CallLimits {
    pub(super) const MEMBER: CallLimits = CallLimits {
        connect: Duration::from_secs(2),
        handshake: HANDSHAKE_LIMIT,
    };
    /// A stranger may be slow on purpose: its link blocks that of another.
    pub(super) const STRANGER: CallLimits = CallLimits {
        connect: Duration::from_secs(1),
        handshake: Duration::from_secs(2),
    };
    /// A start waits for it. A machine behind address translation may not reach itself.
    pub(super) const AT_START: CallLimits = CallLimits {
        connect: Duration::from_millis(300),
        handshake: Duration::from_secs(1),
    };
}

#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// A program has, or the system there for it, and the connection broke.
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("no encrypted connection: {0}")]
    Tls(#[from] TlsHandshakeError),
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error(
        "a node of Galera answers there, and no group has both: have its server load this library \
         as well, and start it again"
    )]
    Galera,
}

impl DialError {
    /// The cause, if an operator has to fix it. `None` if the peer may only be away.
    pub(super) fn for_operator(&self) -> Option<String> {
        match self {
            DialError::Connect(_)
            | DialError::Socket(_)
            | DialError::Tls(TlsHandshakeError::Io(_)) => None,
            DialError::Tls(_) | DialError::Galera => Some(self.to_string()),
            // The peer's answer to this member's certificate comes with the first read.
            DialError::Handshake(HandshakeError::Stream(StreamError::Io(error)))
                if error.kind() == io::ErrorKind::InvalidData =>
            {
                Some(error.to_string())
            }
            DialError::Handshake(_) => None,
        }
    }

    pub(super) fn sign(&self) -> SignOfLife {
        match self {
            DialError::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                SignOfLife::NoneListens
            }
            DialError::Connect(_) => SignOfLife::Silence,
            _ if self.for_operator().is_some() => SignOfLife::Distrust,
            DialError::Socket(_)
            | DialError::Tls(_)
            | DialError::Handshake(_)
            | DialError::Galera => SignOfLife::Listens,
        }
    }

    /// The same in words: the rest of a sentence that begins with the address.
    pub(super) fn in_words(&self) -> String {
        match self.sign() {
            SignOfLife::Distrust => format!("does not let this member in: {self}"),
            SignOfLife::Listens => {
                format!("takes connections, and does not answer as a member: {self}")
            }
            _ => format!("does not answer: {self}"),
        }
    }

    /// Whether what came was no answer of a member.
    fn is_foreign(&self) -> bool {
        match self {
            DialError::Tls(TlsHandshakeError::Plaintext { .. }) => true,
            DialError::Handshake(HandshakeError::Stream(StreamError::Frame(error))) => {
                matches!(error, FrameError::NotAFrame { .. })
            }
            DialError::Connect(_)
            | DialError::Socket(_)
            | DialError::Tls(_)
            | DialError::Handshake(_)
            | DialError::Galera => false,
        }
    }
}

/// Connects and says hello. The answer may be a refusal.
pub(super) fn dial(
    transport: &Transport,
    target: &Target,
    lane: Lane,
) -> Result<(Channel, HelloReply), DialError> {
    let outcome = match attempt(transport, target, lane, true) {
        Err(DialError::Tls(TlsHandshakeError::Plaintext { .. }))
            if transport.encryption.may_fall_back() =>
        {
            attempt(transport, target, lane, false)
        }
        other => other,
    };
    outcome.map_err(|error| {
        if error.is_foreign() && is_galera(transport, target) {
            DialError::Galera
        } else {
            error
        }
    })
}

/// Says hello at an address before this member has a transport.
pub(super) fn ask(
    encryption: &ConnectionEncryption,
    hello: &Hello,
    address: &str,
) -> Result<HelloReply, DialError> {
    let target = Target {
        limits: CallLimits::STRANGER,
        ..Target::at(address)
    };
    let stream = connect(&target, || true).map_err(DialError::Connect)?;
    prepare(&stream)?;
    let socket = TimedSocket::new(stream, target.limits.handshake);
    Ok(greet(&mut encryption.secure_outgoing(socket)?, hello)?)
}

/// Whether a node of Galera is there. A stranger gets no further connection for that.
fn is_galera(transport: &Transport, target: &Target) -> bool {
    if target.only_at.is_some() {
        return false;
    }
    let Ok(stream) = connect(target, || transport.may_open()) else {
        return false;
    };
    galera::greets(TimedSocket::new(stream, galera::GREETING_LIMIT))
}

fn attempt(
    transport: &Transport,
    target: &Target,
    lane: Lane,
    may_encrypt: bool,
) -> Result<(Channel, HelloReply), DialError> {
    let stream = connect(target, || transport.may_open()).map_err(DialError::Connect)?;
    prepare(&stream)?;
    let stopping = || io::Error::new(io::ErrorKind::Interrupted, "this member stops");
    // Until the handshake is over, a node that stops closes the socket.
    let _slot = transport
        .connections
        .called(&stream, || transport.may_open())
        .ok_or_else(stopping)?;
    let socket = TimedSocket::new(stream, target.limits.handshake);
    let mut channel = if may_encrypt {
        transport.encryption.secure_outgoing(socket)?
    } else {
        Channel::Plain(socket)
    };
    let reply = greet(&mut channel, &transport.hello(lane))?;
    Ok((channel, reply))
}

fn greet(channel: &mut Channel, hello: &Hello) -> Result<HelloReply, HandshakeError> {
    let sent = write_hello(
        &mut FrameWriter::new(&mut *channel, HANDSHAKE_FRAME_MAX),
        hello,
    );
    let reply = read_reply(
        &mut FrameReader::new(channel, HANDSHAKE_FRAME_MAX),
        hello.versions,
    );
    // A peer may refuse a connection before it has read the hello: then the refusal is the reason.
    match (sent, reply) {
        (Err(error), Err(_)) => Err(error),
        (_, reply) => reply,
    }
}

fn connect(target: &Target, may_open: impl Fn() -> bool) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut is_tried = false;
    let is_meant = |at: &SocketAddr| {
        let only_at = target.only_at;
        only_at.is_none_or(|ip| at.ip().to_canonical() == ip)
    };
    for candidate in target.address.to_socket_addrs()?.filter(is_meant) {
        if !may_open() {
            break;
        }
        match TcpStream::connect_timeout(&candidate, target.limits.connect) {
            Ok(stream) => return Ok(stream),
            // Where an address is refused and another one silent, a program may be at the latter.
            Err(error) if is_tried && error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => (last, is_tried) = (error, true),
        }
    }
    Err(last)
}
