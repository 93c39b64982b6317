//! Encryption by certificates: reads the files and makes what connections need.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::certificate::{self, Certificate, SettingFile};
use super::error::{self, TlsError};
use super::settings::{CredentialNames, TlsFiles};
use super::verify::{self, PeerVerifier};
use super::{Acceptance, Ends, Tls, cipher, key, peer, processor};

impl Tls {
    /// Reads the files, and checks them as a peer with the same authorities would.
    ///
    /// # Errors
    /// With the file and the remedy.
    pub fn load(files: &TlsFiles) -> Result<Tls, TlsError> {
        let names = files.names;
        processor::check(names.switch)?;
        let mut provider = rustls_graviola::default_provider();
        provider.cipher_suites = cipher::select(&files.ciphers, names.ciphers)?;
        let provider = Arc::new(provider);
        let file = |setting, path| SettingFile {
            setting,
            switch: names.switch,
            path,
        };
        let certificate_file = file(names.certificate, &files.certificate);
        let chain = certificate::read(certificate_file)?;
        let own =
            Certificate::parse(&chain[0]).map_err(|reason| certificate_file.unreadable(reason))?;
        let (authorities_file, authorities) = match &files.authorities {
            Some(path) => {
                let authorities_file = file(names.authorities, path);
                (authorities_file, certificate::read(authorities_file)?)
            }
            None => (certificate_file, vec![chain[0].clone()]),
        };
        let subject =
            peer::subject_of(&own).map_err(|reason| certificate_file.unreadable(reason))?;
        let algorithms = provider.signature_verification_algorithms;
        let verifier = PeerVerifier::new(authorities, algorithms);
        let verifier = Arc::new(verifier.map_err(|reason| authorities_file.unreadable(reason))?);
        check_own(files, &own, &chain, &verifier, authorities_file)?;
        let key = key::read(files, &provider)?;
        if key
            .public_key()
            .is_some_and(|public| *public != *own.public_key())
        {
            return Err(TlsError::KeyMismatch {
                key_setting: names.key,
                certificate_setting: names.certificate,
                key: files.key.clone(),
                certificate: files.certificate.clone(),
            });
        }
        let summary = format!(
            "certificate '{}' of {}, valid until {}",
            own.subject(),
            files.certificate.display(),
            own.valid_until()
        );
        let identity = CertifiedKey::new(chain.clone(), key);
        let identity = Arc::new(SingleCertAndKey::from(identity));
        let ends = Ends {
            provider,
            of_server: verifier.clone(),
            of_client: verifier,
            as_client: identity.clone(),
            as_server: identity,
        };
        Ok(Tls {
            client: Arc::new(ends.client()?),
            server: Arc::new(ends.server()?),
            summary,
            subject: Some(subject),
            names: CredentialNames::Certificates(names),
            acceptance: Acceptance::Authorities,
        })
    }
}

/// Checks this member's own certificate as a peer with the same authorities would.
fn check_own(
    files: &TlsFiles,
    own: &Certificate<'_>,
    chain: &[CertificateDer<'_>],
    verifier: &PeerVerifier,
    authorities: SettingFile<'_>,
) -> Result<(), TlsError> {
    let names = files.names;
    own.check_dates(UnixTime::now())
        .map_err(|reason| TlsError::Dates {
            setting: names.certificate,
            path: files.certificate.clone(),
            reason,
        })?;
    for usage in verify::USAGES {
        verifier
            .check(&chain[0], &chain[1..], UnixTime::now(), usage)
            .map_err(|error| TlsError::NotAccepted {
                certificate_setting: names.certificate,
                authorities_setting: authorities.setting,
                certificate: files.certificate.clone(),
                authorities: authorities.path.to_owned(),
                reason: error::certificate_text(&error, &names),
            })?;
    }
    Ok(())
}
