//! One history for each anomaly, and its nearest neighbour without it.

use synod_isolation::checker::anomaly::{Kind, Level, Promise};

use crate::made_up::{expect, found_in, found_within, tx};

#[test]
fn dirty_write_is_two_writers_in_both_orders() {
    let read = tx().read(1, &[1, 2]).read(2, &[4, 3]);
    let writers = [
        tx().append(1, 1).append(2, 3),
        tx().append(1, 2).append(2, 4),
    ];
    let [a, b] = writers.clone();
    expect(&[a, b, read], &[Kind::DirtyWrite]);
    let [a, b] = writers;
    expect(&[a, b, tx().read(1, &[1, 2]).read(2, &[3, 4])], &[]);
}

#[test]
fn aborted_read_shows_what_was_rolled_back() {
    expect(
        &[tx().append(1, 1).refused(), tx().read(1, &[1])],
        &[Kind::AbortedRead],
    );
    expect(&[tx().append(1, 1).unknown(), tx().read(1, &[1])], &[]);
    expect(
        &[tx().insert(7).refused(), tx().scan(&[7])],
        &[Kind::AbortedRead],
    );
    expect(&[tx().insert(7).unknown(), tx().scan(&[])], &[]);
}

#[test]
fn intermediate_read_shows_what_its_writer_went_beyond() {
    let writer = tx().append(1, 1).append(1, 2);
    let whole = tx().read(1, &[1, 2]);
    expect(
        &[writer.clone(), tx().read(1, &[1]), whole.clone()],
        // It sees a half of the transaction: that is a read skew of one key, too.
        &[Kind::IntermediateRead, Kind::ReadSkew],
    );
    expect(&[writer, tx().read(1, &[]), whole], &[]);
}

#[test]
fn circular_flow_is_two_that_read_from_each_other() {
    expect(
        &[
            tx().append(1, 1).read(2, &[2]),
            tx().append(2, 2).read(1, &[1]),
        ],
        &[Kind::CircularFlow],
    );
    expect(
        &[
            tx().append(1, 1).read(2, &[]),
            tx().append(2, 2).read(1, &[1]),
        ],
        &[],
    );
}

#[test]
fn read_skew_sees_one_of_two_writes() {
    let writer = tx().append(1, 1).append(2, 2);
    let whole = tx().read(1, &[1]).read(2, &[2]);
    // In this order of reads the view is atomic, as at READ COMMITTED, and not a snapshot.
    expect(
        &[
            writer.clone(),
            tx().read(2, &[]).read(1, &[1]),
            whole.clone(),
        ],
        &[Kind::ReadSkew],
    );
    expect(
        &[
            writer.clone(),
            tx().read(1, &[1]).read(2, &[]),
            whole.clone(),
        ],
        &[Kind::NotAtomicView, Kind::ReadSkew],
    );
    expect(&[writer, tx().read(1, &[]).read(2, &[]), whole], &[]);
}

#[test]
fn lost_update_overwrites_what_it_has_not_seen() {
    let read = tx().read(1, &[1, 2, 3]);
    let first = tx().append(1, 1);
    expect(
        &[
            first.clone(),
            tx().read(1, &[1]).append(1, 2),
            tx().read(1, &[1]).append(1, 3),
            read.clone(),
        ],
        &[Kind::LostUpdate],
    );
    expect(
        &[
            first,
            tx().read(1, &[1]).append(1, 2),
            tx().read(1, &[1, 2]).append(1, 3),
            read,
        ],
        &[],
    );
}

#[test]
fn long_fork_is_two_readers_who_see_two_writes_in_different_orders() {
    let (a, b) = (tx().append(1, 1), tx().append(2, 2));
    let one = tx().read(1, &[1]).read(2, &[]);
    let other = tx().read(1, &[]).read(2, &[2]);
    let found = found_in(&[a.clone(), b.clone(), one.clone(), other]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].kind, Kind::LongFork);
    assert_eq!(
        found[0].witness.len(),
        5,
        "four transactions and the reason"
    );
    expect(&[a, b, one.clone(), one, tx().read(2, &[2])], &[]);
}

#[test]
fn write_skew_is_two_that_do_not_see_each_other() {
    let whole = tx().read(1, &[1]).read(2, &[2]);
    let skew = [
        tx().read(1, &[]).append(2, 2),
        tx().read(2, &[]).append(1, 1),
        whole,
    ];
    expect(&skew, &[Kind::WriteSkew]);
    let snapshot = Promise {
        level: Level::Snapshot,
        real_time: true,
    };
    assert!(!snapshot.excludes(Kind::WriteSkew), "InnoDB allows it");
    assert!(snapshot.excludes(Kind::StaleRead) && snapshot.excludes(Kind::LongFork));
    expect(
        &[
            tx().scan(&[]).insert(1),
            tx().scan(&[]).insert(2),
            tx().scan(&[1, 2]),
        ],
        &[Kind::PredicateWriteSkew],
    );
}

#[test]
fn predicate_that_shows_one_of_two_rows_is_a_read_skew() {
    let writer = tx().insert(1).insert(2);
    expect(
        &[writer.clone(), tx().scan(&[1]), tx().scan(&[1, 2])],
        &[Kind::ReadSkew],
    );
    // One row came, another left.
    let change = tx().insert(2).delete(1);
    expect(
        &[tx().insert(1), change.clone(), tx().scan(&[1, 2])],
        &[Kind::ReadSkew],
    );
    expect(
        &[tx().insert(1), change, tx().scan(&[1]), tx().scan(&[2])],
        &[],
    );
    // A row that is gone may be missing.
    expect(&[writer, tx().delete(1), tx().scan(&[2])], &[]);
}

#[test]
fn stale_read_lacks_what_was_acknowledged_before_it_began() {
    let write = tx().append(1, 1).at(0, 10);
    let last = tx().read(1, &[1]).at(0, 100);
    expect(
        &[write.clone(), tx().read(1, &[]).at(11, 20), last.clone()],
        &[Kind::StaleRead],
    );
    expect(
        &[write.clone(), tx().read(1, &[]).at(10, 20), last.clone()],
        &[],
    );
    // A writer without an answer has no end.
    expect(&[write.unknown(), tx().read(1, &[]).at(11, 20), last], &[]);
    expect(
        &[
            tx().insert(1).at(0, 10),
            tx().scan(&[]).at(20, 30),
            tx().delete(1).at(40, 50),
        ],
        &[Kind::StaleRead],
    );
    expect(
        &[
            tx().insert(1).at(0, 10),
            tx().scan(&[]).at(20, 30),
            tx().delete(1).at(30, 50),
        ],
        &[],
    );
}

#[test]
fn stale_read_within_what_is_allowed_is_none() {
    let read_at = |begin_us| {
        let write = tx().append(1, 1).at(0, 10);
        let last = tx().read(1, &[1]).at(0, 1000);
        found_within(&[write, tx().read(1, &[]).at(begin_us, 900), last], 50)
    };
    assert_eq!(read_at(60), []);
    let found = read_at(61);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].kind, Kind::StaleRead);
}

#[test]
fn stale_read_through_others_is_found_over_many_moments() {
    let mut made: Vec<_> = (1..50)
        .map(|at| {
            tx().append(at, u64::from(at))
                .at(u64::from(at) * 10, u64::from(at) * 10 + 5)
        })
        .collect();
    made.push(tx().read(1, &[]).at(900, 910));
    made.push(tx().read(1, &[1]).at(0, 1000));
    let found = found_in(&made);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].kind, Kind::StaleRead);
    assert_eq!(
        found[0].witness.len(),
        3,
        "the write and the read: {found:#?}"
    );
}

#[test]
fn sessions_read_their_writes_and_do_not_go_back() {
    let last = tx().read(1, &[1]);
    let write = tx().append(1, 1).session(7);
    let before = tx().read(1, &[]).session(7).at(5, 200);
    expect(
        &[write.clone(), before.clone(), last.clone()],
        &[Kind::ReadYourWrites],
    );
    expect(&[write.session(6), before.clone(), last.clone()], &[]);
    let seen = tx().read(1, &[1]).session(7);
    expect(
        &[tx().append(1, 1), seen.clone(), before.clone()],
        &[Kind::NonMonotonicRead],
    );
    expect(&[tx().append(1, 1), seen.session(6), before], &[]);
    expect(
        &[
            tx().append(1, 1).session(7),
            tx().append(1, 2).session(7).at(5, 200),
            tx().read(1, &[2, 1]),
        ],
        &[Kind::SessionOrder],
    );
}

#[test]
fn two_reads_of_one_transaction_that_differ_are_found() {
    let write = tx().append(1, 1);
    expect(
        &[write.clone(), tx().read(1, &[]).read(1, &[1])],
        &[Kind::NonRepeatableRead, Kind::ReadSkew],
    );
    expect(
        &[write, tx().read(1, &[1]).append(1, 2).read(1, &[1, 2])],
        &[],
    );
    expect(
        &[
            tx().insert(1),
            tx().scan(&[1]).insert(2).delete(1).scan(&[2]),
        ],
        &[],
    );
    let rows = found_in(&[
        tx().insert(1),
        tx().insert(2),
        tx().scan(&[1]).scan(&[1, 2]),
    ]);
    assert_eq!(rows[0].kind, Kind::NonRepeatableRead, "{rows:#?}");
}

#[test]
fn transaction_that_does_not_see_its_own_writes_is_found() {
    expect(&[tx().append(1, 1).read(1, &[])], &[Kind::Internal]);
    expect(&[tx().read(1, &[1]).append(1, 1)], &[Kind::Internal]);
    expect(&[tx().insert(1).scan(&[])], &[Kind::Internal]);
    expect(&[tx().insert(1).delete(1).scan(&[])], &[]);
}

#[test]
fn lists_of_two_histories_are_incompatible() {
    let writers = [tx().append(1, 1), tx().append(1, 2)];
    let [a, b] = writers;
    let found = found_in(&[a, b, tx().read(1, &[1]), tx().read(1, &[2])]);
    assert!(
        found
            .iter()
            .any(|found| found.kind == Kind::IncompatibleOrder),
        "{found:#?}"
    );
}

#[test]
fn lost_doubled_and_invented_writes_are_found() {
    let last = |made: crate::made_up::Made| made.at(900, 910).last();
    let append = tx().append(1, 1);
    // What is lost is missing without a cause in time, too.
    expect(
        &[append.clone(), last(tx().read(1, &[]))],
        &[Kind::LostWrite],
    );
    expect(&[append.clone().unknown(), last(tx().read(1, &[]))], &[]);
    expect(&[append.clone().refused(), last(tx().read(1, &[]))], &[]);
    expect(&[append, last(tx().read(1, &[1, 1]))], &[Kind::Twice]);
    expect(&[last(tx().read(1, &[9]))], &[Kind::Invented]);
    expect(
        &[tx().insert(1), last(tx().scan(&[]))],
        &[Kind::LostWrite, Kind::StaleRead],
    );
    expect(
        &[
            tx().insert(1),
            tx().delete(1).unknown(),
            last(tx().scan(&[])),
        ],
        &[],
    );
    expect(
        &[tx().insert(1), tx().delete(1), last(tx().scan(&[1]))],
        &[Kind::LostWrite, Kind::StaleRead],
    );
    expect(
        &[tx().insert(1), tx().delete(1), tx().delete(1)],
        &[Kind::Twice],
    );
    expect(&[tx().insert(1), last(tx().scan(&[1, 1]))], &[Kind::Twice]);
    expect(&[last(tx().scan(&[9]))], &[Kind::Invented]);
}

#[test]
fn balances_that_do_not_add_up_are_found() {
    expect(&[tx().balances(&[60, 40], &[])], &[]);
    expect(&[tx().balances(&[60, 40], &[60, 40])], &[]);
    for made in [
        tx().balances(&[60, 41], &[]),
        tx().balances(&[101, -1], &[]),
        tx().balances(&[60, 40], &[50, 50]),
    ] {
        expect(&[made], &[Kind::WrongTotal]);
    }
}
