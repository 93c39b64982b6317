//! Accounts of readers: names, with their passwords as `SELECT PASSWORD('...')` hashes them.
//!
//! The proof is that of `mysql_native_password`: the reader shows that it knows the password's hash
//! without sending it, for a random text that only this connection has.
//!
//! An account may be bound to numbers (`server_id`). A reader with the number of another ends that
//! one's dump and moves the place that is held for it, so a replica's number should be no tool's.

use std::collections::{BTreeMap, BTreeSet};

use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;
use synod_upstream::server::PasswordKey;

/// Bytes of a hash, and of the random text.
pub(crate) const HASH_BYTES: usize = 20;

/// A random text, one for each connection.
pub(crate) type Challenge = [u8; HASH_BYTES];
type Hash = [u8; HASH_BYTES];

#[derive(Clone, Default)]
pub struct Accounts {
    hashes: BTreeMap<String, Hash>,
    /// The numbers of readers with an account. A number that is listed is that account's alone.
    server_ids: BTreeMap<String, BTreeSet<u32>>,
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.hashes.keys()).finish()
    }
}

impl Accounts {
    /// Adds an account. Returns whether `hash` is one: a star and 40 hexadecimal digits.
    pub fn add(&mut self, name: &str, hash: &str) -> bool {
        let Some(hash) = parse_hash(hash) else {
            return false;
        };
        self.hashes.insert(name.to_owned(), hash);
        true
    }

    /// Binds an account to these numbers. Returns whether there is such an account.
    pub fn bind(&mut self, name: &str, server_ids: BTreeSet<u32>) -> bool {
        let is_known = self.hashes.contains_key(name);
        if is_known {
            self.server_ids.insert(name.to_owned(), server_ids);
        }
        is_known
    }

    /// Whether a reader with this account may have this number. A tool without a number (zero)
    /// displaces no reader.
    pub(crate) fn may_have_server_id(&self, name: &str, server_id: u32) -> bool {
        let has = |server_ids: &BTreeSet<u32>| server_ids.contains(&server_id);
        match self.server_ids.get(name) {
            _ if server_id == 0 => true,
            Some(own) => has(own),
            None => !self.server_ids.values().any(has),
        }
    }

    /// The key of the password that the answer proves; none if it proves none.
    pub(crate) fn admits(
        &self,
        name: &str,
        challenge: &Challenge,
        answer: &[u8],
    ) -> Option<PasswordKey> {
        // An unknown name takes as long as a wrong password.
        let (hash, is_known) = match self.hashes.get(name) {
            Some(hash) => (hash, true),
            None => (&[0; HASH_BYTES], false),
        };
        proven(hash, challenge, answer).filter(|_| is_known)
    }
}

fn parse_hash(text: &str) -> Option<Hash> {
    let digits = text.strip_prefix('*')?.as_bytes();
    let pairs: Vec<&[u8]> = digits.chunks(2).collect();
    let bytes: Option<Vec<u8>> = pairs
        .into_iter()
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    bytes?.try_into().ok()
}

fn digit(character: u8) -> Option<u8> {
    let value = char::from(character).to_digit(16)?;
    u8::try_from(value).ok()
}

/// The answer is the hash of the password, hidden by a hash of the challenge and of the stored
/// hash, which is the hash of the hash of the password. So it shows the hash of the password.
fn proven(stored: &Hash, challenge: &Challenge, answer: &[u8]) -> Option<PasswordKey> {
    let answer = <&Hash>::try_from(answer).ok()?;
    let mut hidden: Hash = Sha1::new()
        .chain_update(challenge)
        .chain_update(stored)
        .finalize()
        .into();
    for (byte, answered) in hidden.iter_mut().zip(answer) {
        *byte ^= answered;
    }
    let twice: Hash = Sha1::digest(hidden).into();
    bool::from(twice.ct_eq(stored)).then_some(PasswordKey(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result of `SELECT PASSWORD('secret')`.
    const SECRET: &str = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";

    fn answer(password: &str, challenge: &Challenge) -> Vec<u8> {
        let once: Hash = Sha1::digest(password).into();
        let twice: Hash = Sha1::digest(once).into();
        let mask: Hash = Sha1::new()
            .chain_update(challenge)
            .chain_update(twice)
            .finalize()
            .into();
        once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
    }

    #[test]
    fn only_the_password_of_the_account_is_admitted() {
        let mut accounts = Accounts::default();
        assert!(accounts.add("repl", SECRET));
        let challenge = [7; HASH_BYTES];
        let key = accounts.admits("repl", &challenge, &answer("secret", &challenge));
        let once: Hash = Sha1::digest("secret").into();
        assert_eq!(key.map(|key| key.0), Some(once), "it shows the hash");
        let is_refused = |name: &str, challenge: &Challenge, answer: &[u8]| {
            accounts.admits(name, challenge, answer).is_none()
        };
        assert!(is_refused(
            "repl",
            &challenge,
            &answer("Secret", &challenge)
        ));
        assert!(is_refused(
            "repl",
            &[8; HASH_BYTES],
            &answer("secret", &challenge)
        ));
        assert!(is_refused(
            "other",
            &challenge,
            &answer("secret", &challenge)
        ));
        assert!(is_refused("repl", &challenge, b""));
    }

    #[test]
    fn numbers_of_one_account_are_closed_to_others() {
        let mut accounts = Accounts::default();
        for name in ["repl", "cdc", "tool"] {
            assert!(accounts.add(name, SECRET));
        }
        assert!(accounts.may_have_server_id("cdc", 99), "nothing is bound");
        assert!(accounts.bind("repl", [98, 99].into()));
        assert!(!accounts.bind("other", [1].into()));
        for (name, server_id, may) in [
            ("repl", 99, true),
            ("repl", 97, false),
            ("cdc", 99, false),
            ("cdc", 97, true),
            ("tool", 0, true),
            ("repl", 0, true),
        ] {
            assert_eq!(
                accounts.may_have_server_id(name, server_id),
                may,
                "{name} {server_id}"
            );
        }
    }

    #[test]
    fn only_hashes_are_taken() {
        for text in [
            "secret",
            "",
            "*",
            "*14E6",
            &SECRET[1..],
            "*zz",
            &format!("{SECRET}00"),
        ] {
            assert!(!Accounts::default().add("repl", text), "{text}");
        }
    }
}
