//! Encryption of connections, and the cases in which two members do not agree on it.
//!
//! A member encrypts all its connections or none. During a change from one to the other it may
//! accept peers in clear ([`TlsConfig::accept_plain`]). Texts call the settings as the host spells
//! them. `synod-tls` judges certificates.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use synod_member::{Host, Setting};
use synod_tls::{FIRST_BYTE, PeerCredential, Tls, TlsError, TlsHandshakeError, TlsStream};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{FrameWriter, HelloReply, RefuseReason, write_reply};

use super::channel::{Channel, TimedSocket};
use crate::config::TlsConfig;

/// How long a refused caller may take to close its connection.
const PARTING_LIMIT: Duration = Duration::from_secs(1);
/// How many bytes a refused caller may still send meanwhile.
const PARTING_BYTES: usize = 64 << 10;

pub(crate) struct ConnectionEncryption {
    /// `None`: connections are in clear.
    tls: Option<TlsInUse>,
    names: SettingNames,
}

struct TlsInUse {
    config: TlsConfig,
    /// Keys and certificates for new connections.
    current: RwLock<Arc<Tls>>,
}

#[derive(Clone, Copy)]
struct SettingNames {
    encryption: &'static str,
    accept_unencrypted: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum EncryptionError {
    #[error(transparent)]
    Tls(#[from] TlsHandshakeError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(
        "it encrypts its connections ({encryption} there), this member does not: set the same here"
    )]
    NotEncryptedHere {
        /// The setting, as the host spells it.
        encryption: &'static str,
    },
    #[error(
        "it does not encrypt its connections, this member does: set {encryption} there too, or, \
         while you change from one to the other, {accept_unencrypted} here"
    )]
    NotEncryptedThere {
        encryption: &'static str,
        accept_unencrypted: &'static str,
    },
}

impl ConnectionEncryption {
    /// Reads the credentials, if connections are to be encrypted.
    pub(crate) fn new(
        config: Option<TlsConfig>,
        host: &dyn Host,
    ) -> Result<ConnectionEncryption, TlsError> {
        let names = SettingNames {
            encryption: host.setting_name(Setting::Encryption),
            accept_unencrypted: host.setting_name(Setting::AcceptUnencrypted),
        };
        let tls = config.map(TlsInUse::load).transpose()?;
        Ok(ConnectionEncryption { tls, names })
    }

    /// Reads the credentials again; [`ConnectionEncryption::accepts`] goes by the new ones then. On
    /// an error the credentials in use stay; a certificate with another subject is one.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        self.tls.as_ref().map_or(Ok(()), TlsInUse::reload)
    }

    /// Whether an encrypted connection may stay open by the credentials in use: not if the secret
    /// that its peer has shown was removed. One in clear is judged when it is opened.
    pub(super) fn accepts(&self, shown: &PeerCredential) -> bool {
        match (&self.tls, shown) {
            (_, PeerCredential::None) | (None, _) => true,
            (Some(tls), shown) => tls.current().accepts(shown),
        }
    }

    /// The subject of this member's certificate, if it has one.
    pub(crate) fn subject(&self) -> Option<String> {
        let tls = self.tls.as_ref()?.current();
        tls.subject().map(str::to_owned)
    }

    /// Description of the encryption in use, in a line for the log.
    pub(crate) fn summary(&self) -> String {
        let Some(encryption) = &self.tls else {
            return "connections between members are not encrypted".to_owned();
        };
        let tls = encryption.current();
        let exception = if encryption.config.accept_plain {
            let setting = self.names.accept_unencrypted;
            format!("; members that do not encrypt are accepted too ({setting})")
        } else {
            String::new()
        };
        let summary = tls.summary();
        format!("connections between members are encrypted by TLS 1.3: {summary}{exception}")
    }

    /// Whether a peer that does not encrypt is to be called without encryption.
    pub(super) fn may_fall_back(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.config.accept_plain)
    }

    /// Whether peers that do not encrypt are accepted.
    pub(super) fn takes_clear(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.config.accept_plain)
    }

    /// Makes a channel of a connection that this member has opened.
    pub(super) fn secure_outgoing(
        &self,
        socket: TimedSocket,
    ) -> Result<Channel, TlsHandshakeError> {
        match &self.tls {
            None => Ok(Channel::Plain(socket)),
            Some(tls) => Ok(Channel::Encrypted(Box::new(tls.current().connect(socket)?))),
        }
    }

    /// Makes a channel of a connection that a peer has opened. Its first byte shows whether it
    /// encrypts.
    pub(super) fn secure_incoming(&self, socket: TimedSocket) -> Result<Channel, EncryptionError> {
        let encrypts = socket.peek()? == Some(FIRST_BYTE);
        match (&self.tls, encrypts) {
            (None, false) => Ok(Channel::Plain(socket)),
            (Some(tls), true) => Ok(Channel::Encrypted(accept(&tls.current(), socket)?)),
            (Some(_), false) if self.may_fall_back() => Ok(Channel::Plain(socket)),
            (None, true) => Err(refuse_other_encryption(socket, self.not_encrypted_here())),
            (Some(_), false) => Err(refuse_other_encryption(socket, self.not_encrypted_there())),
        }
    }

    fn not_encrypted_here(&self) -> EncryptionError {
        let encryption = self.names.encryption;
        EncryptionError::NotEncryptedHere { encryption }
    }

    fn not_encrypted_there(&self) -> EncryptionError {
        EncryptionError::NotEncryptedThere {
            encryption: self.names.encryption,
            accept_unencrypted: self.names.accept_unencrypted,
        }
    }
}

impl TlsInUse {
    fn load(config: TlsConfig) -> Result<TlsInUse, TlsError> {
        let current = RwLock::new(Arc::new(config.credentials.load()?));
        Ok(TlsInUse { config, current })
    }

    fn reload(&self) -> Result<(), TlsError> {
        let fresh = self.config.credentials.load_again(&self.current())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        Ok(())
    }

    fn current(&self) -> Arc<Tls> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

fn accept(tls: &Tls, socket: TimedSocket) -> Result<Box<TlsStream<TimedSocket>>, EncryptionError> {
    let handle = socket.stream().try_clone()?;
    match tls.accept(socket) {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => {
            part(&handle);
            Err(error.into())
        }
    }
}

/// Sends the caller the reason in clear. A caller in clear reads it; one that encrypts sees that
/// the answer is not TLS.
fn refuse_other_encryption(mut socket: TimedSocket, error: EncryptionError) -> EncryptionError {
    let text = match &error {
        EncryptionError::NotEncryptedThere { encryption, .. } => {
            format!("its connections are encrypted ({encryption} there): set the same here")
        }
        EncryptionError::NotEncryptedHere { encryption } => {
            format!("its connections are not encrypted ({encryption})")
        }
        EncryptionError::Tls(_) | EncryptionError::Io(_) => {
            "its connections are not encrypted".to_owned()
        }
    };
    let reply = HelloReply::Refused {
        reason: RefuseReason::NotAllowed,
        text,
    };
    let mut writer = FrameWriter::new(&mut socket, HANDSHAKE_FRAME_MAX);
    // This member's own log has the line, whether the reply arrives or not.
    if write_reply(&mut writer, &reply).is_ok() {
        part(socket.stream());
    }
    error
}

/// Closes the connection so that the last message arrives: a socket that is closed with unread
/// input discards it.
fn part(stream: &TcpStream) {
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let Ok(handle) = stream.try_clone() else {
        return;
    };
    let mut rest = io::Read::take(
        TimedSocket::new(handle, PARTING_LIMIT),
        PARTING_BYTES as u64,
    );
    // Only the end of the input counts, by the peer or by a limit.
    let _ = io::copy(&mut rest, &mut io::sink());
}
