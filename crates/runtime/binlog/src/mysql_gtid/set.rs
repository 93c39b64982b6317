//! Sets of MySQL's identifiers, as texts and in the bytes of dumps and of our own.
//!
//! ```text
//! text:   uuid:1-5:7:tag:1-2,uuid:3
//! bytes:  sources u16 | sources times: source | runs u16 | runs times: first u64 | last u64
//! ```
//! Sources stand in ascending order, and the runs of one ascend and do not touch: a set has one
//! form.

use std::fmt;
use std::str::FromStr;

use bytes::{Buf, BufMut};

use super::{
    MysqlGtid, MysqlGtidError, NUMBER_MAX, Source, TAG_BYTES_MAX, Tag, UUID_BYTES, Uuid,
    get_source, put_source,
};
use crate::gtid::{Gtid, GtidList, UNKNOWN_SERVER, number};

/// First and last byte of the count of a set with tags, where a replica names it to its source.
const WITH_TAGS: u64 = 1 << 56 | 1;

/// Numbers without a gap, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    last: u64,
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
        let last = Gtid::new(domain, UNKNOWN_SERVER, self.size());
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

    /// The part that is not of this server or group, counted without a tag.
    pub fn of_others(&self, uuid: Uuid) -> MysqlGtidSet {
        let own = (uuid, Tag::default());
        let others = self.sources.iter().filter(|(of, _)| *of != own);
        MysqlGtidSet {
            sources: others.cloned().collect(),
        }
    }

    /// The first number of this server or group, counted without a tag, that is not in the set.
    pub fn first_missing(&self, uuid: Uuid) -> u64 {
        let first = self.run_from((uuid, Tag::default()), 1);
        let run = first.filter(|run| run.first == 1);
        run.map_or(1, |run| run.last.saturating_add(1))
    }

    /// The last number of this server or group, counted without a tag; zero: it has none.
    pub fn last(&self, uuid: Uuid) -> u64 {
        let at = self.place((uuid, Tag::default()));
        let source = at.ok().and_then(|at| self.sources.get(at));
        let run = source.and_then(|(_, runs)| runs.last());
        run.map_or(0, |run| run.last)
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
    fn set_of_others_leaves_out_one_server_without_a_tag() {
        let one = "5e0dc0de-0000-4000-8000-000000000001";
        let other = "5e0dc0de-0000-4000-8000-000000000002:3";
        let all = set(&format!("{one}:1-5:tag:1,{other}"));
        let others = set(&format!("{one}:tag:1,{other}"));
        assert_eq!(all.of_others(one.parse().unwrap()), others);
    }

    #[test]
    fn first_missing_number_ends_what_has_no_gap() {
        let one: Uuid = ONE.parse().unwrap();
        let missing = |text: &str| set(text).first_missing(one);
        assert_eq!(missing(""), 1);
        assert_eq!(missing(&format!("{ONE}:2-9")), 1);
        assert_eq!(missing(&format!("{ONE}:1-5:7-9")), 6);
        assert_eq!(missing(&format!("{ONE}:tag:1-5")), 1);
        assert_eq!(set(&format!("{ONE}:1-5:7-9")).last(one), 9);
        assert_eq!(set(&format!("{ONE}:tag:1-5")).last(one), 0);
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
}
