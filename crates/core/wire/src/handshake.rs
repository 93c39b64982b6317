//! The first exchange on a connection: the caller sends a hello, the called welcomes or refuses it.
//!
//! ```text
//! caller                          called
//!   | ---- Hello (kind 1) ---------> |   LocalIdentity::answer, then the node's own objections
//!   | <--- HelloReply (kind 2) ----- |   Welcome: frames of the chosen version follow, one way,
//!   | ---- messages ---------------> |            from caller to called
//! ```
//!
//! Until the handshake is over, no frame of more than 4 KiB is accepted. Deadlines are the
//! transport's business.
//!
//! The layout of the first frames changes in no version, so a peer of any age can read who calls,
//! and say why it refuses. Later versions may add fields at the end, which older programs ignore.

use std::io::{Read, Write};
use std::iter::once;

use bytes::Bytes;
use synod_consensus::{GroupId, MemberId, SessionId, VersionRange};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, EncodeError, HandshakeError};
use crate::frame::{Frame, header};
use crate::layout::{ADDRESS, NAME, Name, Text, Wire, coded, record};
use crate::message::Lane;
use crate::stream::{FrameReader, FrameWriter};
use crate::version::choose_version;

pub const KIND_HELLO: u8 = 1;
pub const KIND_HELLO_REPLY: u8 = 2;

/// Limit for a [`FrameReader`] during the handshake, in bytes.
pub const HANDSHAKE_FRAME_MAX: u32 = HELLO_MAX as u32;

/// Upper bound of an encoded [`Hello`] or [`HelloReply`] in bytes.
const HELLO_MAX: usize = 4096;
const MAGIC: [u8; 8] = *b"SYNODpr\n";

/// The byte behind a hello: the caller sends messages, as if there were no such byte.
const PURPOSE_MESSAGES: u8 = 0;
const PURPOSE_COMMANDS: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub versions: VersionRange,
    /// Its group; [`GroupId::NONE`] while it is in none.
    pub group: GroupId,
    pub cluster_name: String,
    pub member: MemberId,
    pub session: SessionId,
    pub name: String,
    /// `host:port` where it listens.
    pub address: String,
    pub lane: Lane,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloReply {
    Welcome {
        /// The version to speak on this connection.
        version: u16,
        /// Group of the called; [`GroupId::NONE`] while it is in none.
        group: GroupId,
        member: MemberId,
        session: SessionId,
        name: String,
    },
    Refused {
        reason: RefuseReason,
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefuseReason {
    WrongGroup = 1,
    WrongClusterName = 2,
    UnknownVersion = 3,
    NotAllowed = 5,
    /// Too many connections, or not ready; try again.
    Busy = 6,
    Self_ = 7,
    /// Another process with the caller's identity runs: its log was copied.
    DuplicateIdentity = 8,
}

impl RefuseReason {
    pub fn from_code(code: u8) -> Option<RefuseReason> {
        Some(match code {
            1 => RefuseReason::WrongGroup,
            2 => RefuseReason::WrongClusterName,
            3 => RefuseReason::UnknownVersion,
            5 => RefuseReason::NotAllowed,
            6 => RefuseReason::Busy,
            7 => RefuseReason::Self_,
            8 => RefuseReason::DuplicateIdentity,
            _ => return None,
        })
    }
}

record! {
    Hello {
        versions, lane, group, member, session, cluster_name: Name::of("cluster name"), name: NAME,
        address: ADDRESS
    }
}
coded! { "lane": Lane {
    0 () [Lane::Control]
    1 () [Lane::Bulk]
} }
coded! { "hello reply": HelloReply {
    0 (version, group, member, session, name: NAME)
        [HelloReply::Welcome { version, group, member, session, name }]
    1 (reason, text: Text) [HelloReply::Refused { reason, text }]
} }

/// A reason that only later versions know is still a refusal, and has its text.
impl Wire for RefuseReason {
    fn write(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u8(*self as u8);
        Ok(())
    }

    fn read(r: &mut Reader) -> Result<RefuseReason, DecodeError> {
        Ok(RefuseReason::from_code(r.u8()?).unwrap_or(RefuseReason::NotAllowed))
    }
}

impl Hello {
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        sealed(self)
    }

    /// Ignores what a later version may have added at the end.
    pub fn decode(bytes: &[u8]) -> Result<Hello, DecodeError> {
        Hello::read(&mut open(bytes)?)
    }
}

impl HelloReply {
    /// At most 4 KiB: a longer refusal text is shortened.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        sealed(self)
    }

    /// Ignores what a later version may have added.
    pub fn decode(bytes: &[u8]) -> Result<HelloReply, DecodeError> {
        HelloReply::read(&mut open(bytes)?)
    }
}

fn sealed(value: &impl Wire) -> Result<Vec<u8>, EncodeError> {
    let mut w = Writer::new();
    w.bytes(&MAGIC);
    value.write(&mut w)?;
    Ok(w.into_vec())
}

fn open(bytes: &[u8]) -> Result<Reader, DecodeError> {
    if bytes.len() > HELLO_MAX {
        return Err(DecodeError::TooLong {
            what: "hello",
            len: bytes.len(),
            max: HELLO_MAX,
        });
    }
    let mut r = Reader::copy_of(bytes);
    let found: [u8; 8] = r.array()?;
    if found != MAGIC {
        return Err(DecodeError::NotSynod { found });
    }
    Ok(r)
}

/// The first frame of a client that gives commands, and is no member. Its layout is a [`Hello`]'s,
/// with a byte behind it that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    pub versions: VersionRange,
    /// The operator's name for the group; empty: whichever group the called is in.
    pub cluster_name: String,
    /// The caller's name, for the log of the called: nothing depends on it.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    Member(Hello),
    Client(ClientHello),
}

impl ClientHello {
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let hello = Hello {
            versions: self.versions,
            group: GroupId::NONE,
            cluster_name: self.cluster_name.clone(),
            member: MemberId(0),
            session: SessionId(0),
            name: self.name.clone(),
            address: String::new(),
            lane: Lane::Control,
        };
        Ok([&hello.encode()?[..], &[PURPOSE_COMMANDS]].concat())
    }
}

impl Caller {
    /// Ignores what a later version may have added at the end.
    pub fn decode(bytes: &[u8]) -> Result<Caller, DecodeError> {
        let mut r = open(bytes)?;
        let hello = Hello::read(&mut r)?;
        match r.take_rest().first().copied().unwrap_or(PURPOSE_MESSAGES) {
            PURPOSE_MESSAGES => Ok(Caller::Member(hello)),
            PURPOSE_COMMANDS => Ok(Caller::Client(ClientHello {
                versions: hello.versions,
                cluster_name: hello.cluster_name,
                name: hello.name,
            })),
            code => Err(DecodeError::unknown("purpose of a connection", code)),
        }
    }
}

/// Versions, group and names of the called, from which it answers a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalIdentity {
    pub versions: VersionRange,
    /// Its group; [`GroupId::NONE`] while it is in none.
    pub group: GroupId,
    pub cluster_name: String,
    pub member: MemberId,
    pub session: SessionId,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: RefuseReason,
    /// The cause in words, for the caller's log. A caller may be a stranger: it learns nothing here
    /// that it did not say itself, beside what its operator needs.
    pub for_caller: String,
    /// The cause in words, for the log of the called.
    pub for_own_log: String,
}

impl Refusal {
    pub fn of(reason: RefuseReason, text: String) -> Refusal {
        Refusal {
            reason,
            for_caller: text.clone(),
            for_own_log: text,
        }
    }
}

impl LocalIdentity {
    /// Welcomes a caller. The node checks in addition what the connection has proven, and whether
    /// there is room for it.
    pub fn answer(&self, hello: &Hello) -> Result<HelloReply, Refusal> {
        if hello.member == self.member && hello.session == self.session {
            let text = format!("member {} has called itself", self.member);
            return refuse(RefuseReason::Self_, text);
        }
        if hello.member == self.member {
            let text = format!(
                "member {} runs here already: its log was copied; \
                 delete the synod-*.log files of the copy",
                self.member
            );
            return refuse(RefuseReason::DuplicateIdentity, text);
        }
        let version = self.common_version(hello.versions, &hello.name)?;
        self.compare_cluster_name(&hello.cluster_name, &hello.name)?;
        self.compare_group(hello)?;
        Ok(self.welcome(version))
    }

    /// Refuses a caller of another group. Either may be in none yet.
    pub fn compare_group(&self, hello: &Hello) -> Result<(), Refusal> {
        let (ours, theirs) = (self.group, hello.group);
        if ours == theirs || ours == GroupId::NONE || theirs == GroupId::NONE {
            return Ok(());
        }
        let text = format!(
            "{} is in group {ours}, and {} in group {theirs}: two groups have one cluster name, \
             and what is written in one is never in the other. One of them was begun by mistake, \
             or is over. Keep the one whose data count ('synod doctor' says how to find it). For \
             each member of the other: move its synod-*.log files away (of a server, its whole \
             data directory), and start it without bootstrap. It joins the group that is kept",
            self.name, hello.name
        );
        Err(Refusal::of(RefuseReason::WrongGroup, text))
    }

    /// Welcomes a client. The node checks in addition what the connection has proven.
    pub fn answer_client(&self, hello: &ClientHello) -> Result<HelloReply, Refusal> {
        let version = self.common_version(hello.versions, &hello.name)?;
        if !hello.cluster_name.is_empty() {
            self.compare_cluster_name(&hello.cluster_name, &hello.name)?;
        }
        Ok(self.welcome(version))
    }

    fn common_version(&self, theirs: VersionRange, name: &str) -> Result<u16, Refusal> {
        let ours = self.versions;
        choose_version(ours, theirs).ok_or_else(|| {
            let text = format!(
                "this member speaks protocol {ours}, and {name} protocol {theirs}: upgrade the \
                 older of the two"
            );
            Refusal::of(RefuseReason::UnknownVersion, text)
        })
    }

    fn compare_cluster_name(&self, theirs: &str, name: &str) -> Result<(), Refusal> {
        let ours = &self.cluster_name;
        if ours == theirs {
            return Ok(());
        }
        Err(Refusal {
            reason: RefuseReason::WrongClusterName,
            for_caller: format!(
                "the cluster name of {name} is '{theirs}', and that of {} is another one. Make \
                 them equal; the error log of {} names both",
                self.name, self.name
            ),
            for_own_log: format!(
                "the cluster name here is '{ours}', that of {name} is '{theirs}'; both must be \
                 the same"
            ),
        })
    }

    fn welcome(&self, version: u16) -> HelloReply {
        HelloReply::Welcome {
            version,
            group: self.group,
            member: self.member,
            session: self.session,
            name: self.name.clone(),
        }
    }
}

pub fn write_hello<W: Write>(
    writer: &mut FrameWriter<W>,
    hello: &Hello,
) -> Result<(), HandshakeError> {
    write(writer, KIND_HELLO, hello.encode()?)
}

pub fn write_client_hello<W: Write>(
    writer: &mut FrameWriter<W>,
    hello: &ClientHello,
) -> Result<(), HandshakeError> {
    write(writer, KIND_HELLO, hello.encode()?)
}

pub fn read_caller<R: Read>(reader: &mut FrameReader<R>) -> Result<Caller, HandshakeError> {
    Ok(Caller::decode(&read(reader, KIND_HELLO)?.body)?)
}

pub fn read_hello<R: Read>(reader: &mut FrameReader<R>) -> Result<Hello, HandshakeError> {
    Ok(Hello::decode(&read(reader, KIND_HELLO)?.body)?)
}

pub fn write_reply<W: Write>(
    writer: &mut FrameWriter<W>,
    reply: &HelloReply,
) -> Result<(), HandshakeError> {
    write(writer, KIND_HELLO_REPLY, reply.encode()?)
}

/// Waits for the answer to a hello that offered these versions.
pub fn read_reply<R: Read>(
    reader: &mut FrameReader<R>,
    offered: VersionRange,
) -> Result<HelloReply, HandshakeError> {
    let reply = HelloReply::decode(&read(reader, KIND_HELLO_REPLY)?.body)?;
    match &reply {
        HelloReply::Welcome { version, .. } if !offered.contains(*version) => {
            Err(HandshakeError::WrongVersion {
                version: *version,
                offered,
            })
        }
        HelloReply::Welcome { .. } | HelloReply::Refused { .. } => Ok(reply),
    }
}

fn refuse(reason: RefuseReason, text: String) -> Result<HelloReply, Refusal> {
    Err(Refusal::of(reason, text))
}

fn write<W: Write>(
    writer: &mut FrameWriter<W>,
    kind: u8,
    body: Vec<u8>,
) -> Result<(), HandshakeError> {
    let body = Bytes::from(body);
    // A hello is bounded far below 4 GiB by the lengths of its fields.
    let header = header(kind, 0, body.len() as u32, once(&body[..]));
    writer.push_segments(vec![Bytes::copy_from_slice(&header), body]);
    Ok(writer.flush()?)
}

fn read<R: Read>(reader: &mut FrameReader<R>, expected: u8) -> Result<Frame, HandshakeError> {
    let frame = reader.read_frame()?.ok_or(HandshakeError::Ended)?;
    if frame.kind != expected {
        return Err(HandshakeError::UnexpectedKind {
            expected,
            found: frame.kind,
        });
    }
    Ok(frame)
}
