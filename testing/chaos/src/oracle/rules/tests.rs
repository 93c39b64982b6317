//! Each rule accepts true evidence and finds each falsification of it.
//!
//! The tests change one fact of good evidence at a time.

use super::check;
use crate::oracle::evidence::{
    ClientAnswer, Content, Database, Evidence, Read, RowWrite, Transaction,
};

fn write(id: u64, last_seen: i64, row: u32, seen: i64) -> Content {
    Content::Transaction(Transaction {
        id,
        last_seen,
        rows: vec![RowWrite { row, seen }],
        certified: true,
    })
}

fn read(floor: i64, position: i64, version: i64) -> Read {
    Read {
        member: "b".to_owned(),
        floor,
        position,
        row: 7,
        version,
    }
}

/// A view, then three transactions on one row; the client of one of them got no answer.
fn good() -> Evidence {
    let history = vec![
        (1, Content::Other("view".to_owned())),
        (2, write(10, 1, 7, 0)),
        (3, write(11, 2, 7, 2)),
        (4, write(12, 3, 7, 3)),
    ];
    let database = |member: &str| Database {
        member: member.to_owned(),
        history: history.clone(),
    };
    Evidence {
        answers: [
            (10, ClientAnswer::Committed { position: 2 }),
            (11, ClientAnswer::Unknown),
            (12, ClientAnswer::Committed { position: 4 }),
            (13, ClientAnswer::Refused),
            (14, ClientAnswer::Unknown),
        ]
        .into(),
        reads: vec![read(0, 1, 0), read(2, 3, 3), read(4, 4, 4)],
        databases: vec![database("a"), database("b"), database("c")],
    }
}

fn everywhere(evidence: &mut Evidence, change: impl Fn(&mut Vec<(i64, Content)>)) {
    evidence
        .databases
        .iter_mut()
        .for_each(|database| change(&mut database.history));
}

#[track_caller]
fn broken(rule: &str, change: impl FnOnce(&mut Evidence)) {
    let mut evidence = good();
    change(&mut evidence);
    let found = check(&evidence);
    assert!(found.iter().any(|v| v.rule == rule), "{found:?}");
}

#[test]
fn true_evidence_passes() {
    assert_eq!(check(&good()), []);
}

#[test]
fn differences_between_databases_are_found() {
    broken("the same history everywhere", |evidence| {
        evidence.databases[2].history[3].1 = write(14, 3, 7, 3);
    });
    broken("the same history everywhere", |evidence| {
        evidence.databases[1].history.pop();
    });
    broken("positions have no gaps", |evidence| {
        everywhere(evidence, |history| {
            history.remove(1);
        });
    });
}

#[test]
fn false_answers_to_clients_are_found() {
    broken("acknowledged means committed", |evidence| {
        everywhere(evidence, |history| {
            history.pop();
        });
    });
    broken("acknowledged means committed", |evidence| {
        evidence
            .answers
            .insert(10, ClientAnswer::Committed { position: 3 });
    });
    broken("refused means absent", |evidence| {
        evidence.answers.insert(11, ClientAnswer::Refused);
    });
    broken("a transaction is ordered once", |evidence| {
        everywhere(evidence, |history| history.push((5, write(11, 4, 7, 4))));
    });
    broken("nothing comes from nowhere", |evidence| {
        evidence.answers.remove(&11);
    });
}

#[test]
fn lost_updates_and_wrong_snapshots_are_found() {
    broken("no update is lost", |evidence| {
        everywhere(evidence, |history| history[3].1 = write(12, 2, 7, 2));
    });
    broken("a snapshot is a position of the history", |evidence| {
        everywhere(evidence, |history| history[3].1 = write(12, 3, 7, 2));
    });
}

#[test]
fn stale_and_invented_reads_are_found() {
    broken("no stale read", |evidence| {
        evidence.reads.push(read(3, 2, 2))
    });
    broken("what was read is committed", |evidence| {
        evidence.reads.push(read(3, 3, 2));
    });
    broken("what was read is committed", |evidence| {
        evidence.reads.push(read(3, 5, 5));
    });
}
