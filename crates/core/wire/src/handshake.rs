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

use std::io::{Read, Write};

use bytes::Bytes;
use synod_consensus::{GroupId, MemberId, SessionId, VersionRange};

use crate::client_hello::{Caller, ClientHello};
use crate::error::HandshakeError;
use crate::frame::{self, Frame};
use crate::hello::{HELLO_MAX, Hello, HelloReply, RefuseReason};
use crate::stream::{FrameReader, FrameWriter};
use crate::version::choose_version;

/// Frame kind of a [`Hello`].
pub const KIND_HELLO: u8 = 1;
/// Frame kind of a [`HelloReply`].
pub const KIND_HELLO_REPLY: u8 = 2;

/// Limit for a [`FrameReader`] during the handshake, in bytes.
pub const HANDSHAKE_FRAME_MAX: u32 = HELLO_MAX as u32;

/// Versions, group and names of the called, from which it answers a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalIdentity {
    /// Versions it speaks.
    pub versions: VersionRange,
    /// Its group; [`GroupId::NONE`] while it is in none.
    pub group: GroupId,
    /// The operator's name for the group.
    pub cluster_name: String,
    /// Its member id.
    pub member: MemberId,
    /// Its session.
    pub session: SessionId,
    /// Its name.
    pub name: String,
}

/// A hello is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The cause, for the caller's program.
    pub reason: RefuseReason,
    /// The cause in words, for the caller's log. A caller may be a stranger: it learns nothing here
    /// that it did not say itself, beside what its operator needs.
    pub for_caller: String,
    /// The cause in words, for the log of the called.
    pub for_own_log: String,
}

impl Refusal {
    /// A refusal that both logs may have in the same words.
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
    ///
    /// # Errors
    /// If what the hello alone states is reason to refuse the caller.
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
        let both_have_one = hello.group != GroupId::NONE && self.group != GroupId::NONE;
        if both_have_one && hello.group != self.group {
            let text = format!(
                "this is group {}, the log of {} belongs to group {}; to join this group as a new \
                 member, move its synod-*.log files away",
                self.group, hello.name, hello.group
            );
            return refuse(RefuseReason::WrongGroup, text);
        }
        Ok(self.welcome(version))
    }

    /// Welcomes a client. The node checks in addition what the connection has proven.
    ///
    /// # Errors
    /// If what the hello alone states is reason to refuse the client.
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
                "protocol versions {} to {} are spoken here, {} to {} by {name}; \
                 upgrade the older of the two",
                ours.min, ours.max, theirs.min, theirs.max
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

/// Sends a hello.
///
/// # Errors
/// If the hello cannot be encoded or the transport fails.
pub fn write_hello<W: Write>(
    writer: &mut FrameWriter<W>,
    hello: &Hello,
) -> Result<(), HandshakeError> {
    write(writer, KIND_HELLO, hello.encode()?)
}

/// Sends a client's hello.
///
/// # Errors
/// If the hello cannot be encoded or the transport fails.
pub fn write_client_hello<W: Write>(
    writer: &mut FrameWriter<W>,
    hello: &ClientHello,
) -> Result<(), HandshakeError> {
    write(writer, KIND_HELLO, hello.encode()?)
}

/// Waits for the hello of a member or of a client.
///
/// # Errors
/// Errors of [`read_hello`].
pub fn read_caller<R: Read>(reader: &mut FrameReader<R>) -> Result<Caller, HandshakeError> {
    Ok(Caller::decode(&read(reader, KIND_HELLO)?.body)?)
}

/// Waits for a hello.
///
/// # Errors
/// If another frame comes, or none, or the transport fails. A caller that does not speak Synod
/// at all shows as [`crate::FrameError::NotAFrame`].
pub fn read_hello<R: Read>(reader: &mut FrameReader<R>) -> Result<Hello, HandshakeError> {
    Ok(Hello::decode(&read(reader, KIND_HELLO)?.body)?)
}

/// Sends the answer to a hello.
///
/// # Errors
/// If the reply cannot be encoded or the transport fails.
pub fn write_reply<W: Write>(
    writer: &mut FrameWriter<W>,
    reply: &HelloReply,
) -> Result<(), HandshakeError> {
    write(writer, KIND_HELLO_REPLY, reply.encode()?)
}

/// Waits for the answer to a hello that offered these versions.
///
/// # Errors
/// If another frame comes, or none, or a version that was not offered, or the transport fails.
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
    let header = frame::header(kind, 0, body.len() as u32, std::iter::once(&body[..]));
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
