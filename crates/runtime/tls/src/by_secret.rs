//! Encryption by a group secret: reads the file and makes what connections need.

use std::sync::Arc;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::server::AlwaysResolvesServerRawPublicKeys;

use super::error::TlsError;
use super::peer::PeerCredential;
use super::processor;
use super::secret_file::SecretFile;
use super::secret_key::{SecretKey, SecretVerifier};
use super::settings::CredentialNames;
use super::{Acceptance, Ends, Tls};

impl Tls {
    /// Reads the file of secrets, and derives the keys of all of them.
    ///
    /// # Errors
    /// With the file, the line and the remedy.
    pub(super) fn of_secrets(file: &SecretFile) -> Result<Tls, TlsError> {
        processor::check(file.setting)?;
        let provider = Arc::new(rustls_graviola::default_provider());
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
    /// See [`Tls::accepts`].
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
