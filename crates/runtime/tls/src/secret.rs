//! The group secret: how it is written, and what is derived from it.
//!
//! A secret is 256 random bits, which all members of a group hold. It never travels: members prove
//! to have it by a key pair derived from it ([`super::secret_key`]).
//!
//! A secret is written as one line, `synod-secret-v1-`, 64 hexadecimal digits, `-`, and 8 digits of
//! a checksum, so that a line that was cut or mistyped is named instead of taken for another
//! secret.

use std::fmt;

use hkdf::Hkdf;
use sha2::{Digest, Sha256};

/// Prefix of every secret, whatever its version.
const PREFIX: &str = "synod-secret-";
/// The version that this program writes and reads.
const VERSION: &str = "v1";
/// Length of a secret in bytes.
pub const SECRET_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;

/// Bytes before an Ed25519 key in PKCS #8 (RFC 8410, section 7).
const PKCS8_BEFORE_KEY: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

#[derive(Clone, PartialEq, Eq)]
pub struct GroupSecret([u8; SECRET_BYTES]);

/// Why a line is not a secret. The texts never contain the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretLineError {
    /// Wrong prefix.
    #[error("is not a group secret, which begins with '{PREFIX}{VERSION}-'")]
    NoSecret,
    /// A later program wrote it.
    #[error("is a group secret of an unknown version; this program reads '{PREFIX}{VERSION}-'")]
    Version,
    /// Wrong length, or characters other than hexadecimal digits.
    #[error("is not a whole group secret: it was cut, or changed by an editor")]
    Form,
    /// The checksum is that of another secret.
    #[error("has a wrong checksum: at least one of its characters was changed")]
    Checksum,
}

impl GroupSecret {
    /// The secret of these bytes, which must be random.
    pub fn from_random(bytes: [u8; SECRET_BYTES]) -> GroupSecret {
        GroupSecret(bytes)
    }

    /// Reads a secret as [`GroupSecret::to_line`] writes it.
    ///
    /// # Errors
    /// States what is wrong with the line.
    pub fn parse(line: &str) -> Result<GroupSecret, SecretLineError> {
        let rest = line.strip_prefix(PREFIX).ok_or(SecretLineError::NoSecret)?;
        let (version, rest) = rest.split_once('-').ok_or(SecretLineError::Form)?;
        if version != VERSION {
            return Err(SecretLineError::Version);
        }
        let (secret, checksum) = rest.split_once('-').ok_or(SecretLineError::Form)?;
        let secret = GroupSecret(digits(secret).ok_or(SecretLineError::Form)?);
        let checksum: [u8; CHECKSUM_BYTES] = digits(checksum).ok_or(SecretLineError::Form)?;
        if checksum != secret.checksum() {
            return Err(SecretLineError::Checksum);
        }
        Ok(secret)
    }

    /// The secret as a line of a secret file, without a line end.
    pub fn to_line(&self) -> String {
        let (secret, checksum) = (hex(&self.0), hex(&self.checksum()));
        format!("{PREFIX}{VERSION}-{secret}-{checksum}")
    }

    /// Bytes for one purpose (HKDF-SHA256, RFC 5869). Those of one purpose say nothing about those
    /// of another, nor about the secret.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut derived = [0; 32];
        let expander = Hkdf::<Sha256>::new(Some(b"synod group secret v1"), &self.0);
        // RFC 5869 allows up to 255 blocks of 32 bytes; this is one.
        let expanded = expander.expand(purpose.as_bytes(), &mut derived);
        debug_assert!(expanded.is_ok());
        derived
    }

    /// An Ed25519 key for one purpose, in PKCS #8 (DER).
    pub fn derive_ed25519(&self, purpose: &str) -> Vec<u8> {
        [&PKCS8_BEFORE_KEY[..], &self.derive(purpose)[..]].concat()
    }

    fn checksum(&self) -> [u8; CHECKSUM_BYTES] {
        let mut checksum = [0; CHECKSUM_BYTES];
        checksum.copy_from_slice(&self.derive("checksum")[..CHECKSUM_BYTES]);
        checksum
    }
}

/// Does not show the secret.
impl fmt::Debug for GroupSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupSecret")
    }
}

/// The first 8 digits of a public value's SHA-256, so that people can tell secrets apart.
pub(super) fn short_name(public: &[u8]) -> String {
    hex(&Sha256::digest(public)[..4])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Exactly `N` bytes of hexadecimal digits.
fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    // `from_str_radix` would take a sign.
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_read_as_it_was_written_and_stays_the_same_in_every_version() {
        let secret = GroupSecret::from_random([7; 32]);
        let line = secret.to_line();
        assert_eq!(GroupSecret::parse(&line), Ok(secret.clone()));
        assert_eq!(line.len(), 16 + 64 + 1 + 8);
        // Members of different versions must derive the same.
        assert_eq!(hex(&secret.derive("a purpose")), EXPECTED);
        assert_ne!(secret.derive("a purpose"), secret.derive("another"));
        assert_eq!(format!("{secret:?}"), "GroupSecret");
    }

    /// Calculated by another program: `openssl kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt
    /// hexkey:07..07 -kdfopt salt:'synod group secret v1' -kdfopt info:'a purpose' HKDF`.
    const EXPECTED: &str = "398c7fe39fb78e681f4680d4e23596e4029b7d55ab3d6d0540080b3e9a3537c2";

    #[test]
    fn every_changed_character_is_noticed() {
        let line = GroupSecret::from_random([0xa5; 32]).to_line();
        for at in 0..line.len() {
            let mut changed = line.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(GroupSecret::parse(&changed).is_err(), "{changed}");
            assert!(GroupSecret::parse(&line[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let line = GroupSecret::from_random([1; 32]).to_line();
        let cases = [
            ("hunter2".to_owned(), SecretLineError::NoSecret),
            (line.replace("v1", "v2"), SecretLineError::Version),
            (line[..line.len() - 1].to_owned(), SecretLineError::Form),
            (line.replace("-01", "-+1"), SecretLineError::Form),
            (line.replace("-01", "-11"), SecretLineError::Checksum),
        ];
        for (line, expected) in cases {
            assert_eq!(GroupSecret::parse(&line), Err(expected), "{line}");
        }
    }
}
