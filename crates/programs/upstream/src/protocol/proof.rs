//! Proofs of a password, in the two ways that are known here.
//!
//! `mysql_native_password` shows a hash, hidden by another hash of the server's random text.
//! `caching_sha2_password` of MySQL does the same with other hashes; a server that has not seen the
//! password since its start asks for the password itself, which only an encrypted connection gives.

use sha1::{Digest, Sha1};
use sha2::Sha256;

/// The way of MariaDB, and of older accounts of MySQL, as servers name it.
pub(crate) const NATIVE_PASSWORD: &str = "mysql_native_password";
/// The way of MySQL 8.
pub(crate) const CACHING_SHA2_PASSWORD: &str = "caching_sha2_password";
/// Bytes of the random text.
pub(crate) const CHALLENGE_BYTES: usize = 20;

/// The proof of this password for this random text by `mysql_native_password`; empty if there is no
/// password.
pub(crate) fn proof(password: &str, challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new()
        .chain_update(challenge)
        .chain_update(twice)
        .finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// The same by `caching_sha2_password`.
pub(crate) fn caching_proof(password: &str, challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new()
        .chain_update(twice)
        .chain_update(challenge)
        .finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// The password itself, as an encrypted connection shows it.
pub(crate) fn clear(password: &str) -> Vec<u8> {
    [password.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the proof as a server does, which has only the hash of the hash.
    #[test]
    fn proof_convinces_a_server() {
        let stored = Sha1::digest(Sha1::digest("secret"));
        let challenge = [7; CHALLENGE_BYTES];
        let mask = Sha1::new()
            .chain_update(challenge)
            .chain_update(stored)
            .finalize();
        let proof = proof("secret", &challenge);
        let once: Vec<u8> = proof.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha1::digest(once), stored);
        assert_eq!(super::proof("", &challenge), b"");
    }

    #[test]
    fn proof_convinces_mysql() {
        let stored = Sha256::digest(Sha256::digest("secret"));
        let challenge = [7; CHALLENGE_BYTES];
        let mask = Sha256::new()
            .chain_update(stored)
            .chain_update(challenge)
            .finalize();
        let proof = caching_proof("secret", &challenge);
        let once: Vec<u8> = proof.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(once), stored);
        assert_eq!(caching_proof("", &challenge), b"");
        assert_eq!(clear("secret"), b"secret\0");
    }
}
