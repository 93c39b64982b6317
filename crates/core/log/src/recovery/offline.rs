//! Reading a log directory without opening it for writing: no file is changed, no lock is taken. A
//! directory in use may be read too. Then the newest batch may be half-written at that moment and
//! show as a torn tail; the report names the process that writes.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use synod_consensus::{EntryId, HardState, LogIndex, MemberId, Seqno};

use crate::files::Files;
#[cfg(unix)]
use crate::files::RealFiles;
use crate::format::control::{Control, StreamPosition};
#[cfg(unix)]
use crate::format::names::lock_path;
use crate::format::names::{list_segments, segment_path};
use crate::format::record::Record;
use crate::recovery::open::{DirectoryState, TornTail, classify_directory};
use crate::recovery::replay::{Event, ReplayResult, Watch, open_segments, replay};
use crate::{Identity, LogError};

#[derive(Clone, Debug)]
pub struct VerifyReport {
    pub dir: PathBuf,
    /// The member and group; `None` if there is no log, or no control file that names them.
    pub identity: Option<Identity>,
    pub segments: u64,
    pub entries: u64,
    pub first: LogIndex,
    pub last: LogIndex,
    /// Seqno before the first action held.
    pub base_seqno: Seqno,
    pub vote: HardState,
    /// Under repair: the log has to reach this entry before its member may lead again.
    pub repairing_until: Option<EntryId>,
    /// A torn tail. It is harmless: the next start cuts it.
    pub torn: Option<TornTail>,
    /// Why a member could not start with this log.
    pub problem: Option<LogError>,
    /// Process that has the log open now; `None` also of files in memory.
    pub writer: Option<u32>,
}

impl VerifyReport {
    pub fn is_sound(&self) -> bool {
        self.problem.is_none()
    }

    fn new(dir: &Path) -> VerifyReport {
        VerifyReport {
            dir: dir.to_owned(),
            identity: None,
            segments: 0,
            entries: 0,
            first: LogIndex(1),
            last: LogIndex(0),
            base_seqno: Seqno(0),
            vote: HardState::default(),
            repairing_until: None,
            torn: None,
            problem: None,
            writer: None,
        }
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "log in {}", self.dir.display())?;
        match &self.identity {
            Some(identity) => writeln!(f, "member {}, group {}", identity.member, identity.group)?,
            None => writeln!(f, "no log identity found")?,
        }
        writeln!(f, "{} entries in {} segments", self.entries, self.segments)?;
        writeln!(
            f,
            "index {} to {}, term {}",
            self.first, self.last, self.vote.term
        )?;
        if let Some(until) = &self.repairing_until {
            writeln!(
                f,
                "under repair until entry {until} has been received again"
            )?;
        }
        if let Some(torn) = &self.torn {
            let path = torn.path.display();
            writeln!(
                f,
                "torn tail in {path} at offset {}; the next start cuts it",
                torn.offset
            )?;
        }
        if let Some(pid) = self.writer {
            writeln!(
                f,
                "in use by process {pid}; the newest records may be half-written"
            )?;
        }
        match &self.problem {
            None => writeln!(f, "sound"),
            Some(problem) => writeln!(f, "NOT SOUND: {problem}"),
        }
    }
}

/// Damage is part of the report, not an error.
#[cfg(unix)]
pub fn verify(dir: &Path) -> Result<VerifyReport, LogError> {
    let writer = writer_of(dir);
    let report = verify_with(&RealFiles, dir)?;
    Ok(VerifyReport { writer, ..report })
}

pub fn verify_with(files: &dyn Files, dir: &Path) -> Result<VerifyReport, LogError> {
    let mut report = VerifyReport::new(dir);
    let mut control = None;
    let found = walk(files, dir, &mut control, &mut |_| Ok(()));
    report.identity = control.as_ref().map(|control| control.identity);
    report.repairing_until = control.and_then(|control| control.repair_until);
    match found {
        Ok(None) => {}
        Ok(Some(replayed)) => {
            report.segments = replayed.segments.len() as u64; // usize is at most 64 bits
            report.first = replayed.base.last.index.next();
            report.last = replayed.last.index;
            report.entries = report.last.0 - replayed.base.last.index.0;
            report.base_seqno = replayed.base.seqno;
            report.vote = replayed.vote;
            report.torn = torn_tail(dir, &replayed);
        }
        Err(error @ LogError::Io { .. }) => return Err(error),
        Err(error) => report.problem = Some(error),
    }
    Ok(report)
}

fn torn_tail(dir: &Path, replayed: &ReplayResult) -> Option<TornTail> {
    let segment = replayed.segments.last().filter(|_| replayed.end.torn)?;
    Some(TornTail {
        path: segment_path(dir, segment.number),
        offset: replayed.end.offset,
    })
}

/// Writes every record, in stream order, one line each: text, or one JSON object per line.
/// Truncated entries are shown where they are. Everything before damage is written before it fails.
#[cfg(unix)]
pub fn dump(dir: &Path, out: &mut dyn Write, json: bool) -> Result<(), LogError> {
    dump_with(&RealFiles, dir, out, json)
}

pub fn dump_with(
    files: &dyn Files,
    dir: &Path,
    out: &mut dyn Write,
    json: bool,
) -> Result<(), LogError> {
    let mut segment = 0;
    let to_error = |error: io::Error| LogError::io("write the dump of", dir, 0, error);
    let watched = walk(files, dir, &mut None, &mut |event| {
        if let Event::Segment(file) = &event {
            segment = file.header.number;
        }
        let line = if json {
            json_line(segment, &event)
        } else {
            text_line(segment, &event)
        };
        writeln!(out, "{line}").map_err(to_error)
    })?;
    let end = watched.map(|replayed| torn_tail(dir, &replayed));
    match end {
        Some(Some(torn)) if json => {
            writeln!(out, "{{\"type\":\"torn\",\"offset\":{}}}", torn.offset)
        }
        Some(Some(torn)) => writeln!(out, "torn tail from offset {}", torn.offset),
        Some(None) | None => Ok(()),
    }
    .map_err(to_error)
}

fn walk(
    files: &dyn Files,
    dir: &Path,
    found: &mut Option<Control>,
    watch: Watch<'_>,
) -> Result<Option<ReplayResult>, LogError> {
    let mut numbers = list_segments(files, dir)?;
    let control = match classify_directory(dir, Control::read(files, dir)?, &numbers)? {
        DirectoryState::Replay(control) => control,
        DirectoryState::Empty | DirectoryState::Unstarted(_) => return Ok(None),
    };
    *found = Some(control.clone());
    numbers.retain(|number| *number >= control.first_segment);
    let chain = open_segments(files, dir, &control, &numbers)?;
    replay(&chain.segments, &control, 1, watch).map(Some)
}

fn text_line(segment: u64, event: &Event<'_>) -> String {
    match event {
        Event::Segment(file) => {
            let h = &file.header;
            format!(
                "segment {segment}: {} bytes, id {:016x}, after {}",
                h.size, h.id, h.last
            )
        }
        Event::Batch { at, header } => format!(
            "{segment}:{} batch {}: {} records, {} bytes, floor {}",
            at.offset, header.number, header.records, header.records_bytes, header.floor
        ),
        Event::Record { at, record } => {
            format!("{segment}:{} {}", at.offset, record_text(record))
        }
    }
}

fn record_text(record: &Record) -> String {
    match record {
        Record::Entry(entry) => {
            let h = &entry.header;
            format!(
                "entry {} {:?} seqno {} depends on {} from {}/{}#{}, {} bytes",
                h.id(),
                h.kind,
                h.seqno,
                h.depends_on,
                h.origin.member,
                h.origin.session,
                h.origin.number,
                h.payload_len
            )
        }
        Record::Truncate(from) => format!("truncate from {from}"),
        Record::Vote(vote) => {
            let voted_for = vote
                .voted_for
                .map_or("no member".to_owned(), |member| member.to_string());
            format!("term {} vote for {voted_for}", vote.term)
        }
        Record::Reset(base) => format!("reset to {} seqno {}", base.last, base.seqno),
    }
}

/// Every string in it is made of digits, letters and dashes, so none needs escapes.
fn json_line(segment: u64, event: &Event<'_>) -> String {
    let place =
        |at: &StreamPosition| format!("\"segment\":{},\"offset\":{}", at.segment, at.offset);
    match event {
        Event::Segment(file) => {
            let h = &file.header;
            format!(
                "{{\"type\":\"segment\",\"segment\":{segment},\"id\":\"{:016x}\",\"bytes\":{},\
                 \"member\":\"{}\",\"group\":\"{}\",\"last_index\":{},\"created_ms\":{}}}",
                h.id, h.size, h.member, h.group, h.last.index, h.created_ms
            )
        }
        Event::Batch { at, header } => format!(
            "{{\"type\":\"batch\",{},\"number\":{},\"records\":{},\"bytes\":{},\"floor\":{}}}",
            place(at),
            header.number,
            header.records,
            header.records_bytes,
            header.floor
        ),
        Event::Record { at, record } => json_record(&place(at), record),
    }
}

fn json_record(place: &str, record: &Record) -> String {
    match record {
        Record::Entry(entry) => {
            let h = &entry.header;
            format!(
                "{{\"type\":\"entry\",{place},\"term\":{},\"index\":{},\"seqno\":{},\
                 \"kind\":\"{:?}\",\
                 \"depends_on\":{},\"member\":\"{}\",\"session\":\"{}\",\
                 \"number\":{},\"bytes\":{}}}",
                h.term,
                h.index,
                h.seqno,
                h.kind,
                h.depends_on,
                h.origin.member,
                h.origin.session,
                h.origin.number,
                h.payload_len
            )
        }
        Record::Truncate(from) => format!("{{\"type\":\"truncate\",{place},\"from\":{from}}}"),
        Record::Vote(vote) => {
            let voted_for = vote.voted_for.unwrap_or(MemberId::NONE);
            format!(
                "{{\"type\":\"vote\",{place},\"term\":{},\"voted_for\":\"{voted_for}\"}}",
                vote.term
            )
        }
        Record::Reset(base) => format!(
            "{{\"type\":\"reset\",{place},\"term\":{},\"index\":{},\"seqno\":{}}}",
            base.last.term, base.last.index, base.seqno
        ),
    }
}

/// The process that holds the lock, from the kernel's list. Asking for the lock here could make a
/// member that starts at this moment fail.
#[cfg(unix)]
fn writer_of(dir: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(lock_path(dir)).ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| flock_holder(line, inode))
}

/// Reads a line like `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`.
#[cfg(unix)]
fn flock_holder(line: &str, inode: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (kind, pid, file) = (words.get(1)?, words.get(4)?, words.get(5)?);
    let found: u64 = file.rsplit(':').next()?.parse().ok()?;
    (*kind == "FLOCK" && found == inode).then(|| pid.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_holder_is_found_in_the_kernels_list() {
        let line = "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF";
        assert_eq!(flock_holder(line, 5678), Some(1234));
        assert_eq!(flock_holder(line, 5679), None);
        assert_eq!(
            flock_holder("2: POSIX  ADVISORY  READ 1 fe:00:5678 0 EOF", 5678),
            None
        );
        assert_eq!(flock_holder("", 5678), None);
    }
}
