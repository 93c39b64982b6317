//! Reading certificates, and what is to be known of one.

use std::fs;
use std::path::Path;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};

use super::error::TlsError;
use super::x509::{self, Fields};

/// Reads all certificates of a PEM file, in its order; at least one.
pub(super) fn read(
    option: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read_file(option, path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| TlsError::Unreadable {
        option,
        path: path.to_owned(),
        reason: format!("it is damaged: {error}"),
    })?;
    if certificates.is_empty() {
        return Err(TlsError::Unreadable {
            option,
            path: path.to_owned(),
            reason: "there is no certificate in it (expected PEM: -----BEGIN CERTIFICATE-----)"
                .to_owned(),
        });
    }
    Ok(certificates)
}

/// Reads a file that an option names.
pub(super) fn read_file(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    if path.as_os_str().is_empty() {
        return Err(TlsError::NotSet { option });
    }
    fs::read(path).map_err(|source| TlsError::Read {
        option,
        path: path.to_owned(),
        source,
    })
}

/// A certificate that has been taken apart.
#[derive(Debug)]
pub(super) struct Certificate<'a>(Fields<'a>);

impl<'a> Certificate<'a> {
    /// Takes a certificate apart, wherever it comes from.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(super) fn parse(der: &'a CertificateDer<'_>) -> Result<Certificate<'a>, String> {
        let fields = Fields::of(der);
        fields
            .map(Certificate)
            .map_err(|error| format!("not a certificate: {error}"))
    }

    /// Whose it is.
    pub(super) fn subject(&self) -> String {
        x509::name_text(self.0.subject).unwrap_or_else(|_| "(unreadable name)".to_owned())
    }

    /// The last moment at which it counts.
    pub(super) fn valid_until(&self) -> String {
        self.0.not_after.to_string()
    }

    /// # Errors
    /// Says from when or until when it counts.
    pub(super) fn check_dates(&self, now: UnixTime) -> Result<(), DatesError> {
        if now.as_secs() < self.0.not_before.unix_duration().as_secs() {
            return Err(DatesError::NotYet(self.0.not_before.to_string()));
        }
        if now.as_secs() > self.0.not_after.unix_duration().as_secs() {
            return Err(DatesError::Expired(self.valid_until()));
        }
        Ok(())
    }

    /// Whether it is of the version before extensions, which `openssl x509 -req` made for long.
    pub(super) fn is_version_1(&self) -> bool {
        self.0.is_version_1
    }

    /// Whether it may sign others: it says so, or is of version 1, which has no way to say.
    pub(super) fn may_sign(&self) -> bool {
        self.0.is_version_1 || self.0.is_authority
    }

    /// Its public key.
    pub(super) fn public_key(&self) -> SubjectPublicKeyInfoDer<'a> {
        SubjectPublicKeyInfoDer::from(self.0.public_key)
    }

    /// Whether that one, with its own key, has signed this one.
    pub(super) fn is_signed_by(
        &self,
        issuer: &Certificate<'_>,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> bool {
        let Ok((key_algorithm, key)) = x509::key_parts(issuer.0.public_key) else {
            return false;
        };
        self.0.issuer == issuer.0.subject
            && algorithms.all.iter().any(|with| {
                with.signature_alg_id().as_ref() == self.0.algorithm
                    && with.public_key_alg_id().as_ref() == key_algorithm
                    && with
                        .verify_signature(key, self.0.signed, self.0.signature)
                        .is_ok()
            })
    }
}

/// A certificate does not count at this moment.
#[derive(Debug, thiserror::Error)]
pub enum DatesError {
    /// Too late.
    #[error("it expired at {0}; issue a new one (and check this machine's clock)")]
    Expired(String),
    /// Too early.
    #[error("it is valid from {0} only; check this machine's clock")]
    NotYet(String),
}
