//! What can be wrong with certificates, and with a peer's.

use std::io;
use std::path::PathBuf;

use rustls::{AlertDescription, CertificateError, InvalidMessage};

use super::certificate::DatesError;

/// Encryption cannot be set up. The text is a line for the log.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// An option is missing.
    #[error("socket.ssl is on, but {option} is not set")]
    NotSet {
        /// Which.
        option: &'static str,
    },
    /// A file cannot be read.
    #[error(
        "cannot read {path} ({option}): {source}. It must exist and be readable for the user that the server runs as", path = path.display()
    )]
    Read {
        /// Who names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file has not the content it should.
    #[error("cannot use {path} ({option}): {reason}", path = path.display())]
    Unreadable {
        /// Who names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Not now.
    #[error("cannot use the certificate in {path} (socket.ssl_cert): {reason}", path = path.display())]
    Dates {
        /// The file.
        path: PathBuf,
        /// When.
        reason: DatesError,
    },
    /// Peers with the same authorities would refuse our own certificate.
    #[error(
        "the certificate in {certificate} (socket.ssl_cert) does not stand up to the authorities in {authorities} (socket.ssl_ca): {reason}",
        certificate = certificate.display(), authorities = authorities.display()
    )]
    NotAccepted {
        /// Ours.
        certificate: PathBuf,
        /// Theirs.
        authorities: PathBuf,
        /// Why.
        reason: String,
    },
    /// Key and certificate are not a pair.
    #[error(
        "the key in {key} (socket.ssl_key) does not belong to the certificate in {certificate} (socket.ssl_cert)",
        key = key.display(), certificate = certificate.display()
    )]
    KeyMismatch {
        /// The key.
        key: PathBuf,
        /// The certificate.
        certificate: PathBuf,
    },
    /// Not one of ours.
    #[error("unknown cipher suite '{name}' in socket.ssl_cipher; known are {known}")]
    UnknownCipher {
        /// As written.
        name: String,
        /// All we have.
        known: String,
    },
    /// The processor is too old.
    #[error(
        "socket.ssl is on, but this machine's processor lacks instructions that the encryption needs: {missing}. If it is a virtual machine, let it see its host's processor; otherwise leave socket.ssl off and use a private network"
    )]
    Processor {
        /// Which.
        missing: String,
    },
    /// The TLS library refused its settings.
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
    /// The peer answered in clear.
    #[error("it does not encrypt its connections, this member does (socket.ssl)")]
    Plaintext,
    /// The transport failed.
    #[error("connection failed during the TLS handshake: {0}")]
    Io(#[from] io::Error),
    /// Certificates do not fit, or the peer does not keep to TLS.
    #[error("{0}")]
    Failed(String),
}

impl TlsHandshakeError {
    pub(super) fn from_io(error: io::Error) -> TlsHandshakeError {
        match tls_error(&error) {
            Some(inner) => TlsHandshakeError::from_tls(inner),
            None => TlsHandshakeError::Io(error),
        }
    }

    pub(super) fn from_tls(error: &rustls::Error) -> TlsHandshakeError {
        match error {
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
                TlsHandshakeError::Plaintext
            }
            other => TlsHandshakeError::Failed(text(other)),
        }
    }
}

/// Makes what the library says on an open connection readable.
pub(super) fn explain(error: io::Error) -> io::Error {
    match tls_error(&error) {
        Some(inner) => io::Error::new(error.kind(), text(inner)),
        None => error,
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn text(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(_) => {
            format!("its certificate is refused: {}", certificate_text(error))
        }
        rustls::Error::NoCertificatesPresented => "it presents no certificate".to_owned(),
        rustls::Error::AlertReceived(alert) => alert_text(*alert),
        rustls::Error::PeerIncompatible(why) => {
            format!("no TLS 1.3 with a common cipher: {why:?} (socket.ssl_cipher)")
        }
        other => format!("TLS failed: {other}"),
    }
}

/// Why a certificate is refused.
pub(super) fn certificate_text(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(reason) = error else {
        return error.to_string();
    };
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet (are the clocks right?)".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "none of the authorities in socket.ssl_ca has signed it".to_owned()
        }
        CertificateError::BadSignature => {
            "none of the authorities in socket.ssl_ca has signed it, though one has the name of the \
             one that did"
                .to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its extended key usage must have both serverAuth and clientAuth, or be absent"
                .to_owned()
        }
        other => other.to_string(),
    }
}

/// What the peer says of our side.
fn alert_text(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::UnknownCA => "none of the authorities in its socket.ssl_ca has signed it",
        AlertDescription::CertificateExpired => "it has expired, or is not valid yet",
        AlertDescription::CertificateRequired => "there is none",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError => "see its error log",
        AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion => {
            return "it has no TLS 1.3, or no cipher in common (socket.ssl_cipher)".to_owned();
        }
        other => return format!("it ended the TLS connection: {other:?}"),
    };
    format!("it refuses this member's certificate (socket.ssl_cert): {why}")
}
