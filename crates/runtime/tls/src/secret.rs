//! The group secret: how it is written, the file that has it, and what is derived from it.
//!
//! A secret is 256 random bits, which all members of a group hold. It never travels: members prove
//! to have it by a key pair derived from it ([`super::by_secret`]).
//!
//! A secret is written as one line, `synod-secret-v1-`, 64 hexadecimal digits, `-`, and 8 digits of
//! a checksum, so that a line that was cut or mistyped is named instead of taken for another
//! secret.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use hkdf::Hkdf;
use sha2::{Digest, Sha256};

const PREFIX: &str = "synod-secret-";
/// The version that this program writes and reads.
const VERSION: &str = "v1";
pub const SECRET_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;

/// Bytes before an Ed25519 key in PKCS #8 (RFC 8410, section 7).
const PKCS8_BEFORE_KEY: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// More is no file of secrets.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Permission bits of owner, group and others.
const PERMISSIONS: u32 = 0o7777;
/// Permission bits of users who are neither the owner nor of the file's group.
const OTHERS: u32 = 0o007;

#[derive(Clone, PartialEq, Eq)]
pub struct GroupSecret([u8; SECRET_BYTES]);

/// Why a line is not a secret. The texts never contain the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretLineError {
    #[error("is not a group secret, which begins with '{PREFIX}{VERSION}-'")]
    NoSecret,
    #[error("is a group secret of an unknown version; this program reads '{PREFIX}{VERSION}-'")]
    Version,
    /// Wrong length, or characters other than hexadecimal digits.
    #[error("is not a whole group secret: it was cut, or changed by an editor")]
    Form,
    #[error("has a wrong checksum: at least one of its characters was changed")]
    Checksum,
}

impl GroupSecret {
    /// The secret of these bytes, which must be random.
    pub fn from_random(bytes: [u8; SECRET_BYTES]) -> GroupSecret {
        GroupSecret(bytes)
    }

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

/// The file with the secrets of the group, one a line; empty lines and lines that begin with `#`
/// are skipped. The first secret is the one that this member proves to have; a peer may have any of
/// them. So secrets are replaced without a stop (`docs/operating/tls.md`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    pub path: PathBuf,
    pub setting: &'static str,
}

/// Why a file of secrets cannot be used. The text is a line for the log.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    #[error(
        "cannot read the group secret in {path} ({setting}): {source}. The file must be readable \
         for the user that the server runs as. One member's file is made by 'synod keygen > \
         {path}', and copied to the others",
        path = file.path.display(), setting = file.setting
    )]
    Read { file: SecretFile, source: io::Error },
    #[error(
        "the group secret in {path} ({setting}) is open to every user of this machine (mode \
         {mode:o}). Close it: chmod 600 {path}. If other users may have read it, replace it",
        path = file.path.display(), setting = file.setting
    )]
    Open { file: SecretFile, mode: u32 },
    #[error(
        "line {line} of {path} ({setting}) {reason}. Copy the file from a member that runs, or, \
         for a new group, make one by 'synod keygen > {path}'",
        path = file.path.display(), setting = file.setting
    )]
    Line {
        file: SecretFile,
        line: usize,
        reason: SecretLineError,
    },
    #[error(
        "there is no group secret in {path} ({setting}). Copy the file from a member that runs, \
         or, for a new group, make one by 'synod keygen > {path}'",
        path = file.path.display(), setting = file.setting
    )]
    Empty { file: SecretFile },
}

impl SecretFile {
    /// All secrets of the file, in its order; at least one.
    pub fn read(&self) -> Result<Vec<GroupSecret>, SecretFileError> {
        let text = self.text()?;
        let mut secrets = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let secret = GroupSecret::parse(line).map_err(|reason| SecretFileError::Line {
                file: self.clone(),
                line: at + 1,
                reason,
            })?;
            secrets.push(secret);
        }
        if secrets.is_empty() {
            let file = self.clone();
            return Err(SecretFileError::Empty { file });
        }
        Ok(secrets)
    }

    fn text(&self) -> Result<String, SecretFileError> {
        let failed = |source| SecretFileError::Read {
            file: self.clone(),
            source,
        };
        let file = File::open(&self.path).map_err(failed)?;
        let known = file.metadata().map_err(failed)?;
        if let Some(mode) = mode_open_to_all(&known) {
            let file = self.clone();
            return Err(SecretFileError::Open { file, mode });
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        // A line that is not text is no secret, and is named as such.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The mode of a file that every user of the machine may read or change; none: it is closed.
pub fn mode_open_to_all(file: &Metadata) -> Option<u32> {
    let mode = file.permissions().mode() & PERMISSIONS;
    (mode & OTHERS != 0).then_some(mode)
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
