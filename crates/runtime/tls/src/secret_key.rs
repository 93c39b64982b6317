//! The key pair that is derived from a group secret, and who is accepted by it.
//!
//! All members with the secret have the same key pair (Ed25519). Both ends of a connection show the
//! public key by itself (RFC 7250) and prove to have the private one; a key that is not derived
//! from a secret in this member's file is refused.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    SignatureScheme,
};

use super::error::TlsError;
use super::secret::{GroupSecret, short_name};
use super::verify::tls13_signatures_only;

/// Purpose of the derived key pair; another text makes another key.
const PURPOSE: &str = "key pair of connections between members";

/// The key pair of a secret.
#[derive(Debug)]
pub(super) struct SecretKey {
    signing: Arc<dyn SigningKey>,
    public: SubjectPublicKeyInfoDer<'static>,
}

impl SecretKey {
    pub(super) fn derive(
        secret: &GroupSecret,
        provider: &CryptoProvider,
    ) -> Result<SecretKey, TlsError> {
        let pkcs8 = PrivatePkcs8KeyDer::from(secret.derive_ed25519(PURPOSE));
        let pkcs8 = PrivateKeyDer::from(pkcs8);
        let loaded = provider.key_provider.load_private_key(pkcs8);
        let signing = loaded.map_err(TlsError::library)?;
        let public = signing
            .public_key()
            .ok_or_else(|| TlsError::Library("a derived key has no public key".to_owned()))?;
        let public = public.into_owned();
        Ok(SecretKey { signing, public })
    }

    pub(super) fn public(&self) -> &SubjectPublicKeyInfoDer<'static> {
        &self.public
    }

    /// Short name by which people tell this secret from others; says nothing about the secret.
    pub(super) fn short_name(&self) -> String {
        short_name(&self.public)
    }

    /// Key and certificate of this member.
    pub(super) fn certified(&self) -> CertifiedKey {
        let public = CertificateDer::from(self.public.to_vec());
        CertifiedKey::new(vec![public], self.signing.clone())
    }
}

/// Accepts the keys of this member's secrets, at either end.
#[derive(Debug)]
pub(super) struct SecretVerifier {
    accepted: Vec<SubjectPublicKeyInfoDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl SecretVerifier {
    pub(super) fn new(keys: &[SecretKey], algorithms: WebPkiSupportedAlgorithms) -> SecretVerifier {
        SecretVerifier {
            accepted: keys.iter().map(|key| key.public().clone()).collect(),
            algorithms,
        }
    }

    /// Whether the key is that of one of the secrets.
    pub(super) fn accepts(&self, public: &[u8]) -> bool {
        self.accepted.iter().any(|key| key.as_ref() == public)
    }

    fn check(&self, public: &CertificateDer<'_>) -> Result<(), Error> {
        if self.accepts(public) {
            return Ok(());
        }
        // The peer receives it as the alert "unknown CA".
        Err(CertificateError::UnknownIssuer.into())
    }

    /// Whether the peer has the private key.
    fn check_possession(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let public = SubjectPublicKeyInfoDer::from(public.as_ref());
        verify_tls13_signature_with_raw_key(message, &public, signed, &self.algorithms)
    }
}

impl ServerCertVerifier for SecretVerifier {
    fn verify_server_cert(
        &self,
        public: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(public)?;
        Ok(ServerCertVerified::assertion())
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }

    tls13_signatures_only!();
}

impl ClientCertVerifier for SecretVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        public: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(public)?;
        Ok(ClientCertVerified::assertion())
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }

    tls13_signatures_only!();
}
