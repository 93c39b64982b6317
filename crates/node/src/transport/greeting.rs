//! The handshake with a caller: encryption, hello, and the reasons to refuse it.
//!
//! A caller is welcome if its hello fits, its address is allowed, its connection shows what the
//! member is bound to, and no other process speaks for the member. A refused caller gets the
//! reason, and this member's log a line.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use synod_member::{Level, lock};
use synod_tls::PeerCredential;
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    FrameReader, FrameWriter, Hello, HelloReply, Refusal, RefuseReason, has_compression,
    read_hello, write_reply,
};

use super::Transport;
use super::channel::Channel;
use super::dial::{HANDSHAKE_LIMIT, IO_LIMIT, TimedSocket, prepare};
use super::inbound::InboundError;
use super::session_registry::{SessionPresence, Taken, duplicate_identity_text};

/// A caller that passed the handshake.
pub(super) struct AdmittedCaller {
    pub(super) hello: Hello,
    pub(super) version: u16,
    /// Where it called from. IPv4 in its usual form, also if the socket is for both.
    pub(super) ip: IpAddr,
    /// The process speaks for the member until this is dropped.
    pub(super) presence: SessionPresence,
    pub(super) reader: FrameReader<Channel>,
}

impl AdmittedCaller {
    /// Whether the connection has proven that the caller holds a credential of the group.
    pub(super) fn is_authenticated(&self) -> bool {
        *self.reader.get_ref().peer() != PeerCredential::None
    }

    /// The subject of the certificate that the connection shows.
    pub(super) fn certificate(&self) -> Option<Arc<str>> {
        match self.reader.get_ref().peer() {
            PeerCredential::Certificate { subject } => Some(Arc::from(subject.as_str())),
            PeerCredential::None | PeerCredential::Secret { .. } => None,
        }
    }
}

/// Does the handshake. `None` if the caller was refused.
pub(super) fn greet(
    transport: &Arc<Transport>,
    stream: TcpStream,
    from: SocketAddr,
) -> Result<Option<AdmittedCaller>, InboundError> {
    prepare(&stream)?;
    stream.set_write_timeout(Some(IO_LIMIT))?;
    let socket = TimedSocket::new(stream, HANDSHAKE_LIMIT);
    let channel = transport.security.secure_incoming(socket)?;
    let mut reader = FrameReader::new(channel, HANDSHAKE_FRAME_MAX);
    let hello = read_hello(&mut reader)?;
    let ip = from.ip().to_canonical();
    match judge(transport, &hello, ip, reader.get_ref().peer()) {
        Ok((version, reply, presence)) => {
            send_reply(reader.get_mut(), &reply)?;
            if has_compression(version) {
                reader.take_compressed();
            }
            Ok(Some(AdmittedCaller {
                hello,
                version,
                ip,
                presence,
                reader,
            }))
        }
        Err(refusal) => {
            log_refusal(transport, &hello, from, &refusal);
            let Refusal {
                reason, for_caller, ..
            } = refusal;
            let text = for_caller;
            send_reply(reader.get_mut(), &HelloReply::Refused { reason, text })?;
            Ok(None)
        }
    }
}

/// The version to speak with the caller, the answer to it, and its place among the processes that
/// speak for its member; or why there is none.
fn judge(
    transport: &Arc<Transport>,
    hello: &Hello,
    ip: IpAddr,
    shown: &PeerCredential,
) -> Result<(u16, HelloReply, SessionPresence), Refusal> {
    let answer = lock(&transport.identity).answer(hello);
    if !transport.deals_with(hello.member, hello.session, ip) {
        let text = format!("{ip} is not in the allowlist");
        return Err(Refusal::of(RefuseReason::NotAllowed, text));
    }
    let reply = answer?;
    if let Some(text) = transport.objection(hello.member, shown) {
        return Err(Refusal::of(RefuseReason::NotAllowed, text));
    }
    let version = match &reply {
        HelloReply::Welcome { version, .. } => *version,
        HelloReply::Refused { reason, text } => return Err(Refusal::of(*reason, text.clone())),
    };
    let presence = claim(transport, hello)?;
    Ok((version, reply, presence))
}

fn claim(transport: &Transport, hello: &Hello) -> Result<SessionPresence, Refusal> {
    let (member, session) = (hello.member, hello.session);
    let claimed = transport.sessions.claim(member, session, Instant::now());
    claimed.map_err(|taken| match taken {
        Taken::Wait => {
            let text = "another session of this member was heard just now".to_owned();
            Refusal::of(RefuseReason::Busy, text)
        }
        Taken::DuplicateIdentity => Refusal::of(
            RefuseReason::DuplicateIdentity,
            duplicate_identity_text(member),
        ),
    })
}

fn log_refusal(transport: &Transport, hello: &Hello, from: SocketAddr, refusal: &Refusal) {
    let is_routine = matches!(refusal.reason, RefuseReason::Self_ | RefuseReason::Busy);
    if is_routine {
        return;
    }
    let (name, why) = (&hello.name, &refusal.for_own_log);
    let subject = format!("{name}: {why}");
    transport.log_about(from.ip(), Level::Warning, &subject, || {
        format!("connection from {name} ({from}) refused: {why}")
    });
}

fn send_reply(channel: &mut Channel, reply: &HelloReply) -> Result<(), InboundError> {
    write_reply(
        &mut FrameWriter::new(&mut *channel, HANDSHAKE_FRAME_MAX),
        reply,
    )?;
    channel.no_limit()?;
    Ok(())
}
