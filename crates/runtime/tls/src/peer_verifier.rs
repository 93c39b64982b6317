//! Whether a peer's certificate is accepted.
//!
//! `webpki` builds and checks the path. Two additions are for certificates that operators of Galera
//! have and `webpki` does not judge. One is listed among the authorities itself. The other is of
//! X.509 version 1; it has no extensions, so only an authority may have signed it, directly.
//!
//! The same rules hold at both ends, and at start for a member's own certificate. Between members,
//! names in a certificate are not compared with anything (decision 006). `refused_peer.rs` has the
//! texts.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage};

use super::certificate::{Certificate, DatesError};

#[derive(Clone, Copy, Debug)]
pub(super) enum Usage {
    Client,
    Server,
}

#[derive(Debug)]
pub(super) struct PeerVerifier {
    authorities: Vec<CertificateDer<'static>>,
    anchors: Vec<TrustAnchor<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// Whether a server's certificate must have the name that the server is reached by.
    checks_name: bool,
}

impl PeerVerifier {
    /// A verifier that accepts what these authorities have signed. Expired authorities are left
    /// out; if all have expired, that is the error.
    pub(super) fn new(
        authorities: Vec<CertificateDer<'static>>,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Result<PeerVerifier, String> {
        let mut verifier = PeerVerifier {
            authorities: Vec::new(),
            anchors: Vec::new(),
            algorithms,
            checks_name: false,
        };
        let mut last_problem = String::new();
        for der in authorities {
            let certificate = Certificate::parse(&der)?;
            if let Err(problem) = certificate.check_dates(UnixTime::now()) {
                last_problem = problem.to_string();
                continue;
            }
            if certificate.may_sign() {
                let anchor = webpki::anchor_from_trusted_cert(&der)
                    .map_err(|error| format!("'{}': {error}", certificate.subject()))?;
                verifier.anchors.push(anchor.to_owned());
            }
            verifier.authorities.push(der);
        }
        if verifier.authorities.is_empty() {
            return Err(last_problem);
        }
        Ok(verifier)
    }

    /// The same, and servers' names are compared with their certificates.
    pub(super) fn with_names(self) -> PeerVerifier {
        PeerVerifier {
            checks_name: true,
            ..self
        }
    }

    /// Checks the certificate `leaf`. The certificates `between` came with it and may lead from it
    /// to an authority.
    pub(super) fn check(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
        usage: Usage,
    ) -> Result<(), Error> {
        let certificate = Certificate::parse(leaf).map_err(|_| CertificateError::BadEncoding)?;
        certificate.check_dates(now).map_err(|error| match error {
            DatesError::Expired(_) => CertificateError::Expired,
            DatesError::NotYet(_) => CertificateError::NotValidYet,
        })?;
        if self.authorities.iter().any(|der| der == leaf) {
            return Ok(());
        }
        if certificate.is_version_1() {
            if self.has_signed(&certificate) {
                return Ok(());
            }
            return Err(CertificateError::UnknownIssuer.into());
        }
        let usage = match usage {
            Usage::Client => KeyUsage::client_auth(),
            Usage::Server => KeyUsage::server_auth(),
        };
        let leaf = EndEntityCert::try_from(leaf).map_err(refusal)?;
        leaf.verify_for_usage(
            self.algorithms.all,
            &self.anchors,
            between,
            now,
            usage,
            None,
            None,
        )
        .map_err(refusal)?;
        Ok(())
    }

    fn has_signed(&self, certificate: &Certificate<'_>) -> bool {
        let authorities = self.authorities.iter();
        authorities
            .filter_map(|der| Certificate::parse(der).ok())
            .any(|authority| {
                authority.may_sign() && certificate.is_signed_by(&authority, &self.algorithms)
            })
    }

    fn check_possession(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = Certificate::parse(leaf).map_err(|_| CertificateError::BadEncoding)?;
        let key = certificate.public_key();
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }
}

fn refusal(error: webpki::Error) -> CertificateError {
    match error {
        webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer,
        webpki::Error::CertExpired { .. } => CertificateError::Expired,
        webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
        webpki::Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        webpki::Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    }
}

/// The methods that both verifier traits of the library have: signatures of TLS 1.3 are checked,
/// those of TLS 1.2 refused.
macro_rules! tls13_signatures_only {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _leaf: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::Tls12NotOffered.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            leaf: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.check_possession(message, leaf, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}
pub(super) use tls13_signatures_only;

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(leaf, between, now, Usage::Server)?;
        if self.checks_name {
            let certificate = EndEntityCert::try_from(leaf);
            let named = certificate.and_then(|it| it.verify_is_valid_for_subject_name(name));
            named.map_err(|_| CertificateError::NotValidForName)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    tls13_signatures_only!();
}

impl ClientCertVerifier for PeerVerifier {
    /// Every member has one certificate, so no hint helps it to choose.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(leaf, between, now, Usage::Client)?;
        Ok(ClientCertVerified::assertion())
    }

    tls13_signatures_only!();
}
