//! The first frame of a client that gives commands, and is no member.
//!
//! Its layout is a [`Hello`]'s, with a byte behind it that says so. A program that does not know
//! that byte reads a hello of versions that it does not speak, and refuses it in words.

use synod_consensus::{GroupId, MemberId, SessionId, VersionRange};

use crate::codec::Writer;
use crate::error::{DecodeError, EncodeError};
use crate::hello::{Hello, read_hello_fields};
use crate::message::Lane;
use crate::version::{OUR_VERSIONS, VERSION_5};

/// The byte behind a hello: the caller sends messages, as if there were no such byte.
const PURPOSE_MESSAGES: u8 = 0;
/// The caller gives commands.
const PURPOSE_COMMANDS: u8 = 1;

/// The versions whose members take commands.
pub const CLIENT_VERSIONS: VersionRange = VersionRange {
    min: VERSION_5,
    max: OUR_VERSIONS.max,
};

/// The first frame of a client that gives commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// Versions that it speaks.
    pub versions: VersionRange,
    /// The operator's name for the group; empty: whichever group the called is in.
    pub cluster_name: String,
    /// The caller's name, for the log of the called: nothing depends on it.
    pub name: String,
}

/// A caller, by its first frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A member, which sends messages.
    Member(Hello),
    /// A client, which gives commands.
    Client(ClientHello),
}

impl ClientHello {
    /// The hello as bytes.
    ///
    /// # Errors
    /// If a name is longer than 512 bytes.
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
        let mut w = Writer::new();
        w.bytes(&hello.encode()?);
        w.u8(PURPOSE_COMMANDS);
        Ok(w.into_vec())
    }
}

impl Caller {
    /// Reads the first frame of a caller; ignores what a later version may have added at the end.
    ///
    /// # Errors
    /// Errors of [`Hello::decode`], and [`DecodeError::UnknownCode`] for a purpose that this
    /// program does not know.
    pub fn decode(bytes: &[u8]) -> Result<Caller, DecodeError> {
        let (hello, rest) = read_hello_fields(bytes)?;
        match rest.first().copied().unwrap_or(PURPOSE_MESSAGES) {
            PURPOSE_MESSAGES => Ok(Caller::Member(hello)),
            PURPOSE_COMMANDS => Ok(Caller::Client(ClientHello {
                versions: hello.versions,
                cluster_name: hello.cluster_name,
                name: hello.name,
            })),
            code => Err(DecodeError::UnknownCode {
                what: "purpose of a connection",
                code,
            }),
        }
    }
}
