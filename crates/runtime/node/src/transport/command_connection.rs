//! A connection of a client that gives commands from another machine.
//!
//! Nothing of it reaches the driver: once the client has proven to hold the group's credentials,
//! the host's handler serves it, on the thread of the connection. It counts as no member: it is
//! judged by what it shows only, has a pool of its own ([`OpenConnections`]), and is not called
//! back.
//!
//! [`OpenConnections`]: super::open_connections::OpenConnections

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use synod_tls::PeerCredential;
use synod_wire::{ClientHello, FrameReader};

use super::channel::Channel;
use super::open_connections::ConnectionSlot;

/// Serves a client until it goes; if it ends because of what the client has sent, says why. Runs on
/// a thread of the node, which ends with the connection; it must not stop the node.
pub type CommandHandler = dyn Fn(&mut CommandConnection<'_>) -> Result<(), String> + Send + Sync;

/// A client's connection, encrypted and authenticated. The node breaks it when it stops, when the
/// credentials that the client has shown are withdrawn, and to make room for other clients.
pub struct CommandConnection<'a> {
    channel: Channel,
    /// Read behind the hello, and not used yet.
    unread: Vec<u8>,
    client: String,
    slot: &'a ConnectionSlot,
}

/// A client that has passed the handshake.
pub(super) struct AdmittedClient {
    pub(super) hello: ClientHello,
    pub(super) reader: FrameReader<Channel>,
}

impl<'a> CommandConnection<'a> {
    pub(super) fn new(
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

    /// Bounds the time of all reads from now on.
    pub fn limit_read(&mut self, limit: Duration) {
        self.channel.limit(limit);
    }

    /// Bounds the time of all writes from now on.
    pub fn limit_write(&mut self, limit: Duration) {
        self.channel.limit_writes(limit);
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
