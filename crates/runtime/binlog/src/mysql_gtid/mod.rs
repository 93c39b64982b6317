//! Global transaction identifiers of MySQL: a source of numbers, and a number.
//!
//! ```text
//! source: uuid 16 bytes | tag_bytes u8 | tag
//! ```
//! Names are those of MySQL. A source is a server, or a tag there (MySQL 8.3 and later).

mod event;
mod set;

use std::fmt;
use std::str::FromStr;

use bytes::{Buf, BufMut};

pub use event::{MYSQL_GTID, TAGGED_GTID, parse_mysql_gtid};
pub use set::MysqlGtidSet;

const UUID_BYTES: usize = 16;
const TAG_BYTES_MAX: usize = 32;
/// Places of the hyphens in a UUID's text, in characters.
const HYPHENS_AT: [usize; 4] = [8, 13, 18, 23];
const UUID_CHARACTERS: usize = 36;
/// The greatest number of a transaction: MySQL counts with a sign, and needs the one after it.
const NUMBER_MAX: u64 = i64::MAX as u64 - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; UUID_BYTES]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(number, 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The tag of a GTID, by which a server counts some transactions apart; empty: it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Zeros follow the tag.
    bytes: [u8; TAG_BYTES_MAX],
}

impl Tag {
    /// The tag with this text; none: no tag can have it.
    pub fn of(text: &[u8]) -> Option<Tag> {
        let begins = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
        let continues = |byte: &u8| begins(byte) || byte.is_ascii_digit();
        let is_one = text.first().is_none_or(begins) && text.iter().all(continues);
        let mut bytes = [0; TAG_BYTES_MAX];
        let place = bytes.get_mut(..text.len()).filter(|_| is_one)?;
        place.copy_from_slice(&text.to_ascii_lowercase());
        Some(Tag { bytes })
    }

    pub fn is_empty(self) -> bool {
        self == Tag::default()
    }

    pub fn text(&self) -> &[u8] {
        let end = self.bytes.iter().position(|byte| *byte == 0);
        let text = self.bytes.get(..end.unwrap_or(TAG_BYTES_MAX));
        text.unwrap_or_default()
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.text()))
    }
}

/// Names a transaction of MySQL: where it began, and which one it was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MysqlGtid {
    pub uuid: Uuid,
    /// The tag that it was counted by there.
    pub tag: Tag,
    /// Its number there, from 1 on.
    pub number: u64,
}

impl MysqlGtid {
    fn source(&self) -> Source {
        (self.uuid, self.tag)
    }

    /// Writes its bytes in this crate's own form.
    pub fn put(&self, out: &mut impl BufMut) {
        put_source(self.source(), out);
        out.put_u64_le(self.number);
    }

    /// Reads what [`MysqlGtid::put`] has written; none: the bytes are none.
    pub fn get(bytes: &mut impl Buf) -> Option<MysqlGtid> {
        let (uuid, tag) = get_source(bytes)?;
        let number = bytes.try_get_u64_le().ok()?;
        Some(MysqlGtid { uuid, tag, number })
    }
}

impl fmt::Display for MysqlGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.tag.is_empty() { "" } else { ":" };
        write!(f, "{}{colon}{}:{}", self.uuid, self.tag, self.number)
    }
}

/// Source of numbers: a server, or a tag there.
type Source = (Uuid, Tag);

fn put_source((uuid, tag): Source, out: &mut impl BufMut) {
    out.put_slice(&uuid.0);
    out.put_u8(tag.text().len() as u8);
    out.put_slice(tag.text());
}

fn get_source(bytes: &mut impl Buf) -> Option<Source> {
    let mut uuid = Uuid([0; UUID_BYTES]);
    bytes.try_copy_to_slice(&mut uuid.0).ok()?;
    let mut tag = [0; TAG_BYTES_MAX];
    let tag = tag.get_mut(..usize::from(bytes.try_get_u8().ok()?))?;
    bytes.try_copy_to_slice(tag).ok()?;
    Some((uuid, Tag::of(tag)?))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MysqlGtidError {
    #[error(
        "'{0}' is no set of MySQL's GTIDs: it is written uuid:first-last, such as \
         3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
    )]
    Malformed(String),
}

impl FromStr for Uuid {
    type Err = MysqlGtidError;

    fn from_str(text: &str) -> Result<Uuid, MysqlGtidError> {
        let malformed = || MysqlGtidError::Malformed(text.to_owned());
        let bytes = text.as_bytes();
        let is_hyphen = |at: &usize| bytes.get(*at) == Some(&b'-');
        if bytes.len() != UUID_CHARACTERS || !HYPHENS_AT.iter().all(is_hyphen) {
            return Err(malformed());
        }
        let mut digits = text.chars().filter(|character| *character != '-');
        let mut uuid = [0; UUID_BYTES];
        for byte in &mut uuid {
            for _ in 0..2 {
                let digit = digits.next().and_then(|digit| digit.to_digit(16));
                // Two digits of four bits.
                *byte = *byte << 4 | digit.ok_or_else(malformed)? as u8;
            }
        }
        match digits.next() {
            None => Ok(Uuid(uuid)),
            Some(_) => Err(malformed()),
        }
    }
}
