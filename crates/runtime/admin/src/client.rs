//! Asks a member.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::connection::Connection;
use crate::lines::{self, LineError, LineReader};
use crate::protocol::{
    Answer, Call, Hello, NEWEST, OLDEST, REPLY_BYTES_MAX, Reason, Refusal, Reply, Request,
};
use crate::remote::{self, RemoteError, RemoteMember};
use crate::socket;
use crate::trust::Trusted;
use crate::visible::visible_line;

const GREETING_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The one whose log is in this directory.
    Dir(PathBuf),
    Address(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Dir(dir) => write!(f, "the server of {}", dir.display()),
            Place::Address(address) => write!(f, "member {address}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(
        "no server listens for commands in {}: there is no {}. Is it the log directory of a \
         running server (synod.log_dir, else datadir)?",
        dir.display(),
        socket::NAME
    )]
    NoSocket { dir: PathBuf },
    #[error("the server of {} has ended without removing its socket: start it", dir.display())]
    NotRunning { dir: PathBuf },
    #[error(
        "user {user} may not give orders to the server of {}: run this as root, or as the user \
         that the server runs as (sudo -u mysql synod ...). Users in the group {} may ask for the \
         status, if the server's user was in it when the server was started",
        dir.display(),
        socket::STATUS_GROUP
    )]
    NotAllowed {
        dir: PathBuf,
        /// Number of this process's user.
        user: u32,
    },
    /// Another user than the server's listens.
    #[error(
        "{} is not asked: a process of user {user} listens there, who is neither root nor this user \
         nor the owner of a server's directory. End that process, or if it is the server, name \
         its directory with --dir",
        socket::path(dir).display()
    )]
    Foreign { dir: PathBuf, user: u32 },
    /// The server did not do it.
    #[error("{}", .0.text)]
    Refused(Refusal),
    #[error(
        "the server speaks versions {oldest} to {newest} of the protocol for commands, this \
         program {OLDEST} to {NEWEST}: use the 'synod' of the server's release ({program})"
    )]
    NoCommonVersion {
        /// Version of the server's program.
        program: String,
        /// The oldest protocol version that it speaks.
        oldest: u16,
        newest: u16,
    },
    /// The connection broke, or the server took too long.
    #[error("{place} does not answer: {source}. If that lasts, look into its error log")]
    NoAnswer { place: Place, source: LineError },
    #[error("{place} answered something that was not asked for")]
    Unexpected { place: Place },
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// A connection to a member, by its socket or from another machine.
pub struct Client {
    place: Place,
    connection: Box<dyn Connection + Send>,
    reader: LineReader,
    protocol: u16,
    server: Hello,
}

impl Client {
    /// Connects to the member whose log is in `dir`, a directory that the caller was told. A
    /// process of root, this user or the directory's owner must listen there.
    pub fn connect(dir: &Path) -> Result<Client, ClientError> {
        Client::connect_to_one_of(&Trusted::owners_of([dir]), dir)
    }

    /// Connects to the member whose log is in `dir`, if it is a process of a trusted user.
    pub fn connect_to_one_of(trusted: &Trusted, dir: &Path) -> Result<Client, ClientError> {
        let path = socket::path(dir);
        let stream = socket::connect(&path).map_err(|error| cannot_connect(dir, error))?;
        let listener = trusted.check(&stream);
        if let Err(user) = listener.map_err(|error| cannot_connect(dir, error))? {
            return Err(ClientError::Foreign {
                dir: dir.to_owned(),
                user,
            });
        }
        Client::greeted(Place::Dir(dir.to_owned()), Box::new(stream))
    }

    /// Connects to a member on another machine, by a connection of the group.
    pub fn connect_to(member: &RemoteMember) -> Result<Client, ClientError> {
        let connection = remote::connect(member)?;
        Client::greeted(Place::Address(member.address.clone()), Box::new(connection))
    }

    fn greeted(
        place: Place,
        mut connection: Box<dyn Connection + Send>,
    ) -> Result<Client, ClientError> {
        let mut reader = LineReader::new(REPLY_BYTES_MAX);
        let server = match next_reply(&mut reader, &mut *connection, &place, GREETING_LIMIT)? {
            Reply::Hello(hello) => hello,
            Reply::Refused(refusal) => return Err(refused(&place, refusal)),
            Reply::Answer(_) => return Err(ClientError::Unexpected { place }),
        };
        let Some(protocol) = server.common() else {
            return Err(ClientError::NoCommonVersion {
                program: server.program,
                oldest: server.oldest,
                newest: server.newest,
            });
        };
        Ok(Client {
            place,
            connection,
            reader,
            protocol,
            server,
        })
    }

    pub fn server(&self) -> &Hello {
        &self.server
    }

    /// Asks, and waits up to `limit` for the answer. If none came in time, use another connection.
    pub fn ask(&mut self, request: Request, limit: Duration) -> Result<Answer, ClientError> {
        let call = Call {
            protocol: self.protocol,
            request,
        };
        let connection = &mut *self.connection;
        lines::send(connection, &call, limit).map_err(|e| no_answer(&self.place, e))?;
        match next_reply(&mut self.reader, connection, &self.place, limit)? {
            Reply::Answer(answer) => Ok(answer),
            Reply::Refused(refusal) => Err(refused(&self.place, refusal)),
            Reply::Hello(_) => Err(self.unexpected()),
        }
    }

    /// The error for an answer of another kind than the request's.
    pub fn unexpected(&self) -> ClientError {
        ClientError::Unexpected {
            place: self.place.clone(),
        }
    }
}

fn next_reply(
    reader: &mut LineReader,
    connection: &mut dyn Connection,
    place: &Place,
    limit: Duration,
) -> Result<Reply, ClientError> {
    let reply = reader.next(connection, limit);
    let closed = || LineError::Io(io::ErrorKind::UnexpectedEof.into());
    let mut document: Value = reply
        .map_err(|e| no_answer(place, e))?
        .ok_or_else(|| no_answer(place, closed()))?;
    make_visible(&mut document);
    serde_json::from_value(document).map_err(|e| no_answer(place, LineError::Malformed(e)))
}

/// Names and texts come from all members, and end in terminals, logs and pages: none gets one that
/// it would obey.
fn make_visible(document: &mut Value) {
    match document {
        Value::String(text) => {
            if let Cow::Owned(shown) = visible_line(text) {
                *text = shown;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(make_visible),
        Value::Object(fields) => fields.values_mut().for_each(make_visible),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn no_answer(place: &Place, source: LineError) -> ClientError {
    ClientError::NoAnswer {
        place: place.clone(),
        source,
    }
}

fn refused(place: &Place, refusal: Refusal) -> ClientError {
    match (refusal.reason, place) {
        (Reason::NotAllowed, Place::Dir(dir)) => not_allowed(dir),
        _ => ClientError::Refused(refusal),
    }
}

fn not_allowed(dir: &Path) -> ClientError {
    ClientError::NotAllowed {
        dir: dir.to_owned(),
        user: rustix::process::geteuid().as_raw(),
    }
}

fn cannot_connect(dir: &Path, error: io::Error) -> ClientError {
    let owned = || dir.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            ClientError::NoSocket { dir: owned() }
        }
        io::ErrorKind::ConnectionRefused => ClientError::NotRunning { dir: owned() },
        io::ErrorKind::PermissionDenied => not_allowed(dir),
        _ => no_answer(&Place::Dir(owned()), LineError::Io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any user can make a directory and listen in it: this process stands for such a user.
    #[test]
    fn process_of_another_user_is_not_asked() {
        let dir = tempfile::tempdir().unwrap();
        let listening = socket::Listening::begin(dir.path()).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let error = Client::connect_to_one_of(&Trusted::only(own + 1), dir.path());
        let error = error.err().unwrap();
        assert!(
            matches!(&error, ClientError::Foreign { user, .. } if *user == own),
            "{error}"
        );
        let path = listening.path().display().to_string();
        assert!(error.to_string().contains(&path), "{error}");
    }
}
