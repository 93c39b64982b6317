//! Reading and writing little-endian fields, and the encoding of a log base. Reading never panics:
//! every method answers `None` at the end of the bytes, or for a number that no log can hold.
//! Lengths are compared with the bytes that are there before memory is taken.

use std::ops::RangeInclusive;
use std::path::Path;

use synod_consensus::{
    Config, ConfigAt, DecodeConfigError, EntryId, GroupId, HardState, LogBase, LogIndex, MemberId,
    Seqno, Term,
};

use crate::LogError;
use crate::format::version::FORMATS;

/// Largest position or count in the log; a larger one is damage. Smaller ones can be added to
/// without a check for overflow.
const COUNTER_MAX: u64 = 1 << 62;

/// Takes fields off the front of a slice; every method answers `None` at the end of it.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn counter(&mut self) -> Option<u64> {
        self.u64().filter(|number| *number <= COUNTER_MAX)
    }

    pub(crate) fn index(&mut self) -> Option<LogIndex> {
        self.counter().map(LogIndex)
    }

    pub(crate) fn seqno(&mut self) -> Option<Seqno> {
        let seqno = self.i64()?;
        (seqno <= COUNTER_MAX as i64).then_some(Seqno(seqno)) // 2^62 fits
    }

    pub(crate) fn group(&mut self) -> Option<GroupId> {
        Some(GroupId(self.array()?))
    }

    pub(crate) fn vote(&mut self) -> Option<HardState> {
        let term = Term(self.u64()?);
        let member = MemberId(self.u64()?);
        Some(HardState::new(
            term,
            (member != MemberId::NONE).then_some(member),
        ))
    }

    /// Position of an entry that the log holds or held.
    pub(crate) fn held_id(&mut self) -> Option<EntryId> {
        let (term, index) = (Term(self.u64()?), self.index()?);
        Some(EntryId { term, index })
    }

    /// Position of an entry that may be above all entries, as the goal of a repair is.
    pub(crate) fn id(&mut self) -> Option<EntryId> {
        let (term, index) = (Term(self.u64()?), LogIndex(self.u64()?));
        Some(EntryId { term, index })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

pub(crate) trait PutFields {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_i64(&mut self, value: i64);
    fn put_vote(&mut self, vote: HardState);
    fn put_id(&mut self, id: EntryId);
}

impl PutFields for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_i64(&mut self, value: i64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_vote(&mut self, vote: HardState) {
        self.put_u64(vote.term.0);
        self.put_u64(vote.voted_for.unwrap_or(MemberId::NONE).0);
    }

    fn put_id(&mut self, id: EntryId) {
        self.put_u64(id.term.0);
        self.put_u64(id.index.0);
    }
}

/// Longest name or address, and most members, that `Config::encode` takes.
const CONFIG_TEXT_BYTES_MAX: usize = 1024;
const CONFIG_MEMBERS_MAX: usize = 1024;

/// `None` if the configuration cannot be encoded.
pub(crate) fn put_base(out: &mut Vec<u8>, base: &LogBase) -> Option<()> {
    let config = &base.config.config;
    let fits = |text: &str| text.len() <= CONFIG_TEXT_BYTES_MAX;
    let members_fit = config
        .members
        .values()
        .all(|m| fits(&m.name) && fits(&m.address) && m.certificate.iter().all(|c| fits(c)));
    if !members_fit || config.members.len() > CONFIG_MEMBERS_MAX {
        return None;
    }
    let config = config.encode();
    out.put_id(base.last);
    out.put_i64(base.seqno.0);
    out.put_u64(base.config.index.0);
    out.put_u32(u32::try_from(config.len()).ok()?);
    out.extend_from_slice(&config);
    Some(())
}

pub(crate) fn take_base(fields: &mut Fields<'_>) -> Result<LogBase, Unreadable> {
    let parts = take_base_parts(fields);
    let (last, seqno, index, config) = parts.ok_or(Unreadable::Fields)?;
    let config = read_config(config)?;
    Ok(LogBase {
        last,
        seqno,
        config: ConfigAt { index, config },
    })
}

fn take_base_parts<'a>(fields: &mut Fields<'a>) -> Option<(EntryId, Seqno, LogIndex, &'a [u8])> {
    let last = EntryId::new(Term(fields.u64()?), fields.index()?);
    let seqno = fields.seqno()?;
    let index = fields.index()?;
    let len = usize::try_from(fields.u32()?).ok()?;
    Some((last, seqno, index, fields.bytes(len)?))
}

pub(crate) fn read_config(bytes: &[u8]) -> Result<Config, Unreadable> {
    Config::decode(bytes).map_err(|error| match error {
        DecodeConfigError::Version { found } => Unreadable::Version(OtherVersion {
            what: "configuration",
            found: u32::from(found),
            known: None,
        }),
        _ => Unreadable::Fields,
    })
}

/// Why bytes with a good checksum cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// No program writes such bytes.
    Fields,
    /// Another program version may read them: they are not damaged.
    Version(OtherVersion),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherVersion {
    pub(crate) what: &'static str,
    pub(crate) found: u32,
    pub(crate) known: Option<RangeInclusive<u32>>,
}

impl OtherVersion {
    pub(crate) fn of_format(found: u32) -> OtherVersion {
        OtherVersion {
            what: "log format",
            found,
            known: Some(FORMATS),
        }
    }

    pub(crate) fn in_file(self, path: &Path) -> LogError {
        LogError::Version {
            path: path.to_owned(),
            what: self.what,
            found: self.found,
            known: self.known,
        }
    }
}
