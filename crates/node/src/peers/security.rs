//! Whether connections are encrypted, and what happens where two members do not agree on it.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use synod_tls::{FIRST_BYTE, Tls, TlsError, TlsHandshakeError};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{FrameWriter, HelloReply, RefuseReason, write_reply};

use super::channel::Channel;
use super::dial::Timed;
use crate::config::TlsConfig;

/// How long a refused caller may take to hang up.
const PARTING_LIMIT: Duration = Duration::from_secs(1);
/// And how much it may go on sending meanwhile.
const PARTING_BYTES: usize = 64 << 10;

/// How this member's connections are secured.
pub(crate) enum Security {
    /// They are not.
    Plain,
    /// By TLS.
    Tls {
        config: TlsConfig,
        /// What new connections use.
        current: RwLock<Arc<Tls>>,
    },
}

/// Why a connection has no channel.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecurityError {
    #[error(transparent)]
    Tls(#[from] TlsHandshakeError),
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The caller encrypts.
    #[error(
        "it encrypts its connections (socket.ssl there), this member does not: set socket.ssl and its certificates here too"
    )]
    NotEncryptedHere,
    /// The caller does not.
    #[error(
        "it does not encrypt its connections, this member does: set socket.ssl there too, or, while you go from one to the other, socket.dynamic here"
    )]
    NotEncryptedThere,
}

impl Security {
    /// Reads the certificates, if there are to be any.
    pub(crate) fn new(config: Option<TlsConfig>) -> Result<Security, TlsError> {
        match config {
            None => Ok(Security::Plain),
            Some(config) => {
                let current = RwLock::new(Arc::new(Tls::load(&config.files)?));
                Ok(Security::Tls { config, current })
            }
        }
    }

    /// Reads the certificates again, for connections opened from now on. On an error those in use stay.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        if let Security::Tls { config, current } = self {
            let fresh = Arc::new(Tls::load(&config.files)?);
            *current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
        Ok(())
    }

    /// What is in use, in a line for the log.
    pub(crate) fn summary(&self) -> String {
        let Security::Tls { config, .. } = self else {
            return "connections between members are not encrypted".to_owned();
        };
        let summary = self
            .tls()
            .map(|tls| tls.summary().to_owned())
            .unwrap_or_default();
        let but = match config.accept_plain {
            true => "; members that do not encrypt are accepted too (socket.dynamic)",
            false => "",
        };
        format!("connections between members are encrypted by TLS 1.3: {summary}{but}")
    }

    /// Whether a peer that does not encrypt is to be called without encryption.
    pub(super) fn may_fall_back(&self) -> bool {
        matches!(self, Security::Tls { config, .. } if config.accept_plain)
    }

    /// Makes a channel of a connection that this member has opened.
    pub(super) fn secure_outgoing(&self, socket: Timed) -> Result<Channel, TlsHandshakeError> {
        match self.tls() {
            None => Ok(Channel::plain(socket)),
            Some(tls) => Ok(Channel::encrypted(tls.connect(socket)?)),
        }
    }

    /// Makes a channel of a connection from elsewhere. Who does not encrypt shows by the first byte.
    pub(super) fn secure_incoming(&self, socket: Timed) -> Result<Channel, SecurityError> {
        let encrypts = socket.peek()? == Some(FIRST_BYTE);
        match (self.tls(), encrypts) {
            (None, false) => Ok(Channel::plain(socket)),
            (Some(tls), true) => accept(&tls, socket),
            (Some(_), false) if self.may_fall_back() => Ok(Channel::plain(socket)),
            (None, true) => Err(refuse(socket, SecurityError::NotEncryptedHere)),
            (Some(_), false) => Err(refuse(socket, SecurityError::NotEncryptedThere)),
        }
    }

    fn tls(&self) -> Option<Arc<Tls>> {
        match self {
            Security::Plain => None,
            Security::Tls { current, .. } => {
                let current = current.read().unwrap_or_else(PoisonError::into_inner);
                Some(current.clone())
            }
        }
    }
}

fn accept(tls: &Tls, socket: Timed) -> Result<Channel, SecurityError> {
    let handle = socket.stream().try_clone()?;
    match tls.accept(socket) {
        Ok(stream) => Ok(Channel::encrypted(stream)),
        Err(error) => {
            part(&handle);
            Err(error.into())
        }
    }
}

/// Tells the caller in clear, whatever it speaks: a plain one reads the reason, an encrypting one sees
/// that this is not TLS.
fn refuse(mut socket: Timed, why: SecurityError) -> SecurityError {
    let text = match why {
        SecurityError::NotEncryptedThere => {
            "its connections are encrypted: set socket.ssl and certificates here too"
        }
        _ => "its connections are not encrypted (socket.ssl)",
    };
    let reply = HelloReply::Refused {
        reason: RefuseReason::NotAllowed,
        text: text.to_owned(),
    };
    let mut writer = FrameWriter::new(&mut socket, HANDSHAKE_FRAME_MAX);
    // The line in our own log stands either way.
    if write_reply(&mut writer, &reply).is_ok() {
        part(socket.stream());
    }
    why
}

/// Hangs up so that the last thing sent arrives: a socket closed with unread input takes it back.
fn part(stream: &TcpStream) {
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let Ok(handle) = stream.try_clone() else {
        return;
    };
    let mut rest = io::Read::take(Timed::new(handle, PARTING_LIMIT), PARTING_BYTES as u64);
    // Its end, by the peer or by a limit, is all that counts.
    let _ = io::copy(&mut rest, &mut io::sink());
}
