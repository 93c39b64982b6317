//! The certifier: keeps the certification window, and gives verdicts from it.
//!
//! ```text
//!   window_start        committed            last
//!        |                  |                 |
//!   -----+------------------+-----------------+----> seqno
//!   un-  |  in the index,   |  in the index,  |
//!   known|  for good        |  may roll back  |
//! ```
//!
//! Invariants: `window_start <= committed <= last`. For every action above `committed` there is an
//! undo record. Every action in the window has its keys in the index, or in a run if it is large.
//! Nothing at or below `window_start` has any influence, whether it is still in memory or not: a
//! write set that has not seen it is refused, any other depends on `window_start` anyway.
//!
//! The rules are those of the provider contract, sections 7.2 to 7.4.

mod parts;

use std::collections::VecDeque;

pub use parts::LastPart;
use synod_planted::planted;

use crate::index::{Index, Mark, NEVER, SlotId, SourceId, Sources};
use crate::key::{Key, KeyType, Relation, relation};
use crate::key_set::KeySet;
use crate::request::{Class, Request, Source, Verdict};
use crate::runs::{HitsBefore, OpenRuns, OrderedRun, RunKeys, Runs};

/// Slots cleaned per key added or removed. Four keep the index below 4/3 of its live keys.
const CLEAN_PER_KEY: usize = 4;
/// Lower bound on the slots cleaned per call, while there are any to clean.
const CLEAN_MIN: usize = 64;
/// Upper bound on the removed keys cleaned for at once; a larger backlog is left to later calls.
const CLEAN_MAX: usize = 1024;

/// Bounds of a certifier. They are kept by moving the start of the window, so that old snapshots
/// are refused; only uncommitted actions, which cannot be forgotten, may exceed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertLimits {
    /// Upper bound on the keys in the index. Each costs less than 100 bytes.
    pub entries_max: usize,
    /// Upper bound on the seqnos in the window. Each costs 4 bytes.
    pub span_max: i64,
    /// A write set with more keys than this is kept as a sorted run beside the index, and does not
    /// count for `entries_max`. Below it, the keys go into the index in one step, about 20 ms.
    pub run_above: usize,
    /// Upper bound on the runs in the window: every later key is searched in each of them.
    pub runs_max: usize,
    /// Upper bound on the keys of all runs in the window, 17 bytes each. A single run may be
    /// larger: it is in memory anyway, and write sets that have not seen it would be too old.
    pub run_keys_max: usize,
    /// Upper bound on the write sets whose keys come in parts: every key that is ordered meanwhile
    /// is searched in each of them.
    pub open_max: usize,
}

impl Default for CertLimits {
    fn default() -> CertLimits {
        CertLimits {
            entries_max: 1_000_000,
            span_max: 1_000_000,
            run_above: 1 << 16,
            runs_max: 32,
            run_keys_max: 1 << 24,
            open_max: 32,
        }
    }
}

#[derive(Debug)]
pub struct Certifier {
    limits: CertLimits,
    index: Index,
    runs: Runs,
    open: OpenRuns,
    sources: Sources,
    /// Start of the certification window: actions at or below this seqno are unknown.
    window_start: i64,
    /// Last seqno that can no longer be rolled back.
    committed: i64,
    last: i64,
    /// The last action that everything later depends on; [`NEVER`] if there is none.
    barrier: i64,
    /// For every seqno in the window, ascending: the number of keys whose newest hold is its.
    newest_keys: VecDeque<u32>,
    live_keys: usize,
    undo: VecDeque<Undo>,
    undo_marks: usize,
}

#[derive(Debug)]
struct Undo {
    barrier: i64,
    /// The marks that the action replaced, in the order of its keys.
    marks: Vec<OldMark>,
    /// Touches of the open write sets that the action hit, as they were before it.
    hits: HitsBefore,
}

#[derive(Debug)]
struct OldMark {
    mark: Mark,
    slot: SlotId,
    kind: KeyType,
}

impl Certifier {
    /// A certifier that knows nothing at or below `window_start`. The next one is the first to
    /// ingest.
    pub fn new(window_start: i64, limits: CertLimits) -> Certifier {
        Certifier {
            limits,
            index: Index::default(),
            runs: Runs::default(),
            open: OpenRuns::default(),
            sources: Sources::default(),
            window_start,
            committed: window_start,
            last: window_start,
            barrier: NEVER,
            newest_keys: VecDeque::new(),
            live_keys: 0,
            undo: VecDeque::new(),
            undo_marks: 0,
        }
    }

    /// The verdict for an action that would get `seqno`, the next one. Changes nothing.
    pub fn certify(&self, seqno: i64, request: &Request<'_>) -> Verdict {
        debug_assert_eq!(seqno, self.last + 1, "verdicts are about the next seqno");
        match request.class {
            Class::TotalOrder | Class::Barrier => Verdict::Pass {
                depends_on: seqno - 1,
            },
            Class::WriteSet { pa_unsafe } => self.certify_write_set(seqno, request, pa_unsafe),
        }
    }

    /// An action was appended to the log as `seqno`: by this leader after a pass, or by a follower.
    ///
    /// # Panics
    /// If `seqno` is not the one after the last ingested: a hole would let conflicts pass.
    pub fn ingest(&mut self, seqno: i64, request: &Request<'_>) {
        let barrier = self.begin_ingest(seqno, request.class);
        let none = KeySet::new();
        let (source, keys) = match request.class {
            Class::WriteSet { .. } => {
                let source = self
                    .sources
                    .number(request.source, seqno, self.window_start);
                (source, request.keys)
            }
            Class::TotalOrder => (SourceId::TOTAL_ORDER, request.keys),
            Class::Barrier => (SourceId::TOTAL_ORDER, &none),
        };
        let mark = Mark::of(seqno, source);
        let known = self.sources.source_of(source);
        let hits = self.open.hit(keys.iter(), mark, known);
        let marks = self.hold(seqno, source, keys);
        self.clean(marks.len());
        self.undo_marks += marks.len();
        self.end_ingest(Undo {
            barrier,
            marks,
            hits,
        });
    }

    /// The log was truncated: forgets every action at or above `from`, as if there had been none.
    ///
    /// # Panics
    /// If an action that was reported committed would be forgotten.
    pub fn rollback(&mut self, from: i64) {
        assert!(
            from > self.committed,
            "{from} is committed (up to {})",
            self.committed
        );
        while self.last >= from {
            let undo = self
                .undo
                .pop_back()
                .expect("every action above `committed` has a record");
            self.undo_marks -= undo.marks.len();
            self.barrier = undo.barrier;
            undo.marks
                .into_iter()
                .rev()
                .for_each(|old| self.put_back(old));
            match self.runs.rollback(self.last) {
                Some(RunKeys::Parts { id, run, parts }) => self.open.put_back(id, run, parts),
                Some(RunKeys::Whole(_)) | None => {}
            }
            self.open.undo(undo.hits);
            let left = self.newest_keys.pop_back();
            debug_assert_eq!(left, Some(0), "keys still counted for {}", self.last);
            self.last -= 1;
        }
    }

    /// Actions up to `seqno` are committed: they can no longer be rolled back.
    pub fn committed(&mut self, seqno: i64) {
        let seqno = seqno.min(self.last);
        while self.committed < seqno {
            let undo = self.undo.pop_front();
            self.undo_marks -= undo.map_or(0, |undo| undo.marks.len());
            self.committed += 1;
        }
        self.enforce_limits();
    }

    /// Every live member has applied everything up to `low_water`: no member will send a write set
    /// with an older snapshot position. The window then starts there, but not above the committed
    /// seqno; it never moves back.
    pub fn advance_window(&mut self, low_water: i64) {
        let target = low_water.min(self.committed);
        let keys = self.live_keys;
        while self.window_start < target {
            self.shrink_window();
        }
        self.clean((keys - self.live_keys).min(CLEAN_MAX));
    }

    /// Write sets must have seen this seqno: actions up to it are unknown.
    pub fn window_start(&self) -> i64 {
        self.window_start
    }

    /// The last seqno ingested (and not rolled back).
    pub fn last_seqno(&self) -> i64 {
        self.last
    }

    /// A key counts once, and again for each write set kept as a run.
    pub fn key_count(&self) -> usize {
        self.live_keys + self.runs.keys()
    }

    pub fn memory_bytes(&self) -> usize {
        let undo = self.undo.capacity() * size_of::<Undo>();
        let old_marks = self.undo_marks * size_of::<OldMark>();
        let spans = self.newest_keys.capacity() * size_of::<u32>();
        let runs = self.runs.memory_bytes() + self.open.memory_bytes();
        self.index.memory_bytes() + self.sources.memory_bytes() + runs + undo + old_marks + spans
    }

    fn certify_write_set(&self, seqno: i64, request: &Request<'_>, pa_unsafe: bool) -> Verdict {
        let touched = self.touched(request.source, request.keys);
        self.verdict(seqno, request.last_seen, pa_unsafe, &touched)
    }

    /// The verdict for a write set, by what earlier actions mean for its keys.
    fn verdict(&self, seqno: i64, last_seen: i64, pa_unsafe: bool, touched: &Touched) -> Verdict {
        if last_seen < self.window_start {
            return Verdict::TooOld {
                last_seen,
                window_start: self.window_start,
            };
        }
        let seen = planted!(WindowOffByOne, last_seen, else last_seen + 1);
        if touched.foreign_conflict > seen {
            return Verdict::Conflict {
                with: touched.foreign_conflict,
            };
        }
        if pa_unsafe {
            return Verdict::Pass {
                depends_on: seqno - 1,
            };
        }
        let depends_on = touched.any.max(self.barrier).max(self.window_start);
        Verdict::Pass {
            depends_on: depends_on.min(seqno - 1),
        }
    }

    /// The next seqno is an action of this class. Returns the barrier before it.
    fn begin_ingest(&mut self, seqno: i64, class: Class) -> i64 {
        assert_eq!(
            seqno,
            self.last + 1,
            "actions must be ingested without holes"
        );
        self.last = seqno;
        let barrier = self.barrier;
        if class.runs_alone() {
            self.barrier = seqno;
        }
        barrier
    }

    fn end_ingest(&mut self, undo: Undo) {
        self.undo.push_back(undo);
        self.enforce_limits();
    }

    /// Latest earlier actions that matter for these keys. Marks at or below the start of the window
    /// may be among them without effect: neither `last_seen` nor the least `depends_on` is below
    /// it. Such a mark may carry a source number that belongs to another source by now.
    fn touched(&self, source: Source, keys: &KeySet) -> Touched {
        let source = self.sources.find(source);
        let mut touched = Touched {
            any: NEVER,
            foreign_conflict: NEVER,
        };
        for key in keys {
            if let Some(marks) = self.index.marks(key.fingerprint) {
                for found in KeyType::ALL {
                    touched.add(relation(found, key.kind), marks.get(found), source);
                }
            }
            for (found, mark) in self.runs.marks(key.fingerprint) {
                touched.add(relation(found, key.kind), mark, source);
            }
        }
        touched
    }

    /// Keeps the holds of an action, in the index or as a run; returns the marks replaced.
    fn hold(&mut self, seqno: i64, source: SourceId, keys: &KeySet) -> Vec<OldMark> {
        if keys.len() <= self.limits.run_above {
            return self.record(seqno, source, keys);
        }
        self.newest_keys.push_back(0);
        self.runs.push(OrderedRun {
            seqno,
            source,
            keys: RunKeys::Whole(keys.to_run()),
        });
        Vec::new()
    }

    fn record(&mut self, seqno: i64, source: SourceId, keys: &KeySet) -> Vec<OldMark> {
        let mut replaced = Vec::with_capacity(keys.len());
        for Key { fingerprint, kind } in keys {
            let slot = self.index.slot_of(fingerprint);
            self.uncount(self.index.newest(slot));
            let mark = self.index.mark(slot, kind);
            let next = mark.followed_by(seqno, source);
            self.index.set_mark(slot, kind, next);
            replaced.push(OldMark { mark, slot, kind });
        }
        self.live_keys += replaced.len();
        // A key set has at most u32::MAX keys.
        self.newest_keys.push_back(replaced.len() as u32);
        replaced
    }

    fn put_back(&mut self, old: OldMark) {
        self.uncount(self.index.newest(old.slot));
        self.index.set_mark(old.slot, old.kind, old.mark);
        let newest = self.index.newest(old.slot);
        if newest > self.window_start {
            self.count(newest);
        } else {
            self.index.remove_if_stale(old.slot, self.window_start);
        }
    }

    fn count(&mut self, seqno: i64) {
        let at = self.position(seqno);
        self.newest_keys[at] += 1;
        self.live_keys += 1;
    }

    /// A key no longer has `seqno` as its newest hold. Without effect outside the window.
    fn uncount(&mut self, seqno: i64) {
        if seqno > self.window_start {
            let at = self.position(seqno);
            self.newest_keys[at] -= 1;
            self.live_keys -= 1;
        }
    }

    fn position(&self, seqno: i64) -> usize {
        // Positive and below the window's span, which is in memory.
        (seqno - self.window_start - 1) as usize
    }

    /// Moves the start of the window until the limits hold, or everything committed is outside.
    fn enforce_limits(&mut self) {
        let CertLimits {
            entries_max,
            span_max,
            run_above: _,
            runs_max,
            run_keys_max,
            open_max: _,
        } = self.limits;
        while self.window_start < self.committed
            && (self.live_keys > entries_max
                || self.last - self.window_start > span_max
                || self.runs.exceed(runs_max, run_keys_max))
        {
            self.shrink_window();
        }
    }

    /// `keys` is how many keys came or went: it bounds the work.
    fn clean(&mut self, keys: usize) {
        if self.index.used_slots() > self.live_keys {
            let steps = (CLEAN_PER_KEY * keys).max(CLEAN_MIN);
            self.index.clean(steps, self.window_start);
        }
    }

    fn shrink_window(&mut self) {
        let keys = self.newest_keys.pop_front().unwrap_or(0);
        self.live_keys -= keys as usize;
        self.window_start += 1;
        self.runs.window_starts_at(self.window_start);
        self.open.window_starts_at(self.window_start);
    }
}

/// Result of a search of the index and the runs for the keys of a write set.
struct Touched {
    /// The latest action it depends on or conflicts with.
    any: i64,
    /// The latest action of another source that it conflicts with unless it has seen it.
    foreign_conflict: i64,
}

impl Touched {
    fn add(&mut self, relation: Relation, mark: Mark, source: Option<SourceId>) {
        match relation {
            Relation::Nothing => {}
            Relation::Depends => self.any = self.any.max(mark.latest),
            Relation::Conflicts => {
                self.any = self.any.max(mark.latest);
                self.foreign_conflict = self.foreign_conflict.max(mark.latest_foreign_to(source));
            }
        }
    }
}
