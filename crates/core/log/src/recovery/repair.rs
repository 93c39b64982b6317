//! Repair of a log that is damaged below a durable floor.
//!
//! The log keeps its good beginning. What follows is set aside and comes again from the peers.
//! Meanwhile the member must remember two things. How far its log went: the group may have counted
//! on every entry of it, so the member must not help to elect a leader that lacks one. And how it
//! voted. Both are repeated in every batch header and segment header, so any header after the
//! damage states them. If no such header is left, they are unknown. Then the member moves to a term
//! that it cannot have reached, in which it has promised nothing. It counts as under repair until
//! its log has an entry of that term or of a later one (decision 005).
//!
//! [`plan`] changes nothing. [`RepairPlan::decide`] makes the decision durable in the control file,
//! and [`carry_out`] executes it, so that a crash in between changes nothing.

use std::path::Path;

use synod_consensus::{Config, EntryId, HardState, LogBase, LogIndex, MemberId, Seqno, Term};

use crate::LogError;
use crate::files::Files;
use crate::format::control::{Control, StreamPosition, TERMS_NOTED};
use crate::format::names::{segment_path, set_aside_path};
use crate::format::record::Promises;
use crate::format::segment::{Predecessor, SEGMENT_HEADER_BYTES, SegmentHeader, unix_ms};
use crate::recovery::beyond_damage::{BeyondDamage, PromiseEvidence};
use crate::recovery::replay::{
    ReplayResult, SegmentFile, first_segment, open_chain, open_segment, replay_good,
};
use crate::retention::spare::create_segment;

/// No group gets through so many terms by elections: with one every 100 ms it would take 13 years
/// of nothing else. Where terms have jumped, the control file notes it.
const TERMS_OUT_OF_REACH: u64 = 2 * TERMS_NOTED;

/// The consensus core takes no higher ones.
const TERM_MAX: Term = Term(u64::MAX / 2);

#[derive(Clone, Debug)]
pub struct RepairPlan {
    pub damage: LogError,
    pub member: MemberId,
    pub kept: EntryId,
    /// The log has to reach this entry again (in the order of elections).
    pub until: EntryId,
    /// Whether `until` and the vote are exactly what they were. Otherwise they are unknown, and the
    /// member moves to a term out of reach.
    pub known: bool,
    /// The newest configuration that can be read, before or after the damage.
    pub config: Config,
    control: Control,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    pub damage: String,
    pub kept: EntryId,
    /// The log has to reach this entry again.
    pub until: EntryId,
    pub known: bool,
}

impl RepairPlan {
    pub(crate) fn report(&self) -> RepairReport {
        RepairReport {
            damage: self.damage.damage().unwrap_or_default(),
            kept: self.kept,
            until: self.until,
            known: self.known,
        }
    }

    pub(crate) fn decide(&self, files: &dyn Files, dir: &Path) -> Result<(), LogError> {
        self.control.write(files, dir)
    }
}

/// Finds out how a log that could not be replayed (`error`) can be repaired. Errors: `error` itself
/// if no byte is damaged. The damage if the terms are used up. Those of reading.
pub(crate) fn plan(
    files: &dyn Files,
    dir: &Path,
    control: &Control,
    numbers: &[u64],
    error: LogError,
) -> Result<RepairPlan, LogError> {
    let Some(mut part) = GoodPart::read(files, dir, control, numbers)? else {
        return Err(error);
    };
    let beyond = BeyondDamage {
        files,
        dir,
        control,
        numbers,
        start: end_of(&part.good, control),
    };
    let evidence = beyond.promises()?;
    let Some(promises) = promises_to_keep(&part.good, control, &evidence) else {
        return Err(part.damage);
    };
    let config = beyond.newest_config()?;
    let config = config.unwrap_or_else(|| newest_config(&part.good));
    let keeps_entries = part.follows_its_base();
    let next = if keeps_entries {
        segment_after(&part.good)
    } else {
        segment_at_base(&part.good.base, control)
    };
    let segment = SegmentHeader {
        format: control.format,
        id: random(files, dir)?,
        member: control.identity.member,
        group: control.identity.group,
        vote: promises.vote,
        created_ms: unix_ms(files.now()),
        ..next
    };
    // A repair that was not complete continues.
    let until = promises.last.max(control.repair_until.unwrap_or_default());
    let new_base = (!keeps_entries).then_some(part.good.base);
    let known = evidence.exact.is_some();
    Ok(RepairPlan {
        damage: part.damage,
        member: control.identity.member,
        kept: segment.last,
        until,
        known,
        config,
        control: decided_control(control, segment, until, known, new_base),
    })
}

struct GoodPart {
    segments: Vec<SegmentFile>,
    good: ReplayResult,
    damage: LogError,
}

impl GoodPart {
    /// `None` if no byte is damaged.
    fn read(
        files: &dyn Files,
        dir: &Path,
        control: &Control,
        numbers: &[u64],
    ) -> Result<Option<GoodPart>, LogError> {
        let chain = open_chain(files, dir, control, numbers)?;
        let mut good = replay_good(&chain.segments, control, 1, &mut |_| Ok(()))?;
        let damage = good.damage.take().or(chain.broken);
        Ok(damage.map(|damage| GoodPart {
            segments: chain.segments,
            good,
            damage,
        }))
    }

    /// Whether its entries follow the base of the log. Otherwise none of them can be kept.
    fn follows_its_base(&mut self) -> bool {
        !self.good.segments.is_empty() && self.good.finish(&self.segments).is_ok()
    }
}

/// Promises that bind the member: its own if known, otherwise a term out of reach. `None` if there
/// are no such terms left.
fn promises_to_keep(
    good: &ReplayResult,
    control: &Control,
    evidence: &PromiseEvidence,
) -> Option<Promises> {
    let terms = [
        good.vote.term,
        good.last.term,
        control.base.last.term,
        control.noted_term,
        evidence.highest_term,
    ];
    evidence.exact.or_else(|| out_of_reach(&terms))
}

/// The control file that orders the repair: the stream continues in `segment`.
fn decided_control(
    control: &Control,
    segment: SegmentHeader,
    until: EntryId,
    known: bool,
    new_base: Option<LogBase>,
) -> Control {
    let mut decided = Control {
        first_segment: first_segment(control),
        repair_until: (until > segment.last).then_some(until),
        ..control.clone()
    };
    if !known {
        decided.noted_term = segment.vote.term;
    }
    if let Some(base) = new_base {
        (decided.base, decided.first_segment) = (base, segment.number);
    }
    decided.repair_segment = Some(Box::new(segment));
    decided
}

fn end_of(good: &ReplayResult, control: &Control) -> StreamPosition {
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

/// A state in which the member has promised nothing yet, and whose term is above all entries that
/// it may have lost. Another member may be in that term already, if it was repaired in the same
/// way. Then the first entry of that term's leader is enough, because a term has one leader at
/// most. `None` if there are no such terms left.
fn out_of_reach(terms: &[Term]) -> Option<Promises> {
    let highest = terms.iter().copied().fold(Term(0), Term::max);
    let term = Term(highest.0.checked_add(TERMS_OUT_OF_REACH)?);
    if term > TERM_MAX {
        return None;
    }
    Some(Promises {
        vote: HardState::new(term, None),
        last: EntryId::new(term, LogIndex(0)),
    })
}

fn newest_config(good: &ReplayResult) -> Config {
    let newest = good.configs.last().unwrap_or(&good.base.config);
    newest.config.clone()
}

/// The bytes after the end of the good part stay where they are: no reader looks beyond what the
/// successor states as the end.
fn segment_after(good: &ReplayResult) -> SegmentHeader {
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

/// The segment that starts the log again after its base: no entry can be kept.
fn segment_at_base(base: &LogBase, control: &Control) -> SegmentHeader {
    SegmentHeader {
        number: first_segment(control),
        predecessor: None,
        last: base.last,
        seqno: base.seqno,
        first_batch: 1,
        ..SegmentHeader::default()
    }
}

fn random(files: &dyn Files, dir: &Path) -> Result<u64, LogError> {
    let number = files.random_u64();
    let number = number.map_err(|error| LogError::io("draw an id for", dir, 0, error))?;
    Ok(number.max(1))
}

/// May be repeated after a crash at any place.
pub(crate) fn carry_out(
    files: &dyn Files,
    dir: &Path,
    mut control: Control,
    numbers: &[u64],
    segment_bytes: u64,
) -> Result<(), LogError> {
    let Some(decided) = control.repair_segment.take() else {
        return Ok(());
    };
    let header = SegmentHeader {
        format: decided.format,
        size: segment_bytes,
        ..*decided
    };
    let installed = numbers.contains(&header.number)
        && open_segment(files, dir, header.number)
            .is_ok_and(|segment| segment.header.id == header.id);
    if !installed {
        set_aside(files, dir, numbers, &header)?;
        create_segment(files, dir, &header)?;
    }
    control.floor = StreamPosition {
        segment: header.number,
        offset: SEGMENT_HEADER_BYTES,
    };
    control.newest_segment = header.number;
    control.write(files, dir)
}

/// Durable on return, so that the new segment is never among the old ones.
fn set_aside(
    files: &dyn Files,
    dir: &Path,
    numbers: &[u64],
    new: &SegmentHeader,
) -> Result<(), LogError> {
    for number in numbers.iter().filter(|number| **number >= new.number) {
        let path = segment_path(dir, *number);
        let aside = set_aside_path(dir, *number, new.id);
        files
            .rename(&path, &aside)
            .map_err(|error| LogError::io("set aside", &path, 0, error))?;
    }
    files
        .sync_dir(dir)
        .map_err(|error| LogError::io("sync", dir, 0, error))
}
