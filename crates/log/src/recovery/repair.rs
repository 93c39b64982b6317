//! What to do about damage below a durable floor.
//!
//! The log keeps its good beginning; what is behind it is set aside, and comes again from the peers. The
//! member must not forget two things meanwhile: how far its log went, because the group may have counted
//! on every entry of it (so it must not help to elect a leader that lacks one), and how it voted. Both
//! are repeated in every batch header and segment header, so that any later header tells them. If none is
//! left behind the damage, they are unknown: then the member goes to a term that it cannot have reached,
//! in which it has promised nothing, and counts as under repair until its log has an entry of that term, or of a
//! later one. `docs/decisions/007-repair.md` has the argument.
//!
//! The decision is made durable first (in the control file) and then carried out, so that a crash
//! in between changes nothing.

use std::path::{Path, PathBuf};

use synod_consensus::{Config, EntryId, HardState, LogBase, LogIndex, MemberId, Seqno, Term};

use crate::LogError;
use crate::files::Files;
use crate::format::control::{Control, StreamPosition, TERMS_NOTED};
use crate::format::record::Promised;
use crate::format::segment::{
    Predecessor, SEGMENT_HEADER_BYTES, SegmentHeader, is_set_aside, segment_path, set_aside_path,
    unix_ms,
};
use crate::recovery::beyond_damage::Behind;
use crate::recovery::replay::{Replayed, first_segment, open_chain, open_segment, replay_good};
use crate::retention::spare::make_spare;
use crate::writer::install_segment;

/// No group gets through so many terms by elections: with one every 100 ms it would take 13 years of nothing
/// else. Where terms have jumped, the control file says so.
const TERMS_OUT_OF_REACH: u64 = 2 * TERMS_NOTED;

/// The consensus core takes no higher ones.
const TERM_MAX: Term = Term(u64::MAX / 2);

/// A repair that is possible, for whoever decides whether to make it.
#[derive(Clone, Debug)]
pub struct RepairPlan {
    /// What is damaged.
    pub damage: LogError,
    /// Whose log it is.
    pub member: MemberId,
    /// Last entry that is kept.
    pub kept: EntryId,
    /// The log has to reach this entry again (in the order of elections).
    pub until: EntryId,
    /// Whether `until` and the vote are exactly what they were. Otherwise they are unknown, and the
    /// member goes to a term out of reach.
    pub known: bool,
    /// The newest configuration that can be read, before or behind the damage.
    pub config: Config,
    control: Control,
}

/// A repair that was begun just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// What is damaged, in words.
    pub damage: String,
    /// Last entry that was kept.
    pub kept: EntryId,
    /// The log has to reach this entry again.
    pub until: EntryId,
    /// See [`RepairPlan::known`].
    pub known: bool,
}

impl RepairPlan {
    /// For people.
    pub(crate) fn report(&self) -> RepairReport {
        RepairReport {
            damage: self.damage.damage().unwrap_or_default(),
            kept: self.kept,
            until: self.until,
            known: self.known,
        }
    }

    /// Makes the decision durable. It is carried out by [`carry_out`], now or at the next start.
    pub(crate) fn decide(&self, files: &dyn Files, dir: &Path) -> Result<(), LogError> {
        self.control.write(files, dir)
    }
}

/// Finds out how a log that could not be replayed (`error`) can be repaired.
///
/// # Errors
/// `error` itself if nothing is physically damaged, or nothing can be said about the damage; those of
/// reading.
pub(crate) fn plan(
    files: &dyn Files,
    dir: &Path,
    control: &Control,
    numbers: &[u64],
    error: LogError,
) -> Result<RepairPlan, LogError> {
    let chain = open_chain(files, dir, control, numbers)?;
    let mut good = replay_good(&chain.segments, control, 1, &mut |_| Ok(()))?;
    let Some(damage) = good.damage.take().or(chain.broken) else {
        return Err(error);
    };
    let behind = Behind {
        files,
        dir,
        control,
        numbers,
        start: end_of(&good, control),
    };
    let found = behind.promised()?;
    let before = [
        good.vote.term,
        good.last.term,
        control.base.last.term,
        control.reached,
    ];
    let Some(promised) = found
        .exact
        .or_else(|| out_of_reach(&before, found.highest_term))
    else {
        return Err(damage);
    };
    let config = behind
        .newest_config()?
        .unwrap_or_else(|| newest_config(&good));
    let keeps = !good.segments.is_empty() && good.finish(&chain.segments).is_ok();
    let next = match keeps {
        true => after_the_good(&good),
        false => from_the_base(&good.base, control),
    };
    let cut = SegmentHeader {
        id: random(files, dir)?,
        member: control.identity.member,
        group: control.identity.group,
        vote: promised.vote,
        created_ms: unix_ms(files.now()),
        ..next
    };
    // A repair that was not complete goes on.
    let until = promised.last.max(control.repair_until.unwrap_or_default());
    let mut decided = Control {
        first_segment: first_segment(control),
        repair_until: (until > cut.last).then_some(until),
        ..control.clone()
    };
    if found.exact.is_none() {
        decided.reached = promised.vote.term;
    }
    if !keeps {
        (decided.base, decided.first_segment) = (good.base, cut.number);
    }
    let (member, kept) = (control.identity.member, cut.last);
    decided.cut = Some(Box::new(cut));
    Ok(RepairPlan {
        damage,
        member,
        kept,
        until,
        known: found.exact.is_some(),
        config,
        control: decided,
    })
}

/// Where the good part of the stream ends.
fn end_of(good: &Replayed, control: &Control) -> StreamPosition {
    match good.segments.last() {
        Some(segment) => StreamPosition {
            segment: segment.number,
            offset: good.end.offset,
        },
        None => StreamPosition {
            segment: first_segment(control),
            offset: SEGMENT_HEADER_BYTES,
        },
    }
}

/// A state in which the member has promised nothing yet, and whose term is above all entries that it may have lost.
/// Others may be in that term already, if a second one has been repaired like this: then the first
/// entry of its leader will do, because there may be no other leader for long. `None` if there are no such terms left.
fn out_of_reach(before: &[Term], behind: Term) -> Option<Promised> {
    let highest = before.iter().copied().fold(behind, Term::max);
    let term = Term(highest.0.checked_add(TERMS_OUT_OF_REACH)?);
    if term > TERM_MAX {
        return None;
    }
    Some(Promised {
        vote: HardState {
            term,
            voted_for: None,
        },
        last: EntryId {
            term,
            index: LogIndex(0),
        },
    })
}

fn newest_config(good: &Replayed) -> Config {
    let newest = good.configs.last().unwrap_or(&good.base.config);
    newest.config.clone()
}

/// The segment that goes on where the good part ends. The bytes behind that end stay where they are:
/// nobody reads beyond what the successor states as the end.
fn after_the_good(good: &Replayed) -> SegmentHeader {
    let header = good.tail.back().filter(|header| header.id() == good.last);
    let seqno = match header {
        Some(header) => header.seqno,
        None if good.last == good.base.last => good.base.seqno,
        None => Seqno::UNDEFINED,
    };
    let predecessor = good.segments.last().map(|segment| Predecessor {
        number: segment.number,
        id: segment.id,
        end: segment.end,
    });
    SegmentHeader {
        number: predecessor.map_or(1, |p| p.number + 1),
        predecessor,
        last: good.last,
        seqno,
        first_batch: good.next_batch,
        ..SegmentHeader::default()
    }
}

/// The segment that starts the log again after its base: nothing can be kept.
fn from_the_base(base: &LogBase, control: &Control) -> SegmentHeader {
    SegmentHeader {
        number: first_segment(control),
        predecessor: None,
        last: base.last,
        seqno: base.seqno,
        first_batch: 1,
        ..SegmentHeader::default()
    }
}

/// Not zero.
fn random(files: &dyn Files, dir: &Path) -> Result<u64, LogError> {
    let number = files.random_u64();
    let number = number.map_err(|error| LogError::io("draw an id for", dir, 0, error))?;
    Ok(number.max(1))
}

/// Carries out what the control file says was decided. May be repeated after a crash at any place.
///
/// # Errors
/// Those of reading and writing.
pub(crate) fn carry_out(
    files: &dyn Files,
    dir: &Path,
    mut control: Control,
    numbers: &[u64],
    segment_bytes: u64,
) -> Result<(), LogError> {
    let Some(decided) = control.cut.take() else {
        return Ok(());
    };
    let cut = SegmentHeader {
        size: segment_bytes,
        ..*decided
    };
    let installed = numbers.contains(&cut.number)
        && open_segment(files, dir, cut.number).is_ok_and(|segment| segment.header.id == cut.id);
    if !installed {
        set_aside(files, dir, numbers, &cut)?;
        let file = make_spare(files, dir, cut.size)?;
        install_segment(files, dir, file, &cut)?;
    }
    control.floor = StreamPosition {
        segment: cut.number,
        offset: SEGMENT_HEADER_BYTES,
    };
    control.write(files, dir)
}

/// Durable on return, so that the new segment is never among the old ones.
fn set_aside(
    files: &dyn Files,
    dir: &Path,
    numbers: &[u64],
    cut: &SegmentHeader,
) -> Result<(), LogError> {
    for number in numbers.iter().filter(|number| **number >= cut.number) {
        let (path, aside) = (
            segment_path(dir, *number),
            set_aside_path(dir, *number, cut.id),
        );
        files
            .rename(&path, &aside)
            .map_err(|error| LogError::io("set aside", &path, 0, error))?;
    }
    files
        .sync_dir(dir)
        .map_err(|error| LogError::io("sync", dir, 0, error))
}

/// The segments that repairs have set aside.
pub(crate) fn set_aside_files(files: &dyn Files, dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    let names = files
        .list(dir)
        .map_err(|error| LogError::io("list", dir, 0, error))?;
    let aside = names.iter().filter(|name| is_set_aside(name));
    Ok(aside.map(|name| dir.join(name)).collect())
}
