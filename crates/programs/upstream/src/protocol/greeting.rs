//! The beginning of a connection: the server says what it is and shows a random text, the client
//! says its name and proves its password.

use synod_binlog::until_zero;

use super::proof::{CHALLENGE_BYTES, NATIVE_PASSWORD};

/// Long passwords and flags, the protocol of 4.1, transactions, proofs by plugins.
const CAPABILITIES: u32 = 1 | 4 | 0x200 | 0x2000 | SECURE | PLUGINS;
const ENCRYPTION: u32 = 0x800;
const SECURE: u32 = 0x8000;
const PLUGINS: u32 = 0x8_0000;
/// `utf8mb4_general_ci`.
const CHARACTER_SET: u8 = 45;
/// Largest packet of the server that is taken: what one event may have is checked apart.
const PACKET_MAX: u32 = 1 << 30;
/// Bytes of the first part of the random text.
const FIRST_PART: usize = 8;

/// A server's greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) version: String,
    pub(crate) challenge: Vec<u8>,
    pub(crate) encrypts: bool,
}

/// Vendor of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    MariaDb,
    /// MySQL 8.0 or later.
    Mysql,
    /// One that is not known here.
    Other,
}

impl Greeting {
    /// Reads the payload; none if it is not of the protocol of MySQL 4.1 and later.
    pub(crate) fn parse(payload: &[u8]) -> Option<Greeting> {
        let (10, rest) = payload.split_first()? else {
            return None;
        };
        let mut rest = rest;
        let version = until_zero(&mut rest)?;
        let version = String::from_utf8_lossy(version).into_owned();
        take(&mut rest, 4)?;
        let mut challenge = take(&mut rest, FIRST_PART)?.to_vec();
        take(&mut rest, 1)?;
        let low = number(take(&mut rest, 2)?);
        take(&mut rest, 3)?;
        let high = number(take(&mut rest, 2)?);
        let capabilities = high << 16 | low;
        if capabilities & SECURE == 0 {
            return None;
        }
        take(&mut rest, 1 + 10)?;
        challenge.extend_from_slice(take(&mut rest, CHALLENGE_BYTES - FIRST_PART)?);
        Some(Greeting {
            version,
            challenge,
            encrypts: capabilities & ENCRYPTION != 0,
        })
    }

    /// Vendor of the server.
    pub(crate) fn kind(&self) -> ServerKind {
        if self.version.to_lowercase().contains("mariadb") {
            return ServerKind::MariaDb;
        }
        let major = self.version.split('.').next().unwrap_or_default();
        match major.parse::<u32>() {
            Ok(8..) => ServerKind::Mysql,
            Ok(_) | Err(_) => ServerKind::Other,
        }
    }
}

/// The payload that asks for encryption.
pub(crate) fn encryption_request() -> Vec<u8> {
    beginning(CAPABILITIES | ENCRYPTION)
}

/// The payload that says who connects.
pub(crate) fn response(user: &str, proof: &[u8], is_encrypted: bool) -> Vec<u8> {
    let mut out = beginning(match is_encrypted {
        true => CAPABILITIES | ENCRYPTION,
        false => CAPABILITIES,
    });
    out.extend_from_slice(user.as_bytes());
    out.push(0);
    // A proof is empty, or a hash.
    out.push(proof.len() as u8);
    out.extend_from_slice(proof);
    out.extend_from_slice(NATIVE_PASSWORD.as_bytes());
    out.push(0);
    out
}

fn beginning(capabilities: u32) -> Vec<u8> {
    let mut out = capabilities.to_le_bytes().to_vec();
    out.extend_from_slice(&PACKET_MAX.to_le_bytes());
    out.push(CHARACTER_SET);
    out.extend_from_slice(&[0; 23]);
    out
}

/// A server that wants another proof: of which kind, and for which random text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherProof {
    pub(crate) plugin: String,
    pub(crate) challenge: Vec<u8>,
}

impl OtherProof {
    /// Reads the payload after its first byte.
    pub(crate) fn parse(payload: &[u8]) -> OtherProof {
        let mut rest = payload;
        // Servers before 4.1 name none.
        let plugin = until_zero(&mut rest).unwrap_or(b"mysql_old_password");
        let challenge = rest.strip_suffix(&[0]).unwrap_or(rest);
        OtherProof {
            plugin: String::from_utf8_lossy(plugin).into_owned(),
            challenge: challenge.to_vec(),
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn number(bytes: &[u8]) -> u32 {
    let digits = bytes.iter().rev();
    digits.fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn payload(version: &str, capabilities: u32) -> Vec<u8> {
        let [a, b, c, d] = capabilities.to_le_bytes();
        let mut out = vec![10];
        out.extend_from_slice(version.as_bytes());
        out.extend_from_slice(&[0, 9, 0, 0, 0]);
        out.extend_from_slice(b"12345678");
        out.extend_from_slice(&[0, a, b, 45, 2, 0, c, d, 21]);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
        out
    }

    #[test]
    fn greeting_says_what_the_server_is() {
        let bytes = payload("5.5.5-10.11.6-MariaDB-log", CAPABILITIES | ENCRYPTION);
        let greeting = Greeting::parse(&bytes).unwrap();
        assert!(greeting.kind() == ServerKind::MariaDb && greeting.encrypts);
        assert_eq!(greeting.challenge, b"12345678abcdefghijkl");
        let mysql = Greeting::parse(&payload("8.0.36", CAPABILITIES)).unwrap();
        assert!(mysql.kind() == ServerKind::Mysql && !mysql.encrypts);
        for version in ["5.7.44-log", "proxy"] {
            let other = Greeting::parse(&payload(version, CAPABILITIES)).unwrap();
            assert_eq!(other.kind(), ServerKind::Other);
        }
        assert_eq!(Greeting::parse(&payload("4.0", 1)), None);
        assert_eq!(Greeting::parse(&bytes[..60]), None);
        assert_eq!(Greeting::parse(b"\x09x"), None);
    }

    #[test]
    fn wish_for_another_proof_names_it() {
        let wish = OtherProof::parse(b"client_ed25519\0text\0");
        assert_eq!(
            (&*wish.plugin, &*wish.challenge),
            ("client_ed25519", &b"text"[..])
        );
        assert_eq!(OtherProof::parse(b"").plugin, "mysql_old_password");
    }

    #[test]
    fn response_has_name_and_proof() {
        let bytes = response("repl", b"proof", false);
        assert_eq!(&bytes[32..], b"repl\0\x05proofmysql_native_password\0");
        assert_eq!(encryption_request().len(), 32);
    }

    proptest! {
        #[test]
        fn made_up_greetings_never_panic(
            input in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            let _ = Greeting::parse(&input);
            let _ = OtherProof::parse(&input);
        }
    }
}
