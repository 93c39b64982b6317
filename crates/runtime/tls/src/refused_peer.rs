//! Texts about a peer that is refused, or that refuses this one: its certificate or secret does not
//! fit, or it has no TLS in common. They speak of the peer as "it", and name the setting to change
//! in the host's spelling ([`TlsSettingNames`]).

use std::io;

use rustls::{AlertDescription, CertificateError, PeerIncompatible};

use super::settings::{CredentialNames, TlsSettingNames};

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
            let why = why_certificate_is_refused(error, names);
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
            let why = why_certificate_is_refused(error, &names);
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

pub(super) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

pub(super) fn text(error: &rustls::Error, names: &CredentialNames) -> String {
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
            let why = why_certificate_is_refused(error, names);
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

pub(super) fn why_certificate_is_refused(error: &rustls::Error, names: &TlsSettingNames) -> String {
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
