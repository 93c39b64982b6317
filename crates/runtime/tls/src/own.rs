//! The own certificate, its key and the ciphers, from files and settings: what members and services
//! show.

use std::sync::Arc;

use pkcs8::EncryptedPrivateKeyInfo;
use pkcs8::der::pem;
use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls_graviola::suites::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};

use super::certificate::{self, Certificate, SettingFile};
use super::error::TlsError;
use super::processor;
use super::settings::TlsFiles;

/// All suites, in the order of preference that holds if the operator states none.
static SUITES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_128_GCM_SHA256", TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", TLS13_AES_256_GCM_SHA384),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        TLS13_CHACHA20_POLY1305_SHA256,
    ),
];

pub(super) struct OwnFiles<'a> {
    files: &'a TlsFiles,
    /// The certificate, then those between it and an authority; at least one.
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// With the ciphers that the operator allows.
    pub(super) provider: Arc<CryptoProvider>,
}

impl<'a> OwnFiles<'a> {
    pub(super) fn read(files: &'a TlsFiles) -> Result<OwnFiles<'a>, TlsError> {
        let mut provider = processor::provider(files.names.switch)?;
        provider.cipher_suites = select_ciphers(&files.ciphers, files.names.ciphers)?;
        Ok(OwnFiles {
            files,
            chain: certificate::read(SettingFile::certificate(files))?,
            provider: Arc::new(provider),
        })
    }

    pub(super) fn certificate(&self) -> Result<Certificate<'_>, TlsError> {
        let file = SettingFile::certificate(self.files);
        Certificate::parse(&self.chain[0]).map_err(|reason| file.unreadable(reason))
    }

    pub(super) fn check_dates(&self, own: &Certificate<'_>) -> Result<(), TlsError> {
        own.check_dates(UnixTime::now())
            .map_err(|reason| TlsError::Dates {
                setting: self.files.names.certificate,
                path: self.files.certificate.clone(),
                reason,
            })
    }

    pub(super) fn identity(&self, own: &Certificate<'_>) -> Result<CertifiedKey, TlsError> {
        let key = read_key(self.files, &self.provider)?;
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

    pub(super) fn summary(&self, own: &Certificate<'_>) -> String {
        format!(
            "certificate '{}' of {}, valid until {}",
            own.subject(),
            self.files.certificate.display(),
            own.valid_until()
        )
    }
}

/// Reads the key of the certificate, decrypted if need be.
///
/// Accepted are PKCS #8, PKCS #1 and SEC 1 in PEM; of encrypted ones only PKCS #8 with PBES2. For
/// the others the error text has the command that converts them.
fn read_key(files: &TlsFiles, provider: &CryptoProvider) -> Result<Arc<dyn SigningKey>, TlsError> {
    let file = SettingFile::key(files);
    let bad = |reason| file.unreadable(reason);
    let text = file.read()?;
    let key = match encrypted_part(&text) {
        Some(part) => decrypt(part, &password(files, file)?, files.names.password).map_err(bad)?,
        None if has_old_encryption(&text) => {
            return Err(bad("its encryption is of an old kind. \
                 Convert it: openssl pkcs8 -topk8 -in OLD -out NEW"
                .to_owned()));
        }
        None => PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
            bad(
                "there is no private key in it (expected PEM: -----BEGIN PRIVATE KEY-----)"
                    .to_owned(),
            )
        })?,
    };
    let loaded = provider.key_provider.load_private_key(key);
    loaded.map_err(|error| {
        bad(format!(
            "{error}. RSA with 2048 to 8192 bits, ECDSA (P-256, P-384) and Ed25519 are supported"
        ))
    })
}

/// The PEM text from the first encrypted key on, if there is one.
fn encrypted_part(text: &[u8]) -> Option<&[u8]> {
    const BEGIN: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    let at = text.windows(BEGIN.len()).position(|w| w == BEGIN)?;
    Some(&text[at..])
}

/// Whether the key is encrypted in OpenSSL's own format from before PKCS #8 (headers of RFC 1421).
fn has_old_encryption(text: &[u8]) -> bool {
    const MARK: &[u8] = b"Proc-Type: 4,ENCRYPTED";
    text.windows(MARK.len()).any(|w| w == MARK)
}

fn password(files: &TlsFiles, key: SettingFile<'_>) -> Result<Vec<u8>, TlsError> {
    let Some(path) = &files.password else {
        let setting = files.names.password;
        return Err(key.unreadable(format!("it is encrypted; set {setting}")));
    };
    let file = SettingFile {
        setting: files.names.password,
        switch: files.names.switch,
        path,
    };
    let text = file.read()?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(line.strip_suffix(b"\r").unwrap_or(line).to_owned())
}

fn decrypt(text: &[u8], password: &[u8], setting: &str) -> Result<PrivateKeyDer<'static>, String> {
    let (_, der) = pem::decode_vec(text).map_err(|error| format!("it is damaged: {error}"))?;
    let encrypted = EncryptedPrivateKeyInfo::try_from(der.as_slice())
        .map_err(|error| format!("it is damaged: {error}"))?;
    let key = encrypted.decrypt(password).map_err(|_| {
        format!(
            "it cannot be decrypted with the first line of {setting} (or its encryption is not \
             PBES2 with AES: openssl pkcs8 -topk8 -v2 aes-256-cbc makes that)"
        )
    })?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_owned()).into())
}

/// Whether a list of ciphers names a suite of TLS 1.3. The list has OpenSSL's syntax, so an
/// operator's old list may stay. As in OpenSSL, only names that begin with `TLS_` mean such suites;
/// a list without one is about older versions, which members do not speak, and has no effect.
pub fn names_tls13_suite(list: &str) -> bool {
    names(list).any(is_of_tls13)
}

/// The suites that a list names, in its order; all, if it names none of TLS 1.3. An unknown suite
/// of TLS 1.3 is an error, which names the known ones. `setting` is how texts call the list.
fn select_ciphers(
    list: &str,
    setting: &'static str,
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut selected = Vec::new();
    for name in names(list).filter(|name| is_of_tls13(name)) {
        let found = SUITES.iter().find(|(known, _)| *known == name);
        let (_, suite) = found.ok_or_else(|| TlsError::UnknownCipher {
            setting,
            name: name.to_owned(),
            known: SUITES.map(|(known, _)| known).join(", "),
        })?;
        selected.push(*suite);
    }
    if selected.is_empty() {
        selected.extend(SUITES.map(|(_, suite)| suite));
    }
    Ok(selected)
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',', ' ']).filter(|name| !name.is_empty())
}

fn is_of_tls13(name: &str) -> bool {
    name.starts_with("TLS_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(list: &str) -> Vec<String> {
        let suites = select_ciphers(list, "the list").unwrap();
        suites.iter().map(|s| format!("{:?}", s.suite())).collect()
    }

    #[test]
    fn named_suites_are_taken_in_their_order() {
        assert_eq!(
            selected("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"),
            ["TLS13_CHACHA20_POLY1305_SHA256", "TLS13_AES_128_GCM_SHA256"]
        );
    }

    #[test]
    fn lists_for_older_versions_restrict_nothing() {
        for list in ["", "AES128-SHA256", "ECDHE-RSA-AES256-GCM-SHA384:!aNULL"] {
            assert_eq!(selected(list).len(), 3, "{list}");
            assert!(!names_tls13_suite(list), "{list}");
        }
    }

    #[test]
    fn unknown_suite_is_named_with_the_known_ones() {
        let error = select_ciphers("TLS_AES_128_CCM_SHA256", "the list")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("TLS_AES_128_CCM_SHA256") && error.contains("TLS_AES_256_GCM_SHA384"),
            "{error}"
        );
    }
}
