//! Global transaction identifiers, as texts and in the events that carry them.
//!
//! ```text
//! GTID:       sequence u64 | domain u32 | flags u8 | commit_id u64, or six zero bytes
//! GTID list:  count u32 | count times: domain u32 | server_id u32 | sequence u64
//! ```

use std::fmt;
use std::str::FromStr;

use bytes::{Buf, BufMut, TryGetError};

use crate::event::{EventError, EventType, Fields};

/// The transaction is one event, without a commit after it.
pub const STANDALONE: u8 = 1;
const GROUP_COMMIT_ID: u8 = 2;
/// The transaction can be rolled back: a reader may apply it before others are done.
pub const TRANSACTIONAL: u8 = 4;
/// Its server does not keep readers from applying it beside others.
pub const ALLOW_PARALLEL: u8 = 8;
/// The transaction is a change of a schema.
pub const DDL: u8 = 32;
/// Zero bytes where a transaction has no number of a group commit.
const PADDING: [u8; 6] = [0; 6];
const LISTED_BYTES: usize = 16;
/// The four upper bits of a list's count are flags.
const COUNT_MASK: u32 = 0x0fff_ffff;
/// The one that says that the reader has come to where it wanted to stop.
const UNTIL_REACHED: u32 = 1 << 28;

/// In place of the server, if that is not known: no server has this number.
pub const UNKNOWN_SERVER: u32 = 0;

/// Names a transaction, by domain, server and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gtid {
    /// The stream of transactions that the number counts in.
    pub domain: u32,
    /// `server_id` where the transaction began.
    pub server_id: u32,
    /// Its number; rises within a domain.
    pub sequence: u64,
}

impl Gtid {
    pub const fn new(domain: u32, server_id: u32, sequence: u64) -> Gtid {
        Gtid {
            domain,
            server_id,
            sequence,
        }
    }

    /// Whether both may name the same transaction: they do if the servers of both are known.
    pub fn may_be(self, other: Gtid) -> bool {
        let servers = [self.server_id, other.server_id];
        (self.domain, self.sequence) == (other.domain, other.sequence)
            && (servers.contains(&UNKNOWN_SERVER) || self.server_id == other.server_id)
    }

    /// Writes the bytes that it has in a list.
    pub fn put(self, out: &mut impl BufMut) {
        out.put_u32_le(self.domain);
        out.put_u32_le(self.server_id);
        out.put_u64_le(self.sequence);
    }

    /// Reads what [`Gtid::put`] has written.
    pub fn get(bytes: &mut impl Buf) -> Result<Gtid, TryGetError> {
        Ok(Gtid::new(
            bytes.try_get_u32_le()?,
            bytes.try_get_u32_le()?,
            bytes.try_get_u64_le()?,
        ))
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server_id, self.sequence)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GtidTextError {
    #[error("'{0}' is no GTID: it is written domain-server-sequence, such as 1-10-4711")]
    Malformed(String),
    #[error("domain {0} is named twice in the list of GTIDs: name the newest GTID of each domain")]
    Twice(u32),
}

impl FromStr for Gtid {
    type Err = GtidTextError;

    fn from_str(text: &str) -> Result<Gtid, GtidTextError> {
        let malformed = || GtidTextError::Malformed(text.to_owned());
        let parts: Vec<&str> = text.split('-').collect();
        let [domain, server_id, sequence] = parts.as_slice() else {
            return Err(malformed());
        };
        Ok(Gtid::new(
            number(domain).ok_or_else(malformed)?,
            number(server_id).ok_or_else(malformed)?,
            number(sequence).ok_or_else(malformed)?,
        ))
    }
}

/// Digits only: `parse` takes a sign, too.
pub(crate) fn number<T: FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The newest GTID of each domain, as readers state where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GtidList(pub Vec<Gtid>);

impl GtidList {
    pub fn of_domain(&self, domain: u32) -> Option<Gtid> {
        self.0.iter().copied().find(|gtid| gtid.domain == domain)
    }

    pub fn parse(body: &[u8]) -> Result<GtidList, EventError> {
        let mut fields = Fields::of(EventType::GTID_LIST, body);
        let count = (fields.u32()? & COUNT_MASK) as usize;
        if fields.left() != count.saturating_mul(LISTED_BYTES) {
            return Err(fields.malformed("its count of GTIDs does not fit its size"));
        }
        let mut rest = fields.rest();
        let gtids = (0..count).map_while(|_| Gtid::get(&mut rest).ok());
        Ok(GtidList(gtids.collect()))
    }

    pub fn body(&self) -> Vec<u8> {
        self.flagged_body(0)
    }

    /// The body of one that tells a reader that it has come to where it wanted to stop.
    pub(crate) fn until_reached_body(&self) -> Vec<u8> {
        self.flagged_body(UNTIL_REACHED)
    }

    fn flagged_body(&self, flags: u32) -> Vec<u8> {
        let mut out = Vec::new();
        // A list has a line for each domain, of which there are few.
        let count = u32::try_from(self.0.len()).unwrap_or(COUNT_MASK);
        out.put_u32_le(count | flags);
        self.0.iter().for_each(|gtid| gtid.put(&mut out));
        out
    }
}

impl FromStr for GtidList {
    type Err = GtidTextError;

    /// Understands what readers write: GTIDs with commas between them, or nothing.
    fn from_str(text: &str) -> Result<GtidList, GtidTextError> {
        let mut list = GtidList::default();
        if text.trim().is_empty() {
            return Ok(list);
        }
        for part in text.split(',') {
            let gtid: Gtid = part.trim().parse()?;
            if list.of_domain(gtid.domain).is_some() {
                return Err(GtidTextError::Twice(gtid.domain));
            }
            list.0.push(gtid);
        }
        Ok(list)
    }
}

impl fmt::Display for GtidList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, gtid) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{gtid}")?;
        }
        Ok(())
    }
}

/// The event that begins a transaction. Its server is in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtidEvent {
    pub sequence: u64,
    pub domain: u32,
    /// Bits such as [`TRANSACTIONAL`]. The number of a group commit is neither read nor written.
    pub flags: u8,
}

impl GtidEvent {
    pub fn parse(body: &[u8]) -> Result<GtidEvent, EventError> {
        let mut fields = Fields::of(EventType::GTID, body);
        let sequence = fields.u64()?;
        let domain = fields.u32()?;
        let flags = fields.u8()?;
        // The number of a group commit follows, or as many zero bytes as there are at least.
        fields.bytes(PADDING.len())?;
        Ok(GtidEvent {
            sequence,
            domain,
            flags: flags & !GROUP_COMMIT_ID,
        })
    }

    pub fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64_le(self.sequence);
        out.put_u32_le(self.domain);
        out.put_u8(self.flags);
        out.extend_from_slice(&PADDING);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_understood_as_readers_write_them() {
        let list: GtidList = " 0-1-7, 4294967295-2-18446744073709551615".parse().unwrap();
        assert_eq!(list.0.len(), 2);
        assert_eq!(list.to_string(), "0-1-7,4294967295-2-18446744073709551615");
        assert_eq!(list.of_domain(0).unwrap().sequence, 7);
        assert_eq!(list.of_domain(1), None);
        assert_eq!("".parse(), Ok(GtidList::default()));
    }

    #[test]
    fn other_texts_are_refused_with_the_form_to_write() {
        for text in [
            "1-2",
            "1-2-3-4",
            "a-1-2",
            "1-2-",
            "+1-2-3",
            "4294967296-1-1",
            "1-1-1,",
        ] {
            let error = text.parse::<GtidList>().unwrap_err().to_string();
            assert!(error.contains("domain-server-sequence"), "{text}: {error}");
        }
        let twice = "3-1-1,3-2-9".parse::<GtidList>().unwrap_err();
        assert_eq!(twice, GtidTextError::Twice(3));
    }

    /// The example in the documentation of the event.
    #[test]
    fn body_is_as_documented() {
        let event = GtidEvent {
            sequence: 9884,
            domain: 0,
            flags: TRANSACTIONAL | ALLOW_PARALLEL,
        };
        let body = [
            0x9c, 0x26, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(event.body(), body);
        assert_eq!(GtidEvent::parse(&body), Ok(event));
    }
}
