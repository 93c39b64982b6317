//! Global transaction identifiers of MySQL, sets of them, and the events that carry one.
//!
//! ```text
//! text:   uuid:1-5:7:tag:1-2,uuid:3
//! bytes:  sources u16 | sources times: source | runs u16 | runs times: first u64 | last u64
//! source: uuid 16 bytes | tag_bytes u8 | tag
//!
//! event without a tag:  flags u8 | uuid 16 bytes | number i64 | ...
//! event with a tag:     1 | bytes | fields | id, value | id, value ...    all are packed numbers
//! its fields:     0 flags | 1 uuid: 16 numbers | 2 number, above its sign | 3 bytes, then the tag
//! packed number:  a one for each byte after the first, a zero, the value, from the lower end on
//! ```
//! Names are those of MySQL. A source of numbers is a server, or a tag there (MySQL 8.3 and later).
//! Sources stand in ascending order, and the runs of one ascend and do not touch: a set has one
//! form. Fields of an event after the name are for MySQL's replicas.

use std::fmt;
use std::str::FromStr;

use bytes::{Buf, BufMut};

use crate::event::{EventError, EventType, Fields};
use crate::gtid::{Gtid, GtidList, UNKNOWN_SERVER, number};

const UUID_BYTES: usize = 16;
const TAG_BYTES_MAX: usize = 32;
/// First and last byte of the count of a set with tags, where a replica names it to its source.
const WITH_TAGS: u64 = 1 << 56 | 1;
/// Places of the hyphens in a UUID's text, in characters.
const HYPHENS_AT: [usize; 4] = [8, 13, 18, 23];
const UUID_CHARACTERS: usize = 36;
/// The greatest number of a transaction: MySQL counts with a sign, and needs the one after it.
const NUMBER_MAX: u64 = i64::MAX as u64 - 1;

/// The UUID of a server, or of a group of them.
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
    /// The server where it began.
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

/// Numbers without a gap, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    last: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MysqlGtidError {
    #[error(
        "'{0}' is no set of MySQL's GTIDs: it is written uuid:first-last, such as \
         3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
    )]
    Malformed(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MysqlGtidSet {
    /// In ascending order; none is without a run.
    sources: Vec<(Source, Vec<Run>)>,
}

impl MysqlGtidSet {
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    pub fn size(&self) -> u64 {
        let runs = self.sources.iter().flat_map(|(_, runs)| runs);
        let sizes = runs.map(|run| run.last - run.first + 1);
        sizes.fold(0, u64::saturating_add)
    }

    /// The GTID of MariaDB of a reader that has these transactions and no others, in this domain:
    /// how many they are. Where the last one began is not known. Empty: it has none.
    pub fn given_after(&self, domain: u32) -> GtidList {
        let last = Gtid {
            domain,
            server_id: UNKNOWN_SERVER,
            sequence: self.size(),
        };
        match self.is_empty() {
            true => GtidList::default(),
            false => GtidList(vec![last]),
        }
    }

    pub fn contains(&self, gtid: MysqlGtid) -> bool {
        let run = self.run_from(gtid.source(), gtid.number);
        run.is_some_and(|run| run.first <= gtid.number)
    }

    pub fn is_within(&self, other: &MysqlGtidSet) -> bool {
        self.sources.iter().all(|(source, runs)| {
            runs.iter().all(|run| {
                let found = other.run_from(*source, run.first);
                found.is_some_and(|found| found.first <= run.first && run.last <= found.last)
            })
        })
    }

    pub fn add(&mut self, gtid: MysqlGtid) {
        let run = Run {
            first: gtid.number,
            last: gtid.number,
        };
        add_run(self.runs_mut(gtid.source()), run);
    }

    /// The same without this one.
    #[must_use]
    pub fn without(&self, gtid: MysqlGtid) -> MysqlGtidSet {
        let mut set = self.clone();
        let Ok(at) = set.place(gtid.source()) else {
            return set;
        };
        let Some((_, runs)) = set.sources.get_mut(at) else {
            return set;
        };
        *runs = runs
            .iter()
            .flat_map(|run| around(*run, gtid.number))
            .collect();
        if runs.is_empty() {
            set.sources.remove(at);
        }
        set
    }

    /// The bytes of the set in this crate's own form; none: it has too many sources or gaps.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        out.put_u16_le(u16::try_from(self.sources.len()).ok()?);
        for (source, runs) in &self.sources {
            put_source(*source, &mut out);
            out.put_u16_le(u16::try_from(runs.len()).ok()?);
            for run in runs {
                out.put_u64_le(run.first);
                out.put_u64_le(run.last);
            }
        }
        Some(out)
    }

    /// Reads the bytes of a set in this crate's own form; none: they are none.
    pub fn of_bytes(mut bytes: &[u8]) -> Option<MysqlGtidSet> {
        let mut set = MysqlGtidSet::default();
        for _ in 0..bytes.try_get_u16_le().ok()? {
            let source = get_source(&mut bytes)?;
            for _ in 0..bytes.try_get_u16_le().ok()? {
                let first = bytes.try_get_u64_le().ok()?;
                let last = bytes.try_get_u64_le().ok()?;
                add_run(set.runs_mut(source), Run::checked(first, last)?);
            }
        }
        bytes.is_empty().then_some(set)
    }

    /// The bytes of the set as a replica of MySQL names it to its source: 64 bits for each count,
    /// and the number after each run in place of its last one. Only a set with a tag says that it
    /// may have tags: older servers do not know that form.
    pub fn bytes_for_dump(&self) -> Vec<u8> {
        let has_tags = self.sources.iter().any(|((_, tag), _)| !tag.is_empty());
        let count = self.sources.len() as u64;
        let head = if has_tags {
            WITH_TAGS | count << 8
        } else {
            count
        };
        let mut out = head.to_le_bytes().to_vec();
        for ((uuid, tag), runs) in &self.sources {
            out.extend_from_slice(&uuid.0);
            if has_tags {
                // A number of up to seven bits is shifted by one in that form.
                out.push((tag.text().len() as u8) << 1);
                out.extend_from_slice(tag.text());
            }
            out.put_u64_le(runs.len() as u64);
            for run in runs {
                out.put_u64_le(run.first);
                out.put_u64_le(run.last.saturating_add(1));
            }
        }
        out
    }

    /// Reads the bytes of [`MysqlGtidSet::bytes_for_dump`], which servers also use for their own
    /// sets; none: they are none.
    pub fn of_dump_bytes(mut bytes: &[u8]) -> Option<MysqlGtidSet> {
        let head = bytes.try_get_u64_le().ok()?;
        let has_tags = head & WITH_TAGS == WITH_TAGS;
        let sources = if has_tags {
            (head & !WITH_TAGS) >> 8
        } else {
            head
        };
        let mut set = MysqlGtidSet::default();
        for _ in 0..sources {
            let mut uuid = Uuid([0; UUID_BYTES]);
            bytes.try_copy_to_slice(&mut uuid.0).ok()?;
            let mut tag = [0; TAG_BYTES_MAX];
            let tag_bytes = if has_tags {
                usize::from(bytes.try_get_u8().ok()?) >> 1
            } else {
                0
            };
            let tag = tag.get_mut(..tag_bytes)?;
            bytes.try_copy_to_slice(tag).ok()?;
            let tag = Tag::of(tag)?;
            for _ in 0..bytes.try_get_u64_le().ok()? {
                let first = bytes.try_get_u64_le().ok()?;
                let last = bytes.try_get_u64_le().ok()?.checked_sub(1)?;
                add_run(set.runs_mut((uuid, tag)), Run::checked(first, last)?);
            }
        }
        bytes.is_empty().then_some(set)
    }

    /// The first number of this server or group, counted without a tag, that is not in the set.
    pub fn first_missing(&self, uuid: Uuid) -> u64 {
        let first = self.run_from((uuid, Tag::default()), 1);
        let run = first.filter(|run| run.first == 1);
        run.map_or(1, |run| run.last.saturating_add(1))
    }

    /// The run with this number, or the first one after it.
    fn run_from(&self, source: Source, number: u64) -> Option<Run> {
        let (_, runs) = self.sources.get(self.place(source).ok()?)?;
        let at = runs.partition_point(|run| run.last < number);
        runs.get(at).copied()
    }

    /// Place of a source in the list; as an error, the place at which it would be inserted.
    fn place(&self, source: Source) -> Result<usize, usize> {
        let sources = &self.sources;
        sources.binary_search_by_key(&source, |(source, _)| *source)
    }

    /// The runs of a source, which is added if it is not there.
    fn runs_mut(&mut self, source: Source) -> &mut Vec<Run> {
        let at = match self.place(source) {
            Ok(at) => at,
            Err(at) => {
                self.sources.insert(at, (source, Vec::new()));
                at
            }
        };
        &mut self.sources[at].1
    }
}

impl Run {
    fn checked(first: u64, last: u64) -> Option<Run> {
        let is_one = 1 <= first && first <= last && last <= NUMBER_MAX;
        is_one.then_some(Run { first, last })
    }
}

/// Adds a run to others, and joins those that it touches.
fn add_run(runs: &mut Vec<Run>, mut run: Run) {
    let begin = runs.partition_point(|other| other.last.saturating_add(1) < run.first);
    let end = runs.partition_point(|other| other.first <= run.last.saturating_add(1));
    for other in runs.get(begin..end).unwrap_or_default() {
        run.first = run.first.min(other.first);
        run.last = run.last.max(other.last);
    }
    // A number that is far ahead of all others touches none, and the end is not before the begin.
    runs.splice(begin..end.max(begin), [run]);
}

/// A run without this number: itself, or up to two runs.
fn around(run: Run, number: u64) -> Vec<Run> {
    if number < run.first || number > run.last {
        return vec![run];
    }
    let sides = [
        (run.first, number.saturating_sub(1)),
        (number.saturating_add(1), run.last),
    ];
    let sides = sides.into_iter().filter(|(first, last)| first <= last);
    sides.map(|(first, last)| Run { first, last }).collect()
}

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

impl fmt::Display for MysqlGtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for ((uuid, tag), runs) in &self.sources {
            if last != Some(uuid) {
                let comma = if last.is_some() { "," } else { "" };
                write!(f, "{comma}{uuid}")?;
            }
            last = Some(uuid);
            if !tag.is_empty() {
                write!(f, ":{tag}")?;
            }
            for run in runs {
                write!(f, ":{}", run.first)?;
                if run.last > run.first {
                    write!(f, "-{}", run.last)?;
                }
            }
        }
        Ok(())
    }
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

impl FromStr for MysqlGtidSet {
    type Err = MysqlGtidError;

    /// Understands what MySQL writes, with line breaks, too, or nothing.
    fn from_str(text: &str) -> Result<MysqlGtidSet, MysqlGtidError> {
        let mut set = MysqlGtidSet::default();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            let part = part.trim();
            set.add_source(part)
                .ok_or_else(|| MysqlGtidError::Malformed(part.to_owned()))?;
        }
        Ok(set)
    }
}

impl MysqlGtidSet {
    /// Adds what a text says of one server; none: it says nothing of one.
    fn add_source(&mut self, text: &str) -> Option<()> {
        let (uuid, rest) = text.split_once(':')?;
        let uuid: Uuid = uuid.trim().parse().ok()?;
        let (mut tag, mut has_run) = (Tag::default(), false);
        for word in rest.split(':').map(str::trim) {
            if word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
                // One after the other: the former counts nothing.
                if !has_run && !tag.is_empty() {
                    return None;
                }
                (tag, has_run) = (Tag::of(word.as_bytes())?, false);
                continue;
            }
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            add_run(
                self.runs_mut((uuid, tag)),
                Run::checked(number(first.trim())?, number(last.trim())?)?,
            );
            has_run = true;
        }
        has_run.then_some(())
    }
}

pub const MYSQL_GTID: EventType = EventType(33);
pub const TAGGED_GTID: EventType = EventType(42);
/// The form of the event with a tag.
const FORM: u64 = 1;
/// Bytes of the largest number: all bits of its first one say how many follow.
const LONGEST: usize = 9;

/// Reads the GTID in the body of an event of type [`MYSQL_GTID`] or [`TAGGED_GTID`].
pub fn parse_mysql_gtid(event_type: EventType, body: &[u8]) -> Result<MysqlGtid, EventError> {
    let mut fields = Fields::of(event_type, body);
    let (uuid, tag, number) = if event_type == TAGGED_GTID {
        tagged(&mut fields)?
    } else {
        fields.u8()?;
        let mut uuid = [0; UUID_BYTES];
        uuid.copy_from_slice(fields.bytes(UUID_BYTES)?);
        (uuid, Tag::default(), fields.u64()?)
    };
    if !(1..=NUMBER_MAX).contains(&number) {
        return Err(fields.malformed("the number of its transaction cannot be"));
    }
    Ok(MysqlGtid {
        uuid: Uuid(uuid),
        tag,
        number,
    })
}

fn tagged(fields: &mut Fields<'_>) -> Result<([u8; UUID_BYTES], Tag, u64), EventError> {
    if packed(fields)? != FORM {
        return Err(fields.malformed("it has another form than 1"));
    }
    let _bytes = packed(fields)?;
    let _fields = packed(fields)?;
    field(fields, 0)?;
    let _flags = packed(fields)?;
    field(fields, 1)?;
    let mut uuid = [0; UUID_BYTES];
    for byte in &mut uuid {
        let value = u8::try_from(packed(fields)?);
        *byte = value.map_err(|_| fields.malformed("a byte of its UUID is none"))?;
    }
    field(fields, 2)?;
    // A negative number has the lowest bit, and is none of a transaction.
    let signed = packed(fields)?;
    let number = if signed & 1 == 0 { signed >> 1 } else { 0 };
    field(fields, 3)?;
    let length = usize::try_from(packed(fields)?).unwrap_or(usize::MAX);
    let text = fields.bytes(length.min(TAG_BYTES_MAX + 1))?;
    let tag = Tag::of(text).ok_or_else(|| fields.malformed("its tag is none"))?;
    Ok((uuid, tag, number))
}

/// The id of the next field, which must be this one.
fn field(fields: &mut Fields<'_>, id: u64) -> Result<(), EventError> {
    match packed(fields)? {
        found if found == id => Ok(()),
        _ => Err(fields.malformed("its fields stand in another order")),
    }
}

fn packed(fields: &mut Fields<'_>) -> Result<u64, EventError> {
    let first = fields.u8()?;
    let more = first.trailing_ones() as usize;
    let mut bytes = [0; 16];
    if let Some(place) = bytes.first_mut() {
        *place = first;
    }
    if let Some(place) = bytes.get_mut(1..=more) {
        place.copy_from_slice(fields.bytes(more)?);
    }
    // The ones, and the zero after them unless they fill the first byte.
    let marks = (more + 1).min(LONGEST - 1);
    Ok((u128::from_le_bytes(bytes) >> marks) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const ONE: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const OTHER: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(text: &str) -> MysqlGtidSet {
        text.parse().unwrap()
    }

    #[test]
    fn sets_are_understood_as_mysql_writes_them() {
        let text = format!("{OTHER}:7,\n{ONE}:3-5:1-2:9");
        assert_eq!(set(&text).to_string(), format!("{ONE}:1-5:9,{OTHER}:7"));
        assert!(set(" \n").is_empty());
        let upper = format!("{}:1", ONE.to_uppercase());
        assert_eq!(set(&upper).to_string(), format!("{ONE}:1"));
    }

    #[test]
    fn other_texts_are_refused_with_the_form_to_write() {
        for text in [
            ONE.to_owned(),
            format!("{ONE}:"),
            format!("{ONE}:0"),
            format!("{ONE}:5-3"),
            format!("{ONE}:+1"),
            format!("{ONE}:1,"),
            format!("{ONE}0:1"),
            "0-1-7".to_owned(),
            format!("{ONE}:1-{}", u64::MAX),
            format!("{ONE}:tag"),
            format!("{ONE}:tag:other:1"),
            format!("{ONE}:1:tag"),
            format!("{ONE}:t-g:1"),
            format!("{ONE}:{}:1", "t".repeat(33)),
        ] {
            let error = text.parse::<MysqlGtidSet>().unwrap_err().to_string();
            assert!(error.contains("uuid:first-last"), "{text}: {error}");
        }
    }

    #[test]
    fn tags_count_apart_and_are_written_as_mysql_writes_them() {
        let text = format!("{OTHER}:tag:1,{ONE}:1-10:Orders:1-2:b_2:1");
        let set = set(&text);
        assert_eq!(
            set.to_string(),
            format!("{ONE}:1-10:b_2:1:orders:1-2,{OTHER}:tag:1")
        );
        assert_eq!(set.size(), 14);
        assert_eq!(set.given_after(3).to_string(), "3-0-14");
        assert_eq!(MysqlGtidSet::default().given_after(3).to_string(), "");
        let mut gtid = MysqlGtid {
            uuid: ONE.parse().unwrap(),
            tag: Tag::of(b"orders").unwrap(),
            number: 2,
        };
        assert!(set.contains(gtid));
        assert_eq!(gtid.to_string(), format!("{ONE}:orders:2"));
        gtid.tag = Tag::of(b"b_2").unwrap();
        assert!(!set.contains(gtid));
    }

    /// Bytes as MySQL 9.7.4 writes the set `UUID:1-11:b_2:1:orders:1-2` at the beginning of a file.
    #[test]
    fn set_with_tags_for_a_dump_says_so() {
        let uuid: Uuid = ONE.parse().unwrap();
        let run = |after: u8| {
            let mut run = vec![1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
            run.extend_from_slice(&[after, 0, 0, 0, 0, 0, 0, 0]);
            run
        };
        let expected = [
            &[1, 3, 0, 0, 0, 0, 0, 1][..],
            &uuid.0,
            &[0],
            &run(12),
            &uuid.0,
            b"\x06b_2",
            &run(2),
            &uuid.0,
            b"\x0corders",
            &run(3),
        ];
        let set = set(&format!("{ONE}:1-11:b_2:1:orders:1-2"));
        assert_eq!(set.bytes_for_dump(), expected.concat());
    }

    #[test]
    fn first_missing_number_ends_what_has_no_gap() {
        let one: Uuid = ONE.parse().unwrap();
        let missing = |text: &str| set(text).first_missing(one);
        assert_eq!(missing(""), 1);
        assert_eq!(missing(&format!("{ONE}:2-9")), 1);
        assert_eq!(missing(&format!("{ONE}:1-5:7-9")), 6);
        assert_eq!(missing(&format!("{ONE}:tag:1-5")), 1);
    }

    #[test]
    fn set_for_a_dump_has_the_number_after_each_run() {
        let bytes = set(&format!("{ONE}:1-5")).bytes_for_dump();
        let uuid: Uuid = ONE.parse().unwrap();
        let expected = [
            &[1, 0, 0, 0, 0, 0, 0, 0][..],
            &uuid.0,
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[6, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(MysqlGtidSet::default().bytes_for_dump(), [0; 8]);
    }

    fn gtids() -> impl Strategy<Value = Vec<MysqlGtid>> {
        let tags = [&b""[..], b"a", b"tag_2"];
        let gtid = (0_u8..3, 0_usize..3, 1_u64..20);
        let gtid = gtid.prop_map(move |(server, tag, number)| MysqlGtid {
            uuid: Uuid([server; 16]),
            tag: Tag::of(tags[tag]).unwrap(),
            number,
        });
        proptest::collection::vec(gtid, 0..40)
    }

    fn set_of(gtids: &[MysqlGtid]) -> MysqlGtidSet {
        let mut set = MysqlGtidSet::default();
        gtids.iter().for_each(|gtid| set.add(*gtid));
        set
    }

    fn plain(gtids: &[MysqlGtid]) -> BTreeSet<(Uuid, Tag, u64)> {
        let named = gtids.iter();
        named
            .map(|gtid| (gtid.uuid, gtid.tag, gtid.number))
            .collect()
    }

    proptest! {
        #[test]
        fn set_is_what_was_added(some in gtids(), others in gtids()) {
            let (set, other) = (set_of(&some), set_of(&others));
            for gtid in some.iter().chain(&others) {
                let is_there = plain(&some).contains(&(gtid.uuid, gtid.tag, gtid.number));
                prop_assert_eq!(set.contains(*gtid), is_there);
                let without = set.without(*gtid);
                prop_assert!(!without.contains(*gtid));
                let rest: Vec<_> = some.iter().copied().filter(|other| other != gtid).collect();
                prop_assert_eq!(without, set_of(&rest));
            }
            prop_assert_eq!(set.size(), plain(&some).len() as u64);
            let is_within = plain(&some).is_subset(&plain(&others));
            prop_assert_eq!(set.is_within(&other), is_within);
            let mut backwards = some.clone();
            backwards.reverse();
            prop_assert_eq!(&set_of(&backwards), &set);
        }

        #[test]
        fn set_is_read_as_it_was_written(some in gtids()) {
            let set = set_of(&some);
            prop_assert_eq!(set.to_string().parse(), Ok(set.clone()));
            let bytes = set.bytes().unwrap();
            prop_assert_eq!(MysqlGtidSet::of_bytes(&bytes), Some(set));
            if let Some(cut) = bytes.len().checked_sub(1) {
                prop_assert_eq!(MysqlGtidSet::of_bytes(&bytes[..cut]), None);
            }
            let dump = set_of(&some).bytes_for_dump();
            prop_assert_eq!(MysqlGtidSet::of_dump_bytes(&dump), Some(set_of(&some)));
            prop_assert_eq!(MysqlGtidSet::of_dump_bytes(&dump[..dump.len() - 1]), None);
        }

        #[test]
        fn made_up_bytes_and_texts_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            text in "[0-9a-g:,-]{0,60}",
        ) {
            let _ = MysqlGtidSet::of_bytes(&bytes);
            let _ = MysqlGtidSet::of_dump_bytes(&bytes);
            let _ = text.parse::<MysqlGtidSet>();
        }
    }

    /// Bodies of such events of MySQL 9.7.4.
    const PLAIN: &[u8] = b"\x01\x21\x2e\x95\x8d\xe9\xbe\x11\xf1\xa3\x88\x3a\xeb\xeb\xd6\x72\xb5\
        \x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0";
    const TAGGED: &[u8] = b"\x02\x7e\0\0\0\x02\x42\x5c\x55\x02\x35\x02\xa5\x03\xf9\x02\x22\xc5\x03\
        \x8d\x02\x21\x02\x74\xad\x03\xad\x03\x59\x03\xe4\xd5\x02\x04\x08\x06\x0corders\x08\x1c\
        \x0a\x24\x0c\x7f\xd8\x49\xca\x35\x31\x61\x06\x10\x59\x04\x12\x83\x12\x0b";

    #[test]
    fn both_forms_are_read() {
        let gtid = parse_mysql_gtid(MYSQL_GTID, PLAIN).unwrap();
        assert_eq!(gtid.to_string(), "212e958d-e9be-11f1-a388-3aebebd672b5:2");
        let gtid = parse_mysql_gtid(TAGGED_GTID, TAGGED).unwrap();
        assert_eq!(
            gtid.to_string(),
            "212e958d-e9be-11f1-a388-3aebebd672b5:orders:2"
        );
        for cut in 0..42 {
            assert!(parse_mysql_gtid(TAGGED_GTID, &TAGGED[..cut]).is_err());
        }
    }

    #[test]
    fn numbers_of_all_lengths_are_read() {
        let read = |bytes: &[u8]| packed(&mut Fields::of(TAGGED_GTID, bytes)).ok();
        assert_eq!(read(&[0xfe]), Some(127));
        assert_eq!(read(&[0xd5, 2]), Some(0xb5));
        assert_eq!(read(&[0xff; 9]), Some(u64::MAX));
        assert_eq!(read(&[0x7f, 0, 0, 0, 0, 0, 0, 1]), Some(1 << 48));
        assert_eq!(read(&[1]), None);
    }

    proptest! {
        #[test]
        fn made_up_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse_mysql_gtid(MYSQL_GTID, &bytes);
            let _ = parse_mysql_gtid(TAGGED_GTID, &bytes);
        }
    }
}
