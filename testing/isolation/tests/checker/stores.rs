//! Histories of made-up stores: a serial one, and one with snapshots in which the first committer
//! wins. A fault that is put into the latter is found.

use std::collections::BTreeMap;

use proptest::prelude::*;
use synod_isolation::checker::anomaly::{Kind, Level, Promise};
use synod_isolation::checker::history::{Key, Value};

use crate::made_up::{Made, found_in, tx};

/// A statement: on a list or on rows of a class, which it writes or reads.
#[derive(Debug, Clone, Copy)]
enum Step {
    Append(Key),
    Read(Key),
    Insert,
    /// Deletes the row at this place among those that it sees.
    Delete(usize),
    Scan,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4u32).prop_map(Step::Append),
        (0..4u32).prop_map(Step::Read),
        Just(Step::Insert),
        (0..4usize).prop_map(Step::Delete),
        Just(Step::Scan),
    ]
}

/// Data that a transaction sees and writes: lists by key, and rows.
#[derive(Debug, Clone, Default)]
struct Data {
    lists: BTreeMap<Key, Vec<Value>>,
    rows: Vec<Value>,
}

/// Runs a statement on the data; notes what it writes, lists as (0, key) and rows as (1, row).
fn run(
    step: Step,
    data: &mut Data,
    next: &mut Value,
    made: Made,
    written: &mut Vec<(u8, Value)>,
) -> Made {
    match step {
        Step::Append(key) => {
            *next += 1;
            data.lists.entry(key).or_default().push(*next);
            written.push((0, key.into()));
            made.append(key, *next)
        }
        Step::Read(key) => made.read(key, data.lists.get(&key).map_or(&[][..], Vec::as_slice)),
        Step::Insert => {
            *next += 1;
            data.rows.push(*next);
            written.push((1, *next));
            made.insert(*next)
        }
        Step::Delete(at) if at < data.rows.len() => {
            let row = data.rows.remove(at);
            written.push((1, row));
            made.delete(row)
        }
        Step::Delete(_) => made,
        Step::Scan => made.scan(&data.rows),
    }
}

/// An open transaction of the store with snapshots.
struct Open {
    made: Made,
    data: Data,
    begun: usize,
    written: Vec<(u8, Value)>,
}

/// Clients that take turns by these numbers: each runs its next statement, or begins, or commits.
/// `checks`: whether the first committer wins.
fn snapshots(steps: &[(usize, Step)], checks: bool) -> Vec<Made> {
    let mut store = Data::default();
    let mut versions: Vec<Vec<(u8, Value)>> = Vec::new();
    let mut open: BTreeMap<usize, Open> = BTreeMap::new();
    let (mut history, mut next) = (Vec::new(), 0);
    for (now, (client, step)) in (1u64..).zip(steps) {
        let fresh = || Open {
            made: tx().session(*client as u32 + 1).at(now * 10, 0),
            data: store.clone(),
            begun: versions.len(),
            written: Vec::new(),
        };
        let mut current = open.remove(client).unwrap_or_else(fresh);
        current.made = run(
            *step,
            &mut current.data,
            &mut next,
            current.made,
            &mut current.written,
        );
        if current.made.0.operations.len() < 3 {
            open.insert(*client, current);
            continue;
        }
        let begin = current.made.0.begin_us;
        let made = current.made.at(begin, now * 10 + 5);
        let later = versions[current.begun..].iter().flatten();
        let conflicts = later.filter(|key| current.written.contains(key)).count() > 0;
        if conflicts && checks {
            history.push(made.refused());
            continue;
        }
        for operation in &made.0.operations {
            use synod_isolation::checker::history::Operation;
            match operation {
                Operation::Append(key, value) => store.lists.entry(*key).or_default().push(*value),
                Operation::Insert(_, row) => store.rows.push(*row),
                Operation::Delete(_, row) => store.rows.retain(|other| other != row),
                Operation::Read(..) | Operation::Scan(..) | Operation::Balances { .. } => {}
            }
        }
        versions.push(current.written);
        history.push(made);
    }
    let mut last = tx().scan(&store.rows).at(1_000_000, 1_000_001).last();
    for (key, list) in &store.lists {
        last = last.read(*key, list);
    }
    history.push(last);
    history
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    prop::collection::vec((0..4usize, step()), 0..120)
}

fn turns() -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(), 1..5), 0..40)
}

proptest! {
    #[test]
    fn serial_histories_have_no_anomaly(steps in turns()) {
        let (mut data, mut next, mut history) = (Data::default(), 0, Vec::new());
        for (now, steps) in (1u64..).zip(steps) {
            // They overlap, in an order that their times allow.
            let mut made = tx().session(now as u32 % 3 + 1).at(now * 10, now * 10 + 15);
            for step in steps {
                made = run(step, &mut data, &mut next, made, &mut Vec::new());
            }
            history.push(made);
        }
        prop_assert_eq!(found_in(&history), []);
    }

    #[test]
    fn snapshots_have_write_skews_at_most(steps in steps()) {
        let promise = Promise { level: Level::Snapshot, real_time: true };
        let found = found_in(&snapshots(&steps, true));
        let excluded: Vec<_> = found.iter().filter(|found| promise.excludes(found.kind)).collect();
        prop_assert!(excluded.is_empty(), "{:#?}", excluded);
    }
}

/// Checks as many transactions as clients make in minutes: no read may be held against every row.
#[test]
fn long_histories_of_rows_that_come_and_go_are_checked() {
    let (mut rows, mut history) = (Vec::new(), Vec::new());
    for number in 1..=60_000_u64 {
        let mut made = tx().session(1).at(number * 10, number * 10 + 5);
        made = made.scan(&rows).insert(number);
        rows.push(number);
        if rows.len() > 12 {
            made = made.delete(rows.remove(0));
        }
        history.push(made);
    }
    history.push(tx().at(10_000_000, 10_000_001).scan(&rows[1..]).last());
    let kinds: Vec<Kind> = found_in(&history).iter().map(|found| found.kind).collect();
    assert!(kinds.contains(&Kind::LostWrite), "{kinds:?}");
}

#[test]
fn store_without_first_committer_wins_loses_updates_and_is_found_out() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut kinds = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        kinds.extend(
            found_in(&snapshots(&steps, false))
                .iter()
                .map(|found| found.kind),
        );
    }
    assert!(kinds.contains(&Kind::LostUpdate), "{kinds:?}");
    assert!(
        kinds.contains(&Kind::Twice),
        "a row deleted by two: {kinds:?}"
    );
}
