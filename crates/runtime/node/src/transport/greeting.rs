//! The handshake with a caller: encryption, hello, and the reasons to refuse it.
//!
//! A caller is welcome if its hello fits, its address is allowed, its connection shows what the
//! member is bound to, and no other process speaks for the member. A refused caller gets the
//! reason, and this member's log a line.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use synod_member::{Level, Setting, lock};
use synod_tls::PeerCredential;
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    Caller, ClientHello, FrameReader, FrameWriter, HandshakeError, Hello, HelloReply, Refusal,
    RefuseReason, read_caller, write_reply,
};

use super::Transport;
use super::channel::{Channel, TimedSocket, prepare};
use super::dial::HANDSHAKE_LIMIT;
use super::galera::SILENCE_MIN;
use super::inbound::{AdmittedClient, InboundError};
use super::session_registry::{SessionPresence, Taken, duplicate_identity_text};

/// Subject of the lines about another group at an address, whichever of the two has called.
pub(super) const OTHER_GROUP: &str = "another group";

pub(super) enum Admitted {
    /// A member, or a process that wants to be one.
    Caller(AdmittedCaller),
    Client(AdmittedClient),
}

pub(super) struct AdmittedCaller {
    pub(super) hello: Hello,
    pub(super) version: u16,
    /// Address that it called from. IPv4 in its usual form, also if the socket is for both.
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
) -> Result<Option<Admitted>, InboundError> {
    prepare(&stream)?;
    let socket = TimedSocket::new(stream, HANDSHAKE_LIMIT);
    await_first_byte(&socket)?;
    let channel = transport.encryption.secure_incoming(socket)?;
    let mut reader = FrameReader::new(channel, HANDSHAKE_FRAME_MAX);
    match read_caller(&mut reader)? {
        Caller::Member(hello) => {
            let admitted = greet_member(transport, hello, reader, from)?;
            Ok(admitted.map(Admitted::Caller))
        }
        Caller::Client(hello) => {
            let admitted = greet_client(transport, hello, reader, from)?;
            Ok(admitted.map(Admitted::Client))
        }
    }
}

fn await_first_byte(socket: &TimedSocket) -> Result<(), InboundError> {
    let since = Instant::now();
    if socket.peek()?.is_some() {
        return Ok(());
    }
    if since.elapsed() >= SILENCE_MIN {
        return Err(InboundError::WaitsForGreeting);
    }
    Err(HandshakeError::Ended.into())
}

fn greet_member(
    transport: &Arc<Transport>,
    hello: Hello,
    mut reader: FrameReader<Channel>,
    from: SocketAddr,
) -> Result<Option<AdmittedCaller>, InboundError> {
    let ip = from.ip().to_canonical();
    match judge(transport, &hello, ip, reader.get_ref().peer()) {
        Ok((version, reply, presence)) => {
            warn_of_double(transport, &hello, from);
            send_reply(reader.get_mut(), &reply)?;
            reader.take_compressed();
            Ok(Some(AdmittedCaller {
                hello,
                version,
                ip,
                presence,
                reader,
            }))
        }
        Err(refusal) => {
            log_refusal(transport, &hello.name, from, &refusal);
            send_refusal(reader.get_mut(), refusal)?;
            Ok(None)
        }
    }
}

fn greet_client(
    transport: &Transport,
    hello: ClientHello,
    mut reader: FrameReader<Channel>,
    from: SocketAddr,
) -> Result<Option<AdmittedClient>, InboundError> {
    let ip = from.ip().to_canonical();
    match judge_client(transport, &hello, ip, reader.get_ref().peer()) {
        Ok(reply) => {
            send_reply(reader.get_mut(), &reply)?;
            Ok(Some(AdmittedClient { hello, reader }))
        }
        Err(refusal) => {
            log_refusal(transport, &hello.name, from, &refusal);
            send_refusal(reader.get_mut(), refusal)?;
            Ok(None)
        }
    }
}

/// The answer to a client that may give commands; or why it may not.
fn judge_client(
    transport: &Transport,
    hello: &ClientHello,
    ip: IpAddr,
    shown: &PeerCredential,
) -> Result<HelloReply, Refusal> {
    if *shown == PeerCredential::None {
        let text = "commands come from other machines over authenticated connections only, and \
                    this one is in clear: run synod on this member's machine, or with the group's \
                    secret or certificates";
        return Err(Refusal::of(RefuseReason::NotAllowed, text.to_owned()));
    }
    if !transport.host.allows(&ip.to_string()) {
        let text = format!("{ip} is not in the allowlist");
        return Err(Refusal::of(RefuseReason::NotAllowed, text));
    }
    let reply = lock(&transport.identity).answer_client(hello)?;
    if transport.command_handler.get().is_none() {
        let text = "this member is only starting, and takes no commands yet: try again".to_owned();
        return Err(Refusal::of(RefuseReason::Busy, text));
    }
    Ok(reply)
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

/// A newcomer's configuration may be a copy of this member's. Its own log says so as well, and the
/// leader refuses it.
fn warn_of_double(transport: &Transport, hello: &Hello, from: SocketAddr) {
    let own_name = lock(&transport.identity).name.clone();
    let is_double = hello.name == own_name || hello.address == transport.address;
    if !is_double || transport.known.has(hello.member) {
        return;
    }
    let setting = |setting| transport.host.setting_name(setting);
    let why = format!(
        "says that it is '{}' at {}, and this member is '{own_name}' at {}: two members cannot \
         have one name or one address. Correct {} and {} of the one to which they do not belong",
        hello.name,
        hello.address,
        transport.address,
        setting(Setting::MemberName),
        setting(Setting::MemberAddress),
    );
    transport.log_about(from.ip(), Level::Warning, &why, || {
        format!("another server, which calls from {from}, {why}")
    });
}

pub(super) fn log_refusal(transport: &Transport, name: &str, from: SocketAddr, refusal: &Refusal) {
    let is_routine = matches!(refusal.reason, RefuseReason::Self_ | RefuseReason::Busy);
    if is_routine {
        return;
    }
    let why = &refusal.for_own_log;
    let subject = match refusal.reason {
        RefuseReason::WrongGroup => OTHER_GROUP.to_owned(),
        _ => format!("{name}: {why}"),
    };
    transport.log_about(from.ip(), Level::Warning, &subject, || {
        format!("connection from {name} ({from}) refused: {why}")
    });
}

fn send_refusal(channel: &mut Channel, refusal: Refusal) -> Result<(), InboundError> {
    let (reason, text) = (refusal.reason, refusal.for_caller);
    send_reply(channel, &HelloReply::Refused { reason, text })
}

fn send_reply(channel: &mut Channel, reply: &HelloReply) -> Result<(), InboundError> {
    write_reply(
        &mut FrameWriter::new(&mut *channel, HANDSHAKE_FRAME_MAX),
        reply,
    )?;
    channel.socket_mut().no_limit()?;
    Ok(())
}
