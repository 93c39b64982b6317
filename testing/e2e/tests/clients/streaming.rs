//! Transactions that travel in fragments (`wsrep_trx_fragment_size`). One shared cluster.
//!
//! A streamed transaction that loses its origin is rolled back on all servers.

use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use synod_e2e::{Outcome, Shared, TestCluster, Why, agreement, ensure};
use synod_local_cluster::{SstMethod, wait_for};

static CLUSTER: Shared = Shared::new("streaming", 23306);

const ALL: [u8; 3] = [1, 2, 3];
/// Longest wait for a change that takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rows of a big transaction.
const ROWS: u32 = 2000;

/// Fragment units, with a size that cuts a big transaction into some dozens.
const UNITS: [(&str, u32); 3] = [("rows", 50), ("bytes", 20_000), ("statements", 1)];

/// A table of its own for each scenario.
fn table(cluster: &TestCluster, name: &str) -> Outcome<String> {
    let table = format!("e2e_data.{name}");
    cluster.execute(1, &format!("DROP TABLE IF EXISTS {table}"))?;
    let columns = "id INT PRIMARY KEY, v VARCHAR(300)";
    cluster.execute(
        1,
        &format!("CREATE TABLE {table} ({columns}) ENGINE=InnoDB"),
    )?;
    Ok(table)
}

/// A client in a transaction that streams.
fn streaming(cluster: &TestCluster, node: u8, unit: &str, size: u32) -> Outcome<Conn> {
    let mut conn = cluster.connect(node)?;
    let settings = format!(
        "SET SESSION wsrep_trx_fragment_unit='{unit}', SESSION wsrep_trx_fragment_size={size}"
    );
    conn.query_drop(settings).why("streaming")?;
    conn.query_drop("START TRANSACTION").why("begin")?;
    Ok(conn)
}

/// Inserts rows `from..to`, 100 a statement.
fn insert(conn: &mut Conn, table: &str, from: u32, to: u32) -> Outcome {
    for first in (from..to).step_by(100) {
        let values: Vec<String> = (first..to.min(first + 100))
            .map(|id| format!("({id}, REPEAT('{}', 200))", id % 10))
            .collect();
        conn.query_drop(format!("INSERT INTO {table} VALUES {}", values.join(", ")))
            .why(format_args!("rows from {first}"))?;
    }
    Ok(())
}

/// Fragments that a node keeps of open transactions.
fn kept(cluster: &TestCluster, node: u8) -> Option<u32> {
    let rows = cluster.rows(node, "SELECT COUNT(*) FROM mysql.wsrep_streaming_log");
    rows.ok()?.first()?.parse().ok()
}

fn await_kept(cluster: &TestCluster, nodes: &[u8], holds: impl Fn(u32) -> bool) -> Outcome {
    for node in nodes {
        let reached = wait_for(PATIENCE, || kept(cluster, *node).filter(|n| holds(*n)));
        ensure(reached.is_some(), || {
            format!("node{node} keeps {:?} fragments", kept(cluster, *node))
        })?;
    }
    Ok(())
}

fn check_rows(cluster: &TestCluster, table: &str, expected: u32) -> Outcome {
    agreement::check(cluster, &ALL)?;
    let found = cluster.rows(3, &format!("SELECT COUNT(*) FROM {table}"))?;
    ensure(found == [expected.to_string()], || {
        format!("{table} has {found:?} rows, not {expected}")
    })?;
    await_kept(cluster, &ALL, |n| n == 0)
}

#[test]
fn big_transactions_commit_or_roll_back_as_a_whole() {
    CLUSTER.scenario("fragments of each unit", |cluster| {
        for (unit, size) in UNITS {
            let table = table(cluster, &format!("by_{unit}"))?;
            let mut conn = streaming(cluster, 1, unit, size)?;
            insert(&mut conn, &table, 0, ROWS)?;
            await_kept(cluster, &[2, 3], |n| n > 10)?;
            conn.query_drop("ROLLBACK").why("rollback")?;
            await_kept(cluster, &ALL, |n| n == 0)?;
            conn.query_drop("START TRANSACTION").why("begin")?;
            insert(&mut conn, &table, 0, ROWS)?;
            conn.query_drop("COMMIT").why("commit")?;
            check_rows(cluster, &table, ROWS)?;
        }
        Ok(())
    });
}

/// Statements that change all rows of a table, with what the table has afterwards: its rows, and
/// those of them with the value `giant`.
const GIANTS: [(&str, u32, u32); 3] = [
    (
        "INSERT INTO {t} SELECT id + 100000, v FROM {t}",
        2 * ROWS,
        0,
    ),
    ("UPDATE {t} SET v = CONCAT('giant', v)", 2 * ROWS, 2 * ROWS),
    ("DELETE FROM {t} WHERE id >= 100000", ROWS, ROWS),
];

#[test]
fn small_transactions_are_visible_everywhere_before_a_giant_in_fragments_ends() {
    CLUSTER.scenario("small ones beside a giant", |cluster| {
        let giant = table(cluster, "giant")?;
        let small = table(cluster, "small")?;
        insert(&mut cluster.connect(1)?, &giant, 0, ROWS)?;
        for (round, (statement, rows, changed)) in (1..).zip(GIANTS) {
            let mut conn = streaming(cluster, 1, "bytes", 20_000)?;
            conn.query_drop(statement.replace("{t}", &giant))
                .why(statement)?;
            await_kept(cluster, &[2, 3], |n| n > 10)?;
            for node in ALL {
                let id = 10 * round + u32::from(node);
                cluster.execute(node, &format!("INSERT INTO {small} VALUES ({id}, 'small')"))?;
            }
            for node in ALL {
                let mut reader = cluster.connect(node)?;
                reader
                    .query_drop("SET SESSION wsrep_sync_wait = 1")
                    .why("causal reads")?;
                let found: Option<u32> = reader
                    .query_first(format!("SELECT COUNT(*) FROM {small}"))
                    .why("count")?;
                ensure(found == Some(3 * round), || {
                    format!("node{node} shows {found:?} small rows in round {round}")
                })?;
            }
            conn.query_drop("COMMIT").why("commit")?;
            check_rows(cluster, &giant, rows)?;
            let sql = format!("SELECT COUNT(*) FROM {giant} WHERE v LIKE 'giant%'");
            let found = cluster.rows(2, &sql)?;
            ensure(found == [changed.to_string()], || {
                format!("{found:?} rows of {rows} are changed after {statement}")
            })?;
        }
        Ok(())
    });
}

#[test]
fn what_a_client_leaves_open_is_rolled_back_everywhere() {
    CLUSTER.scenario("clients that go", |cluster| {
        let table = table(cluster, "left")?;
        for killed in [false, true] {
            let mut conn = streaming(cluster, 1, "rows", 10)?;
            insert(&mut conn, &table, 0, 300)?;
            await_kept(cluster, &[2, 3], |n| n > 10)?;
            if killed {
                cluster.execute(1, &format!("KILL {}", conn.connection_id()))?;
            } else {
                drop(conn);
            }
            await_kept(cluster, &ALL, |n| n == 0)?;
        }
        cluster.execute(3, &format!("INSERT INTO {table} VALUES (1, 'free')"))?;
        check_rows(cluster, &table, 1)
    });
}

#[test]
fn what_a_dead_origin_had_open_is_rolled_back_everywhere() {
    CLUSTER.scenario("kill the origin", |cluster| {
        let table = table(cluster, "dead_origin")?;
        let mut conn = streaming(cluster, 1, "rows", 10)?;
        insert(&mut conn, &table, 0, 500)?;
        await_kept(cluster, &[2, 3], |n| n > 10)?;
        cluster.kill(1).why("kill")?;
        await_kept(cluster, &[2, 3], |n| n == 0)?;
        // The rows are free.
        cluster.execute(2, &format!("INSERT INTO {table} VALUES (1, 'other')"))?;
        cluster.start(1, &|_, _| ()).why("start")?;
        cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
        check_rows(cluster, &table, 1)
    });
}

#[test]
fn applier_that_dies_and_returns_still_commits_what_is_open() {
    CLUSTER.scenario("kill an applier", |cluster| {
        let table = table(cluster, "dead_applier")?;
        let mut conn = streaming(cluster, 1, "rows", 10)?;
        insert(&mut conn, &table, 0, 500)?;
        await_kept(cluster, &[2, 3], |n| n > 10)?;
        cluster.kill(3).why("kill")?;
        insert(&mut conn, &table, 500, 1000)?;
        cluster.start(3, &|_, _| ()).why("start")?;
        cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
        insert(&mut conn, &table, 1000, 1500)?;
        conn.query_drop("COMMIT").why("commit")?;
        check_rows(cluster, &table, 1500)
    });
}

/// Longer than `evs.suspect_timeout`: a frozen member leaves the view.
const ABSENCE: Duration = Duration::from_secs(8);

/// Stops nodes where they are for a while, as a hanging machine does.
fn freeze(cluster: &mut TestCluster, nodes: &[u8]) -> Outcome {
    let signal = |name: &str| -> Outcome {
        for node in nodes {
            let pid = cluster.pid(*node).map(|pid| pid.to_string());
            let args = [name.to_owned(), pid.unwrap_or_default()];
            let status = std::process::Command::new("kill").args(args).status();
            let done = status.why(name)?.success();
            ensure(done, || format!("kill {name} node{node}"))?;
        }
        Ok(())
    };
    signal("-STOP")?;
    // This tests the time: the server must not come back before the others have noticed.
    std::thread::sleep(ABSENCE);
    signal("-CONT")?;
    cluster.await_synced(&ALL, &|_, _| ()).why("synced")
}

#[test]
fn frozen_member_keeps_what_others_have_open() {
    CLUSTER.scenario("freeze an applier", |cluster| {
        let table = table(cluster, "frozen_applier")?;
        let leader = cluster.leader();
        for frozen in [leader, cluster.follower()] {
            let origin = cluster.others(frozen)[0];
            let first = 10_000 * u32::from(frozen);
            let mut conn = streaming(cluster, origin, "rows", 10)?;
            insert(&mut conn, &table, first, first + 500)?;
            await_kept(cluster, &[frozen], |n| n > 10)?;
            freeze(cluster, &[frozen])?;
            insert(&mut conn, &table, first + 500, first + 1000)?;
            conn.query_drop("COMMIT").why("commit")?;
        }
        check_rows(cluster, &table, 2000)
    });
}

#[test]
fn frozen_origin_has_lost_what_it_had_open() {
    CLUSTER.scenario("freeze the origin", |cluster| {
        let table = table(cluster, "frozen_origin")?;
        let origin = cluster.follower();
        let mut conn = streaming(cluster, origin, "rows", 10)?;
        insert(&mut conn, &table, 0, 500)?;
        await_kept(cluster, &ALL, |n| n > 10)?;
        freeze(cluster, &[origin])?;
        let ended = insert(&mut conn, &table, 500, 600)
            .and_then(|()| conn.query_drop("COMMIT").why("commit"));
        ensure(ended.is_err(), || "it has committed".into())?;
        check_rows(cluster, &table, 0)
    });
}

#[test]
fn lost_majority_leaves_all_members_alike() {
    CLUSTER.scenario("freeze a majority", |cluster| {
        let table = table(cluster, "frozen_majority")?;
        for (round, origin) in [cluster.leader(), cluster.follower()]
            .into_iter()
            .enumerate()
        {
            let first = 10_000 * u32::try_from(round).unwrap_or_default();
            let mut conn = streaming(cluster, origin, "rows", 10)?;
            insert(&mut conn, &table, first, first + 500)?;
            await_kept(cluster, &ALL, |n| n > 10)?;
            freeze(cluster, &cluster.others(origin))?;
            // Whether it survives is not promised; that all agree about it is.
            let ended = insert(&mut conn, &table, first + 500, first + 600)
                .and_then(|()| conn.query_drop("COMMIT").why("commit"));
            eprintln!("  open at node{origin}: {ended:?}");
            drop(conn);
            await_kept(cluster, &ALL, |n| n == 0)?;
            agreement::check(cluster, &ALL)?;
            let sql = format!("INSERT INTO {table} VALUES ({}, 'free')", first + 5);
            let found = cluster.rows(
                2,
                &format!("SELECT COUNT(*) FROM {table} WHERE id >= {first}"),
            )?;
            ensure(found == [if ended.is_ok() { "600" } else { "0" }], || {
                format!("{found:?} rows after {ended:?}")
            })?;
            if ended.is_err() {
                cluster.execute(2, &sql)?;
            }
        }
        Ok(())
    });
}

#[test]
fn joiner_takes_over_what_is_open_with_its_copy() {
    CLUSTER.scenario("join while streaming", |cluster| {
        let table = table(cluster, "joiner")?;
        let mut conn = streaming(cluster, 1, "rows", 10)?;
        insert(&mut conn, &table, 0, 500)?;
        cluster.kill(3).why("kill")?;
        cluster.wipe(3).why("wipe")?;
        cluster.settings_mut().sst_method = SstMethod::Rsync;
        cluster.start(3, &|_, _| ()).why("start")?;
        cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
        insert(&mut conn, &table, 500, 1000)?;
        conn.query_drop("COMMIT").why("commit")?;
        check_rows(cluster, &table, 1000)
    });
}

#[test]
fn ddl_elsewhere_aborts_an_open_transaction_everywhere() {
    CLUSTER.scenario("DDL against a stream", |cluster| {
        let table = table(cluster, "altered")?;
        let mut conn = streaming(cluster, 1, "rows", 10)?;
        insert(&mut conn, &table, 0, 300)?;
        await_kept(cluster, &[2, 3], |n| n > 10)?;
        cluster.execute(2, &format!("ALTER TABLE {table} ADD COLUMN w INT"))?;
        // The client's own server may carry it out a moment later.
        let has_column = "SELECT 1 FROM information_schema.columns \
            WHERE table_name = 'altered' AND column_name = 'w'";
        let is_altered = || (cluster.rows(1, has_column).ok()? == ["1"]).then_some(());
        ensure(wait_for(PATIENCE, is_altered).is_some(), || {
            "node1 has not carried the ALTER out".into()
        })?;
        let refused = conn.query_drop(format!("INSERT INTO {table} (id) VALUES (9999)"));
        ensure(refused.is_err(), || "the transaction continues".into())?;
        check_rows(cluster, &table, 0)
    });
}

#[test]
fn conflicting_write_ordered_first_wins() {
    CLUSTER.scenario("conflict with a stream", |cluster| {
        let table = table(cluster, "contended")?;
        let mut conn = streaming(cluster, 1, "rows", 10)?;
        insert(&mut conn, &table, 0, 15)?;
        await_kept(cluster, &[2, 3], |n| n > 0)?;
        // Rows 10 to 14 are in no fragment yet.
        cluster.execute(2, &format!("INSERT INTO {table} VALUES (14, 'first')"))?;
        let ended = insert(&mut conn, &table, 100, 200)
            .and_then(|()| conn.query_drop("COMMIT").why("commit"));
        ensure(ended.is_err(), || "both have committed".into())?;
        check_rows(cluster, &table, 1)
    });
}
