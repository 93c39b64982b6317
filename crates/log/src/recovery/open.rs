//! Opening a log: lock, recover, hand out writer and reader.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use synod_consensus::{EntryHeader, GroupId, LogBase, LogIndex, MemberId, Recovered, Term};

use crate::files::{File, FileLock, Files, LockError, OpenMode, read_full_at, write_all_at};
use crate::format::control::{Control, ControlFound, StreamPosition};
use crate::format::record::Bad;
use crate::format::segment::{
    FORMAT_VERSION, SEGMENT_HEADER_BYTES, SegmentHeader, control_path, control_temp_path,
    lock_path, segment_number, segment_path, spare_path, unix_ms,
};
use crate::recovery::decisions::{
    ControlFact, DirectoryDecision, DirectoryFacts, decide_directory,
};
use crate::recovery::repair::{self, RepairPlan, RepairReport};
use crate::recovery::replay::{Replayed, damaged, open_segments, replay};
use crate::retention::cache::Cache;
use crate::retention::spare::{SpareMaker, zero};
use crate::shared::{Shared, State, Tip};
use crate::writer::{Active, Stream, WriterParts, install_segment};
use crate::{LogError, LogOptions, LogReader, LogWriter};

/// Whose log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The member; drawn when the directory is created.
    pub member: MemberId,
    /// Its group; [`GroupId::NONE`] until it joined or bootstrapped one.
    pub group: GroupId,
}

/// A torn tail that recovery removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Segment file.
    pub path: PathBuf,
    /// Where in it the good part ends.
    pub offset: u64,
}

/// What recovery found, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Number of segment files.
    pub segments: u64,
    /// Number of live entries.
    pub entries: u64,
    /// Size of the segment files in bytes.
    pub bytes: u64,
    /// First index held; one above `last` if the log is empty.
    pub first: LogIndex,
    /// Last index held.
    pub last: LogIndex,
    /// What was cut, if anything.
    pub cut: Option<TornTail>,
    /// The repair that was begun, if any.
    pub repair: Option<RepairReport>,
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

/// An open log.
pub struct Opened {
    /// Its one writer.
    pub writer: LogWriter,
    /// A reader; clone it as needed.
    pub reader: LogReader,
    /// For the core.
    pub recovered: Recovered,
    /// Whose log it is.
    pub identity: Identity,
    /// For people.
    pub report: RecoveryReport,
    /// Whether the log was made just now.
    pub created: bool,
}

/// Entry point.
pub struct Log;

impl Log {
    /// Opens the log in `dir`, creating directory and log as needed. Locks it, recovers, cuts a torn
    /// tail. Touches no file whose name does not match `synod-*.log`.
    ///
    /// # Errors
    /// [`LogError::Locked`], [`LogError::Damaged`], [`LogError::Version`], [`LogError::Foreign`],
    /// [`LogError::Option`], [`LogError::NoSpace`], [`LogError::Io`]. A damaged log is not changed.
    pub fn open(
        files: Arc<dyn Files>,
        dir: &Path,
        options: LogOptions,
    ) -> Result<Opened, LogError> {
        Opening::open(files, dir, options, None)
    }

    /// As [`Log::open`]; but if the log is damaged and `consent` agrees to the plan, it is opened under
    /// repair: the good beginning is kept, what is behind it set aside, and [`Recovered::repair`] says how
    /// far the log has to come again before its member may lead. Whoever opens a log under repair
    /// without handing that to the core breaks the group's promises.
    ///
    /// # Errors
    /// As [`Log::open`]. Damage is one if `consent` refuses, or it is of a kind that cannot be repaired
    /// (the control file, which says whose log it is).
    pub fn open_or_repair(
        files: Arc<dyn Files>,
        dir: &Path,
        options: LogOptions,
        consent: Consent<'_>,
    ) -> Result<Opened, LogError> {
        Opening::open(files, dir, options, Some(consent))
    }
}

/// Whether a repair is to be made.
pub type Consent<'a> = &'a mut dyn FnMut(&RepairPlan) -> bool;

fn lock(files: &dyn Files, dir: &Path) -> Result<Box<dyn FileLock>, LogError> {
    let path = lock_path(dir);
    files.lock(&path).map_err(|error| match error {
        LockError::Held { pid } => LogError::Locked { path, pid },
        LockError::Io(error) => LogError::io("lock", &path, 0, error),
    })
}

/// Numbers of the segment files in a directory, ascending.
pub(crate) fn list_segments(files: &dyn Files, dir: &Path) -> Result<Vec<u64>, LogError> {
    let names = files
        .list(dir)
        .map_err(|error| LogError::io("list", dir, 0, error))?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Judges a directory: its control file if it can be replayed, or `None` where a log (or its first
/// segment) is to be created, with the control file that exists already.
pub(crate) fn judge_directory(
    dir: &Path,
    found: ControlFound,
    numbers: &[u64],
) -> Result<Judged, LogError> {
    let control = match &found {
        ControlFound::Absent => ControlFact::Absent,
        ControlFound::Good(control) if control.is_unstarted() => ControlFact::NotStarted,
        ControlFound::Good(_) => ControlFact::Started,
        ControlFound::OtherVersion(_) => ControlFact::OtherVersion,
        ControlFound::Bad(_) => ControlFact::Bad,
    };
    let first = match &found {
        ControlFound::Good(control) => control.first_segment.max(1),
        ControlFound::Absent | ControlFound::OtherVersion(_) | ControlFound::Bad(_) => 1,
    };
    let segments = numbers.iter().any(|number| *number >= first);
    let path = control_path(dir);
    match (
        decide_directory(DirectoryFacts { control, segments }),
        found,
    ) {
        (DirectoryDecision::Create, _) => Ok(Judged::Empty),
        (DirectoryDecision::CreateFirstSegment, ControlFound::Good(c)) => Ok(Judged::Unstarted(c)),
        // From here on it names its first segment, so that a loss of all of them is noticed.
        (DirectoryDecision::Replay, ControlFound::Good(c)) => Ok(Judged::Replay(Control {
            first_segment: first,
            ..c
        })),
        (DirectoryDecision::RefuseVersion, ControlFound::OtherVersion(found)) => {
            Err(LogError::Version {
                path,
                found,
                supported: FORMAT_VERSION,
            })
        }
        (DirectoryDecision::RefuseSegmentsMissing, _) => {
            let bad = Bad::new("this segment file", "no such file");
            Err(damaged(&segment_path(dir, first), 0, None, bad))
        }
        (DirectoryDecision::RefuseControlBad, ControlFound::Bad(bad)) => {
            Err(damaged(&path, 0, None, bad))
        }
        (_, _) => Err(damaged(
            &path,
            0,
            None,
            Bad::new("a control file", "no such file"),
        )),
    }
}

/// What a directory turned out to be.
pub(crate) enum Judged {
    Empty,
    Unstarted(Control),
    Replay(Control),
}

struct Opening {
    files: Arc<dyn Files>,
    dir: PathBuf,
    options: LogOptions,
    repair: Option<RepairReport>,
}

impl Opening {
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
        let mut opening = Opening {
            files,
            dir: dir.to_owned(),
            options,
            repair: None,
        };
        opening.carry_out_repair()?;
        let created = opening.prepare()?;
        let (control, replayed) = match opening.replay() {
            Ok(found) => found,
            Err(error) => {
                opening.begin_repair(error, consent)?;
                opening.replay()?
            }
        };
        opening.finish(control, replayed, lock, created)
    }

    /// Finishes a repair that was decided before a crash.
    fn carry_out_repair(&self) -> Result<(), LogError> {
        let ControlFound::Good(control) = Control::read(&*self.files, &self.dir)? else {
            return Ok(());
        };
        let numbers = list_segments(&*self.files, &self.dir)?;
        let size = self.options.segment_bytes;
        repair::carry_out(&*self.files, &self.dir, control, &numbers, size)
    }

    fn replay(&self) -> Result<(Control, Replayed), LogError> {
        let (control, numbers) = self.read_directory()?;
        let segments = open_segments(&*self.files, &self.dir, &control, &numbers)?;
        let tail_max = self.options.tail_headers_max;
        let replayed = replay(&segments, &control, tail_max, &mut |_| Ok(()))?;
        Ok((control, replayed))
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

    /// Creates what is missing; answers whether the log is new.
    fn prepare(&mut self) -> Result<bool, LogError> {
        let found = Control::read(&*self.files, &self.dir)?;
        let numbers = list_segments(&*self.files, &self.dir)?;
        match judge_directory(&self.dir, found, &numbers)? {
            Judged::Empty => {
                let control = self.new_control()?;
                control.write(&*self.files, &self.dir)?;
                self.create_first_segment(control)?;
                Ok(true)
            }
            Judged::Unstarted(control) => {
                self.create_first_segment(control)?;
                Ok(true)
            }
            Judged::Replay(_) => Ok(false),
        }
    }

    fn read_directory(&self) -> Result<(Control, Vec<u64>), LogError> {
        let found = Control::read(&*self.files, &self.dir)?;
        let mut numbers = list_segments(&*self.files, &self.dir)?;
        match judge_directory(&self.dir, found, &numbers)? {
            Judged::Replay(control) => {
                numbers.retain(|number| *number >= control.first_segment);
                Ok((control, numbers))
            }
            Judged::Empty | Judged::Unstarted(_) => {
                let bad = Bad::new("the log just created", "no log");
                Err(damaged(&control_path(&self.dir), 0, None, bad))
            }
        }
    }

    fn new_control(&self) -> Result<Control, LogError> {
        let identity = Identity {
            member: MemberId(self.random()?),
            group: GroupId::NONE,
        };
        Ok(Control {
            identity,
            first_segment: 0,
            floor: StreamPosition::default(),
            base: LogBase::default(),
            repair_until: None,
            reached: Term(0),
            cut: None,
        })
    }

    /// A random number that is not zero.
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
        let size = self.options.segment_bytes;
        let file = SpareMaker::new(self.files.clone(), &self.dir).take(size)?;
        let header = SegmentHeader {
            number: 1,
            id: self.random()?,
            size,
            member: control.identity.member,
            group: control.identity.group,
            predecessor: None,
            last: Default::default(),
            seqno: Default::default(),
            vote: Default::default(),
            first_batch: 1,
            created_ms: unix_ms(self.files.now()),
        };
        install_segment(&*self.files, &self.dir, file, &header)?;
        control.first_segment = 1;
        control.floor = StreamPosition {
            segment: 1,
            offset: SEGMENT_HEADER_BYTES,
        };
        control.write(&*self.files, &self.dir)
    }

    /// Everything was read and is good; from here on the directory may be changed.
    fn finish(
        self,
        control: Control,
        mut replayed: Replayed,
        lock: Box<dyn FileLock>,
        created: bool,
    ) -> Result<Opened, LogError> {
        self.secure_tail(&mut replayed)?;
        self.remove_leftovers(control.first_segment)?;
        let report = self.report(&replayed);
        let identity = control.identity;
        let (shared, active) = self.share(&replayed)?;
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

    /// Makes sure that the disk has what was read, and nothing more: rewrites what may exist in the
    /// page cache only (after a failed sync it counts as clean there), and zeros a torn tail.
    fn secure_tail(&self, replayed: &mut Replayed) -> Result<(), LogError> {
        let end = replayed.end;
        let Some(segment) = replayed.segments.last_mut() else {
            return Ok(());
        };
        let path = segment_path(&self.dir, segment.number);
        let secured = (|| {
            let file = self.files.open(&path, OpenMode::Write)?;
            rewrite(&*file, end.floor.min(end.offset), end.offset)?;
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

    fn remove_leftovers(&self, first_segment: u64) -> Result<(), LogError> {
        let numbers = list_segments(&*self.files, &self.dir)?;
        let old = numbers.iter().filter(|number| **number < first_segment);
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

    fn report(&self, replayed: &Replayed) -> RecoveryReport {
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
        }
    }

    fn share(&self, replayed: &Replayed) -> Result<(Arc<Shared>, Active), LogError> {
        let Some(active) = replayed.segments.last().cloned() else {
            let bad = Bad::new("a segment", "none");
            return Err(damaged(&segment_path(&self.dir, 1), 0, None, bad));
        };
        let segments = replayed
            .segments
            .iter()
            .map(|s| (s.number, s.clone()))
            .collect();
        let state = State {
            base: replayed.base.clone(),
            last: Tip {
                id: replayed.last,
                seqno: replayed.base.seqno,
            },
            durable: replayed.last.index,
            cache: Cache::new(self.options.cache_bytes),
            index: replayed.index.clone(),
            segments,
            generation: 0,
        };
        Ok((Arc::new(Shared::new(&self.dir, state)), Active::new(active)))
    }

    /// The newest headers; read again where a truncation has eaten into those kept.
    fn complete_tail(
        &self,
        replayed: &Replayed,
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

fn tip_of(replayed: &Replayed, tail: &[EntryHeader]) -> Tip {
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

/// Reads a range and writes the same bytes again.
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
