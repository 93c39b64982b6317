//! Connections that other members open: one thread each, reading.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use synod_member::{Event, Level, lock};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    FrameReader, FrameWriter, HandshakeError, Hello, HelloReply, Lane, PeerMessage, RefuseReason,
    read_hello, write_reply,
};

use super::dial::{HANDSHAKE_LIMIT, IO_LIMIT, Timed, prepare};
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
        if !peers.is_stopping() {
            peers.host.log(
                Level::Warning,
                &format!("too many connections: refusing {from}"),
            );
        }
        return;
    };
    let serving = peers.clone();
    let started = peers.run("synod-in", move || {
        serve(&serving, &stream, id, from);
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
    Handshake(#[from] HandshakeError),
    #[error("{0}")]
    Stream(#[from] synod_wire::StreamError),
    #[error("{0}")]
    Decode(#[from] synod_wire::DecodeError),
}

fn serve(peers: &Arc<Peers>, stream: &TcpStream, id: u64, from: SocketAddr) {
    let mut reader = FrameReader::new(Timed::new(stream, HANDSHAKE_LIMIT), HANDSHAKE_FRAME_MAX);
    let greeted = greet(peers, stream, &mut reader, from);
    let (hello, version) = match greeted {
        Ok(Some(greeted)) => greeted,
        Ok(None) => return,
        Err(error) => {
            if !peers.is_stopping() {
                let text = format!("connection from {from} refused: {error}");
                peers.host.log(Level::Warning, &text);
            }
            return;
        }
    };
    if !peers.introduced(id, hello.group) {
        return;
    }
    peers.tell(Event::Found {
        member: hello.member,
        address: hello.address.clone(),
        group: hello.group,
    });
    peers.connect(hello.member, &hello.address);
    let link = peers.link(hello.member);
    if let Some(link) = &link {
        link.inbound_opened();
    }
    peers.tell(Event::Called {
        member: hello.member,
    });
    reader.set_max(peers.limits.of(hello.lane));
    let mut received_any = false;
    if let Err(error) = receive(peers, &hello, version, &mut reader, &mut received_any) {
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
            link.reset_stale();
            peers.tell(Event::LinkDown {
                member: hello.member,
            });
        }
    }
}

/// The handshake; `None` if the caller was refused.
fn greet(
    peers: &Peers,
    stream: &TcpStream,
    reader: &mut FrameReader<Timed<'_>>,
    from: SocketAddr,
) -> Result<Option<(Hello, u16)>, InboundError> {
    prepare(stream)?;
    stream.set_write_timeout(Some(IO_LIMIT))?;
    let hello = read_hello(reader)?;
    let mut reply = lock(&peers.identity).answer(&hello);
    if !peers.host.allows(&from.ip().to_string()) {
        let text = format!("{} is not in the allowlist", from.ip());
        reply = HelloReply::Refused {
            reason: RefuseReason::NotAllowed,
            text,
        };
    }
    write_reply(&mut FrameWriter::new(stream, HANDSHAKE_FRAME_MAX), &reply)?;
    match reply {
        HelloReply::Welcome { version, .. } => {
            reader.get_mut().no_limit()?;
            Ok(Some((hello, version)))
        }
        HelloReply::Refused { reason, text } => {
            if reason != RefuseReason::Self_ {
                let text = format!("connection from {} ({from}) refused: {text}", hello.name);
                peers.host.log(Level::Warning, &text);
            }
            Ok(None)
        }
    }
}

fn receive(
    peers: &Peers,
    hello: &Hello,
    version: u16,
    reader: &mut FrameReader<Timed<'_>>,
    received_any: &mut bool,
) -> Result<(), InboundError> {
    while let Some(frame) = reader.read_frame()? {
        *received_any = true;
        let bytes = frame.body.len() + FRAME_OVERHEAD;
        let message = PeerMessage::decode(version, frame)?;
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
