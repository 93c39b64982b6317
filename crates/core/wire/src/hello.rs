//! The first frame in each direction. Its layout changes in no version, so a peer of any age can
//! read who calls, and say why it refuses. Later versions may add fields at the end, which older
//! programs ignore.

use bytes::Bytes;
use synod_consensus::{GroupId, MemberId, SessionId, VersionRange};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::member_codec::NAME_MAX;
use crate::message::Lane;

/// Upper bound of an encoded [`Hello`] or [`HelloReply`] in bytes.
pub const HELLO_MAX: usize = 4096;
/// First bytes of both.
const MAGIC: [u8; 8] = *b"SYNODpr\n";

/// The first frame of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Versions it speaks.
    pub versions: VersionRange,
    /// Its group; [`GroupId::NONE`] while it is in none.
    pub group: GroupId,
    /// The operator's name for the group, the cluster name.
    pub cluster_name: String,
    /// The member that calls.
    pub member: MemberId,
    /// Its session.
    pub session: SessionId,
    /// Its name, which the operator chose.
    pub name: String,
    /// `host:port` where it listens.
    pub address: String,
    /// The lane that the connection is for.
    pub lane: Lane,
}

/// The answer of the called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloReply {
    /// The connection is accepted.
    Welcome {
        /// The version to speak on this connection.
        version: u16,
        /// Group of the called; [`GroupId::NONE`] while it is in none.
        group: GroupId,
        /// The member that answers.
        member: MemberId,
        /// Its session.
        session: SessionId,
        /// Its name.
        name: String,
    },
    /// The connection is refused, and will be closed.
    Refused {
        /// The cause, for the caller's program.
        reason: RefuseReason,
        /// The cause in words, for the caller's log.
        text: String,
    },
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefuseReason {
    /// The caller belongs to another group.
    WrongGroup = 1,
    /// The caller's cluster name differs.
    WrongClusterName = 2,
    /// No protocol version in common.
    UnknownVersion = 3,
    /// Settings exclude the caller.
    NotAllowed = 5,
    /// Too many connections, or not ready; try again.
    Busy = 6,
    /// The caller has reached itself.
    Self_ = 7,
    /// Another process with the caller's identity runs: its log was copied.
    DuplicateIdentity = 8,
}

impl RefuseReason {
    /// The reason with this code, if there is one.
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

impl Hello {
    /// The hello as bytes, at most [`HELLO_MAX`].
    ///
    /// # Errors
    /// If a name or an address is longer than 512 bytes.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut w = Writer::new();
        w.bytes(&MAGIC);
        w.u16(self.versions.min);
        w.u16(self.versions.max);
        w.u8(self.lane as u8);
        w.bytes(&self.group.0);
        w.u64(self.member.0);
        w.u64(self.session.0);
        w.string("cluster name", &self.cluster_name, NAME_MAX)?;
        w.string("name", &self.name, NAME_MAX)?;
        w.string("address", &self.address, NAME_MAX)?;
        Ok(w.into_vec())
    }

    /// Reads what [`Hello::encode`] wrote; ignores what a later version may have added at the end.
    ///
    /// # Errors
    /// If the bytes are more than [`HELLO_MAX`], do not begin with Synod's mark, or end early.
    pub fn decode(bytes: &[u8]) -> Result<Hello, DecodeError> {
        Ok(read_hello_fields(bytes)?.0)
    }
}

impl HelloReply {
    /// The reply as bytes, at most [`HELLO_MAX`]. A longer refusal text is shortened.
    ///
    /// # Errors
    /// If the name is longer than 512 bytes.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut w = Writer::new();
        w.bytes(&MAGIC);
        match self {
            HelloReply::Welcome {
                version,
                group,
                member,
                session,
                name,
            } => {
                w.u8(0);
                w.u16(*version);
                w.bytes(&group.0);
                w.u64(member.0);
                w.u64(session.0);
                w.string("name", name, NAME_MAX)?;
            }
            HelloReply::Refused { reason, text } => {
                w.u8(1);
                w.u8(*reason as u8);
                w.text(text);
            }
        }
        Ok(w.into_vec())
    }

    /// Reads what [`HelloReply::encode`] wrote; ignores what a later version may have added.
    ///
    /// # Errors
    /// If the bytes are more than [`HELLO_MAX`], do not begin with Synod's mark, or end early.
    pub fn decode(bytes: &[u8]) -> Result<HelloReply, DecodeError> {
        let mut r = open(bytes)?;
        match r.u8()? {
            0 => Ok(HelloReply::Welcome {
                version: r.u16()?,
                group: GroupId(r.array()?),
                member: MemberId(r.u64()?),
                session: SessionId(r.u64()?),
                name: r.string("name", NAME_MAX)?,
            }),
            1 => {
                // A reason that only later versions know is still a refusal, and has its text.
                let reason = RefuseReason::from_code(r.u8()?).unwrap_or(RefuseReason::NotAllowed);
                Ok(HelloReply::Refused {
                    reason,
                    text: r.text()?,
                })
            }
            code => Err(DecodeError::UnknownCode {
                what: "hello reply",
                code,
            }),
        }
    }
}

/// Reads the fields of a hello; the second value is what comes behind them.
pub(crate) fn read_hello_fields(bytes: &[u8]) -> Result<(Hello, Bytes), DecodeError> {
    let mut r = open(bytes)?;
    let versions = VersionRange {
        min: r.u16()?,
        max: r.u16()?,
    };
    let lane = match r.u8()? {
        0 => Lane::Control,
        1 => Lane::Bulk,
        code => return Err(DecodeError::UnknownCode { what: "lane", code }),
    };
    let hello = Hello {
        versions,
        lane,
        group: GroupId(r.array()?),
        member: MemberId(r.u64()?),
        session: SessionId(r.u64()?),
        cluster_name: r.string("cluster name", NAME_MAX)?,
        name: r.string("name", NAME_MAX)?,
        address: r.string("address", NAME_MAX)?,
    };
    Ok((hello, r.take_rest()))
}

/// Checks size and mark.
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
