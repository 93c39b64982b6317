//! Verdicts of the certifier, case by case; key sets; memory.

use synod_certify::{
    CertLimits, Certifier, Class, DecodeKeysError, Fingerprint, KeySet, KeyType, Request, Source,
    Verdict,
};

const A: Source = Source {
    member: 1,
    epoch: 1,
};
const B: Source = Source {
    member: 2,
    epoch: 1,
};
const WRITE: Class = Class::WriteSet { pa_unsafe: false };

fn keys(list: &[(&[&str], KeyType)]) -> KeySet {
    let mut set = KeySet::new();
    for (parts, kind) in list {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        set.append(&parts, *kind);
    }
    set
}

fn row(name: &str) -> KeySet {
    keys(&[(&["db", "t", name], KeyType::Exclusive)])
}

fn request(source: Source, last_seen: i64, keys: &KeySet, class: Class) -> Request<'_> {
    Request {
        source,
        last_seen,
        keys,
        class,
    }
}

fn certifier() -> Certifier {
    Certifier::new(0, CertLimits::default())
}

#[test]
fn rows_of_one_table_run_in_parallel() {
    let mut c = certifier();
    c.ingest(1, &request(A, 0, &row("1"), WRITE));
    let verdict = c.certify(2, &request(B, 0, &row("2"), WRITE));
    assert_eq!(verdict, Verdict::Pass { depends_on: 0 });
}

#[test]
fn keys_that_conflict_with_an_earlier_action_are_found() {
    use KeyType::{Exclusive, Shared, Update};
    let later = keys(&[
        (&["db", "t", "1"], Update),
        (&["db", "t", "2"], Update),
        (&["db", "t", "3"], Shared),
    ]);
    let print = |parts: &[&str]| {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        Fingerprint::of(&parts)
    };
    let earlier = keys(&[
        (&["db", "t", "2"], Update),
        (&["db", "t", "3"], Update),
        (&["db", "t", "4"], Exclusive),
    ]);
    assert_eq!(later.conflicting(&earlier), [print(&["db", "t", "2"])]);
    let travelled = KeySet::decode(&earlier.encode()).unwrap();
    assert_eq!(later.conflicting(&travelled), [print(&["db", "t", "2"])]);
    let whole_table = keys(&[(&["db", "t"], Exclusive)]);
    assert_eq!(later.conflicting(&whole_table), [print(&["db", "t"])]);
    assert_eq!(later.conflicting(&row("9")), []);
    assert_eq!(KeySet::new().conflicting(&earlier), []);
}

#[test]
fn unseen_change_of_the_same_row_conflicts() {
    let mut c = certifier();
    c.ingest(1, &request(A, 0, &row("1"), WRITE));
    let verdict = |source, seen| c.certify(2, &request(source, seen, &row("1"), WRITE));
    assert_eq!(verdict(B, 0), Verdict::Conflict { with: 1 });
    assert_eq!(verdict(B, 1), Verdict::Pass { depends_on: 1 });
    assert_eq!(verdict(A, 0), Verdict::Pass { depends_on: 1 });
    let next_session = Source { epoch: 2, ..A };
    assert_eq!(verdict(next_session, 0), Verdict::Conflict { with: 1 });
}

#[test]
fn statement_on_a_schema_conflicts_with_rows_below_it_even_of_its_own_source() {
    let mut c = certifier();
    let ddl = keys(&[(&["db"], KeyType::Exclusive)]);
    c.ingest(1, &request(A, 0, &row("1"), WRITE));
    let verdict = c.certify(2, &request(B, 0, &ddl, Class::TotalOrder));
    assert_eq!(verdict, Verdict::Pass { depends_on: 1 });
    c.ingest(2, &request(B, 0, &ddl, Class::TotalOrder));
    for source in [A, B] {
        let verdict = c.certify(3, &request(source, 1, &row("2"), WRITE));
        assert_eq!(verdict, Verdict::Conflict { with: 2 });
        let verdict = c.certify(3, &request(source, 2, &row("2"), WRITE));
        assert_eq!(verdict, Verdict::Pass { depends_on: 2 });
    }
    let elsewhere = keys(&[(&["other", "t", "1"], KeyType::Exclusive)]);
    let verdict = c.certify(3, &request(A, 0, &elsewhere, WRITE));
    assert_eq!(verdict, Verdict::Pass { depends_on: 2 });
}

#[test]
fn statement_on_the_whole_server_conflicts_with_everything_that_has_not_seen_it() {
    let mut c = certifier();
    let everything = keys(&[(&[], KeyType::Exclusive)]);
    c.ingest(1, &request(A, 0, &everything, Class::TotalOrder));
    for source in [A, B] {
        let verdict = c.certify(2, &request(source, 0, &row("1"), WRITE));
        assert_eq!(verdict, Verdict::Conflict { with: 1 });
        let verdict = c.certify(2, &request(source, 1, &row("1"), WRITE));
        assert_eq!(verdict, Verdict::Pass { depends_on: 1 });
    }
}

#[test]
fn bulk_insert_conflicts_with_unseen_rows_of_the_table() {
    let mut c = certifier();
    c.ingest(1, &request(A, 0, &row("1"), WRITE));
    let bulk = keys(&[(&["db", "t"], KeyType::Exclusive)]);
    let verdict = c.certify(2, &request(B, 0, &bulk, WRITE));
    assert_eq!(verdict, Verdict::Conflict { with: 1 });
}

#[test]
fn everything_after_a_barrier_depends_on_it() {
    for class in [
        Class::Barrier,
        Class::TotalOrder,
        Class::WriteSet { pa_unsafe: true },
    ] {
        let mut c = certifier();
        let none = KeySet::new();
        c.ingest(1, &request(A, 0, &row("1"), WRITE));
        let verdict = c.certify(2, &request(A, 0, &none, class));
        assert_eq!(verdict, Verdict::Pass { depends_on: 1 }, "{class:?}");
        c.ingest(2, &request(A, 0, &none, class));
        c.ingest(3, &request(A, 0, &row("3"), WRITE));
        let verdict = c.certify(4, &request(B, 0, &row("4"), WRITE));
        assert_eq!(verdict, Verdict::Pass { depends_on: 2 }, "{class:?}");
        c.rollback(2);
        let verdict = c.certify(2, &request(B, 0, &row("4"), WRITE));
        assert_eq!(verdict, Verdict::Pass { depends_on: 0 }, "{class:?}");
    }
}

#[test]
fn snapshots_before_the_window_are_refused() {
    let mut c = Certifier::new(100, CertLimits::default());
    let verdict = c.certify(101, &request(A, 99, &row("1"), WRITE));
    assert_eq!(
        verdict,
        Verdict::TooOld {
            last_seen: 99,
            window_start: 100
        }
    );
    c.ingest(101, &request(A, 100, &row("1"), WRITE));
    c.advance_window(101);
    assert_eq!(c.window_start(), 100, "not committed yet");
    c.committed(101);
    c.advance_window(101);
    let verdict = c.certify(102, &request(B, 100, &row("2"), WRITE));
    assert_eq!(
        verdict,
        Verdict::TooOld {
            last_seen: 100,
            window_start: 101
        }
    );
    let verdict = c.certify(102, &request(B, 101, &row("1"), WRITE));
    assert_eq!(verdict, Verdict::Pass { depends_on: 101 });
    assert_eq!(c.key_count(), 0);
}

#[test]
#[should_panic(expected = "is committed")]
fn committed_actions_are_never_rolled_back() {
    let mut c = certifier();
    c.ingest(1, &request(A, 0, &row("1"), WRITE));
    c.committed(1);
    c.rollback(1);
}

#[test]
fn key_sets_hold_each_key_once_with_its_strongest_type() {
    let mut set = keys(&[
        (&["db", "t", "1"], KeyType::Shared),
        (&["db", "t", "1"], KeyType::Update),
        (&["db", "t", "1"], KeyType::Reference),
        (&["db", "t"], KeyType::Exclusive),
        (&["db", "t", "2"], KeyType::Shared),
    ]);
    set.append(&[], KeyType::Shared);
    let kind_of = |parts: &[&[u8]]| {
        let print = Fingerprint::of(parts);
        set.iter()
            .find(|key| key.fingerprint == print)
            .map(|key| key.kind)
    };
    assert_eq!(set.len(), 5);
    assert_eq!(kind_of(&[]), Some(KeyType::Reference));
    assert_eq!(kind_of(&[b"db"]), Some(KeyType::Reference));
    assert_eq!(kind_of(&[b"db", b"t"]), Some(KeyType::Exclusive));
    assert_eq!(kind_of(&[b"db", b"t", b"1"]), Some(KeyType::Update));
    assert_eq!(kind_of(&[b"db", b"t", b"2"]), Some(KeyType::Shared));
    assert_eq!(set.appended(), 6);
    assert_eq!(set.appended_bytes(), 4 * 4 + 3);
}

#[test]
fn damaged_key_sets_are_refused_with_the_place() {
    let good = row("1").encode();
    let wrong_length = DecodeKeysError::WrongLength {
        count: 4,
        found: 67,
    };
    assert_eq!(
        KeySet::decode(&good[..good.len() - 1]).err(),
        Some(wrong_length)
    );
    assert_eq!(
        KeySet::decode(&[1, 2]).err(),
        Some(DecodeKeysError::NoCount { found: 2 })
    );
    let huge = [0xff, 0xff, 0xff, 0xff, 0];
    let wrong_length = DecodeKeysError::WrongLength {
        count: u32::MAX,
        found: 1,
    };
    assert_eq!(KeySet::decode(&huge).err(), Some(wrong_length));
    let mut unknown = good.clone();
    unknown[4 + 17 + 16] = 4;
    let unknown_type = DecodeKeysError::UnknownType {
        position: 1,
        code: 4,
    };
    assert_eq!(KeySet::decode(&unknown).err(), Some(unknown_type));
    let mut twice = good.clone();
    twice.copy_within(4..21, 21);
    let not_ascending = DecodeKeysError::NotAscending { position: 1 };
    assert_eq!(KeySet::decode(&twice).err(), Some(not_ascending));
}

#[test]
fn too_many_rows_are_known_by_their_tables() {
    let most = std::num::NonZeroUsize::new(3).unwrap();
    let mut set = KeySet::new();
    set.bound_rows(most);
    let kind_of = |set: &KeySet, parts: &[&[u8]]| {
        let print = Fingerprint::of(parts);
        let found = set.iter().find(|key| key.fingerprint == print);
        found.map(|key| key.kind)
    };
    for row in [b"1", b"2", b"3"] {
        set.append(&[b"db", b"t", row], KeyType::Update);
    }
    set.append(&[b"db", b"other"], KeyType::Shared);
    assert!(!set.is_coarse() && set.len() == 7, "{} keys", set.len());
    set.append(&[b"db", b"t", b"4"], KeyType::Reference);
    set.append(&[b"db", b"third", b"1"], KeyType::Update);
    set.append(&[b"db", b"t", b"5"], KeyType::Update);
    assert!(set.is_coarse());
    assert_eq!(kind_of(&set, &[b"db", b"t"]), Some(KeyType::Exclusive));
    assert_eq!(kind_of(&set, &[b"db", b"third"]), Some(KeyType::Exclusive));
    assert_eq!(kind_of(&set, &[b"db", b"other"]), Some(KeyType::Shared));
    assert_eq!(kind_of(&set, &[b"db"]), Some(KeyType::Reference));
    assert_eq!(kind_of(&set, &[]), Some(KeyType::Reference));
    assert_eq!((set.len(), set.appended()), (5, 7));
    assert_eq!(KeySet::decode(&set.encode()).unwrap().len(), 5);
    // It relates to every row of its tables, and to nothing else.
    let mut c = certifier();
    c.ingest(1, &request(A, 0, &set, WRITE));
    let verdict = |keys: &KeySet| c.certify(2, &request(B, 0, keys, WRITE));
    assert_eq!(verdict(&row("99")), Verdict::Conflict { with: 1 });
    let elsewhere = keys(&[(&["db", "fourth", "1"], KeyType::Exclusive)]);
    assert_eq!(verdict(&elsewhere), Verdict::Pass { depends_on: 0 });
}

/// Feeds `actions` actions of one fresh row each, committed and applied `lag` seqnos later.
fn feed(c: &mut Certifier, actions: i64, lag: i64) {
    for seqno in c.last_seqno() + 1..=c.last_seqno() + actions {
        c.ingest(
            seqno,
            &request(A, seqno - 1, &row(&seqno.to_string()), WRITE),
        );
        c.committed(seqno);
        c.advance_window(seqno - lag);
    }
}

#[test]
fn memory_follows_the_window_and_not_the_history() {
    let mut c = certifier();
    feed(&mut c, 5_000, 1_000);
    let early = c.memory_bytes();
    feed(&mut c, 20_000, 1_000);
    assert!(
        c.memory_bytes() <= early * 2,
        "{} after {early}",
        c.memory_bytes()
    );
    assert!(c.key_count() <= 1_003);
}

#[test]
fn a_key_costs_less_than_a_hundred_bytes() {
    let mut c = certifier();
    feed(&mut c, 60_000, 1_000_000);
    let per_key = c.memory_bytes() / c.key_count();
    assert!((33..100).contains(&per_key), "{per_key} bytes per key");
}

#[test]
fn memory_of_a_run_is_that_of_its_keys() {
    let limits = CertLimits {
        run_above: 20,
        ..CertLimits::default()
    };
    let mut c = Certifier::new(0, limits);
    feed(&mut c, 10, 100);
    let before = c.memory_bytes();
    let mut giant = KeySet::new();
    for row in 0..500u32 {
        giant.append(&[b"db", b"giant", &row.to_le_bytes()], KeyType::Update);
    }
    c.ingest(11, &request(A, 10, &giant, WRITE));
    let (bytes, run) = (c.memory_bytes() - before, 17 * giant.len());
    assert!((run..2 * run).contains(&bytes), "{bytes} bytes for {run}");
}

#[test]
fn window_of_just_the_greatest_size_stays() {
    let limits = CertLimits {
        span_max: 10,
        ..CertLimits::default()
    };
    let mut c = Certifier::new(0, limits);
    feed(&mut c, 10, 100);
    assert_eq!(c.window_start(), 0);
    feed(&mut c, 1, 100);
    assert_eq!(c.window_start(), 1);
    let limits = CertLimits {
        entries_max: 13,
        ..CertLimits::default()
    };
    let mut c = Certifier::new(0, limits);
    // A key for each row, and those of the table, the schema and the server.
    feed(&mut c, 10, 100);
    assert_eq!((c.window_start(), c.key_count()), (0, 13));
    feed(&mut c, 1, 100);
    assert_eq!((c.window_start(), c.key_count()), (1, 13));
}

#[test]
fn limit_of_keys_holds_without_help_from_the_low_water_mark() {
    let limits = CertLimits {
        entries_max: 500,
        ..CertLimits::default()
    };
    let mut c = Certifier::new(0, limits);
    feed(&mut c, 10_000, 1_000_000);
    assert!(c.key_count() <= 500);
    assert!(c.window_start() > 9_000);
    assert!(c.memory_bytes() < 300_000, "{} bytes", c.memory_bytes());
}

#[test]
fn giant_does_not_move_the_window() {
    let limits = CertLimits {
        entries_max: 50,
        run_above: 20,
        ..CertLimits::default()
    };
    let mut c = Certifier::new(0, limits);
    let mut giant = KeySet::new();
    for row in 0..500u32 {
        giant.append(&[b"db", b"giant", &row.to_le_bytes()], KeyType::Update);
    }
    c.ingest(1, &request(A, 0, &giant, WRITE));
    c.committed(1);
    assert_eq!(c.window_start(), 0);
    let verdict = c.certify(2, &request(B, 0, &row("1"), WRITE));
    assert_eq!(verdict, Verdict::Pass { depends_on: 0 }, "another table");
    let row = keys(&[(&["db", "giant", "\x07\0\0\0"], KeyType::Update)]);
    let verdict = c.certify(2, &request(B, 0, &row, WRITE));
    assert_eq!(verdict, Verdict::Conflict { with: 1 });
    let verdict = c.certify(2, &request(A, 0, &row, WRITE));
    assert_eq!(verdict, Verdict::Pass { depends_on: 1 });
    c.ingest(2, &request(B, 1, &giant, WRITE));
    assert_eq!(c.window_start(), 0);
    c.rollback(2);
    let verdict = c.certify(2, &request(B, 1, &row, WRITE));
    assert_eq!(verdict, Verdict::Pass { depends_on: 1 });
}

#[test]
fn runs_are_bounded_and_one_is_always_kept() {
    let limits = CertLimits {
        run_above: 0,
        runs_max: 3,
        run_keys_max: 20,
        ..CertLimits::default()
    };
    let mut c = Certifier::new(0, limits);
    feed(&mut c, 5, 100);
    assert_eq!((c.window_start(), c.key_count()), (2, 12), "three runs");
    let mut giant = KeySet::new();
    for row in 0..500u32 {
        giant.append(&[b"db", b"giant", &row.to_le_bytes()], KeyType::Update);
    }
    c.ingest(6, &request(A, 5, &giant, WRITE));
    assert_eq!(c.window_start(), 5, "not committed yet");
    c.committed(6);
    assert_eq!((c.window_start(), c.key_count()), (5, 503));
    c.advance_window(6);
    assert_eq!(c.key_count(), 0);
}

/// `cargo test --release -p synod-certify -- --ignored --nocapture`
#[test]
#[ignore = "prints speed; asserts nothing"]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test measures the certifier"
)]
fn speed() {
    let sets: Vec<KeySet> = (0..200_000)
        .map(|n: i64| {
            let row = |i: i64| ((n * 7919 + i * 104_729) % 500_000).to_string();
            let rows: Vec<String> = (0..5).map(row).collect();
            let mut set = KeySet::new();
            for row in &rows {
                set.append(&[b"sbtest", b"sbtest1", row.as_bytes()], KeyType::Update);
            }
            set
        })
        .collect();
    let mut c = certifier();
    let start = std::time::Instant::now();
    let mut conflicts = 0;
    for (n, set) in (1i64..).zip(&sets) {
        let source = Source {
            member: n as u64 % 3,
            epoch: 1,
        };
        let seqno = c.last_seqno() + 1;
        let request = request(source, (seqno - 20).max(c.window_start()), set, WRITE);
        match c.certify(seqno, &request) {
            Verdict::Pass { .. } => c.ingest(seqno, &request),
            Verdict::Conflict { .. } | Verdict::TooOld { .. } => conflicts += 1,
        }
        c.committed(seqno - 10);
        c.advance_window(seqno - 10_000);
    }
    let per_second = sets.len() as f64 / start.elapsed().as_secs_f64();
    println!("{per_second:.0} write sets of 8 keys per second, {conflicts} conflicts");
    println!("{} keys, {} bytes", c.key_count(), c.memory_bytes());
}
