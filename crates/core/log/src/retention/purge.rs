//! Purging: removes an old prefix of the log, in whole segments. The caller decides up to where; no
//! rule about members is known here. Readers see a purge at once; the files are removed beside the
//! writer ([`Removals`]).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use synod_consensus::{ConfigAt, LogBase, LogIndex};

use crate::files::{Files, Space};
use crate::format::names::segment_path;
use crate::format::segment::unix_ms;
use crate::shared::ControlKeeper;
use crate::{LogError, LogWriter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPoint {
    pub up_to: LogIndex,
    /// The log is above its hard bound, so this includes entries that were to be kept. A member
    /// that still needs them has to take a full copy.
    pub forced: bool,
}

/// The longest time between two segments that counts towards an age. A wall clock may jump by years
/// (no battery, then network time), and would make a whole log old at once. In an idle group the
/// log stays longer.
const GAP_MAX: Duration = Duration::from_secs(24 * 3600);

/// Oldest first; the times are in milliseconds since 1970.
fn ages(created_ms: &[u64], now_ms: u64) -> Vec<Duration> {
    let (mut later, mut age) = (now_ms, Duration::ZERO);
    let mut ages: Vec<Duration> = Vec::with_capacity(created_ms.len());
    for created in created_ms.iter().rev() {
        age += Duration::from_millis(later.saturating_sub(*created)).min(GAP_MAX);
        later = *created;
        ages.push(age);
    }
    ages.reverse();
    ages
}

impl LogWriter {
    /// Removes the oldest segments all of whose live entries are at or below `up_to`. `base_config`
    /// gives the configuration in force at an index. Answers the log's new base if it changed.
    ///
    /// How far to purge is the caller's decision alone. Syncs first. The files are removed later; a
    /// crash until then may undo the purge. Errors: [`LogError::NoConfig`] if `base_config` has no
    /// answer (nothing is removed), and those of [`LogWriter::sync`]. If the control file cannot be
    /// replaced, a later call fails; if a purged segment cannot be removed, [`LogWriter::leftover`]
    /// says so.
    pub fn purge(
        &mut self,
        up_to: LogIndex,
        base_config: &dyn Fn(LogIndex) -> Option<ConfigAt>,
    ) -> Result<Option<LogBase>, LogError> {
        self.check_usable()?;
        if self.has_pending() && self.removable(up_to).is_some() {
            // A segment may be removable only because of a truncation that is not yet on disk.
            self.sync()?;
        }
        self.purge_durable(up_to, base_config)
    }

    /// [`LogWriter::purge`] for [`LogWriter::needs_space`]: pending writes stay pending, and the
    /// files are removed on return. Removes nothing if entries are to be truncated.
    pub fn purge_for_space(
        &mut self,
        up_to: LogIndex,
        base_config: &dyn Fn(LogIndex) -> Option<ConfigAt>,
    ) -> Result<Option<LogBase>, LogError> {
        self.check_usable()?;
        if self.has_pending_removal() {
            return Ok(None);
        }
        let purged = self.purge_durable(up_to, base_config)?;
        self.removals.wait();
        let removed = self.removals.check();
        self.poison_on_error(removed)?;
        Ok(purged)
    }

    /// Why the file of a purged segment is still there, if it is; once for each purge. The log does
    /// not need it. The next purge tries to remove it, and so does the next start.
    pub fn leftover(&self) -> Option<LogError> {
        self.removals.leftover()
    }

    fn purge_durable(
        &mut self,
        up_to: LogIndex,
        base_config: &dyn Fn(LogIndex) -> Option<ConfigAt>,
    ) -> Result<Option<LogBase>, LogError> {
        let Some((first_kept, last_purged)) = self.removable(up_to) else {
            return Ok(None);
        };
        let base = self.base_after(last_purged, base_config)?;
        let changed = base.last != self.shared.state().base.last;
        let done = self.remove_segments_below(first_kept, base.clone());
        self.poison_on_error(done)?;
        Ok(changed.then_some(base))
    }

    /// Point up to which size and age ask for a purge, if at all: segments beyond
    /// [`crate::LogOptions::retain_bytes`] or whose newest entry is older than
    /// [`crate::LogOptions::retain_age`]; a jump of the wall clock ages no segment by more than a
    /// day. Entries at and above `keep_from` stay, unless the log is larger than its
    /// [`LogWriter::disk_bound`]. The newest segment always stays.
    pub fn retention_point(&self, keep_from: LogIndex, now: SystemTime) -> Option<RetentionPoint> {
        let state = self.shared.state();
        let segments: Vec<_> = state.segments.values().collect();
        let mut size: u64 = segments.iter().map(|segment| segment.size).sum();
        let retain_bytes = self.retain_bytes();
        // A purge does not change it: what the log gives up is free then.
        let bound = self.bound_of(size);
        let created: Vec<u64> = segments.iter().map(|segment| segment.created_ms).collect();
        let ages = ages(&created, unix_ms(now));
        let mut point = None;
        for (pair, age) in segments.windows(2).zip(ages.iter().skip(1)) {
            // All of a segment is older than its successor.
            let old = *age > self.options.retain_age;
            if size <= retain_bytes && !old {
                break;
            }
            let live = state.index.last_in_segments_to(pair[0].number);
            let up_to = live.unwrap_or(state.base.last.index);
            let needed = up_to >= keep_from;
            if needed && size <= bound {
                break;
            }
            size -= pair[0].size;
            point = Some(RetentionPoint {
                up_to,
                forced: needed,
            });
        }
        point
    }

    /// Whether the log is beyond its [`LogWriter::disk_bound`] by more than the segment that is
    /// being written and the one prepared to follow it.
    pub fn is_full(&self) -> bool {
        self.is_beyond_bound_by(self.options.segment_bytes.saturating_mul(2))
    }

    /// Whether the log is beyond its [`LogWriter::disk_bound`], and will be full soon.
    pub fn is_tight(&self) -> bool {
        self.is_beyond_bound_by(0)
    }

    fn is_beyond_bound_by(&self, more: u64) -> bool {
        let size = self.size_bytes();
        let is_above = |bound: u64| size > bound.saturating_add(more);
        // Asked at each sync: the file system need not be, most of the time.
        is_above(self.retain_bytes().saturating_mul(2)) && is_above(self.bound_of(size))
    }

    /// The size in bytes up to which entries are kept that members need: twice
    /// [`crate::LogOptions::retain_bytes`], or more, as long as so much of the file system is free
    /// as [`crate::LogOptions::free_percent_min`] asks for.
    pub fn disk_bound(&self) -> u64 {
        self.bound_of(self.size_bytes())
    }

    fn bound_of(&self, size: u64) -> u64 {
        let least = self.retain_bytes().saturating_mul(2);
        if size <= self.retain_bytes() {
            // It says nothing yet; the file system need not be asked.
            return least;
        }
        let beside = |space| self.options.size_beside(space, size);
        self.space().map_or(least, |space| beside(space).max(least))
    }

    pub fn retain_bytes(&self) -> u64 {
        let member = self.control.values().identity.member;
        self.options.spread_retain_bytes(member)
    }

    /// The space of the file system that holds the log; `None` if that is not known.
    pub fn space(&self) -> Option<Space> {
        self.files.space(self.shared.dir()).ok().flatten()
    }

    /// After a reset: removes the segments before it, which hold no live entries.
    pub(crate) fn purge_segments_before_reset(&mut self) -> Result<(), LogError> {
        let base = self.shared.state().base.clone();
        let first_kept = self.control.values().first_segment;
        let first_kept = self.stream.reset_in.unwrap_or(first_kept);
        self.remove_segments_below(first_kept, base)
    }

    fn removable(&self, up_to: LogIndex) -> Option<(u64, LogIndex)> {
        let state = self.shared.state();
        let base = state.base.last.index;
        let numbers: Vec<u64> = state.segments.keys().copied().collect();
        let last_if_removable = |number: &u64| {
            let last = state.index.last_in_segments_to(*number).unwrap_or(base);
            (last <= up_to || last <= base).then_some(last)
        };
        let without_active = numbers.split_last()?.1;
        let removable: Vec<LogIndex> = without_active.iter().map_while(last_if_removable).collect();
        let last_purged = *removable.last()?;
        Some((*numbers.get(removable.len())?, last_purged))
    }

    fn base_after(
        &self,
        last_purged: LogIndex,
        base_config: &dyn Fn(LogIndex) -> Option<ConfigAt>,
    ) -> Result<LogBase, LogError> {
        let base = self.shared.state().base.clone();
        if last_purged <= base.last.index {
            return Ok(base);
        }
        let last = self.tip_at(last_purged)?;
        let config = base_config(last_purged).ok_or(LogError::NoConfig { index: last_purged })?;
        Ok(LogBase {
            last: last.id,
            seqno: last.seqno,
            config,
        })
    }

    /// Segments below the first one of the control file are leftovers.
    fn remove_segments_below(&mut self, first_kept: u64, base: LogBase) -> Result<(), LogError> {
        {
            let mut control = self.control.values();
            control.base = base.clone();
            control.first_segment = first_kept;
            control.floor = self.durable_position();
        }
        self.stream.reset_in = None;
        let purged = {
            let mut state = self.shared.state();
            let kept = state.segments.split_off(&first_kept);
            state.index.purge_segments_below(first_kept);
            state.summaries.purge_to(base.last.index);
            state.cache.purge_to(base.last.index);
            state.base = base;
            std::mem::replace(&mut state.segments, kept)
        };
        self.removals.start(purged.into_keys().collect());
        self.removals.check()
    }
}

/// Removes purged segments on threads of their own, beside the writer. Dropping it waits for them.
/// The control file is replaced before any segment is removed, so a crash in between leaves only
/// leftovers, which the next start removes. Until the control file is replaced, a crash undoes the
/// purge. Once it is replaced, the segments are no part of the log. Whatever becomes of their files
/// then, the log is whole: one that is gone already is what was wanted, and one that cannot be
/// removed is a leftover, too.
pub(crate) struct Removals {
    files: Arc<dyn Files>,
    dir: PathBuf,
    control: Arc<ControlKeeper>,
    running: Vec<JoinHandle<()>>,
    results: Arc<Mutex<Results>>,
}

/// Results of removals that are not told yet.
#[derive(Default)]
struct Results {
    failed: Option<LogError>,
    /// Segments whose files are still there. The next removal tries again.
    leftovers: Vec<u64>,
    /// Why they are, until that is taken.
    why: Option<LogError>,
}

impl Removals {
    pub(crate) fn new(files: Arc<dyn Files>, dir: &Path, control: Arc<ControlKeeper>) -> Removals {
        Removals {
            files,
            dir: dir.to_owned(),
            control,
            running: Vec::new(),
            results: Arc::default(),
        }
    }

    fn start(&mut self, numbers: Vec<u64>) {
        let (files, dir) = (self.files.clone(), self.dir.clone());
        let (control, results) = (self.control.clone(), self.results.clone());
        let job = move || {
            if let Err(error) = control.write() {
                locked(&results).failed.get_or_insert(error);
                return;
            }
            let leftovers = std::mem::take(&mut locked(&results).leftovers);
            let all = leftovers.into_iter().chain(numbers.iter().copied());
            let (leftovers, why) = remove(&*files, &dir, all);
            let mut results = locked(&results);
            results.leftovers.extend(leftovers);
            if let Some(why) = why {
                results.why.get_or_insert(why);
            }
        };
        self.running.retain(|thread| !thread.is_finished());
        match self
            .files
            .run_aside("synod-log-purge", Box::new(job.clone()))
        {
            Ok(thread) => self.running.extend(thread),
            Err(_) => job(),
        }
    }

    fn wait(&mut self) {
        for thread in self.running.drain(..) {
            // A panic there leaves segments that the next start removes.
            let _ = thread.join();
        }
    }

    /// Why the control file could not be replaced, once.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        locked(&self.results).failed.take().map_or(Ok(()), Err)
    }

    /// Why files of purged segments are still there, once.
    fn leftover(&self) -> Option<LogError> {
        locked(&self.results).why.take()
    }
}

fn locked(results: &Mutex<Results>) -> MutexGuard<'_, Results> {
    results.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Removals {
    fn drop(&mut self) {
        self.wait();
    }
}

fn remove(
    files: &dyn Files,
    dir: &Path,
    numbers: impl Iterator<Item = u64>,
) -> (Vec<u64>, Option<LogError>) {
    let (mut leftovers, mut why) = (Vec::new(), None);
    for number in numbers {
        let path = segment_path(dir, number);
        match files.remove(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                leftovers.push(number);
                why.get_or_insert(LogError::io("remove", &path, 0, error));
            }
        }
    }
    if let Err(error) = files.sync_dir(dir) {
        why.get_or_insert(LogError::io("sync", dir, 0, error));
    }
    (leftovers, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn hours(created: &[u64], now: u64) -> Vec<u64> {
        let created: Vec<u64> = created.iter().map(|hour| hour * HOUR_MS).collect();
        let ages = ages(&created, now * HOUR_MS);
        ages.iter().map(|age| age.as_secs() / 3600).collect()
    }

    #[test]
    fn segments_age_with_the_clock_and_not_with_its_jumps() {
        assert_eq!(hours(&[100, 110, 115], 120), [20, 10, 5]);
        // Five years at once, before the last segment or after it.
        assert_eq!(hours(&[1, 2, 43_800], 43_801), [26, 25, 1]);
        assert_eq!(hours(&[1, 2, 3], 43_800), [26, 25, 24]);
        // Back, and forward again.
        assert_eq!(hours(&[100, 50, 101], 102), [25, 25, 1]);
        assert_eq!(hours(&[], 5), []);
    }
}
