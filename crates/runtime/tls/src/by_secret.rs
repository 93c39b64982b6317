//! Encryption by a group secret.
//!
//! All members with the secret have the same key pair (Ed25519), which is derived from it. Both
//! ends of a connection show the public key by itself (RFC 7250) and prove to have the private one;
//! a key that is not derived from a secret in this member's file is refused.

use std::sync::Arc;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    SignatureScheme,
};

use super::error::TlsError;
use super::peer_verifier::tls13_signatures_only;
use super::secret::{GroupSecret, SecretFile, short_name};
use super::session::PeerCredential;
use super::settings::CredentialNames;
use super::{Acceptance, Ends, Tls, processor};

/// Purpose of the derived key pair; another text makes another key.
const PURPOSE: &str = "key pair of connections between members";

impl Tls {
    /// Reads the file of secrets, and derives the keys of all of them.
    pub(super) fn of_secrets(file: &SecretFile) -> Result<Tls, TlsError> {
        let provider = Arc::new(processor::provider(file.setting)?);
        let secrets = file.read()?;
        let derived = secrets.iter().map(|s| SecretKey::derive(s, &provider));
        let keys: Vec<SecretKey> = derived.collect::<Result<_, _>>()?;
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Arc::new(SecretVerifier::new(&keys, algorithms));
        let own = Arc::new(keys[0].certified());
        let ends = Ends {
            provider,
            of_server: verifier.clone(),
            of_client: verifier.clone(),
            as_client: Arc::new(AlwaysResolvesClientRawPublicKeys::new(own.clone())),
            as_server: Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)),
        };
        Ok(Tls {
            client: Arc::new(ends.client()?),
            server: Arc::new(ends.server()?),
            summary: summary(file, &keys),
            subject: None,
            valid_until_unix: None,
            names: CredentialNames::Secret { file: file.setting },
            acceptance: Acceptance::Secrets(verifier),
        })
    }
}

/// Names the secrets by what tells nothing about them.
fn summary(file: &SecretFile, keys: &[SecretKey]) -> String {
    let path = file.path.display();
    let own = keys[0].short_name();
    let mut others: Vec<String> = keys[1..].iter().map(SecretKey::short_name).collect();
    others.retain(|other| *other != own);
    let accepted = if others.is_empty() {
        String::new()
    } else {
        format!(
            "; members with secret {} are accepted too",
            others.join(", ")
        )
    };
    format!("group secret {own} of {path}{accepted}")
}

impl Acceptance {
    pub(super) fn accepts(&self, peer: &PeerCredential) -> bool {
        match (self, peer) {
            (Acceptance::Secrets(verifier), PeerCredential::Secret { key }) => {
                verifier.accepts(key)
            }
            (Acceptance::Authorities, PeerCredential::Certificate { .. }) => true,
            (Acceptance::Secrets(_) | Acceptance::Authorities, _) => false,
        }
    }
}

#[derive(Debug)]
struct SecretKey {
    signing: Arc<dyn SigningKey>,
    public: SubjectPublicKeyInfoDer<'static>,
}

impl SecretKey {
    fn derive(secret: &GroupSecret, provider: &CryptoProvider) -> Result<SecretKey, TlsError> {
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

    fn short_name(&self) -> String {
        short_name(&self.public)
    }

    fn certified(&self) -> CertifiedKey {
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
    fn new(keys: &[SecretKey], algorithms: WebPkiSupportedAlgorithms) -> SecretVerifier {
        SecretVerifier {
            accepted: keys.iter().map(|key| key.public.clone()).collect(),
            algorithms,
        }
    }

    fn accepts(&self, public: &[u8]) -> bool {
        self.accepted.iter().any(|key| key.as_ref() == public)
    }

    fn check(&self, public: &CertificateDer<'_>) -> Result<(), Error> {
        if self.accepts(public) {
            return Ok(());
        }
        // The peer receives it as the alert "unknown CA".
        Err(CertificateError::UnknownIssuer.into())
    }

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
