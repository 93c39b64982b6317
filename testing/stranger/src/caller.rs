//! One call by the protocol, in any name.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use synod_consensus::{GroupId, MemberId, SessionId, VersionRange};
use synod_e2e::{Outcome, TestCluster, Why};
use synod_local_cluster::ports::Ports;
use synod_tls::{Tls, TlsStream};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    BULK_FRAME_MAX_DEFAULT, ClientHello, FrameReader, FrameWriter, Hello, HelloReply, Lane,
    OUR_VERSIONS, PeerMessage, read_reply, write_client_hello, write_hello,
};

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Address at which a server listens for members.
pub(crate) fn address(cluster: &TestCluster, node: u8) -> SocketAddr {
    let port = Ports::of(cluster.settings().base_port, node).group;
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Connects, and sends nothing yet.
pub(crate) fn connect(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Identity that a caller gives, and its proof.
#[derive(Clone)]
pub(crate) struct Name {
    pub(crate) member: MemberId,
    pub(crate) session: SessionId,
    pub(crate) cluster_name: String,
    /// `host:port`, where it wants to be called.
    pub(crate) address: String,
    /// The certificate that it shows.
    pub(crate) tls: Option<Arc<Tls>>,
}

impl Name {
    /// A stranger with an id of its own, which nothing listens for.
    pub(crate) fn stranger(cluster: &TestCluster, id: u64) -> Name {
        Name {
            member: MemberId(id),
            session: SessionId(id),
            cluster_name: cluster.settings().cluster_name.clone(),
            address: "127.0.0.1:9".to_owned(),
            tls: None,
        }
    }

    pub(crate) fn with(mut self, tls: &Arc<Tls>) -> Name {
        self.tls = Some(tls.clone());
        self
    }

    fn hello(&self, lane: Lane) -> Hello {
        Hello {
            versions: OUR_VERSIONS,
            group: GroupId::NONE,
            cluster_name: self.cluster_name.clone(),
            member: self.member,
            session: self.session,
            name: "stranger".to_owned(),
            address: self.address.clone(),
            lane,
        }
    }

    /// Calls a server, to the end of the handshake.
    ///
    /// # Errors
    /// If the server closes the connection, or does not answer in time.
    pub(crate) fn call(&self, at: SocketAddr, lane: Lane) -> Outcome<(Conversation, HelloReply)> {
        let mut socket = self.socket(at)?;
        let hello = self.hello(lane);
        write_hello(
            &mut FrameWriter::new(&mut socket, HANDSHAKE_FRAME_MAX),
            &hello,
        )
        .why("the hello")?;
        answered(socket, hello.versions)
    }

    /// Calls a server as a client with commands, to the end of the handshake.
    ///
    /// # Errors
    /// If the server closes the connection, or does not answer in time.
    pub(crate) fn call_as_client(&self, at: SocketAddr) -> Outcome<(Conversation, HelloReply)> {
        let mut socket = self.socket(at)?;
        let hello = ClientHello {
            versions: OUR_VERSIONS,
            cluster_name: self.cluster_name.clone(),
            name: "stranger".to_owned(),
        };
        write_client_hello(
            &mut FrameWriter::new(&mut socket, HANDSHAKE_FRAME_MAX),
            &hello,
        )
        .why("the hello")?;
        answered(socket, hello.versions)
    }

    fn socket(&self, at: SocketAddr) -> Outcome<Socket> {
        let stream = connect(at).why("connecting")?;
        Ok(match &self.tls {
            None => Socket::Clear(stream),
            Some(tls) => Socket::Encrypted(Box::new(tls.connect(stream).why("TLS")?)),
        })
    }
}

/// Reads the answer to a hello.
fn answered(mut socket: Socket, offered: VersionRange) -> Outcome<(Conversation, HelloReply)> {
    let mut reader = FrameReader::new(&mut socket, HANDSHAKE_FRAME_MAX);
    let reply = read_reply(&mut reader, offered).why("the answer")?;
    let version = match &reply {
        HelloReply::Welcome { version, .. } => *version,
        HelloReply::Refused { .. } => 0,
    };
    Ok((Conversation { socket, version }, reply))
}

/// A connection after its handshake.
pub(crate) struct Conversation {
    socket: Socket,
    version: u16,
}

impl Conversation {
    /// Sends a message. False if the server has hung up.
    pub(crate) fn send(&mut self, message: &PeerMessage) -> bool {
        let mut writer = FrameWriter::new(&mut self.socket, BULK_FRAME_MAX_DEFAULT);
        // A value that has no encoding cannot be sent by any caller.
        if writer.push(self.version, message).is_err() {
            return true;
        }
        writer.flush().is_ok()
    }

    /// Ends the conversation, and waits until the server has read all of it.
    pub(crate) fn end(self) {
        // The server may have ended it already.
        if self.socket.stream().shutdown(Shutdown::Write).is_ok() {
            let _ = self.socket.stream().read(&mut [0]);
        }
    }

    /// Sends bytes as they are. False if the server has hung up.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.socket
            .write_all(bytes)
            .and_then(|()| self.socket.flush())
            .is_ok()
    }
}

/// A socket in clear or encrypted.
pub(crate) enum Socket {
    Clear(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// The called side of a connection.
    pub(crate) fn answer(stream: TcpStream, tls: Option<&Arc<Tls>>) -> Outcome<Socket> {
        Ok(match tls {
            None => Socket::Clear(stream),
            Some(tls) => Socket::Encrypted(Box::new(tls.accept(stream).why("TLS")?)),
        })
    }

    fn stream(&self) -> &TcpStream {
        match self {
            Socket::Clear(stream) => stream,
            Socket::Encrypted(stream) => stream.get_ref(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Clear(stream) => stream.read(buffer),
            Socket::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Clear(stream) => stream.write(bytes),
            Socket::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Clear(stream) => stream.write_vectored(parts),
            Socket::Encrypted(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Clear(stream) => stream.flush(),
            Socket::Encrypted(stream) => stream.flush(),
        }
    }
}
