//! Errors of this member's own certificates, and of handshakes with a peer.
//!
//! Texts name the file and the setting to change, in the host's spelling, and what to do about it.
//! Those about a peer are in `refused_peer.rs`.

use std::io;
use std::path::PathBuf;

use rustls::InvalidMessage;

use super::certificate::DatesError;
use super::refused_peer::{text, tls_error};
use super::secret::SecretFileError;
use super::settings::CredentialNames;

/// Encryption cannot be set up. The text is a line for the log.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{switch} is on, but {setting} is not set")]
    NotSet {
        switch: &'static str,
        setting: &'static str,
    },
    #[error(
        "cannot read {path} ({setting}): {source}. \
        It must exist and be readable for the user that the server runs as",
        path = path.display()
    )]
    Read {
        setting: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot use {path} ({setting}): {reason}", path = path.display())]
    Unreadable {
        setting: &'static str,
        path: PathBuf,
        reason: String,
    },
    #[error("cannot use the certificate in {path} ({setting}): {reason}", path = path.display())]
    Dates {
        setting: &'static str,
        path: PathBuf,
        reason: DatesError,
    },
    #[error(
        "the certificate in {path} ({setting}) has the subject '{found}', and this member runs \
        with '{in_use}', by which the others know it. The old files stay in use. Put a \
        certificate with the subject '{in_use}' there",
        path = path.display()
    )]
    OtherSubject {
        setting: &'static str,
        path: PathBuf,
        in_use: String,
        found: String,
    },
    #[error(
        "the certificate in {certificate} ({certificate_setting}) is not accepted by \
        the authorities in {authorities} ({authorities_setting}): {reason}",
        certificate = certificate.display(), authorities = authorities.display()
    )]
    NotAccepted {
        certificate_setting: &'static str,
        authorities_setting: &'static str,
        certificate: PathBuf,
        authorities: PathBuf,
        reason: String,
    },
    #[error(
        "the key in {key} ({key_setting}) does not belong to the certificate in {certificate} \
        ({certificate_setting})",
        key = key.display(), certificate = certificate.display()
    )]
    KeyMismatch {
        key_setting: &'static str,
        certificate_setting: &'static str,
        key: PathBuf,
        certificate: PathBuf,
    },
    #[error(
        "the key in {path} ({setting}) is open to every user of this machine (mode {mode:o}). \
        Close it: chmod 600 {path}. If other users may have read it, make a new key and \
        certificate",
        path = path.display()
    )]
    OpenKey {
        setting: &'static str,
        path: PathBuf,
        mode: u32,
    },
    #[error("unknown cipher suite '{name}' in {setting}; known are {known}")]
    UnknownCipher {
        setting: &'static str,
        name: String,
        known: String,
    },
    #[error(
        "{switch} asks for encryption, but this machine's processor lacks instructions that the \
        encryption needs: {missing}. If it is a virtual machine, let it see its host's \
        processor; otherwise use a private network, without {switch}"
    )]
    Processor {
        switch: &'static str,
        missing: String,
    },
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    #[error("TLS cannot be set up: {0}")]
    Library(String),
}

impl TlsError {
    pub(super) fn library(error: rustls::Error) -> TlsError {
        TlsError::Library(error.to_string())
    }
}

/// No encrypted connection with this peer. The texts speak of the peer as "it".
#[derive(Debug, thiserror::Error)]
pub enum TlsHandshakeError {
    #[error("it does not encrypt its connections, this member does ({switch})")]
    Plaintext {
        /// Setting that turns encryption on, with "is on" or "is set".
        switch: String,
    },
    #[error("connection failed during the TLS handshake: {0}")]
    Io(#[from] io::Error),
    /// Certificates do not fit, or the peer does not keep to TLS.
    #[error("{0}")]
    Failed(String),
}

impl TlsHandshakeError {
    pub(super) fn from_io(error: io::Error, names: &CredentialNames) -> TlsHandshakeError {
        match tls_error(&error) {
            Some(inner) => TlsHandshakeError::from_tls(inner, names),
            None => TlsHandshakeError::Io(error),
        }
    }

    pub(super) fn from_tls(error: &rustls::Error, names: &CredentialNames) -> TlsHandshakeError {
        match error {
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
                TlsHandshakeError::Plaintext {
                    switch: names.switch(),
                }
            }
            other => TlsHandshakeError::Failed(text(other, names)),
        }
    }
}
