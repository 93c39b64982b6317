//! Reading the private key of this member's certificate, decrypted if need be.
//!
//! Accepted are PKCS #8, PKCS #1 and SEC 1 in PEM; of encrypted ones only PKCS #8 with PBES2. For
//! the others the error text has the command that converts them.

use std::sync::Arc;

use pkcs8::EncryptedPrivateKeyInfo;
use pkcs8::der::pem;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::SigningKey;

use super::certificate::SettingFile;
use super::error::TlsError;
use super::settings::TlsFiles;

/// Reads, and if need be decrypts, the key (PKCS #8, PKCS #1 or SEC 1, in PEM).
pub(super) fn read(
    files: &TlsFiles,
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, TlsError> {
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

/// The first line of the password file.
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
