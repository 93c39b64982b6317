//! Write sets that are not ordered yet, and whose keys come in parts.
//!
//! Each part is compared once, when it comes, with what is ordered and with the other open write
//! sets; and each action that is ordered later is compared with the parts that are here. So every
//! pair of holds is looked at once, in steps no larger than a part, and the verdict at the end only
//! takes the latest of what was found.
//!
//! Invariants: the keys of an open run ascend from part to part. A part that came later than
//! another, in whichever run, is retracted before it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::key::{Fingerprint, Key, KeyType};
use crate::key_set::DecodeKeysError;
use crate::key_stream::{KeyStream, PartKeys};
use crate::mark::Mark;
use crate::request::Source;
use crate::rules::{Relation, relation};
use crate::touch::Touch;

/// Names a write set whose keys come in parts. Never given twice by one certifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenId(u64);

/// How the keys of two open write sets relate, for either order of the two.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    /// If the other one is ordered first.
    other_first: Relation,
    /// If the one with the part is ordered first.
    self_first: Relation,
}

/// A part of the keys, compared with everything before it.
#[derive(Debug)]
pub(crate) struct RunPart {
    keys: PartKeys,
    /// The stream of keys after this part.
    stream: KeyStream,
    /// First error of the keys up to this part.
    error: Option<DecodeKeysError>,
    /// Ordered actions that mattered to the parts up to this one when each came.
    touch: Touch,
    /// Open write sets that had keys of this part when it came.
    meetings: BTreeMap<OpenId, Meeting>,
}

/// The keys of one open write set.
#[derive(Debug)]
pub(crate) struct OpenRun {
    /// Its member, as in [`Source::member`].
    member: u64,
    parts: Vec<RunPart>,
    /// Actions ordered after the parts that they touch had come.
    hits: Touch,
}

impl OpenRun {
    /// The key with this fingerprint.
    pub(crate) fn find(&self, wanted: Fingerprint) -> Option<Key> {
        let ends_before = |part: &RunPart| part.stream.last().is_none_or(|last| last < wanted);
        let at = self.parts.partition_point(ends_before);
        self.parts.get(at)?.keys.find(wanted)
    }

    /// Number of parts.
    pub(crate) fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.keys.len()).sum()
    }

    /// Size of the keys in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.keys.bytes()).sum()
    }

    /// Its member, as in [`Source::member`].
    pub(crate) fn member(&self) -> u64 {
        self.member
    }

    /// Ordered actions that matter to the write set.
    pub(crate) fn touch(&self) -> Touch {
        let mut touch = self.hits.clone();
        if let Some(last) = self.parts.last() {
            touch.merge(&last.touch);
        }
        touch
    }

    /// Reads the keys that another part would bring, and the stream after them.
    ///
    /// # Errors
    /// If the keys up to there are malformed.
    pub(crate) fn read(&self, part: Bytes) -> Result<(PartKeys, KeyStream), DecodeKeysError> {
        let last = self.parts.last();
        if let Some(error) = last.and_then(|last| last.error) {
            return Err(error);
        }
        let mut stream = last.map_or_else(KeyStream::default, |last| last.stream.clone());
        Ok((stream.take(part)?, stream))
    }

    fn meeting_with(&self, other: OpenId, how: impl Fn(&Meeting) -> Relation) -> Relation {
        let meetings = self.parts.iter().map(|part| part.meetings.get(&other));
        meetings
            .flatten()
            .map(how)
            .max()
            .unwrap_or(Relation::Nothing)
    }
}

/// Touches of open write sets before an action hit them, to be restored when it is rolled back.
pub(crate) type HitsBefore = Vec<(OpenId, Touch)>;

/// All open write sets.
#[derive(Debug, Default)]
pub(crate) struct OpenRuns {
    runs: BTreeMap<OpenId, OpenRun>,
    opened: u64,
}

impl OpenRuns {
    /// Begins a write set of a member.
    pub(crate) fn open(&mut self, member: u64) -> OpenId {
        self.opened += 1;
        let id = OpenId(self.opened);
        let run = OpenRun {
            member,
            parts: Vec::new(),
            hits: Touch::NONE,
        };
        self.runs.insert(id, run);
        id
    }

    /// An open write set.
    pub(crate) fn get(&self, id: OpenId) -> Option<&OpenRun> {
        self.runs.get(&id)
    }

    /// Number of open write sets.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Memory held, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let parts = |run: &OpenRun| run.parts.capacity() * size_of::<RunPart>();
        let bytes = |run: &OpenRun| run.bytes() + parts(run);
        self.runs.values().map(bytes).sum()
    }

    /// Adds a part to a write set. `touch` is what was ordered that matters to its keys.
    pub(crate) fn push(&mut self, id: OpenId, keys: PartKeys, stream: KeyStream, touch: Touch) {
        let meetings = self.meetings(id, &keys);
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        let mut all = run.parts.last().map_or(Touch::NONE, |l| l.touch.clone());
        all.merge(&touch);
        run.parts.push(RunPart {
            keys,
            stream,
            error: None,
            touch: all,
            meetings,
        });
    }

    /// Adds a part that cannot be read.
    pub(crate) fn push_malformed(&mut self, id: OpenId, error: DecodeKeysError) {
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        let last = run.parts.last();
        let part = RunPart {
            keys: PartKeys::default(),
            stream: last.map_or_else(KeyStream::default, |last| last.stream.clone()),
            error: Some(error),
            touch: last.map_or(Touch::NONE, |last| last.touch.clone()),
            meetings: BTreeMap::new(),
        };
        run.parts.push(part);
    }

    /// Keeps the first parts of a write set only.
    pub(crate) fn retract(&mut self, id: OpenId, kept: usize) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.parts.truncate(kept);
        }
    }

    /// Takes a write set out: it ends, or is ordered.
    pub(crate) fn take(&mut self, id: OpenId) -> Option<OpenRun> {
        self.runs.remove(&id)
    }

    /// Puts a write set back whose order was undone, with these parts.
    pub(crate) fn put_back(&mut self, id: OpenId, mut run: OpenRun, parts: usize) {
        run.parts.truncate(parts);
        self.runs.insert(id, run);
    }

    /// An action with these keys is ordered. Returns what it changes.
    pub(crate) fn hit(
        &mut self,
        keys: impl Iterator<Item = Key> + Clone,
        mark: Mark,
        source: Option<Source>,
    ) -> HitsBefore {
        let mut before = Vec::new();
        for (id, run) in &mut self.runs {
            let how = |key: Key| Some(relation(key.kind, run.find(key.fingerprint)?.kind));
            let strongest = keys.clone().filter_map(how).max();
            run.hit_by(*id, strongest, mark, source, &mut before);
        }
        before
    }

    /// The write set `first`, which is taken out, is ordered. Returns what that changes.
    pub(crate) fn hit_by_run(
        &mut self,
        first: (OpenId, &OpenRun),
        mark: Mark,
        source: Option<Source>,
    ) -> HitsBefore {
        let mut before = Vec::new();
        for (id, run) in &mut self.runs {
            let seen_by_first = first.1.meeting_with(*id, |meeting| meeting.self_first);
            let seen_by_run = run.meeting_with(first.0, |meeting| meeting.other_first);
            let strongest = Some(seen_by_first.max(seen_by_run));
            run.hit_by(*id, strongest, mark, source, &mut before);
        }
        before
    }

    /// Undoes a hit.
    pub(crate) fn undo(&mut self, before: HitsBefore) {
        for (id, touch) in before {
            if let Some(run) = self.runs.get_mut(&id) {
                run.hits = touch;
            }
        }
    }

    /// Forgets hits at or below this seqno, which have left the window.
    pub(crate) fn window_starts_at(&mut self, start: i64) {
        for run in self.runs.values_mut() {
            run.hits.window_starts_at(start);
        }
    }

    /// Finds the other open write sets that have keys of a new part of `id`, and their relations.
    fn meetings(&self, id: OpenId, keys: &PartKeys) -> BTreeMap<OpenId, Meeting> {
        let mut meetings = BTreeMap::new();
        for (other, run) in self.runs.iter().filter(|(other, _)| **other != id) {
            let met = keys
                .iter()
                .filter_map(|key| Some((key.kind, run.find(key.fingerprint)?.kind)));
            let meet = |meeting: Option<Meeting>, (own, others): (KeyType, KeyType)| {
                let (before, after) = (relation(others, own), relation(own, others));
                Some(Meeting {
                    other_first: meeting.map_or(before, |known| known.other_first.max(before)),
                    self_first: meeting.map_or(after, |known| known.self_first.max(after)),
                })
            };
            if let Some(meeting) = met.fold(None, meet) {
                meetings.insert(*other, meeting);
            }
        }
        meetings
    }
}

impl OpenRun {
    /// Notes an action that was ordered before this write set, and remembers what was known before.
    fn hit_by(
        &mut self,
        id: OpenId,
        strongest: Option<Relation>,
        mark: Mark,
        source: Option<Source>,
        before: &mut HitsBefore,
    ) {
        if let Some(strongest) = strongest.filter(|strongest| *strongest != Relation::Nothing) {
            before.push((id, self.hits.clone()));
            self.hits.add(strongest, mark, source, self.member);
        }
    }
}
