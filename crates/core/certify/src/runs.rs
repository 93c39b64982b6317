//! Write sets that are too large for the index: their keys stay as they travelled, as key runs.
//! Those that are ordered are [`Runs`]; those whose keys are still coming in parts are
//! [`OpenRuns`].

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::index::{Mark, NEVER, SourceId};
use crate::key::{Fingerprint, Key, KeyType, Relation, relation};
use crate::key_run::{KeyRun, KeyStream, PartKeys};
use crate::key_set::DecodeKeysError;
use crate::request::Source;

#[derive(Debug)]
pub(crate) enum RunKeys {
    Whole(KeyRun),
    /// Keys that came in parts: so many before the last piece.
    Parts {
        id: OpenId,
        run: OpenRun,
        parts: usize,
    },
}

impl RunKeys {
    fn find(&self, key: Fingerprint) -> Option<Key> {
        match self {
            RunKeys::Whole(keys) => keys.find(key),
            RunKeys::Parts { run, .. } => run.find(key),
        }
    }

    fn len(&self) -> usize {
        match self {
            RunKeys::Whole(keys) => keys.len(),
            RunKeys::Parts { run, .. } => run.len(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            RunKeys::Whole(keys) => keys.bytes(),
            RunKeys::Parts { run, .. } => run.bytes(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct OrderedRun {
    pub(crate) seqno: i64,
    pub(crate) source: SourceId,
    pub(crate) keys: RunKeys,
}

/// The write sets of the window that are too large for the index. Each was ordered once and holds
/// its keys once, so its mark on a key is its seqno and its source. No mark of the index is
/// replaced by it: a rollback only drops it, and a verdict takes the later of what the index and
/// the runs say.
///
/// Invariant: the runs ascend by seqno, and all are in the window.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    ordered: VecDeque<OrderedRun>,
    keys: usize,
}

impl Runs {
    pub(crate) fn push(&mut self, run: OrderedRun) {
        self.keys += run.keys.len();
        self.ordered.push_back(run);
    }

    /// How a key is held by the runs, and by which.
    pub(crate) fn marks(&self, key: Fingerprint) -> impl Iterator<Item = (KeyType, Mark)> {
        self.ordered.iter().filter_map(move |run| {
            let found = run.keys.find(key)?;
            Some((found.kind, Mark::of(run.seqno, run.source)))
        })
    }

    /// The action `seqno`, the last one, is undone. Returns its keys if it was one of the runs.
    pub(crate) fn rollback(&mut self, seqno: i64) -> Option<RunKeys> {
        self.ordered.back().filter(|run| run.seqno == seqno)?;
        let undone = self.ordered.pop_back()?;
        self.keys -= undone.keys.len();
        Some(undone.keys)
    }

    /// Drops the runs at or below this seqno, which have left the window.
    pub(crate) fn window_starts_at(&mut self, start: i64) {
        while self.ordered.front().is_some_and(|run| run.seqno <= start) {
            let left = self.ordered.pop_front();
            self.keys -= left.map_or(0, |run| run.keys.len());
        }
    }

    /// Whether there are more runs, or keys in them, than these. One run alone is never too many.
    pub(crate) fn exceed(&self, runs_max: usize, keys_max: usize) -> bool {
        let runs = self.ordered.len();
        runs > 1 && (runs > runs_max || self.keys > keys_max)
    }

    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let keys: usize = self.ordered.iter().map(|run| run.keys.bytes()).sum();
        keys + self.ordered.capacity() * size_of::<OrderedRun>()
    }
}

/// Names a write set whose keys come in parts. Never given twice by one certifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenId(u64);

#[derive(Clone, Copy, Debug)]
struct Meeting {
    other_first: Relation,
    /// If the one with the part is ordered first.
    self_first: Relation,
}

#[derive(Debug)]
struct RunPart {
    keys: PartKeys,
    stream: KeyStream,
    /// First error of the keys up to this part.
    error: Option<DecodeKeysError>,
    /// Ordered actions that mattered to the parts up to this one when each came.
    touch: Touch,
    /// Open write sets that had keys of this part when it came.
    meetings: BTreeMap<OpenId, Meeting>,
}

#[derive(Debug)]
pub(crate) struct OpenRun {
    member: u64,
    parts: Vec<RunPart>,
    /// Actions ordered after the parts that they touch had come.
    hits: Touch,
}

impl OpenRun {
    fn find(&self, wanted: Fingerprint) -> Option<Key> {
        let ends_before = |part: &RunPart| part.stream.last().is_none_or(|last| last < wanted);
        let at = self.parts.partition_point(ends_before);
        self.parts.get(at)?.keys.find(wanted)
    }

    pub(crate) fn part_count(&self) -> usize {
        self.parts.len()
    }

    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.keys.len()).sum()
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.keys.bytes()).sum()
    }

    pub(crate) fn member(&self) -> u64 {
        self.member
    }

    pub(crate) fn touch(&self) -> Touch {
        let mut touch = self.hits.clone();
        if let Some(last) = self.parts.last() {
            touch.merge(&last.touch);
        }
        touch
    }

    pub(crate) fn read(&self, part: Bytes) -> Result<(PartKeys, KeyStream), DecodeKeysError> {
        let last = self.parts.last();
        if let Some(error) = last.and_then(|last| last.error) {
            return Err(error);
        }
        let mut stream = last.map_or_else(KeyStream::default, |last| last.stream.clone());
        Ok((stream.take(part)?, stream))
    }

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

/// The write sets that are not ordered yet, and whose keys come in parts.
///
/// Each part is compared once, when it comes, with what is ordered and with the other open write
/// sets; and each action that is ordered later is compared with the parts that are here. So every
/// pair of holds is looked at once, in steps no larger than a part, and the verdict at the end only
/// takes the latest of what was found.
///
/// Invariants: the keys of an open run ascend from part to part. A part that came later than
/// another, in whichever run, is retracted before it.
#[derive(Debug, Default)]
pub(crate) struct OpenRuns {
    runs: BTreeMap<OpenId, OpenRun>,
    opened: u64,
}

impl OpenRuns {
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

    pub(crate) fn get(&self, id: OpenId) -> Option<&OpenRun> {
        self.runs.get(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

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

    pub(crate) fn retract(&mut self, id: OpenId, kept: usize) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.parts.truncate(kept);
        }
    }

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

/// The latest earlier actions that matter to a write set whose keys come in parts. A verdict needs
/// the snapshot position and the epoch of the write set, which come with its last piece; so this
/// depends on neither, and keeps the latest seqnos for each epoch of the write set's own member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    /// The latest that it depends on or conflicts with.
    any: i64,
    /// The latest conflict with another member, or with a statement in total order.
    foreign: i64,
    /// Conflicts with write sets of its own member, which are none if the epoch is the same.
    own: Vec<OwnEpoch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnEpoch {
    epoch: u64,
    latest: i64,
    /// The latest of any other source on the keys where an action of this epoch was the latest.
    other: i64,
}

impl Touch {
    pub(crate) const NONE: Touch = Touch {
        any: NEVER,
        foreign: NEVER,
        own: Vec::new(),
    };

    pub(crate) fn any(&self) -> i64 {
        self.any
    }

    /// The latest conflict with another member, whatever the epoch turns out to be.
    pub(crate) fn foreign(&self) -> i64 {
        self.foreign
    }

    pub(crate) fn foreign_to(&self, epoch: u64) -> i64 {
        let of = |own: &OwnEpoch| {
            if own.epoch == epoch {
                own.other
            } else {
                own.latest
            }
        };
        self.own.iter().map(of).fold(self.foreign, i64::max)
    }

    /// A hold with this mark relates to a key of a write set of `member`. `source` is that of the
    /// mark's latest action; none if that was ordered in total order.
    pub(crate) fn add(
        &mut self,
        relation: Relation,
        mark: Mark,
        source: Option<Source>,
        member: u64,
    ) {
        match relation {
            Relation::Nothing => return,
            Relation::Depends => {}
            Relation::Conflicts => match source.filter(|source| source.member == member) {
                None => self.foreign = self.foreign.max(mark.latest),
                Some(Source { epoch, .. }) => {
                    let (latest, other) = (mark.latest, mark.other());
                    self.add_own(OwnEpoch {
                        epoch,
                        latest,
                        other,
                    });
                }
            },
        }
        self.any = self.any.max(mark.latest);
    }

    pub(crate) fn merge(&mut self, other: &Touch) {
        self.any = self.any.max(other.any);
        self.foreign = self.foreign.max(other.foreign);
        other.own.iter().for_each(|own| self.add_own(*own));
    }

    /// Forgets conflicts at or below this seqno, which have left the window.
    fn window_starts_at(&mut self, start: i64) {
        self.own.retain(|own| own.latest > start);
    }

    fn add_own(&mut self, new: OwnEpoch) {
        match self.own.iter_mut().find(|own| own.epoch == new.epoch) {
            Some(own) => {
                own.latest = own.latest.max(new.latest);
                own.other = own.other.max(new.other);
            }
            None => self.own.push(new),
        }
    }
}
