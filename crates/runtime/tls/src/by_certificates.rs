//! Encryption by certificates: the member's own files, judged at start as a peer would judge them
//! (`peer_verifier.rs`).

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::SingleCertAndKey;

use super::certificate::{self, SettingFile};
use super::error::TlsError;
use super::own::OwnFiles;
use super::peer_verifier::{PeerVerifier, Usage};
use super::refused_peer::why_certificate_is_refused;
use super::settings::{CredentialNames, TlsFiles};
use super::{Acceptance, Ends, Tls};

impl Tls {
    /// Reads the files, and checks them as a peer with the same authorities would.
    pub fn load(files: &TlsFiles) -> Result<Tls, TlsError> {
        let names = files.names;
        let own_files = OwnFiles::read(files)?;
        let (chain, provider) = (&own_files.chain, own_files.provider.clone());
        let certificate_file = SettingFile::certificate(files);
        let own = own_files.certificate()?;
        let (authorities_file, authorities) = match &files.authorities {
            Some(path) => {
                let authorities_file = SettingFile::authorities(files, path);
                (authorities_file, certificate::read(authorities_file)?)
            }
            None => (certificate_file, vec![chain[0].clone()]),
        };
        let subject = own
            .compared_subject()
            .map_err(|reason| certificate_file.unreadable(reason))?;
        let algorithms = provider.signature_verification_algorithms;
        let verifier = PeerVerifier::new(authorities, algorithms);
        let verifier = Arc::new(verifier.map_err(|reason| authorities_file.unreadable(reason))?);
        own_files.check_dates(&own)?;
        check_own(files, chain, &verifier, authorities_file)?;
        let summary = own_files.summary(&own);
        let identity = Arc::new(SingleCertAndKey::from(own_files.identity(&own)?));
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
            valid_until_unix: Some(own.valid_until_unix()),
            names: CredentialNames::Certificates(names),
            acceptance: Acceptance::Authorities,
        })
    }
}

/// Checks this member's own certificate as a peer with the same authorities would.
fn check_own(
    files: &TlsFiles,
    chain: &[CertificateDer<'_>],
    verifier: &PeerVerifier,
    authorities: SettingFile<'_>,
) -> Result<(), TlsError> {
    let names = files.names;
    for usage in USAGES {
        verifier
            .check(&chain[0], &chain[1..], UnixTime::now(), usage)
            .map_err(|error| TlsError::NotAccepted {
                certificate_setting: names.certificate,
                authorities_setting: authorities.setting,
                certificate: files.certificate.clone(),
                authorities: authorities.path.to_owned(),
                reason: why_certificate_is_refused(&error, &names),
            })?;
    }
    Ok(())
}

/// The usages that a member's certificate must allow: it calls, and is called.
const USAGES: [Usage; 2] = [Usage::Client, Usage::Server];
