//! The key and the certificate of full copies, derived from a group secret.
//!
//! Everything in them is fixed or derived, so members with the same secret write the same files.

use graviola::signing::eddsa::Ed25519SigningKey;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, PKCS_ED25519,
    PublicKeyData, SerialNumber, SignatureAlgorithm, SigningKey, date_time_ymd,
};
use synod_tls::GroupSecret;

use super::SstConfigError;

/// Purpose that the key is derived for; another text makes another key.
const PURPOSE: &str = "key of full copies";

/// The name in the certificate. The server's scripts send it to the donor in a text that ends at a
/// space, so it has none.
const NAME: &str = "synod-sst";

pub(super) struct SstCredentials {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl SstCredentials {
    pub(super) fn derive(secret: &GroupSecret) -> Result<SstCredentials, SstConfigError> {
        let pkcs8 = secret.derive_ed25519(PURPOSE);
        let private = Ed25519SigningKey::from_pkcs8_der(&pkcs8)
            .map_err(|error| SstConfigError::Key(format!("{error:?}")))?;
        let key = DerivedKey {
            public: private.public_key().as_bytes(),
            private,
        };
        let failed = |error: rcgen::Error| SstConfigError::Key(error.to_string());
        let certificate = params()
            .map_err(failed)?
            .self_signed(&key)
            .map_err(failed)?;
        Ok(SstCredentials {
            certificate: certificate.pem(),
            key: pem::encode(&pem::Pem::new("PRIVATE KEY", pkcs8)),
        })
    }
}

/// Parameters of the certificate, which is its own authority: members accept no other one.
fn params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.serial_number = Some(SerialNumber::from(1));
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(params)
}

struct DerivedKey {
    private: Ed25519SigningKey,
    public: [u8; 32],
}

impl PublicKeyData for DerivedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl SigningKey for DerivedKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.private.sign(message).to_vec())
    }
}
