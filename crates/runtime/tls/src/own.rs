//! The own certificate and its key, from their files: what members and services show.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::CertifiedKey;

use super::certificate::{self, Certificate, SettingFile};
use super::error::TlsError;
use super::settings::TlsFiles;
use super::{cipher, key};

/// Contents of the certificate's file, and the arithmetic for it.
pub(super) struct OwnFiles<'a> {
    files: &'a TlsFiles,
    /// The certificate, then those between it and an authority; at least one.
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// With the ciphers that the operator allows.
    pub(super) provider: Arc<CryptoProvider>,
}

impl<'a> OwnFiles<'a> {
    /// Reads the certificate. The processor has been checked before.
    pub(super) fn read(files: &'a TlsFiles) -> Result<OwnFiles<'a>, TlsError> {
        let mut provider = rustls_graviola::default_provider();
        provider.cipher_suites = cipher::select(&files.ciphers, files.names.ciphers)?;
        Ok(OwnFiles {
            files,
            chain: certificate::read(SettingFile::certificate(files))?,
            provider: Arc::new(provider),
        })
    }

    /// The certificate, taken apart.
    pub(super) fn certificate(&self) -> Result<Certificate<'_>, TlsError> {
        let file = SettingFile::certificate(self.files);
        Certificate::parse(&self.chain[0]).map_err(|reason| file.unreadable(reason))
    }

    /// Checks that the certificate is valid now.
    pub(super) fn check_dates(&self, own: &Certificate<'_>) -> Result<(), TlsError> {
        own.check_dates(UnixTime::now())
            .map_err(|reason| TlsError::Dates {
                setting: self.files.names.certificate,
                path: self.files.certificate.clone(),
                reason,
            })
    }

    /// Reads the key, and joins it with the certificate.
    pub(super) fn identity(&self, own: &Certificate<'_>) -> Result<CertifiedKey, TlsError> {
        let key = key::read(self.files, &self.provider)?;
        let public = key.public_key();
        if public.is_some_and(|public| *public != *own.public_key()) {
            return Err(TlsError::KeyMismatch {
                key_setting: self.files.names.key,
                certificate_setting: self.files.names.certificate,
                key: self.files.key.clone(),
                certificate: self.files.certificate.clone(),
            });
        }
        Ok(CertifiedKey::new(self.chain.clone(), key))
    }

    /// A text for the log.
    pub(super) fn summary(&self, own: &Certificate<'_>) -> String {
        format!(
            "certificate '{}' of {}, valid until {}",
            own.subject(),
            self.files.certificate.display(),
            own.valid_until()
        )
    }
}
