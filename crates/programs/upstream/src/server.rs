//! A session at a server for one client of another program, whose commands go there as they are.
//!
//! The client has proven its password to that program, which knows no password: what it can know is
//! the hash that a proof of `mysql_native_password` shows to those that have the hash of that hash.
//! With it, the same password is proven to the server.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use std::{fmt, mem};

use crate::config::{UpstreamAddress, UpstreamEncryption};
use crate::error::UpstreamError;
use crate::link::{Link, LinkReader, PACKET_BYTES_MAX, small_packet};
use crate::messages::{
    Answer, ClientManner, NATIVE_PASSWORD, OtherProof, Row, ServerError, ServerKind,
    client_response, is_end, native_proof_by_key, query_command, row,
};
use crate::session::{connect, encrypt, greet, is_silence};

const HEADER_BYTES: usize = 4;
/// So often a wait for the server looks whether it is still wanted.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Looks until a question of our own has taken too long.
const LOOKS_MAX: u32 = 10;

/// The hash of a password, with which one can log in.
#[derive(Clone)]
pub struct PasswordKey(pub [u8; 20]);

impl fmt::Debug for PasswordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordKey")
    }
}

/// Why there is no session at a server.
#[derive(Debug, thiserror::Error)]
pub enum ServerSessionError {
    #[error("cannot connect: {0}. Check that the server runs and listens there")]
    Connect(io::Error),
    #[error("it is a relay: name the port at which the server takes SQL")]
    IsRelay,
    #[error("it is '{0}', not MariaDB")]
    OtherServer(String),
    #[error("{0}")]
    Encryption(String),
    #[error(
        "it lets no '{user}' in: {text} (error {code}). Create the account on a server of the \
         group, with the password that it has at the relay"
    )]
    Access {
        user: String,
        code: u16,
        text: String,
    },
    #[error(
        "it wants the password proven by '{0}': ALTER USER ... IDENTIFIED VIA \
         mysql_native_password USING PASSWORD('...')"
    )]
    Proof(String),
    #[error("it refuses '{statement}': {text} (error {code})")]
    Refused {
        statement: String,
        code: u16,
        text: String,
    },
    #[error("the connection is lost: {0}")]
    Lost(#[from] io::Error),
}

#[derive(Debug)]
pub struct ServerSession {
    link: Link,
    reader: LinkReader,
}

impl ServerSession {
    /// Logs in as `user`, whose password has this key.
    ///
    /// # Errors
    /// If the server cannot be reached, is none, or lets the user not in.
    pub fn open(
        address: &UpstreamAddress,
        encryption: Option<&UpstreamEncryption>,
        user: &str,
        key: &PasswordKey,
        manner: &ClientManner,
    ) -> Result<ServerSession, ServerSessionError> {
        let socket = connect(address).map_err(ServerSessionError::Connect)?;
        let (greeting, number) = greet(&socket).map_err(|error| of_login(user, error))?;
        if greeting.version.contains("-synod-relay-") {
            return Err(ServerSessionError::IsRelay);
        }
        if greeting.kind() != ServerKind::MariaDb {
            return Err(ServerSessionError::OtherServer(greeting.version));
        }
        let link = encrypt(socket, &greeting, number, &address.host, encryption);
        let (link, number) = link.map_err(|error| of_login(user, error))?;
        let mut session = ServerSession {
            reader: link.reader(),
            link,
        };
        let proof = native_proof_by_key(&key.0, &greeting.challenge);
        let response = client_response(user, &proof, encryption.is_some(), manner);
        session.link.send(&small_packet(number, &response))?;
        session.await_welcome(user, key)?;
        session.link.set_limit(LOOK_INTERVAL)?;
        Ok(session)
    }

    fn await_welcome(&mut self, user: &str, key: &PasswordKey) -> Result<(), ServerSessionError> {
        let mut packet = self.answer()?;
        if let [0xfe, wish @ ..] = packet.payload() {
            let wish = OtherProof::parse(wish);
            if wish.plugin != NATIVE_PASSWORD {
                return Err(ServerSessionError::Proof(wish.plugin));
            }
            let proof = native_proof_by_key(&key.0, &wish.challenge);
            let number = packet.number().wrapping_add(1);
            self.link.send(&small_packet(number, &proof))?;
            packet = self.answer()?;
        }
        match Answer::parse(packet.payload()) {
            Answer::Done => Ok(()),
            Answer::Failed(ServerError { code, text }) => Err(ServerSessionError::Access {
                user: user.to_owned(),
                code,
                text,
            }),
            Answer::Columns(_) | Answer::Unknown => Err(surprise("the login").into()),
        }
    }

    /// The rows that a statement of our own gives.
    ///
    /// # Errors
    /// If the server refuses it, takes too long, or is gone.
    pub fn ask(&mut self, statement: &str) -> Result<Vec<Row>, ServerSessionError> {
        self.send(&query_command(statement))?;
        let refused = |ServerError { code, text }| ServerSessionError::Refused {
            statement: statement.to_owned(),
            code,
            text,
        };
        let columns = match Answer::parse(self.answer()?.payload()) {
            Answer::Done => return Ok(Vec::new()),
            Answer::Failed(error) => return Err(refused(error)),
            Answer::Columns(columns) => columns,
            Answer::Unknown => return Err(surprise(statement).into()),
        };
        // The columns, and the packet that ends them.
        for _ in 0..=columns {
            self.answer()?;
        }
        let mut rows = Vec::new();
        loop {
            let packet = self.answer()?;
            match packet.payload() {
                payload if is_end(payload) => return Ok(rows),
                [0xff, rest @ ..] => return Err(refused(ServerError::parse(rest))),
                payload => rows.push(row(payload).ok_or_else(|| surprise(statement))?),
            }
        }
    }

    /// Sends a command of the client's.
    ///
    /// # Errors
    /// If the server is gone.
    pub fn send(&self, command: &[u8]) -> io::Result<()> {
        self.link.send(&small_packet(0, command))
    }

    fn answer(&mut self) -> io::Result<RawPacket> {
        let mut looks = 0..LOOKS_MAX;
        self.receive(&mut || looks.next().is_some())
    }

    /// The next packet, one of those that make up a large payload. `is_wanted` is asked now and
    /// then while the server says nothing.
    ///
    /// # Errors
    /// If the server is gone, or nothing more is wanted of it.
    pub fn receive(&mut self, is_wanted: &mut dyn FnMut() -> bool) -> io::Result<RawPacket> {
        let mut packet = RawPacket(vec![0; HEADER_BYTES]);
        self.fill(&mut packet.0, is_wanted)?;
        let length = packet.length();
        let mut bytes = mem::take(&mut packet.0);
        bytes.resize(HEADER_BYTES + length, 0);
        self.fill(bytes.get_mut(HEADER_BYTES..).unwrap_or_default(), is_wanted)?;
        Ok(RawPacket(bytes))
    }

    fn fill(&mut self, mut out: &mut [u8], is_wanted: &mut dyn FnMut() -> bool) -> io::Result<()> {
        while !out.is_empty() {
            match self.reader.read(out) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => out = out.get_mut(count..).unwrap_or_default(),
                Err(error) if is_silence(&error) && is_wanted() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for ServerSession {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.socket().as_fd()
    }
}

impl Drop for ServerSession {
    fn drop(&mut self) {
        // COM_QUIT: the server counts an aborted client otherwise. It may be gone.
        let _ = self.send(&[1]);
        self.link.stop();
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPacket(Vec<u8>);

impl RawPacket {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn payload(&self) -> &[u8] {
        self.0.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// The next packet continues the payload.
    pub fn is_continued(&self) -> bool {
        self.payload().len() == PACKET_BYTES_MAX
    }

    fn number(&self) -> u8 {
        self.0.get(3).copied().unwrap_or(0)
    }

    fn length(&self) -> usize {
        match *self.0 {
            [a, b, c, ..] => u32::from_le_bytes([a, b, c, 0]) as usize,
            _ => 0,
        }
    }
}

/// The values of a row of texts; none: it is no such row.
pub fn text_row(payload: &[u8]) -> Option<Vec<Option<String>>> {
    row(payload)
}

fn of_login(user: &str, error: UpstreamError) -> ServerSessionError {
    match error {
        UpstreamError::Access { code, text } => ServerSessionError::Access {
            user: user.to_owned(),
            code,
            text,
        },
        UpstreamError::NoEncryption => ServerSessionError::Encryption(
            "it offers no encryption: give it ssl_cert and ssl_key".to_owned(),
        ),
        UpstreamError::Lost(error) => ServerSessionError::Lost(error),
        error => ServerSessionError::Encryption(error.to_string()),
    }
}

fn surprise(statement: &str) -> io::Error {
    let text = format!("the answer to '{statement}' is none that is known");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
