//! The way to a member on another machine: a connection of the group.
//!
//! ```text
//! client                                member
//!   | ==== TLS, a credential at both ends ==== |
//!   | ---- ClientHello ----------------------> |   frames, as between members
//!   | <--- HelloReply ------------------------ |
//!   | <--- {"hello":...} --------------------- |   lines, as on the socket
//! ```
//! There is no way in clear: a member takes commands only from a process that has proven to hold
//! the group's secret, or a certificate of its authority.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use synod_tls::{Credentials, TlsError, TlsHandshakeError, TlsStream};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    ClientHello, FrameReader, FrameWriter, HandshakeError, HelloReply, OUR_VERSIONS, RefuseReason,
    StreamError, read_reply, write_client_hello,
};

use crate::connection::Connection;

/// The port of members if an address names none.
pub const DEFAULT_PORT: u16 = 4567;
/// Time limit for a connection, for each of the member's addresses.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for each step of the handshake, as between members.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct RemoteMember {
    /// `host:port` where it listens for members; without a port, [`DEFAULT_PORT`].
    pub address: String,
    /// The name of its group; empty: whichever it is in.
    pub cluster_name: String,
    /// Credentials that the group's members show to each other.
    pub credentials: Credentials,
}

#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("{0}")]
    Credentials(#[from] TlsError),
    #[error(
        "cannot connect to member {member}: {source}. Does its server run, and is that the \
         address at which other members reach it?"
    )]
    NotReached { member: String, source: io::Error },
    #[error(
        "the connections of member {member} are not encrypted, so it cannot know who gives \
         orders: run synod on its machine, or give the group a secret (synod.secret_file)"
    )]
    InClear { member: String },
    #[error(
        "member {member} and this program do not belong to one group: {reason}. Use a copy of \
         the group's secret, or a certificate of its authority"
    )]
    NotProven {
        member: String,
        /// Reason, as a part of a sentence.
        reason: String,
    },
    /// The member refuses this client.
    #[error("member {member} refuses: {text}")]
    Refused {
        member: String,
        reason: RefuseReason,
        text: String,
    },
    /// The connection broke, or the member does not speak the protocol.
    #[error("no answer from member {member}: {reason}. If that lasts, look into its error log")]
    NoAnswer { member: String, reason: String },
}

pub(crate) struct RemoteConnection {
    stream: TlsStream<TcpStream>,
    /// Read behind the answer to the hello, and not used yet.
    unread: Vec<u8>,
}

pub(crate) fn connect(to: &RemoteMember) -> Result<RemoteConnection, RemoteError> {
    let tls = to.credentials.load()?;
    let failed = |source| RemoteError::NotReached {
        member: to.address.clone(),
        source,
    };
    let socket = connect_socket(&with_port(&to.address)).map_err(failed)?;
    let mut stream = tls.connect(socket).map_err(|e| no_tls(to, e))?;
    let hello = ClientHello {
        versions: OUR_VERSIONS,
        cluster_name: to.cluster_name.clone(),
        name: own_name(),
    };
    let mut writer = FrameWriter::new(&mut stream, HANDSHAKE_FRAME_MAX);
    // If that fails, the member's reason comes with the read.
    let _ = write_client_hello(&mut writer, &hello);
    let mut reader = FrameReader::new(stream, HANDSHAKE_FRAME_MAX);
    // What the member thinks of this program's credential shows at the first read.
    let reply = read_reply(&mut reader, hello.versions);
    match reply.map_err(|e| no_reply(to, e))? {
        HelloReply::Welcome { .. } => {
            let (stream, unread) = reader.into_parts();
            Ok(RemoteConnection { stream, unread })
        }
        HelloReply::Refused { reason, text } => Err(RemoteError::Refused {
            member: to.address.clone(),
            reason,
            text,
        }),
    }
}

fn connect_socket(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&candidate, CONNECT_LIMIT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
                stream.set_write_timeout(Some(HANDSHAKE_LIMIT))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The address, with the usual port if it names none.
fn with_port(address: &str) -> String {
    // An IPv6 address has colons of its own, in brackets.
    let behind_host = address.rsplit(']').next().unwrap_or(address);
    match behind_host.contains(':') {
        true => address.to_owned(),
        false => format!("{address}:{DEFAULT_PORT}"),
    }
}

fn own_name() -> String {
    let user = rustix::process::geteuid().as_raw();
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("synod (user {user} at {host})")
}

fn no_tls(to: &RemoteMember, error: TlsHandshakeError) -> RemoteError {
    let member = to.address.clone();
    match error {
        TlsHandshakeError::Plaintext { .. } => RemoteError::InClear { member },
        TlsHandshakeError::Failed(reason) => not_proven(member, &reason),
        TlsHandshakeError::Io(error) => RemoteError::NoAnswer {
            member,
            reason: in_words(&error),
        },
    }
}

fn no_reply(to: &RemoteMember, error: HandshakeError) -> RemoteError {
    let member = to.address.clone();
    match error {
        HandshakeError::Stream(StreamError::Io(error))
            if error.kind() == io::ErrorKind::InvalidData =>
        {
            not_proven(member, &error.to_string())
        }
        HandshakeError::Stream(StreamError::Io(error)) => RemoteError::NoAnswer {
            member,
            reason: in_words(&error),
        },
        error => RemoteError::NoAnswer {
            member,
            reason: error.to_string(),
        },
    }
}

/// Members give each other the reason in words of members.
fn not_proven(member: String, reason: &str) -> RemoteError {
    let reason = reason.replace("this member", "this program");
    RemoteError::NotProven { member, reason }
}

/// The system calls a passed time limit "temporarily unavailable".
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it took too long".to_owned(),
        _ => error.to_string(),
    }
}

impl Read for RemoteConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unread.is_empty() {
            return self.stream.read(buffer);
        }
        let len = buffer.len().min(self.unread.len());
        buffer[..len].copy_from_slice(&self.unread[..len]);
        self.unread.drain(..len);
        Ok(len)
    }
}

impl Write for RemoteConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Connection for RemoteConnection {
    fn limit_read(&mut self, limit: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(limit))
    }

    fn limit_write(&mut self, limit: Duration) -> io::Result<()> {
        self.stream.get_ref().set_write_timeout(Some(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_port_is_taken_if_none_is_named() {
        for (given, expected) in [
            ("db1", "db1:4567"),
            ("db1:5000", "db1:5000"),
            ("[::1]", "[::1]:4567"),
            ("[::1]:5000", "[::1]:5000"),
            ("10.0.0.1", "10.0.0.1:4567"),
        ] {
            assert_eq!(with_port(given), expected);
        }
    }
}
