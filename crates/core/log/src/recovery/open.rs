//! Opening a log: lock, recover, hand out writer and reader. The order matters. The lock comes
//! first. A repair that an earlier start decided is carried out before anything is read. Then the
//! whole stream is read and judged; until that is done, no file of a log is changed. Then recovery
//! zeroes a torn tail and removes leftovers of purges. Bytes that a failed sync may have left in
//! the page cache only are written again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use synod_consensus::{EntryHeader, LogIndex, MemberId, Recovered};

use crate::files::{File, FileLock, Files, LockError, OpenMode, read_full_at, write_all_at};
use crate::format::control::{Control, ControlFile, StreamPosition};
use crate::format::names::{
    control_path, control_temp_path, list_segments, lock_path, segment_path, spare_path,
};
use crate::format::record::Mismatch;
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, unix_ms};
use crate::format::version::LogFormat;
use crate::recovery::decisions::{
    ControlFact, DirectoryDecision, DirectoryFacts, decide_directory,
};
use crate::recovery::repair::{self, RepairPlan, RepairReport};
use crate::recovery::replay::{ReplayResult, open_segments, replay};
use crate::retention::cache::Cache;
use crate::retention::spare::{create_segment, zero};
use crate::shared::{Shared, State, Tip};
use crate::writer::{ActiveSegment, Stream, WriterParts};
use crate::{Identity, LogError, LogOptions, LogReader, LogWriter};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    pub path: PathBuf,
    pub offset: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    pub segments: u64,
    pub entries: u64,
    /// Size of the segment files in bytes.
    pub bytes: u64,
    /// First index held; one above `last` if the log is empty.
    pub first: LogIndex,
    pub last: LogIndex,
    pub cut: Option<TornTail>,
    pub repair: Option<RepairReport>,
    /// The log's target size in bytes, if the option's is too large for the file system.
    pub retain_reduced_to: Option<u64>,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecoveryReport {
            segments,
            entries,
            bytes,
            first,
            last,
            cut,
            repair: _,
            retain_reduced_to: _,
        } = self;
        write!(
            f,
            "{entries} entries in {segments} segments ({bytes} bytes)"
        )?;
        if *entries > 0 {
            write!(f, ", index {first} to {last}")?;
        }
        match cut {
            Some(cut) => write!(
                f,
                "; torn tail cut at {} offset {}",
                cut.path.display(),
                cut.offset
            ),
            None => write!(f, "; clean end"),
        }
    }
}

pub struct Opened {
    pub writer: LogWriter,
    pub reader: LogReader,
    pub recovered: Recovered,
    pub identity: Identity,
    pub report: RecoveryReport,
    pub created: bool,
}

pub struct Log;

impl Log {
    /// Opens the log in `dir`, creating both as needed. Locks it, recovers, cuts a torn tail.
    /// Touches no file whose name does not match `synod-*.log`. A damaged log is not changed.
    pub fn open(
        files: Arc<dyn Files>,
        dir: &Path,
        options: LogOptions,
    ) -> Result<Opened, LogError> {
        Opener::open(files, dir, options, None)
    }

    /// [`Log::open`] that opens a damaged log under repair, if `consent` agrees to the plan.
    ///
    /// The good beginning is kept, and what follows is set aside. [`Recovered::repair`] states how
    /// far the log has to grow again before its member may lead. The caller must hand that to the
    /// core; otherwise the member breaks its promises to the group. Errors: those of [`Log::open`].
    /// Damage is one if `consent` refuses, or if it cannot be repaired (damage to the control file,
    /// which holds the log's identity).
    pub fn open_or_repair(
        files: Arc<dyn Files>,
        dir: &Path,
        options: LogOptions,
        consent: Consent<'_>,
    ) -> Result<Opened, LogError> {
        Opener::open(files, dir, options, Some(consent))
    }
}

/// Asked once whether a damaged log is repaired as the plan says; `true` agrees. It is asked before
/// any file is changed. A caller agrees only if the group can send the lost entries again, that is,
/// if it is not alone in its group.
pub type Consent<'a> = &'a mut dyn FnMut(&RepairPlan) -> bool;

pub(crate) fn lock(files: &dyn Files, dir: &Path) -> Result<Box<dyn FileLock>, LogError> {
    let path = lock_path(dir);
    files.lock(&path).map_err(|error| match error {
        LockError::Held { pid } => LogError::Locked { path, pid },
        LockError::Io(error) => LogError::io("lock", &path, 0, error),
    })
}

/// Refuses everything but a log that can be replayed, and a place where one, or its first segment,
/// is to be created.
pub(crate) fn classify_directory(
    dir: &Path,
    found: ControlFile,
    numbers: &[u64],
) -> Result<DirectoryState, LogError> {
    let control = match &found {
        ControlFile::Absent => ControlFact::Absent,
        ControlFile::Valid(control) if control.is_unstarted() => ControlFact::NotStarted,
        ControlFile::Valid(_) => ControlFact::Started,
        ControlFile::OtherVersion(_) => ControlFact::OtherVersion,
        ControlFile::Damaged(_) => ControlFact::Damaged,
    };
    let first = match &found {
        ControlFile::Valid(control) => control.first_segment.max(1),
        ControlFile::Absent | ControlFile::OtherVersion(_) | ControlFile::Damaged(_) => 1,
    };
    let segments = numbers.iter().any(|number| *number >= first);
    let path = control_path(dir);
    match (
        decide_directory(DirectoryFacts { control, segments }),
        found,
    ) {
        (DirectoryDecision::Create, _) => Ok(DirectoryState::Empty),
        (DirectoryDecision::CreateFirstSegment, ControlFile::Valid(c)) => {
            Ok(DirectoryState::Unstarted(c))
        }
        // The control file names its first segment from now on: a later start notices if all are
        // lost.
        (DirectoryDecision::Replay, ControlFile::Valid(c)) => Ok(DirectoryState::Replay(Control {
            first_segment: first,
            ..c
        })),
        (DirectoryDecision::RefuseVersion, ControlFile::OtherVersion(other)) => {
            Err(other.in_file(&path))
        }
        (DirectoryDecision::RefuseSegmentsMissing, _) => {
            let mismatch = Mismatch::new("this segment file", "no such file");
            Err(mismatch.at(&segment_path(dir, first), 0, None))
        }
        (DirectoryDecision::RefuseControlDamaged, ControlFile::Damaged(mismatch)) => {
            Err(mismatch.at(&path, 0, None))
        }
        (_, _) => Err(Mismatch::new("a control file", "no such file").at(&path, 0, None)),
    }
}

pub(crate) enum DirectoryState {
    Empty,
    Unstarted(Control),
    Replay(Control),
}

struct Found {
    control: Control,
    replayed: ReplayResult,
    unused: Option<u64>,
}

struct Opener {
    files: Arc<dyn Files>,
    dir: PathBuf,
    options: LogOptions,
    repair: Option<RepairReport>,
    retain_reduced_to: Option<u64>,
}

impl Opener {
    fn open(
        files: Arc<dyn Files>,
        dir: &Path,
        options: LogOptions,
        consent: Option<Consent<'_>>,
    ) -> Result<Opened, LogError> {
        options.check()?;
        files
            .create_dir(dir)
            .map_err(|error| LogError::io("create", dir, 0, error))?;
        let lock = lock(&*files, dir)?;
        let mut opening = Opener {
            files,
            dir: dir.to_owned(),
            options,
            repair: None,
            retain_reduced_to: None,
        };
        opening.fit_to_file_system();
        opening.carry_out_repair()?;
        let created = opening.prepare()?;
        let found = match opening.replay() {
            Ok(found) => found,
            Err(error) => {
                opening.begin_repair(error, consent)?;
                opening.replay()?
            }
        };
        opening.finish(found, lock, created)
    }

    fn fit_to_file_system(&mut self) {
        // If the size is not known, the option counts.
        let space = self.files.space(&self.dir).ok().flatten();
        let fits = space.and_then(|space| self.options.retain_that_fits(space.total));
        if let Some(bytes) = fits {
            self.retain_reduced_to = Some(bytes);
            self.options.retain_bytes = bytes;
        }
    }

    fn carry_out_repair(&self) -> Result<(), LogError> {
        let ControlFile::Valid(control) = Control::read(&*self.files, &self.dir)? else {
            return Ok(());
        };
        let numbers = list_segments(&*self.files, &self.dir)?;
        let size = self.options.spread_segment_bytes(control.identity.member);
        repair::carry_out(&*self.files, &self.dir, control, &numbers, size)
    }

    fn replay(&self) -> Result<Found, LogError> {
        let (control, numbers) = self.read_directory()?;
        let chain = open_segments(&*self.files, &self.dir, &control, &numbers)?;
        let tail_max = self.options.tail_headers_max;
        let replayed = replay(&chain.segments, &control, tail_max, &mut |_| Ok(()))?;
        Ok(Found {
            control,
            replayed,
            unused: chain.unused,
        })
    }

    fn begin_repair(
        &mut self,
        error: LogError,
        consent: Option<Consent<'_>>,
    ) -> Result<(), LogError> {
        let (LogError::Damaged { .. }, Some(consent)) = (&error, consent) else {
            return Err(error);
        };
        let (control, numbers) = self.read_directory()?;
        let (files, dir) = (&*self.files, &self.dir);
        let plan = repair::plan(files, dir, &control, &numbers, error)?;
        if !consent(&plan) {
            return Err(plan.damage);
        }
        plan.decide(files, dir)?;
        self.carry_out_repair()?;
        self.repair = Some(plan.report());
        Ok(())
    }

    /// Answers whether the log is new.
    fn prepare(&mut self) -> Result<bool, LogError> {
        let found = Control::read(&*self.files, &self.dir)?;
        let numbers = list_segments(&*self.files, &self.dir)?;
        match classify_directory(&self.dir, found, &numbers)? {
            DirectoryState::Empty => {
                let control = self.new_control()?;
                control.write(&*self.files, &self.dir)?;
                self.create_first_segment(control)?;
                Ok(true)
            }
            DirectoryState::Unstarted(control) => {
                self.create_first_segment(control)?;
                Ok(true)
            }
            DirectoryState::Replay(_) => Ok(false),
        }
    }

    fn read_directory(&self) -> Result<(Control, Vec<u64>), LogError> {
        let found = Control::read(&*self.files, &self.dir)?;
        let mut numbers = list_segments(&*self.files, &self.dir)?;
        match classify_directory(&self.dir, found, &numbers)? {
            DirectoryState::Replay(control) => {
                numbers.retain(|number| *number >= control.first_segment);
                Ok((control, numbers))
            }
            DirectoryState::Empty | DirectoryState::Unstarted(_) => {
                let mismatch = Mismatch::new("the log just created", "no log");
                Err(mismatch.at(&control_path(&self.dir), 0, None))
            }
        }
    }

    fn new_control(&self) -> Result<Control, LogError> {
        Ok(Control::unstarted(MemberId(self.random()?)))
    }

    fn random(&self) -> Result<u64, LogError> {
        loop {
            let number = self.files.random_u64();
            let number = number.map_err(|e| LogError::io("draw an id for", &self.dir, 0, e))?;
            if number != 0 {
                return Ok(number);
            }
        }
    }

    fn create_first_segment(&self, mut control: Control) -> Result<(), LogError> {
        let member = control.identity.member;
        let size = self.options.spread_segment_bytes(member);
        let header = SegmentHeader {
            format: control.format,
            number: 1,
            id: self.random()?,
            size,
            member,
            group: control.identity.group,
            first_batch: 1,
            created_ms: unix_ms(self.files.now()),
            ..SegmentHeader::default()
        };
        create_segment(&*self.files, &self.dir, &header)?;
        control.first_segment = 1;
        control.newest_segment = 1;
        control.floor = StreamPosition {
            segment: 1,
            offset: SEGMENT_HEADER_BYTES,
        };
        control.write(&*self.files, &self.dir)
    }

    /// Hands out the log. Everything was read and is good, so the directory may be changed now.
    fn finish(
        self,
        found: Found,
        lock: Box<dyn FileLock>,
        created: bool,
    ) -> Result<Opened, LogError> {
        let Found {
            mut control,
            mut replayed,
            unused,
        } = found;
        self.secure_tail(&mut replayed)?;
        self.remove_leftovers(&mut control, unused)?;
        let report = self.report(&replayed);
        let identity = control.identity;
        let (shared, active) = self.share(control.format, &replayed)?;
        let reader = LogReader::new(shared.clone());
        let tail = self.complete_tail(&replayed, &reader)?;
        let tip = tip_of(&replayed, &tail);
        shared.state().last = tip;
        let recovered = Recovered {
            vote: replayed.vote,
            base: replayed.base,
            term_starts: replayed.term_starts,
            configs: replayed.configs,
            tail,
            repair: control.repair_until.filter(|until| tip.id < *until),
        };
        let stream = Stream {
            tip,
            vote: replayed.vote,
            next_batch: replayed.next_batch,
            reset_in: None,
        };
        let (files, options) = (self.files, self.options);
        let parts = WriterParts {
            files,
            options,
            shared,
            control,
            active,
            stream,
            lock,
        };
        let mut writer = LogWriter::new(parts);
        if replayed.end.floor < replayed.end.offset {
            writer.write_control()?;
        }
        writer.note_repaired()?;
        writer.remove_set_aside()?;
        Ok(Opened {
            writer,
            reader,
            recovered,
            identity,
            report,
            created,
        })
    }

    /// Makes sure that the disk has exactly what was read. Rewrites what may exist in the page
    /// cache only (after a failed sync it counts as clean there), and zeros a torn tail.
    fn secure_tail(&self, replayed: &mut ReplayResult) -> Result<(), LogError> {
        let end = replayed.end;
        let Some(segment) = replayed.segments.last_mut() else {
            return Ok(());
        };
        let path = segment_path(&self.dir, segment.number);
        // The header was completed by the first batch.
        let from = if end.floor > SEGMENT_HEADER_BYTES {
            end.floor
        } else {
            0
        };
        let secured = (|| {
            let file = self.files.open(&path, OpenMode::Write)?;
            rewrite(&*file, from.min(end.offset), end.offset)?;
            if end.torn {
                zero(&*file, end.offset, segment.size)?;
            }
            file.sync_data()?;
            self.files.sync_dir(&self.dir)?;
            Ok(file)
        })();
        segment.file = secured.map_err(|e| LogError::io("write to", &path, segment.size, e))?;
        Ok(())
    }

    /// The control file does not name the segment that was made ahead any more when it is removed.
    fn remove_leftovers(&self, control: &mut Control, unused: Option<u64>) -> Result<(), LogError> {
        if let Some(unused) = unused {
            control.newest_segment = unused - 1; // it is not the first
            control.write(&*self.files, &self.dir)?;
        }
        let numbers = list_segments(&*self.files, &self.dir)?;
        let is_leftover = |number: &&u64| {
            **number < control.first_segment || unused.is_some_and(|unused| **number >= unused)
        };
        let old = numbers.iter().filter(is_leftover);
        let mut paths: Vec<PathBuf> = old.map(|number| segment_path(&self.dir, *number)).collect();
        paths.extend([spare_path(&self.dir), control_temp_path(&self.dir)]);
        for path in paths {
            match self.files.remove(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(LogError::io("remove", &path, 0, error)),
            }
        }
        Ok(())
    }

    fn report(&self, replayed: &ReplayResult) -> RecoveryReport {
        let end = replayed.end;
        let last_segment = replayed.segments.last().map_or(0, |segment| segment.number);
        let path = segment_path(&self.dir, last_segment);
        let base = replayed.base.last.index;
        RecoveryReport {
            segments: replayed.segments.len() as u64, // usize is at most 64 bits
            entries: replayed.last.index.0.saturating_sub(base.0),
            bytes: replayed.segments.iter().map(|segment| segment.size).sum(),
            first: base.next(),
            last: replayed.last.index,
            cut: end.torn.then_some(TornTail {
                path,
                offset: end.offset,
            }),
            repair: self.repair.clone(),
            retain_reduced_to: self.retain_reduced_to,
        }
    }

    fn share(
        &self,
        format: LogFormat,
        replayed: &ReplayResult,
    ) -> Result<(Arc<Shared>, ActiveSegment), LogError> {
        let Some(active) = replayed.segments.last().cloned() else {
            let mismatch = Mismatch::new("a segment", "none");
            return Err(mismatch.at(&segment_path(&self.dir, 1), 0, None));
        };
        let segments = replayed
            .segments
            .iter()
            .map(|s| (s.number, s.clone()))
            .collect();
        let state = State {
            format,
            base: replayed.base.clone(),
            last: Tip {
                id: replayed.last,
                seqno: replayed.base.seqno,
            },
            durable: replayed.last.index,
            cache: Cache::new(self.options.cache_bytes),
            index: replayed.index.clone(),
            summaries: replayed.summaries.clone(),
            segments,
            generation: 0,
        };
        Ok((
            Arc::new(Shared::new(&self.dir, state)),
            ActiveSegment::new(active),
        ))
    }

    /// The newest headers. Those that the replay lost to a truncation are read again.
    fn complete_tail(
        &self,
        replayed: &ReplayResult,
        reader: &LogReader,
    ) -> Result<Vec<EntryHeader>, LogError> {
        let last = replayed.last.index;
        let first = replayed.base.last.index.next();
        let wanted = last
            .0
            .saturating_add(1)
            .saturating_sub(self.options.tail_headers_max as u64);
        let from = LogIndex(wanted.max(first.0));
        let kept_from = replayed
            .tail
            .front()
            .map_or(last.next(), |header| header.index);
        let mut tail = Vec::new();
        let mut next = from;
        while next < kept_from {
            for entry in reader.read(next, kept_from.prev(), 1 << 20)? {
                next = entry.header.index.next();
                tail.push(entry.header);
            }
        }
        tail.extend(replayed.tail.iter().filter(|header| header.index >= from));
        Ok(tail)
    }
}

fn tip_of(replayed: &ReplayResult, tail: &[EntryHeader]) -> Tip {
    match tail.last() {
        Some(header) => Tip {
            id: header.id(),
            seqno: header.seqno,
        },
        None => Tip {
            id: replayed.base.last,
            seqno: replayed.base.seqno,
        },
    }
}

const REWRITE_BYTES: u64 = 1 << 20;

fn rewrite(file: &dyn File, from: u64, to: u64) -> std::io::Result<()> {
    let mut at = from;
    while at < to {
        let mut bytes = vec![0; (to - at).min(REWRITE_BYTES) as usize]; // at most 1 MiB
        let len = read_full_at(file, &mut bytes, at)?;
        write_all_at(file, &bytes[..len], at)?;
        at += bytes.len() as u64;
    }
    Ok(())
}
