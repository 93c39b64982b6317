//! The private key.

use std::sync::Arc;

use pkcs8::EncryptedPrivateKeyInfo;
use pkcs8::der::pem;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::SigningKey;

use super::TlsFiles;
use super::certificate::read_file;
use super::error::TlsError;

const OPTION: &str = "socket.ssl_key";

/// Reads, and if need be decrypts, the key (PKCS #8, PKCS #1 or SEC 1, in PEM).
pub(super) fn read(
    files: &TlsFiles,
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, TlsError> {
    let bad = |reason: String| TlsError::Unreadable {
        option: OPTION,
        path: files.key.clone(),
        reason,
    };
    let text = read_file(OPTION, &files.key)?;
    let key = match encrypted_part(&text) {
        Some(part) => decrypt(part, &password(files)?).map_err(bad)?,
        None if is_encrypted_the_old_way(&text) => {
            return Err(bad(
                "its encryption is of an old kind. Convert it: openssl pkcs8 -topk8 -in OLD -out NEW"
                    .to_owned(),
            ));
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

fn encrypted_part(text: &[u8]) -> Option<&[u8]> {
    const BEGIN: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    let at = text.windows(BEGIN.len()).position(|w| w == BEGIN)?;
    Some(&text[at..])
}

/// By OpenSSL's own format from before PKCS #8 (RFC 1421's headers).
fn is_encrypted_the_old_way(text: &[u8]) -> bool {
    const MARK: &[u8] = b"Proc-Type: 4,ENCRYPTED";
    text.windows(MARK.len()).any(|w| w == MARK)
}

fn password(files: &TlsFiles) -> Result<Vec<u8>, TlsError> {
    let Some(path) = &files.password else {
        return Err(TlsError::Unreadable {
            option: OPTION,
            path: files.key.clone(),
            reason: "it is encrypted; set socket.ssl_password_file".to_owned(),
        });
    };
    let text = read_file("socket.ssl_password_file", path)?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(line.strip_suffix(b"\r").unwrap_or(line).to_owned())
}

fn decrypt(text: &[u8], password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let (_, der) = pem::decode_vec(text).map_err(|error| format!("it is damaged: {error}"))?;
    let encrypted = EncryptedPrivateKeyInfo::try_from(der.as_slice())
        .map_err(|error| format!("it is damaged: {error}"))?;
    let key = encrypted.decrypt(password).map_err(|_| {
        "it cannot be decrypted with the first line of socket.ssl_password_file (or its encryption \
         is not PBES2 with AES: openssl pkcs8 -topk8 -v2 aes-256-cbc makes that)"
            .to_owned()
    })?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_owned()).into())
}
