//! Reading certificates, and the facts about one that this crate needs: dates, names, who may sign.
//!
//! Texts about a certificate speak of it as "it". Whether a peer's certificate is accepted is
//! decided in [`super::verify`].

use std::fs;
use std::path::Path;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};

use super::error::TlsError;
use super::settings::TlsFiles;
use super::x509::{self, Fields};

/// A file that a setting names.
#[derive(Clone, Copy, Debug)]
pub(super) struct SettingFile<'a> {
    /// Name of the setting in texts.
    pub(super) setting: &'static str,
    /// Name, in texts, of the setting that turns encryption on.
    pub(super) switch: &'static str,
    /// The file; empty if the setting is missing.
    pub(super) path: &'a Path,
}

impl<'a> SettingFile<'a> {
    pub(super) fn certificate(files: &'a TlsFiles) -> SettingFile<'a> {
        SettingFile {
            setting: files.names.certificate,
            switch: files.names.switch,
            path: &files.certificate,
        }
    }

    /// The file with the key of the own certificate.
    pub(super) fn key(files: &'a TlsFiles) -> SettingFile<'a> {
        SettingFile {
            setting: files.names.key,
            switch: files.names.switch,
            path: &files.key,
        }
    }

    /// The file with the authorities, which has this path.
    pub(super) fn authorities(files: &TlsFiles, path: &'a Path) -> SettingFile<'a> {
        SettingFile {
            setting: files.names.authorities,
            switch: files.names.switch,
            path,
        }
    }

    /// The error for content that cannot be used.
    pub(super) fn unreadable(&self, reason: String) -> TlsError {
        TlsError::Unreadable {
            setting: self.setting,
            path: self.path.to_owned(),
            reason,
        }
    }

    /// The content of the file.
    ///
    /// # Errors
    /// [`TlsError::NotSet`], [`TlsError::Read`].
    pub(super) fn read(&self) -> Result<Vec<u8>, TlsError> {
        if self.path.as_os_str().is_empty() {
            return Err(TlsError::NotSet {
                switch: self.switch,
                setting: self.setting,
            });
        }
        fs::read(self.path).map_err(|source| TlsError::Read {
            setting: self.setting,
            path: self.path.to_owned(),
            source,
        })
    }
}

/// Reads all certificates of a PEM file, in its order; at least one.
pub(super) fn read(file: SettingFile<'_>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut text = file.read()?;
    // MySQL ends its files with a zero byte. In one that was put together of several, what follows
    // such a byte in its line would not be seen.
    let zeros = text.iter_mut().filter(|byte| **byte == 0);
    zeros.for_each(|byte| *byte = b'\n');
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates =
        certificates.map_err(|error| file.unreadable(format!("it is damaged: {error}")))?;
    if certificates.is_empty() {
        let reason = "there is no certificate in it (expected PEM: -----BEGIN CERTIFICATE-----)";
        return Err(file.unreadable(reason.to_owned()));
    }
    Ok(certificates)
}

/// A certificate that has been taken apart.
#[derive(Debug)]
pub(super) struct Certificate<'a>(Fields<'a>);

impl<'a> Certificate<'a> {
    /// Takes a certificate apart, wherever it comes from.
    ///
    /// # Errors
    /// States what is wrong with it.
    pub(super) fn parse(der: &'a CertificateDer<'_>) -> Result<Certificate<'a>, String> {
        let fields = Fields::of(der);
        fields
            .map(Certificate)
            .map_err(|error| format!("not a certificate: {error}"))
    }

    /// The name of its holder, for texts.
    pub(super) fn subject(&self) -> String {
        self.subject_text()
            .unwrap_or_else(|_| "(unreadable name)".to_owned())
    }

    /// The name of its holder, to be compared; empty if it has none.
    pub(super) fn subject_text(&self) -> pkcs8::der::Result<String> {
        x509::name_text(self.0.subject)
    }

    /// The last moment at which it is valid, for texts.
    pub(super) fn valid_until(&self) -> String {
        self.0.not_after.to_string()
    }

    /// The same in seconds since 1970.
    pub(super) fn valid_until_unix(&self) -> u64 {
        self.0.not_after.unix_duration().as_secs()
    }

    /// Checks that it is valid at this moment.
    ///
    /// # Errors
    /// States from when or until when it is valid.
    pub(super) fn check_dates(&self, now: UnixTime) -> Result<(), DatesError> {
        if now.as_secs() < self.0.not_before.unix_duration().as_secs() {
            return Err(DatesError::NotYet(self.0.not_before.to_string()));
        }
        if now.as_secs() > self.0.not_after.unix_duration().as_secs() {
            return Err(DatesError::Expired(self.valid_until()));
        }
        Ok(())
    }

    /// Whether it is of version 1, which has no extensions. `openssl x509 -req` made such for
    /// decades.
    pub(super) fn is_version_1(&self) -> bool {
        self.0.is_version_1
    }

    /// Whether it may sign others: it says so, or is of version 1, which cannot say it.
    pub(super) fn may_sign(&self) -> bool {
        self.0.is_version_1 || self.0.is_authority
    }

    pub(super) fn public_key(&self) -> SubjectPublicKeyInfoDer<'a> {
        SubjectPublicKeyInfoDer::from(self.0.public_key)
    }

    /// Whether `issuer` has signed this certificate with its own key.
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

/// A certificate is not valid at this moment.
#[derive(Debug, thiserror::Error)]
pub enum DatesError {
    /// Expired; with the last moment of validity.
    #[error("it expired at {0}; issue a new one (and check this machine's clock)")]
    Expired(String),
    /// Not valid yet; with the first moment of validity.
    #[error("it is valid from {0} only; check this machine's clock")]
    NotYet(String),
}
