//! The proof of a password, as `mysql_native_password` has it: that of a hash, hidden by another
//! hash of the server's random text.

use sha1::{Digest, Sha1};

/// The way that is known here, as servers name it.
pub(crate) const NATIVE_PASSWORD: &str = "mysql_native_password";
/// Bytes of the random text.
pub(crate) const CHALLENGE_BYTES: usize = 20;

/// The proof of this password for this random text; empty if there is no password.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server does with the proof: it has the hash of the hash only.
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
}
