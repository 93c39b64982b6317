//! Global transaction identifiers of MySQL, and sets of them.
//!
//! ```text
//! text:   uuid:1-5:7,uuid:3
//! bytes:  servers u16 | servers times: uuid 16 bytes | runs u16 | runs times: first u64 | last u64
//! ```
//! Names are those of MySQL. Servers stand in ascending order of their UUIDs, and the runs of one
//! ascend and do not touch: a set has one form.

use std::fmt;
use std::str::FromStr;

use crate::event::EventError;
use crate::fields::Fields;
use crate::header::EventType;

/// Bytes of a UUID.
const UUID_BYTES: usize = 16;
/// Where a UUID's text has its hyphens, in characters.
const HYPHENS_AT: [usize; 4] = [8, 13, 18, 23];
/// Characters of a UUID's text.
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

/// Names a transaction of MySQL: where it began, and which one it was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MysqlGtid {
    /// The server where it began.
    pub uuid: Uuid,
    /// Its number there, from 1 on.
    pub number: u64,
}

impl fmt::Display for MysqlGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uuid, self.number)
    }
}

/// Numbers without a gap, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    last: u64,
}

/// A text that is no set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MysqlGtidError {
    /// It has another form.
    #[error(
        "'{0}' is no set of MySQL's GTIDs: it is written uuid:first-last, such as \
         3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
    )]
    Malformed(String),
    /// It has a GTID with a tag.
    #[error(
        "'{0}' has a tag, which MySQL knows since 8.3: GTIDs with tags are not understood here. \
         Use none (gtid_next = 'AUTOMATIC')"
    )]
    Tagged(String),
}

/// A set of transactions of MySQL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MysqlGtidSet {
    /// By ascending UUID; none is without a run.
    servers: Vec<(Uuid, Vec<Run>)>,
}

impl MysqlGtidSet {
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Whether it has this one.
    pub fn contains(&self, gtid: MysqlGtid) -> bool {
        let run = self.run_from(gtid.uuid, gtid.number);
        run.is_some_and(|run| run.first <= gtid.number)
    }

    /// Whether all of them are in `other`.
    pub fn is_within(&self, other: &MysqlGtidSet) -> bool {
        self.servers.iter().all(|(uuid, runs)| {
            runs.iter().all(|run| {
                let found = other.run_from(*uuid, run.first);
                found.is_some_and(|found| found.first <= run.first && run.last <= found.last)
            })
        })
    }

    /// Adds one.
    pub fn add(&mut self, gtid: MysqlGtid) {
        let run = Run {
            first: gtid.number,
            last: gtid.number,
        };
        add_run(self.runs_mut(gtid.uuid), run);
    }

    /// The same without this one.
    #[must_use]
    pub fn without(&self, gtid: MysqlGtid) -> MysqlGtidSet {
        let mut set = self.clone();
        let Ok(at) = set.place(gtid.uuid) else {
            return set;
        };
        let Some((_, runs)) = set.servers.get_mut(at) else {
            return set;
        };
        *runs = runs
            .iter()
            .flat_map(|run| around(*run, gtid.number))
            .collect();
        if runs.is_empty() {
            set.servers.remove(at);
        }
        set
    }

    /// The bytes of the set in this crate's own form; none: it has too many servers or gaps.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut out = u16::try_from(self.servers.len())
            .ok()?
            .to_le_bytes()
            .to_vec();
        for (uuid, runs) in &self.servers {
            out.extend_from_slice(&uuid.0);
            out.extend_from_slice(&u16::try_from(runs.len()).ok()?.to_le_bytes());
            for run in runs {
                out.extend_from_slice(&run.first.to_le_bytes());
                out.extend_from_slice(&run.last.to_le_bytes());
            }
        }
        Some(out)
    }

    /// Reads the bytes of a set in this crate's own form; none: they are none.
    pub fn of_bytes(bytes: &[u8]) -> Option<MysqlGtidSet> {
        let mut rest = bytes;
        let mut set = MysqlGtidSet::default();
        for _ in 0..u16::from_le_bytes(take(&mut rest)?) {
            let uuid = Uuid(take(&mut rest)?);
            for _ in 0..u16::from_le_bytes(take(&mut rest)?) {
                let first = u64::from_le_bytes(take(&mut rest)?);
                let last = u64::from_le_bytes(take(&mut rest)?);
                add_run(set.runs_mut(uuid), Run::checked(first, last)?);
            }
        }
        rest.is_empty().then_some(set)
    }

    /// The bytes of the set as a replica of MySQL names it to its source: 64 bits for each count,
    /// and the number after each run in place of its last one.
    pub fn bytes_for_dump(&self) -> Vec<u8> {
        let mut out = (self.servers.len() as u64).to_le_bytes().to_vec();
        for (uuid, runs) in &self.servers {
            out.extend_from_slice(&uuid.0);
            out.extend_from_slice(&(runs.len() as u64).to_le_bytes());
            for run in runs {
                out.extend_from_slice(&run.first.to_le_bytes());
                out.extend_from_slice(&run.last.saturating_add(1).to_le_bytes());
            }
        }
        out
    }

    /// The run with this number, or the first one after it.
    fn run_from(&self, uuid: Uuid, number: u64) -> Option<Run> {
        let (_, runs) = self.servers.get(self.place(uuid).ok()?)?;
        let at = runs.partition_point(|run| run.last < number);
        runs.get(at).copied()
    }

    /// Where a server is in the list, or would be.
    fn place(&self, uuid: Uuid) -> Result<usize, usize> {
        self.servers.binary_search_by_key(&uuid, |(uuid, _)| *uuid)
    }

    /// The runs of a server, which is added if it is not there.
    fn runs_mut(&mut self, uuid: Uuid) -> &mut Vec<Run> {
        let at = match self.place(uuid) {
            Ok(at) => at,
            Err(at) => {
                self.servers.insert(at, (uuid, Vec::new()));
                at
            }
        };
        &mut self.servers[at].1
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

/// What is left of a run without this number.
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

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

impl fmt::Display for MysqlGtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (uuid, runs)) in self.servers.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{uuid}")?;
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
            let malformed = || MysqlGtidError::Malformed(part.to_owned());
            let (uuid, runs) = part.split_once(':').ok_or_else(malformed)?;
            let uuid: Uuid = uuid.trim().parse()?;
            for run in runs.split(':') {
                let run = run.trim();
                if run.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
                    return Err(MysqlGtidError::Tagged(part.to_owned()));
                }
                let (first, last) = run.split_once('-').unwrap_or((run, run));
                let ends = number(first).zip(number(last));
                let run = ends.and_then(|(first, last)| Run::checked(first, last));
                add_run(set.runs_mut(uuid), run.ok_or_else(malformed)?);
            }
        }
        Ok(set)
    }
}

/// Digits only: `parse` takes a sign, too.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Type of the event by which a transaction of MySQL begins.
pub const MYSQL_GTID: EventType = EventType(33);

/// Reads the GTID in the body of an event of type [`MYSQL_GTID`]: flags u8, UUID, number i64; what
/// follows is of MySQL's replicas.
///
/// # Errors
/// The bytes are none.
pub fn parse_mysql_gtid(body: &[u8]) -> Result<MysqlGtid, EventError> {
    let mut fields = Fields::of(MYSQL_GTID, body);
    fields.u8()?;
    let uuid = fields.bytes(UUID_BYTES)?;
    let uuid = uuid
        .first_chunk()
        .copied()
        .ok_or_else(|| fields.malformed("it has no UUID"))?;
    let number = fields.u64()?;
    match number {
        1..=NUMBER_MAX => Ok(MysqlGtid {
            uuid: Uuid(uuid),
            number,
        }),
        _ => Err(fields.malformed("the number of its transaction cannot be")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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
        ] {
            let error = text.parse::<MysqlGtidSet>().unwrap_err().to_string();
            assert!(error.contains("uuid:first-last"), "{text}: {error}");
        }
        let tagged = format!("{ONE}:tag:1").parse::<MysqlGtidSet>();
        assert!(matches!(tagged, Err(MysqlGtidError::Tagged(_))));
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
        let gtid = (0_u8..3, 1_u64..20).prop_map(|(server, number)| MysqlGtid {
            uuid: Uuid([server; 16]),
            number,
        });
        proptest::collection::vec(gtid, 0..40)
    }

    fn set_of(gtids: &[MysqlGtid]) -> MysqlGtidSet {
        let mut set = MysqlGtidSet::default();
        gtids.iter().for_each(|gtid| set.add(*gtid));
        set
    }

    fn plain(gtids: &[MysqlGtid]) -> BTreeSet<(Uuid, u64)> {
        gtids.iter().map(|gtid| (gtid.uuid, gtid.number)).collect()
    }

    proptest! {
        #[test]
        fn set_is_what_was_added(some in gtids(), others in gtids()) {
            let (set, other) = (set_of(&some), set_of(&others));
            for gtid in some.iter().chain(&others) {
                let is_there = plain(&some).contains(&(gtid.uuid, gtid.number));
                prop_assert_eq!(set.contains(*gtid), is_there);
                let without = set.without(*gtid);
                prop_assert!(!without.contains(*gtid));
                let rest: Vec<_> = some.iter().copied().filter(|other| other != gtid).collect();
                prop_assert_eq!(without, set_of(&rest));
            }
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
        }

        #[test]
        fn made_up_bytes_and_texts_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            text in "[0-9a-f:,-]{0,60}",
        ) {
            let _ = MysqlGtidSet::of_bytes(&bytes);
            let _ = parse_mysql_gtid(&bytes);
            let _ = text.parse::<MysqlGtidSet>();
        }
    }
}
