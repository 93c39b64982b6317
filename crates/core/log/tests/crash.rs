//! Power cuts at every write and sync, also of recovery itself.
//!
//! A scenario runs until its n-th change of the disk, for every n. Then the power is cut, with
//! several choices of what reached the disk. The log that opens afterwards must hold everything
//! that a sync had covered, and be in a state that the scenario went through.

mod common;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use common::*;
use synod_consensus::{GroupId, HardState, LogBase, LogIndex};
use synod_log::files::{Fault, FaultKind, Op};
use synod_log::{Entry, FaultyFiles, LogError, LogWriter, MemoryFiles};

const SEEDS: [u64; 5] = [0, u64::MAX, 11, 12, 13];

/// Contents that a log may have.
#[derive(Clone, Debug, Default)]
struct Content {
    base: LogBase,
    entries: Vec<Entry>,
    vote: HardState,
}

/// The scenario's log as it was promised at the last sync, and every state it went through since.
struct Promise {
    states: Vec<Content>,
}

impl Promise {
    fn new() -> Promise {
        Promise {
            states: vec![Content::default()],
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Content)) {
        let mut next = self.states.last().cloned().unwrap_or_default();
        change(&mut next);
        self.states.push(next);
    }

    fn append(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.change(|content| content.entries.push(entry.clone()));
        }
    }

    fn synced(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }
}

/// Entries over several segments, votes, a truncation, a purge, a reset, an oversized entry.
fn scenario(writer: &mut LogWriter, promise: &mut Promise) -> Result<(), LogError> {
    writer.set_group(GroupId([1; 16]))?;
    for i in 0..5 {
        let entries = actions(1, i * 4 + 1, i * 4 + 4, 4000);
        promise.append(&entries);
        writer.append(&entries)?;
        promise.change(|content| content.vote = vote(i + 1, i + 2));
        writer.save_vote(vote(i + 1, i + 2))?;
        writer.sync()?;
        promise.synced();
    }
    promise.change(|content| content.entries.truncate(17));
    writer.truncate(LogIndex(18))?;
    let entries = actions(6, 18, 24, 9000);
    promise.append(&entries);
    writer.append(&entries)?;
    writer.sync()?;
    promise.synced();
    writer.purge(LogIndex(15), &no_config)?;
    let large = action(6, 25, 100_000);
    promise.append(std::slice::from_ref(&large));
    writer.append(&[large])?;
    writer.sync()?;
    promise.synced();
    writer.write_floor()?;
    promise.change(|content| {
        *content = Content {
            base: base(7, 90, 80),
            ..content.clone()
        }
    });
    promise.states.last_mut().unwrap().entries.clear();
    writer.reset(base(7, 90, 80))?;
    let entries = actions(7, 91, 99, 3000);
    promise.append(&entries);
    writer.append(&entries)?;
    writer.sync()?;
    promise.synced();
    let tail = action(7, 100, 10);
    promise.append(std::slice::from_ref(&tail));
    writer.append(&[tail])?;
    writer.sync()?;
    promise.synced();
    Ok(())
}

/// Opens the log and compares it with what was promised.
fn check(files: &MemoryFiles, promise: &Promise, what: &str) {
    let opened = try_open(files).unwrap_or_else(|error| panic!("{what}: {error}"));
    let entries = all(&opened.reader);
    let found = opened.recovered.base.clone();
    let purged = |content: &Content| {
        content.base == found || content.entries.iter().any(|e| e.header.id() == found.last)
    };
    let same = |content: &&Content| {
        let kept = content
            .entries
            .iter()
            .filter(|e| e.header.index > found.last.index);
        purged(content) && kept.eq(entries.iter()) && content.vote == opened.recovered.vote
    };
    assert!(
        promise.states.iter().any(|state| same(&state)),
        "{what}: recovered {found:?} to {:?} with {:?}, not between the last sync and the crash",
        entries.last().map(|entry| entry.header.id()),
        opened.recovered.vote,
    );
    opened.writer.close().unwrap();
}

fn cut_at(op: Op, nth: u64) -> (MemoryFiles, Promise, bool) {
    let memory = MemoryFiles::new(3);
    let faulty = FaultyFiles::new(Arc::new(memory.clone()));
    faulty.plan(Fault {
        op,
        nth,
        kind: FaultKind::Always(ErrorKind::Other),
    });
    let mut promise = Promise::new();
    let done = try_open(&faulty).and_then(|mut opened| scenario(&mut opened.writer, &mut promise));
    (memory, promise, done.is_err())
}

#[test]
fn every_synced_entry_and_vote_survives_a_power_cut_at_any_change() {
    let mut nth = 1;
    loop {
        let (memory, promise, cut) = cut_at(Op::Change, nth);
        for seed in SEEDS {
            let seed = if matches!(seed, 0 | u64::MAX) {
                seed
            } else {
                seed + nth * 100
            };
            check(
                &memory.crash(seed),
                &promise,
                &format!("change {nth}, seed {seed}"),
            );
        }
        if !cut {
            break;
        }
        nth += 1;
    }
    assert!(nth > 100, "the scenario ended after {nth} changes");
}

#[test]
fn process_death_without_power_cut_loses_nothing_written() {
    for nth in (1..200).step_by(7) {
        let (memory, promise, _) = cut_at(Op::Sync, nth);
        check(&memory, &promise, &format!("sync {nth}"));
    }
}

#[test]
fn recovery_may_itself_be_cut_anywhere() {
    for nth in (1..400).step_by(13) {
        let (memory, promise, cut) = cut_at(Op::Change, nth);
        if !cut {
            break;
        }
        let image = memory.crash(nth + 7);
        for recovery_nth in 1.. {
            let again = image.crash(u64::MAX);
            let faulty = FaultyFiles::new(Arc::new(again.clone()));
            faulty.plan(Fault {
                op: Op::Change,
                nth: recovery_nth,
                kind: FaultKind::Always(ErrorKind::Other),
            });
            let done = try_open(&faulty).is_ok();
            for seed in [0, 5 + nth] {
                let what = format!("change {nth}, recovery change {recovery_nth}, seed {seed}");
                check(&again.crash(seed), &promise, &what);
            }
            if done {
                break;
            }
        }
    }
}

#[test]
fn entries_that_recovery_found_survive_another_crash() {
    // An unsynced entry that recovery takes over counts as durable from then on.
    let memory = MemoryFiles::new(5);
    let faulty = FaultyFiles::new(Arc::new(memory.clone()));
    let mut opened = open(&faulty);
    opened.writer.append(&actions(1, 1, 3, 100)).unwrap();
    faulty.plan(Fault {
        op: Op::Sync,
        nth: 1,
        kind: FaultKind::Once(ErrorKind::Other),
    });
    assert!(opened.writer.sync().is_err());
    drop(opened);
    memory.lose_unsynced_silently();
    assert_eq!(open(&memory).reader.last_index(), LogIndex(3));
    assert_eq!(open(&memory.crash(0)).reader.last_index(), LogIndex(3));
}

#[test]
fn cut_tail_never_comes_back() {
    for seed in 1..60 {
        let memory = MemoryFiles::new(9);
        let faulty = FaultyFiles::new(Arc::new(memory.clone()));
        let mut opened = open(&faulty);
        opened.writer.append(&actions(1, 1, 2, 500)).unwrap();
        opened.writer.sync().unwrap();
        opened.writer.append(&actions(1, 3, 9, 1000)).unwrap();
        faulty.plan(Fault {
            op: Op::Sync,
            nth: 1,
            kind: FaultKind::Once(ErrorKind::Other),
        });
        assert!(opened.writer.sync().is_err());
        let torn = memory.crash(seed);
        let opened = open(&torn);
        if opened.report.cut.is_none() {
            continue;
        }
        assert_eq!(opened.reader.last_index(), LogIndex(2));
        drop(opened);
        let report = synod_log::offline::verify_with(&torn, Path::new(DIR)).unwrap();
        assert!(report.torn.is_none() && report.is_sound(), "{report}");
        assert_eq!(open(&torn.crash(0)).report.cut, None);
    }
}
