//! Errors of this member's own certificates, and of handshakes with a peer.
//!
//! Texts name the file and the setting to change, in the host's spelling ([`TlsSettingNames`]), and
//! what to do about it. Texts about a peer speak of it as "it".

use std::io;
use std::path::PathBuf;

use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};

use super::certificate::DatesError;
use super::secret::SecretFileError;
use super::settings::{CredentialNames, TlsSettingNames};

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

/// Makes the library's error on an open connection readable.
pub(super) fn explain(error: io::Error, names: &CredentialNames) -> io::Error {
    match tls_error(&error) {
        Some(inner) => io::Error::new(error.kind(), text(inner, names)),
        None => error,
    }
}

/// Why a client of a service got no connection. The text speaks of the client as "it".
pub(super) fn client_text(error: &io::Error, names: &TlsSettingNames) -> String {
    let Some(error) = tls_error(error) else {
        return error.to_string();
    };
    let (certificate, authorities) = (names.certificate, names.authorities);
    match error {
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate,
        ) => format!(
            "it does not trust the certificate of {certificate}, or asked for a name that is not \
             in it. Give the client the authority that has signed it, and ask for one of its names \
             (subjectAltName)"
        ),
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
            format!("it says that the certificate of {certificate} has expired")
        }
        rustls::Error::AlertReceived(alert) => format!("it ended the TLS connection: {alert:?}"),
        rustls::Error::InvalidCertificate(CertificateError::InvalidPurpose)
        | rustls::Error::InvalidCertificate(CertificateError::InvalidPurposeContext { .. }) => {
            format!(
                "its certificate is refused ({authorities}): its extended key usage must have \
                 clientAuth, or be absent"
            )
        }
        rustls::Error::InvalidCertificate(_) => {
            let why = certificate_text(error, names);
            format!("its certificate is refused: {why}")
        }
        rustls::Error::PeerIncompatible(_) => {
            format!("it has no TLS 1.3, or no cipher of TLS 1.3 in common ({error})")
        }
        other => format!("TLS failed: {other}"),
    }
}

/// Why there is no connection with a server that is no member. The text speaks of it as "it".
pub(super) fn foreign_text(error: &io::Error, authorities: &'static str) -> String {
    let Some(error) = tls_error(error) else {
        return error.to_string();
    };
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate does not have the name that it is reached by (subjectAltName). Make \
              one that has it, or have names not checked"
            .to_owned(),
        rustls::Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => {
            "its certificate is refused: its extended key usage must have serverAuth, or be absent"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(_) => {
            let names = TlsSettingNames {
                authorities,
                ..TlsSettingNames::default()
            };
            let why = certificate_text(error, &names);
            format!("its certificate is refused: {why}")
        }
        rustls::Error::PeerIncompatible(_)
        | rustls::Error::AlertReceived(
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure,
        ) => format!("it has no TLS 1.3, or no cipher of TLS 1.3 in common ({error})"),
        rustls::Error::AlertReceived(alert) => format!("it ended the TLS connection: {alert:?}"),
        other => format!("TLS failed: {other}"),
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn text(error: &rustls::Error, names: &CredentialNames) -> String {
    match names {
        CredentialNames::Certificates(names) => text_with_certificates(error, names),
        CredentialNames::Secret { file } => text_with_secret(error, file),
    }
}

fn text_with_secret(error: &rustls::Error, file: &str) -> String {
    const SAME: &str = "All members need the same file";
    match error {
        rustls::Error::InvalidCertificate(_) => format!(
            "its group secret differs from this member's: it is none of those in {file}. {SAME}"
        ),
        rustls::Error::AlertReceived(AlertDescription::UnknownCA) => format!(
            "its group secret differs from this member's, which is not in its {file}. {SAME}"
        ),
        rustls::Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension)
        | rustls::Error::NoCertificatesPresented => format!(
            "it has no group secret, but perhaps certificates; this member has {file}. All members \
             need one and the same kind of credential"
        ),
        rustls::Error::AlertReceived(AlertDescription::HandshakeFailure) => format!(
            "it refuses a group secret ({file}): it has certificates, perhaps. All members need \
             one and the same kind of credential"
        ),
        rustls::Error::AlertReceived(alert) => format!("it ended the TLS connection: {alert:?}"),
        other => format!("TLS failed: {other}"),
    }
}

fn text_with_certificates(error: &rustls::Error, names: &TlsSettingNames) -> String {
    match error {
        rustls::Error::InvalidCertificate(_) => {
            let why = certificate_text(error, names);
            format!("its certificate is refused: {why}")
        }
        rustls::Error::NoCertificatesPresented => "it presents no certificate".to_owned(),
        rustls::Error::AlertReceived(alert) => alert_text(*alert, names),
        rustls::Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension) => {
            "it shows a group secret, and this member has certificates. All members need one and \
             the same kind of credential"
                .to_owned()
        }
        rustls::Error::PeerIncompatible(why) => {
            let ciphers = names.ciphers;
            format!("no TLS 1.3 with a common cipher: {why:?} ({ciphers})")
        }
        other => format!("TLS failed: {other}"),
    }
}

pub(super) fn certificate_text(error: &rustls::Error, names: &TlsSettingNames) -> String {
    let rustls::Error::InvalidCertificate(reason) = error else {
        return error.to_string();
    };
    let authorities = names.authorities;
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet (are the clocks right?)".to_owned()
        }
        CertificateError::UnknownIssuer => {
            format!("none of the authorities in {authorities} has signed it")
        }
        CertificateError::BadSignature => format!(
            "none of the authorities in {authorities} has signed it, though one has the name of \
             the one that did"
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its extended key usage must have both serverAuth and clientAuth, or be absent"
                .to_owned()
        }
        other => other.to_string(),
    }
}

fn alert_text(alert: AlertDescription, names: &TlsSettingNames) -> String {
    let why = match alert {
        AlertDescription::UnknownCA => {
            let authorities = names.authorities;
            &format!("none of its authorities has signed it ({authorities} there)")
        }
        AlertDescription::CertificateExpired => "it has expired, or is not valid yet",
        AlertDescription::CertificateRequired => "there is none",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError => "see its error log",
        AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion => {
            let ciphers = names.ciphers;
            return format!(
                "it has no TLS 1.3, no cipher in common ({ciphers}), or a group secret instead of \
                 certificates"
            );
        }
        other => return format!("it ended the TLS connection: {other:?}"),
    };
    let certificate = names.certificate;
    format!("it refuses this member's certificate ({certificate}): {why}")
}
