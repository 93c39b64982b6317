//! Damaged logs that are opened under repair: which entries are kept, which promises are
//! remembered, and what a crash may change.

mod common;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::*;
use synod_consensus::{EntryId, GroupId, HardState, LogIndex, Term};
use synod_log::files::{Fault, FaultKind, Op};
use synod_log::{Entry, FaultyFiles, Files, Log, LogError, MemoryFiles, Opened, RepairPlan};

/// Terms that a repair skips if the vote is unknown.
const OUT_OF_REACH: u64 = 1 << 32;

fn segment(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("synod-{number:016x}.log"))
}

fn open_repairing(files: &(impl Files + Clone + 'static)) -> Result<Opened, LogError> {
    let files = Arc::new(files.clone());
    Log::open_or_repair(files, Path::new(DIR), options(), &mut |_| true)
}

fn id(term: u64, index: u64) -> EntryId {
    EntryId::new(Term(term), LogIndex(index))
}

fn flip(files: &MemoryFiles, path: &Path, offset: usize) {
    let mut content = files.content(path).unwrap();
    content[offset] ^= 0x10;
    files.set_content(path, content);
}

fn set_aside(files: &MemoryFiles) -> Vec<PathBuf> {
    let mut paths = files.paths();
    paths.retain(|path| path.to_string_lossy().contains("synod-damaged-"));
    paths
}

/// A closed log of entries with votes between them, one batch each, over at least `segments`.
fn written(segments: usize, bytes: usize) -> (MemoryFiles, Vec<Entry>, HardState) {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    opened.writer.set_group(GroupId([7; 16])).unwrap();
    let (mut entries, mut term) = (Vec::new(), 0);
    let mut index = 0;
    while files.paths().len() < segments + 2 || index < 20 {
        if index % 7 == 0 {
            term += 1;
            opened.writer.save_vote(vote(term, term + 3)).unwrap();
        }
        index += 1;
        let entry = action(term, index, bytes);
        opened.writer.append(std::slice::from_ref(&entry)).unwrap();
        opened.writer.sync().unwrap();
        entries.push(entry);
    }
    opened.writer.write_floor().unwrap();
    opened.writer.close().unwrap();
    (files, entries, vote(term, term + 3))
}

/// Checks what must hold of every log opened under repair, and gives it its entries back.
fn check_repaired(files: &MemoryFiles, entries: &[Entry], promised: HardState, what: &str) {
    let opened = open_repairing(files).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = all(&opened.reader);
    assert!(entries.starts_with(&found), "{what}: not a prefix");
    let last = entries.last().unwrap().header.id();
    let vote = opened.recovered.vote;
    if vote.term > promised.term {
        let jumped = vote.term.0 - promised.term.0;
        assert!(jumped >= OUT_OF_REACH - 100, "{what}: {vote:?}");
        assert_eq!(vote.voted_for, None, "{what}");
        assert_eq!(
            opened.recovered.repair,
            Some(EntryId::new(vote.term, LogIndex(0)))
        );
    } else {
        assert_eq!(
            vote, promised,
            "{what}: the vote is known, or it is out of reach"
        );
        let lost = found.len() < entries.len();
        assert_eq!(opened.recovered.repair, lost.then_some(last), "{what}");
    }
    complete(files, opened, entries, what);
}

/// The lost entries come again, from a leader of the next term.
fn complete(files: &MemoryFiles, mut opened: Opened, entries: &[Entry], what: &str) {
    let held = opened.reader.last_index().0 as usize;
    opened.writer.append(&entries[held..]).unwrap();
    let next = action(
        opened.recovered.vote.term.0 + 1,
        entries.len() as u64 + 1,
        10,
    );
    opened.writer.append(std::slice::from_ref(&next)).unwrap();
    opened.writer.sync().unwrap();
    opened.writer.close().unwrap();
    let again = open(files);
    assert_eq!(again.recovered.repair, None, "{what}: complete");
    assert_eq!(again.report.repair, None);
    let found = all(&again.reader);
    assert_eq!(
        (&found[..entries.len()], &found[entries.len()..]),
        (entries, &[next][..])
    );
    assert_eq!(set_aside(files), Vec::<PathBuf>::new(), "{what}");
}

#[test]
fn damage_anywhere_in_a_log_keeps_its_beginning_and_its_promises() {
    let (files, entries, promised) = written(1, 500);
    let good = files.content(&segment(1)).unwrap();
    let used = good.iter().rposition(|byte| *byte != 0).unwrap();
    let mut repaired = 0;
    for offset in (0..150).chain((4096..used).step_by(29)) {
        let image = files.crash(u64::MAX);
        flip(&image, &segment(1), offset);
        match try_open(&image).map(drop) {
            // Padding, or another version.
            Ok(()) | Err(LogError::Version { .. }) => continue,
            Err(_) => {}
        }
        check_repaired(&image, &entries, promised, &format!("flip at {offset}"));
        repaired += 1;
    }
    assert!(repaired > 400, "{repaired} cases");
}

#[test]
fn damage_in_any_segment_sets_the_later_ones_aside() {
    let (files, entries, promised) = written(4, 9000);
    for number in 1..=4 {
        for offset in [0, 20, 100, 4096, 4096 + 90, 4096 + 200, 30_000] {
            let image = files.crash(u64::MAX);
            flip(&image, &segment(number), offset);
            if matches!(
                try_open(&image).map(drop),
                Ok(()) | Err(LogError::Version { .. })
            ) {
                continue;
            }
            let what = format!("flip in {number} at {offset}");
            check_repaired(&image, &entries, promised, &what);
        }
        let image = files.crash(u64::MAX);
        image.remove(&segment(number)).unwrap();
        check_repaired(&image, &entries, promised, &format!("without {number}"));
    }
}

#[test]
fn lost_batch_costs_its_own_entries_and_the_rest_is_kept_until_the_repair_ends() {
    let (files, entries, promised) = written(4, 9000);
    flip(&files, &segment(2), 4096 + 300);
    let opened = open_repairing(&files).unwrap();
    assert_eq!(opened.recovered.vote, promised, "known from later headers");
    let kept = opened.reader.last_index();
    assert!(kept.0 > 3 && kept.0 < 10, "all of segment 1: {kept}");
    let report = opened.report.repair.clone().unwrap();
    assert!(report.known && report.damage.contains(&segment(2).display().to_string()));
    assert_eq!(
        (report.kept.index, report.until),
        (kept, entries.last().unwrap().header.id())
    );
    // Segments 3 and up, and the spare.
    assert!(set_aside(&files).len() >= 2, "{:?}", set_aside(&files));
    drop(opened);
    let again = open(&files);
    assert_eq!(
        again.recovered.repair,
        entries.last().map(|e| e.header.id())
    );
    assert!(set_aside(&files).len() >= 2, "kept until it is replaced");
    complete(&files, again, &entries, "the rest");
}

#[test]
fn lost_statement_of_a_floor_matters_once_a_batch_follows_it() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    let entries = actions(1, 1, 2, 100);
    opened.writer.append(&entries[..1]).unwrap();
    opened.writer.sync().unwrap();
    opened.writer.write_floor().unwrap();
    let empty = files.writes(&segment(1)).pop().unwrap();
    let zeros = vec![0; (empty.end - empty.start) as usize];
    files.harm(&segment(1), empty.start, &zeros);
    assert_eq!(all(&open(&files.crash(0)).reader), entries[..1]);

    // The writer does not know, and continues after the gap.
    opened.writer.append(&entries[1..]).unwrap();
    opened.writer.sync().unwrap();
    let image = files.crash(0);
    assert!(matches!(try_open(&image), Err(LogError::Damaged { .. })));
    let repaired = open_repairing(&image).unwrap();
    assert_eq!(all(&repaired.reader), entries[..1]);
    assert_eq!(repaired.recovered.repair, Some(id(1, 2)));
    complete(&image, repaired, &entries, "after the gap");
}

#[test]
fn lost_vote_record_is_known_from_the_next_header() {
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    writer.append(&actions(1, 1, 2, 100)).unwrap();
    writer.sync().unwrap();
    let place = files
        .content(&segment(1))
        .unwrap()
        .iter()
        .rposition(|b| *b != 0)
        .unwrap();
    writer.save_vote(vote(4, 9)).unwrap();
    writer.sync().unwrap();
    writer.write_floor().unwrap();
    drop(writer);
    // In the body of the vote record: after the padding of the last entry and a batch header.
    let content = files.content(&segment(1)).unwrap();
    let magic = content[place..]
        .windows(4)
        .position(|w| w == b"SynR")
        .unwrap();
    flip(&files, &segment(1), place + magic + 20);
    assert!(matches!(
        try_open(&files).map(drop),
        Err(LogError::Damaged { .. })
    ));
    let opened = open_repairing(&files).unwrap();
    assert_eq!(opened.recovered.vote, vote(4, 9));
    assert_eq!(opened.recovered.repair, None, "no entry was lost");
    assert_eq!(all(&opened.reader), actions(1, 1, 2, 100));
}

#[test]
fn damage_at_the_very_end_leaves_promises_unknown() {
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    writer.save_vote(vote(3, 2)).unwrap();
    writer.append(&actions(3, 1, 5, 100)).unwrap();
    writer.sync().unwrap();
    writer.append(&actions(3, 6, 6, 100)).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    let mut content = files.content(&segment(1)).unwrap();
    let last = content.windows(4).rposition(|w| w == b"SynB").unwrap();
    content[last..].fill(0);
    files.set_content(&segment(1), content);
    let opened = open_repairing(&files).unwrap();
    assert!(!opened.report.repair.as_ref().unwrap().known);
    assert_eq!(opened.recovered.vote.term, Term(3 + OUT_OF_REACH));
    assert_eq!(opened.recovered.repair, Some(id(3 + OUT_OF_REACH, 0)));
    assert_eq!(opened.reader.last_index(), LogIndex(5));
}

#[test]
fn truncated_entries_do_not_count_and_their_successors_do() {
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    writer.append(&actions(1, 1, 50, 100)).unwrap();
    writer.sync().unwrap();
    writer.save_vote(vote(2, 2)).unwrap();
    writer.truncate(LogIndex(11)).unwrap();
    writer.append(&actions(2, 11, 12, 100)).unwrap();
    writer.sync().unwrap();
    writer.write_floor().unwrap();
    drop(writer);
    let content = files.content(&segment(1)).unwrap();
    let last = content.windows(4).rposition(|w| w == b"SynR").unwrap();
    flip(&files, &segment(1), last + 30);
    let opened = open_repairing(&files).unwrap();
    // The truncation is lost with the batch; elections compare terms first.
    assert_eq!(opened.reader.last_index(), LogIndex(50));
    assert_eq!(opened.recovered.repair, Some(id(2, 12)));
    assert_eq!(opened.recovered.vote, vote(2, 2));
}

#[test]
fn log_that_begins_with_dropped_entries_starts_from_its_base() {
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    for entry in actions(1, 1, 30, 9000) {
        writer.append(&[entry]).unwrap();
        writer.sync().unwrap();
    }
    writer.save_vote(vote(2, 2)).unwrap();
    writer.truncate(LogIndex(6)).unwrap();
    writer.append(&actions(2, 6, 40, 9000)).unwrap();
    writer.sync().unwrap();
    let base = writer.purge(LogIndex(8), &no_config).unwrap().unwrap();
    let first = (1..)
        .find(|n| files.content(&segment(*n)).is_some())
        .unwrap();
    writer.close().unwrap();
    assert!(first > 1);
    flip(&files, &segment(first), 4096 + 100);
    let opened = open_repairing(&files).unwrap();
    assert_eq!(opened.recovered.base, base);
    let kept = opened.reader.last_index();
    assert!(kept >= base.last.index);
    assert_eq!(opened.recovered.repair, Some(id(2, 40)));
    let mut writer = opened.writer;
    writer.append(&actions(2, kept.0 + 1, 40, 9000)).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let again = open(&files);
    assert_eq!(
        all(&again.reader),
        actions(2, base.last.index.0 + 1, 40, 9000)
    );
    assert_eq!(again.recovered.repair, None);
}

#[test]
fn base_of_the_leader_ends_a_repair_too() {
    let (files, _, promised) = written(4, 9000);
    flip(&files, &segment(1), 4096 + 200);
    let mut opened = open_repairing(&files).unwrap();
    opened
        .writer
        .reset(base(promised.term.0 + 1, 500, 400))
        .unwrap();
    opened.writer.sync().unwrap();
    assert_eq!(set_aside(&files), Vec::<PathBuf>::new());
    drop(opened);
    assert_eq!(open(&files).recovered.repair, None);
}

#[test]
fn refused_repair_changes_nothing() {
    let (files, _, _) = written(3, 9000);
    flip(&files, &segment(2), 4096 + 200);
    let before: Vec<_> = files.paths().iter().map(|p| files.content(p)).collect();
    let mut seen: Option<RepairPlan> = None;
    let refused = Log::open_or_repair(
        Arc::new(files.clone()),
        Path::new(DIR),
        options(),
        &mut |plan| {
            seen = Some(plan.clone());
            false
        },
    );
    assert!(matches!(refused.map(drop), Err(LogError::Damaged { .. })));
    let after: Vec<_> = files.paths().iter().map(|p| files.content(p)).collect();
    assert!(before == after && seen.unwrap().known);
}

#[test]
fn damaged_control_file_cannot_be_repaired() {
    let (files, _, _) = written(2, 9000);
    flip(&files, &Path::new(DIR).join("synod-control.log"), 30);
    let refused = open_repairing(&files).map(drop);
    assert!(
        matches!(refused, Err(LogError::Damaged { .. })),
        "{refused:?}"
    );
}

#[test]
fn unreadable_sectors_are_damage_like_any_other() {
    let (files, entries, promised) = written(4, 9000);
    for (number, bytes) in [(2, 8192..12_288), (3, 4096..8192), (4, 4096..4608)] {
        let image = files.crash(u64::MAX);
        let faulty = FaultyFiles::new(Arc::new(image.clone()));
        faulty.unreadable(&segment(number), bytes.clone());
        let what = format!("segment {number}, {bytes:?}");
        let refused = try_open(&faulty).map(drop);
        assert!(
            matches!(refused, Err(LogError::Damaged { .. })),
            "{what}: {refused:?}"
        );
        let opened = open_repairing(&faulty).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = all(&opened.reader);
        assert!(
            entries.starts_with(&found) && found.len() < entries.len(),
            "{what}"
        );
        assert_eq!(
            opened.recovered.vote, promised,
            "{what}: other pages state it"
        );
        assert_eq!(
            opened.recovered.repair,
            entries.last().map(|e| e.header.id())
        );
        drop(opened);
        check_repaired(&image, &entries, promised, &what);
    }
}

#[test]
fn second_damage_during_a_repair_keeps_the_first_mark() {
    let (files, entries, promised) = written(4, 9000);
    let last = entries.last().unwrap().header.id();
    flip(&files, &segment(3), 4096 + 200);
    let mut opened = open_repairing(&files).unwrap();
    let held = opened.reader.last_index().0 as usize;
    opened.writer.append(&entries[held..held + 1]).unwrap();
    opened.writer.close().unwrap();
    flip(&files, &segment(1), 4096 + 200);
    let opened = open_repairing(&files).unwrap();
    assert_eq!(opened.recovered.repair, Some(last));
    assert_eq!(opened.recovered.vote, promised);
    complete(&files, opened, &entries, "twice damaged");
}

/// Cuts power at every change while a log is repaired and completed, and repairs again.
#[test]
fn repair_survives_a_power_cut_at_any_change() {
    let (files, entries, promised) = written(3, 9000);
    let last = entries.last().unwrap().header.id();
    flip(&files, &segment(2), 4096 + 200);
    for nth in 1.. {
        let image = files.crash(u64::MAX);
        let faulty = FaultyFiles::new(Arc::new(image.clone()));
        faulty.plan(Fault {
            op: Op::Change,
            nth,
            kind: FaultKind::Always(ErrorKind::Other),
        });
        let done = open_repairing(&faulty).and_then(|mut opened| {
            let held = opened.reader.last_index().0 as usize;
            for entry in &entries[held..] {
                opened.writer.append(std::slice::from_ref(entry))?;
                opened.writer.sync()?;
            }
            Ok(())
        });
        for seed in [0, u64::MAX, 100 + nth, 1000 + nth] {
            let what = format!("change {nth}, seed {seed}");
            let after = image.crash(seed);
            let opened = open_repairing(&after).unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = all(&opened.reader);
            assert!(entries.starts_with(&found), "{what}");
            assert_eq!(opened.recovered.vote, promised, "{what}");
            let lost = found.len() < entries.len();
            assert_eq!(opened.recovered.repair, lost.then_some(last), "{what}");
            complete(&after, opened, &entries, &what);
        }
        if done.is_ok() {
            assert!(nth > 20, "ended after {nth} changes");
            break;
        }
    }
}

#[test]
fn promises_are_unknown_if_something_unreadable_follows_the_newest_header() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    opened.writer.set_group(GroupId([7; 16])).unwrap();
    opened.writer.save_vote(vote(1, 4)).unwrap();
    let entries = actions(1, 1, 30, 500);
    for entry in &entries {
        opened.writer.append(std::slice::from_ref(entry)).unwrap();
        opened.writer.sync().unwrap();
    }
    // No orderly stop: its floor in the control file would reveal the loss.
    let image = files.crash(u64::MAX);
    let writes = image.writes(&segment(1));
    let (lost, last) = (&writes[10], writes.last().unwrap());
    let mut stray = vec![0; (lost.end - lost.start) as usize];
    let content = image.content(&segment(1)).unwrap();
    stray.copy_from_slice(&content[lost.start as usize..lost.end as usize]);
    // One write was misdirected: it is missing at its place, and has overwritten the last headers.
    image.harm(&segment(1), lost.start, &vec![0; stray.len()]);
    image.harm(&segment(1), last.start + 100 - stray.len() as u64, &stray);
    check_repaired(&image, &entries, vote(1, 4), "a stray write");
}

#[test]
fn unknown_promises_are_beyond_terms_that_others_made_jump() {
    let files = MemoryFiles::new(1);
    let mut opened = open(&files);
    opened.writer.set_group(GroupId([7; 16])).unwrap();
    opened.writer.save_vote(vote(1, 4)).unwrap();
    let entries = actions(1, 1, 10, 500);
    opened.writer.append(&entries).unwrap();
    opened.writer.sync().unwrap();
    // A member was repaired without knowing its promises, or forced to lead.
    let jumped = vote(3 * OUT_OF_REACH + 5, 4);
    opened.writer.save_vote(jumped).unwrap();
    opened.writer.sync().unwrap();
    opened.writer.write_floor().unwrap();
    opened.writer.close().unwrap();
    // No header is left that states the promises.
    files.harm(&segment(1), 0, &[7; 40_000]);
    check_repaired(&files, &entries, jumped, "after a jump");
}
