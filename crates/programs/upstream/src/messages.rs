//! Messages of the client protocol of MariaDB and MySQL, as a client that asks little sends and
//! reads them.
//!
//! A server says what it is and shows a random text; the client says its name and proves its
//! password. `mysql_native_password` shows a hash, hidden by another hash of the random text.
//! `caching_sha2_password` of MySQL does the same with other hashes; a server that has not seen the
//! password since its start asks for the password itself, which only an encrypted connection gives.
//! Then commands are answered: done, an error in words, rows of texts.

use sha1::{Digest, Sha1};
use sha2::Sha256;
use synod_binlog::{MysqlGtidSet, until_zero};

use crate::position::FilePosition;

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) version: String,
    pub(crate) challenge: Vec<u8>,
    pub(crate) encrypts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    MariaDb,
    /// MySQL 8.0 or later.
    Mysql,
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

pub(crate) fn encryption_request() -> Vec<u8> {
    beginning(CAPABILITIES | ENCRYPTION, CHARACTER_SET)
}

/// Wishes of a client besides those that all of ours have, and how its texts are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientManner {
    pub capabilities: u32,
    pub character_set: u8,
    /// The schema that it begins in; empty: none.
    pub schema: String,
}

/// A connection begins in a schema.
const WITH_SCHEMA: u32 = 8;
/// More than ours that a client may have: counts of found rows, spaces behind names of functions, a
/// person who types, several results of one statement.
pub const CLIENT_CAPABILITIES: u32 = 2 | 0x100 | 0x400 | 0x2_0000 | 0x4_0000;

/// The payload that says for whom a client connects.
pub(crate) fn client_response(
    user: &str,
    proof: &[u8],
    is_encrypted: bool,
    manner: &ClientManner,
) -> Vec<u8> {
    let mut capabilities = CAPABILITIES | (manner.capabilities & CLIENT_CAPABILITIES);
    if is_encrypted {
        capabilities |= ENCRYPTION;
    }
    if !manner.schema.is_empty() {
        capabilities |= WITH_SCHEMA;
    }
    let mut out = beginning(capabilities, manner.character_set);
    out.extend_from_slice(user.as_bytes());
    // A proof is empty, or a hash.
    out.extend_from_slice(&[0, proof.len() as u8]);
    out.extend_from_slice(proof);
    for text in [&*manner.schema, NATIVE_PASSWORD] {
        if !text.is_empty() {
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        }
    }
    out
}

/// The payload that says who connects.
pub(crate) fn response(user: &str, proof: &[u8], is_encrypted: bool) -> Vec<u8> {
    let manner = ClientManner {
        character_set: CHARACTER_SET,
        ..ClientManner::default()
    };
    client_response(user, proof, is_encrypted, &manner)
}

fn beginning(capabilities: u32, character_set: u8) -> Vec<u8> {
    let mut out = capabilities.to_le_bytes().to_vec();
    out.extend_from_slice(&PACKET_MAX.to_le_bytes());
    out.push(character_set);
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

/// The way of MariaDB, and of older accounts of MySQL, as servers name it.
pub(crate) const NATIVE_PASSWORD: &str = "mysql_native_password";
/// The way of MySQL 8.
pub(crate) const CACHING_SHA2_PASSWORD: &str = "caching_sha2_password";
const CHALLENGE_BYTES: usize = 20;

/// The proof of this password for this random text by `mysql_native_password`; empty if there is no
/// password.
pub(crate) fn native_proof(password: &str, challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    native_proof_by_key(&Sha1::digest(password).into(), challenge)
}

/// The same from the hash of the password.
pub(crate) fn native_proof_by_key(once: &[u8; 20], challenge: &[u8]) -> Vec<u8> {
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
pub(crate) fn clear_password(password: &str) -> Vec<u8> {
    [password.as_bytes(), &[0]].concat()
}

pub(crate) const ROWS_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerError {
    pub(crate) code: u16,
    pub(crate) text: String,
}

/// The values of a row; none: NULL.
pub(crate) type Row = Vec<Option<String>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Failed(ServerError),
    /// So many columns follow, then rows.
    Columns(u64),
    Unknown,
}

impl Answer {
    pub(crate) fn parse(payload: &[u8]) -> Answer {
        match payload.split_first() {
            Some((0, _)) => Answer::Done,
            Some((0xff, rest)) => Answer::Failed(ServerError::parse(rest)),
            Some((0xfb, _)) | None => Answer::Unknown,
            Some(_) => match length(&mut &*payload) {
                Some(columns) => Answer::Columns(columns),
                None => Answer::Unknown,
            },
        }
    }
}

impl ServerError {
    /// Reads the payload after its first byte.
    pub(crate) fn parse(payload: &[u8]) -> ServerError {
        let Some((code, text)) = payload.split_first_chunk() else {
            return ServerError {
                code: 0,
                text: "no text".to_owned(),
            };
        };
        // A mark and five characters of a state come before the text, after the handshake.
        let text = match text.split_first() {
            Some((b'#', rest)) => rest.get(5..).unwrap_or_default(),
            Some(_) | None => text,
        };
        ServerError {
            code: u16::from_le_bytes(*code),
            text: String::from_utf8_lossy(text).into_owned(),
        }
    }
}

/// Whether the payload ends a list of columns or rows, or a dump.
pub(crate) fn is_end(payload: &[u8]) -> bool {
    payload.first() == Some(&0xfe) && payload.len() < 9
}

pub(crate) fn row(payload: &[u8]) -> Option<Row> {
    let mut rest = payload;
    let mut row = Row::new();
    while let Some((first, after)) = rest.split_first() {
        if *first == 0xfb {
            rest = after;
            row.push(None);
            continue;
        }
        let bytes = usize::try_from(length(&mut rest)?).ok()?;
        let (text, after) = rest.split_at_checked(bytes)?;
        rest = after;
        row.push(Some(String::from_utf8_lossy(text).into_owned()));
    }
    Some(row)
}

/// A number in as many bytes as it takes, with what says how many.
fn length(rest: &mut &[u8]) -> Option<u64> {
    let (first, after) = rest.split_first()?;
    let bytes = match first {
        0..=250 => {
            *rest = after;
            return Some(u64::from(*first));
        }
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let (number, after) = after.split_at_checked(bytes)?;
    *rest = after;
    let digits = number.iter().rev();
    Some(digits.fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

const QUERY: u8 = 3;
const BINLOG_DUMP: u8 = 0x12;
const REGISTER_SLAVE: u8 = 0x15;
const BINLOG_DUMP_GTID: u8 = 0x1e;
/// The dump of MySQL begins after a set of GTIDs.
const THROUGH_GTID: u16 = 4;
/// The dump has the texts of statements before their rows: `BINLOG_SEND_ANNOTATE_ROWS_EVENT`.
const WITH_ANNOTATIONS: u16 = 2;
/// First byte of an acknowledgement, and of an event that can be acknowledged.
pub(crate) const SEMI_SYNC_MARK: u8 = 0xef;
const FIRST_POSITION: u32 = 4;
/// Name shown by the upstream (`SHOW SLAVE HOSTS`).
const NAME: &str = "synod-relay";

pub(crate) fn query_command(statement: &str) -> Vec<u8> {
    [&[QUERY], statement.as_bytes()].concat()
}

/// A reader makes itself known.
pub(crate) fn register_command(server_id: u32) -> Vec<u8> {
    let mut out = vec![REGISTER_SLAVE];
    out.extend_from_slice(&server_id.to_le_bytes());
    out.push(NAME.len() as u8);
    out.extend_from_slice(NAME.as_bytes());
    // Neither account nor password nor port of this reader; rank and upstream mean nothing.
    out.extend_from_slice(&[0; 2 + 2 + 4 + 4]);
    out
}

/// The wish for a dump, after the GTIDs that were set before.
pub(crate) fn dump_command(server_id: u32) -> Vec<u8> {
    let mut out = vec![BINLOG_DUMP];
    out.extend_from_slice(&FIRST_POSITION.to_le_bytes());
    out.extend_from_slice(&WITH_ANNOTATIONS.to_le_bytes());
    out.extend_from_slice(&server_id.to_le_bytes());
    out
}

/// The wish for a dump of MySQL's transactions that are not in this set.
pub(crate) fn dump_gtid_command(server_id: u32, has: &MysqlGtidSet) -> Vec<u8> {
    let mut out = vec![BINLOG_DUMP_GTID];
    out.extend_from_slice(&THROUGH_GTID.to_le_bytes());
    out.extend_from_slice(&server_id.to_le_bytes());
    // No name of a file.
    out.extend_from_slice(&0_u32.to_le_bytes());
    out.extend_from_slice(&u64::from(FIRST_POSITION).to_le_bytes());
    let set = has.bytes_for_dump();
    // Sets are refused long before they are so large.
    out.extend_from_slice(&(set.len() as u32).to_le_bytes());
    out.extend_from_slice(&set);
    out
}

/// Everything up to this place is safe here.
pub(crate) fn acknowledgement(end: &FilePosition) -> Vec<u8> {
    let mut out = vec![SEMI_SYNC_MARK];
    out.extend_from_slice(&end.offset.to_le_bytes());
    out.extend_from_slice(end.file.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    /// Checks the proof as a server does, which has only the hash of the hash.
    #[test]
    fn proof_convinces_a_server() {
        let stored = Sha1::digest(Sha1::digest("secret"));
        let challenge = [7; CHALLENGE_BYTES];
        let mask = Sha1::new()
            .chain_update(challenge)
            .chain_update(stored)
            .finalize();
        let proof = native_proof("secret", &challenge);
        let once: Vec<u8> = proof.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha1::digest(once), stored);
        assert_eq!(native_proof("", &challenge), b"");
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
        assert_eq!(clear_password("secret"), b"secret\0");
    }

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(Answer::parse(&[0, 0, 0, 2, 0, 0, 0]), Answer::Done);
        assert_eq!(Answer::parse(&[2]), Answer::Columns(2));
        assert_eq!(Answer::parse(b"\xfbfile"), Answer::Unknown);
        let failed = Answer::parse(b"\xff\xd4\x04#HY000gone");
        let error = ServerError {
            code: 1236,
            text: "gone".to_owned(),
        };
        assert_eq!(failed, Answer::Failed(error));
        assert!(is_end(&[0xfe, 0, 0, 2, 0]) && !is_end(&[0xfe; 9]) && !is_end(&[]));
    }

    #[test]
    fn rows_are_read() {
        let found = row(b"\x02ab\xfb\xfc\x01\x00c").unwrap();
        assert_eq!(found, [Some("ab".to_owned()), None, Some("c".to_owned())]);
        assert_eq!(row(b"\x05ab"), None);
        assert_eq!(row(b"\xff"), None);
    }

    proptest! {
        #[test]
        fn made_up_rows_are_no_larger_than_their_bytes(
            input in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let _ = Answer::parse(&input);
            let bytes = row(&input).unwrap_or_default().len();
            prop_assert!(bytes <= input.len());
        }
    }
}
