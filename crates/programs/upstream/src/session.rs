//! A connection to the upstream before its dump: login, and questions.

use std::fs::File;
use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use synod_tls::{ForeignTls, mode_open_to_all};

use crate::config::{UpstreamAddress, UpstreamConfig, UpstreamEncryption};
use crate::error::UpstreamError;
use crate::link::{Link, LinkReader, Packet, PacketError, read_packet, small_packet};
use crate::messages::{
    Answer, CACHING_SHA2_PASSWORD, Greeting, NATIVE_PASSWORD, OtherProof, ROWS_MAX, Row,
    ServerError, ServerKind, caching_proof, clear_password, encryption_request, is_end,
    native_proof, query_command, response, row,
};

/// For a connection, and for each answer: the upstream has little to do for it.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Largest packet of an answer, and about so much in all its rows, in bytes: lists of GTIDs.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Errors that are about the account: host not allowed, access denied in several ways.
const ACCESS: [u16; 5] = [1044, 1045, 1130, 1251, 1698];
/// Packets that a login takes at most, after this side has said who it is.
const LOGIN_PACKETS_MAX: usize = 4;
/// Answers of `caching_sha2_password`: proof accepted; proof not accepted.
const PROVEN: [u8; 2] = [1, 3];
const WANTS_PASSWORD: [u8; 2] = [1, 4];

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) link: Link,
    pub(crate) reader: LinkReader,
    pub(crate) version: String,
    pub(crate) is_mysql: bool,
}

impl Session {
    pub(crate) fn open(config: &UpstreamConfig) -> Result<Session, UpstreamError> {
        let password = read_password(config.password_file.as_deref())?;
        let socket = connect(&config.address).map_err(|source| UpstreamError::Connect {
            address: config.address.clone(),
            source,
        })?;
        let (greeting, number) = greet(&socket)?;
        let kind = greeting.kind();
        if kind == ServerKind::Other {
            let version = greeting.version;
            return Err(UpstreamError::OtherServer { version });
        }
        let encryption = config.encryption.as_ref();
        let (link, number) = encrypt(socket, &greeting, number, &config.address.host, encryption)?;
        let mut session = Session {
            reader: link.reader(),
            link,
            version: greeting.version,
            is_mysql: kind == ServerKind::Mysql,
        };
        let is_encrypted = config.encryption.is_some();
        let proof = native_proof(&password, &greeting.challenge);
        session.send(number, &response(&config.user, &proof, is_encrypted))?;
        session.await_welcome(&password, is_encrypted)?;
        Ok(session)
    }

    fn await_welcome(&mut self, password: &str, is_encrypted: bool) -> Result<(), UpstreamError> {
        for _ in 0..LOGIN_PACKETS_MAX {
            let packet = self.receive()?;
            let number = packet.number.wrapping_add(1);
            match &*packet.payload {
                [0xfe, rest @ ..] => self.send(number, &proof_of(password, rest)?)?,
                payload if payload == PROVEN => {}
                payload if payload == WANTS_PASSWORD && is_encrypted => {
                    self.send(number, &clear_password(password))?;
                }
                payload if payload == WANTS_PASSWORD => {
                    return Err(UpstreamError::PasswordInClear);
                }
                payload => {
                    return match Answer::parse(payload) {
                        Answer::Done => Ok(()),
                        Answer::Failed(error) => Err(refused("the account", error)),
                        Answer::Columns(_) | Answer::Unknown => Err(surprise("the account")),
                    };
                }
            }
        }
        Err(surprise("the account"))
    }

    pub(crate) fn ask(&mut self, statement: &str) -> Result<Vec<Row>, UpstreamError> {
        self.send(0, &query_command(statement))?;
        let first = self.receive()?.payload;
        let columns = match Answer::parse(&first) {
            Answer::Done => return Ok(Vec::new()),
            Answer::Failed(error) => return Err(refused(statement, error)),
            Answer::Columns(columns) => columns,
            Answer::Unknown => return Err(surprise(statement)),
        };
        for _ in 0..columns.min(ROWS_MAX as u64) {
            self.receive()?;
        }
        if !is_end(&self.receive()?.payload) {
            return Err(surprise(statement));
        }
        self.rows(statement)
    }

    fn rows(&mut self, statement: &str) -> Result<Vec<Row>, UpstreamError> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while rows.len() < ROWS_MAX && bytes <= ANSWER_BYTES_MAX {
            let payload = self.receive()?.payload;
            bytes += payload.len();
            if is_end(&payload) {
                return Ok(rows);
            }
            if let Some((0xff, rest)) = payload.split_first() {
                return Err(refused(statement, ServerError::parse(rest)));
            }
            rows.push(row(&payload).ok_or_else(|| surprise(statement))?);
        }
        Err(surprise(statement))
    }

    pub(crate) fn order(&mut self, step: &str, command: &[u8]) -> Result<(), UpstreamError> {
        self.send(0, command)?;
        match Answer::parse(&self.receive()?.payload) {
            Answer::Done => Ok(()),
            Answer::Failed(error) => Err(refused(step, error)),
            Answer::Columns(_) | Answer::Unknown => Err(surprise(step)),
        }
    }

    pub(crate) fn send(&self, number: u8, payload: &[u8]) -> Result<(), UpstreamError> {
        let packet = small_packet(number, payload);
        self.link.send(&packet).map_err(UpstreamError::Lost)
    }

    fn receive(&mut self) -> Result<Packet, UpstreamError> {
        receive(&mut self.reader)
    }
}

fn proof_of(password: &str, wish: &[u8]) -> Result<Vec<u8>, UpstreamError> {
    let wish = OtherProof::parse(wish);
    match wish.plugin.as_str() {
        NATIVE_PASSWORD => Ok(native_proof(password, &wish.challenge)),
        CACHING_SHA2_PASSWORD => Ok(caching_proof(password, &wish.challenge)),
        _ => Err(UpstreamError::Proof {
            plugin: wish.plugin,
        }),
    }
}

pub(crate) fn connect(address: &UpstreamAddress) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let place = (address.host.clone(), address.port);
    let question = move || place.to_socket_addrs().map(Vec::from_iter);
    for found in resolved(ANSWER_LIMIT, question)? {
        match TcpStream::connect_timeout(&found, ANSWER_LIMIT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(ANSWER_LIMIT))?;
                socket.set_write_timeout(Some(ANSWER_LIMIT))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Answer of the resolver. Its own limits may add up to minutes, and nothing ends a question
/// that it was asked: so a thread of its own waits for it.
fn resolved<T: Send + 'static>(
    limit: Duration,
    question: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (answers, answer) = mpsc::channel();
    let ask = move || {
        // An answer that comes too late is not waited for.
        let _ = answers.send(question());
    };
    let thread = thread::Builder::new().name("synod-resolve".to_owned());
    thread.spawn(ask)?;
    answer.recv_timeout(limit).unwrap_or_else(|_| {
        let text = "no server of /etc/resolv.conf answers: look at them";
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// The greeting, and the number of the packet that answers it.
pub(crate) fn greet(mut socket: &TcpStream) -> Result<(Greeting, u8), UpstreamError> {
    let packet = receive(&mut socket)?;
    if let Some((0xff, rest)) = packet.payload.split_first() {
        return Err(refused("the connection", ServerError::parse(rest)));
    }
    let greeting = Greeting::parse(&packet.payload);
    let greeting = greeting.ok_or_else(|| surprise("the connection"))?;
    Ok((greeting, packet.number.wrapping_add(1)))
}

/// The link for everything that follows, and the number of the next packet on it.
pub(crate) fn encrypt(
    socket: TcpStream,
    greeting: &Greeting,
    number: u8,
    host: &str,
    encryption: Option<&UpstreamEncryption>,
) -> Result<(Link, u8), UpstreamError> {
    let Some(encryption) = encryption else {
        return Ok((Link::clear(socket), number));
    };
    if !greeting.encrypts {
        return Err(UpstreamError::NoEncryption);
    }
    let tls = ForeignTls::load(&encryption.authorities, encryption.checks_name)?;
    let state = tls.session(host)?;
    let clear = Link::clear(socket.try_clone().map_err(UpstreamError::Lost)?);
    let request = small_packet(number, &encryption_request());
    clear.send(&request).map_err(UpstreamError::Lost)?;
    let link = Link::encrypted(socket, state);
    let link = link.map_err(|error| UpstreamError::Handshake(ForeignTls::why_failed(&error)))?;
    Ok((link, number.wrapping_add(1)))
}

fn receive(from: &mut impl io::Read) -> Result<Packet, UpstreamError> {
    read_packet(from, ANSWER_BYTES_MAX).map_err(|error| match error {
        PacketError::Io(error) if is_silence(&error) => UpstreamError::Silent(ANSWER_LIMIT),
        PacketError::Io(error) => UpstreamError::Lost(error),
        PacketError::TooLarge => surprise("an answer"),
    })
}

/// Whether a read has waited in vain.
pub(crate) fn is_silence(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
    kinds.contains(&error.kind())
}

fn refused(step: &str, error: ServerError) -> UpstreamError {
    let ServerError { code, text } = error;
    if ACCESS.contains(&code) {
        return UpstreamError::Access { code, text };
    }
    UpstreamError::Step {
        step: step.to_owned(),
        code,
        text,
    }
}

fn surprise(step: &str) -> UpstreamError {
    UpstreamError::Protocol(format!("the answer to '{step}' is none that is known"))
}

/// Longest file that is taken, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// Reads the password: the first line. Without a file it is empty.
fn read_password(path: Option<&Path>) -> Result<String, UpstreamError> {
    let Some(path) = path else {
        return Ok(String::new());
    };
    let refused = |reason: String| UpstreamError::PasswordFile {
        path: path.to_owned(),
        reason,
    };
    let failed = |error: io::Error| refused(error.to_string());
    let file = File::open(path).map_err(failed)?;
    let known = file.metadata().map_err(failed)?;
    if let Some(mode) = mode_open_to_all(&known) {
        return Err(refused(format!(
            "it is open to every user of this machine (mode {mode:o}). Close it: chmod 600 {}. If \
             other users may have read it, change the password",
            path.display()
        )));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        Some(_) | None => Err(refused("its first line is empty".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn resolver_that_does_not_answer_is_not_waited_for() {
        let (never, answer) = mpsc::channel::<()>();
        let question = move || answer.recv().map_err(io::Error::other);
        let error = resolved(Duration::ZERO, question).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("/etc/resolv.conf"));
        drop(never);
        let question = || Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        let error = resolved(ANSWER_LIMIT, question).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn password_is_the_first_line_of_a_closed_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        assert_eq!(read_password(None).unwrap(), "");
        assert!(read_password(Some(&path)).is_err());
        fs::write(&path, "se cret\nmore\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read_password(Some(&path)).unwrap(), "se cret");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let text = read_password(Some(&path)).unwrap_err().to_string();
        assert!(text.contains("chmod 600"), "{text}");
        fs::write(&path, "\nlater").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let text = read_password(Some(&path)).unwrap_err().to_string();
        assert!(text.contains("first line is empty"), "{text}");
    }
}
