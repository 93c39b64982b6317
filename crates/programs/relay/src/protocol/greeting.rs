//! The greeting of a connection: the relay shows a random text, the reader its name and a proof.

use synod_binlog::until_zero;
use synod_upstream::{CLIENT_CAPABILITIES, ClientManner};

use crate::accounts::{Challenge, HASH_BYTES};

/// Server version shown to readers; it decides which events they expect. MariaDB puts the first
/// part before its own versions for readers that know only one digit.
pub(crate) const SERVER_VERSION: &str = concat!(
    "5.5.5-10.11.0-MariaDB-synod-relay-",
    env!("CARGO_PKG_VERSION")
);
/// The only way to prove a password.
pub(crate) const NATIVE_PASSWORD: &str = "mysql_native_password";

/// Long passwords and flags, the protocol of 4.1, a schema, transactions, proofs by plugins, proofs
/// with their length, attributes of the connection.
const CAPABILITIES: u32 =
    1 | 2 | 4 | WITH_SCHEMA | 0x200 | 0x2000 | SECURE | PLUGINS | LENGTHS | 0x10_0000;
const WITH_SCHEMA: u32 = 8;
/// The relay can encrypt; from the reader: it wants that.
const ENCRYPTION: u32 = 0x800;
const SECURE: u32 = 0x8000;
const PLUGINS: u32 = 0x8_0000;
const LENGTHS: u32 = 0x20_0000;
/// `utf8mb4_general_ci`.
const CHARACTER_SET: u8 = 45;
const STATUS: [u8; 2] = [2, 0];
/// Bytes of the first part of the random text.
const FIRST_PART: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) encryption: bool,
    /// Statements are passed on to a server.
    pub(crate) sql: bool,
}

pub(crate) fn greeting(connection: u32, challenge: &Challenge, offers: Offers) -> Vec<u8> {
    let (first, second) = challenge.split_at(FIRST_PART);
    let mut capabilities = CAPABILITIES;
    if offers.encryption {
        capabilities |= ENCRYPTION;
    }
    if offers.sql {
        capabilities |= CLIENT_CAPABILITIES;
    }
    let [low, high, higher, highest] = capabilities.to_le_bytes();
    let mut out = vec![10];
    out.extend_from_slice(SERVER_VERSION.as_bytes());
    out.push(0);
    out.extend_from_slice(&connection.to_le_bytes());
    out.extend_from_slice(first);
    out.extend_from_slice(&[0, low, high, CHARACTER_SET]);
    out.extend_from_slice(&STATUS);
    out.extend_from_slice(&[higher, highest, HASH_BYTES as u8 + 1]);
    out.extend_from_slice(&[0; 10]);
    out.extend_from_slice(second);
    out.push(0);
    out.extend_from_slice(NATIVE_PASSWORD.as_bytes());
    out.push(0);
    out
}

/// The payload that asks a reader for a proof of the only kind that is taken.
pub(crate) fn other_proof(challenge: &Challenge) -> Vec<u8> {
    let mut out = vec![0xfe];
    out.extend_from_slice(NATIVE_PASSWORD.as_bytes());
    out.push(0);
    out.extend_from_slice(challenge);
    out.push(0);
    out
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) name: String,
    pub(crate) proof: Vec<u8>,
    /// The kind of proof; empty: the one that the greeting names.
    pub(crate) plugin: String,
    pub(crate) manner: ClientManner,
}

/// Bytes of an answer before the name.
const FIXED: usize = 4 + 4 + 1 + 23;
const CHARACTER_SET_AT: usize = 4 + 4;

/// Whether the reader asks for encryption, before it says who it is.
pub(crate) fn asks_for_encryption(payload: &[u8]) -> bool {
    let capabilities = payload
        .first_chunk()
        .map(|bytes| u32::from_le_bytes(*bytes));
    payload.len() == FIXED && capabilities.is_some_and(|found| found & ENCRYPTION != 0)
}

/// Reads the answer to the greeting; none if it is not one of the protocol of MySQL 4.1 and later.
pub(crate) fn credentials(payload: &[u8]) -> Option<Credentials> {
    let capabilities = u32::from_le_bytes(*payload.first_chunk()?);
    let mut rest = payload.get(FIXED..)?;
    let name = text(&mut rest)?;
    let proof = if capabilities & (LENGTHS | SECURE) != 0 {
        // Proofs of this kind are short, so their length is one byte in both forms.
        let (length, after) = rest.split_first()?;
        let (proof, after) = after.split_at_checked(usize::from(*length))?;
        rest = after;
        proof.to_vec()
    } else {
        until_zero(&mut rest)?.to_vec()
    };
    let schema = match capabilities & WITH_SCHEMA {
        0 => String::new(),
        _ => text(&mut rest)?,
    };
    let plugin = match capabilities & PLUGINS {
        0 => String::new(),
        _ => text(&mut rest).unwrap_or_default(),
    };
    Some(Credentials {
        name,
        proof,
        plugin,
        manner: ClientManner {
            capabilities,
            character_set: *payload.get(CHARACTER_SET_AT)?,
            schema,
        },
    })
}

/// A text with a zero byte at its end.
fn text(rest: &mut &[u8]) -> Option<String> {
    let text = until_zero(rest)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(capabilities: u32, rest: &[u8]) -> Vec<u8> {
        let mut out = capabilities.to_le_bytes().to_vec();
        out.extend_from_slice(&[0; 28]);
        out.extend_from_slice(rest);
        out
    }

    fn offers(encryption: bool) -> Offers {
        let sql = false;
        Offers { encryption, sql }
    }

    #[test]
    fn name_proof_and_kind_are_found() {
        let payload = response(
            SECURE | PLUGINS | WITH_SCHEMA,
            b"repl\0\x03abcdb\0mysql_native_password\0",
        );
        let found = credentials(&payload).unwrap();
        assert_eq!((&*found.name, &*found.proof), ("repl", &b"abc"[..]));
        assert_eq!(
            (&*found.plugin, &*found.manner.schema),
            (NATIVE_PASSWORD, "db")
        );
        let old = credentials(&response(0, b"repl\0abc\0")).unwrap();
        assert_eq!((&*old.proof, &*old.plugin), (&b"abc"[..], ""));
        let no_text = credentials(&response(0, b"repl\0\xff\xfe\0")).unwrap();
        assert_eq!(no_text.proof, b"\xff\xfe", "a proof is bytes");
        assert_eq!(credentials(&response(SECURE, b"repl\0\x09abc")), None);
    }

    #[test]
    fn greeting_has_the_random_text_in_two_parts() {
        let challenge: Challenge = std::array::from_fn(|at| at as u8 + 1);
        let bytes = greeting(3, &challenge, offers(false));
        let begin = 1 + SERVER_VERSION.len() + 1 + 4;
        assert_eq!(bytes[begin..begin + 8], challenge[..8]);
        let second = begin + 8 + 1 + 2 + 1 + 2 + 2 + 1 + 10;
        assert_eq!(bytes[second..second + 12], challenge[8..]);
    }

    #[test]
    fn encryption_is_asked_for_without_a_name() {
        assert!(asks_for_encryption(&response(ENCRYPTION, b"")));
        assert!(!asks_for_encryption(&response(ENCRYPTION, b"repl\0")));
        assert!(!asks_for_encryption(&response(SECURE, b"")));
        assert!(!asks_for_encryption(b""));
        let challenge: Challenge = [7; HASH_BYTES];
        let offers = |encrypts| {
            let bytes = greeting(1, &challenge, self::offers(encrypts));
            let at = 1 + SERVER_VERSION.len() + 1 + 4 + 8 + 1;
            u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])) & ENCRYPTION != 0
        };
        assert!(offers(true) && !offers(false));
    }
}
