//! Load against all nodes at once, and what must be true afterwards. One shared cluster.
//!
//! Loads run for `SYNOD_E2E_SECONDS` each (60 by default).

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use synod_e2e::sysbench::{self, Load};
use synod_e2e::{
    Failure, Outcome, Shared, TestCluster, Why, agreement, checked_loads, ensure, place, usage,
};
use synod_lab::workload;
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("load", 21306);

const ALL: [u8; 3] = [1, 2, 3];
const DEADLOCK: u16 = 1213;

#[test]
fn sysbench_on_all_nodes_meets_only_conflicts_and_leaves_equal_nodes() {
    CLUSTER.scenario("sysbench", |cluster| {
        sysbench::prepare(cluster)?;
        for script in ["oltp_read_write", "oltp_write_only"] {
            let rates = Load::start(cluster, script, &ALL, place::load_time())?.finish()?;
            eprintln!("  {script}: {rates:.0?} transactions/s on nodes 1 to 3");
        }
        print_memory(cluster)?;
        agreement::check(cluster, &ALL)
    });
}

#[test]
fn tpcc_leaves_its_consistency_conditions_true() {
    CLUSTER.scenario("TPC-C", |cluster| {
        // Smaller than the specification's, so that the clients meet, and filling takes no time.
        let options = ["--warehouses=2", "--items=2000", "--customers=300"];
        checked_loads::run(cluster, workload::TPCC, &options, place::load_time())
    });
}

#[test]
fn hot_rows_lose_no_update() {
    CLUSTER.scenario("hot rows", |cluster| {
        let options = ["--rows=50"];
        checked_loads::run(cluster, workload::HOT_ROWS, &options, place::load_time())
    });
}

#[test]
fn ddl_during_load_ends_the_same_everywhere() {
    CLUSTER.scenario("DDL", |cluster| {
        sysbench::prepare(cluster)?;
        let time = Duration::from_secs(20).min(place::load_time());
        let load = Load::start(cluster, "oltp_write_only", &ALL, time)?;
        let end = Instant::now() + time;
        let mut round = 0;
        while Instant::now() + Duration::from_secs(2) < end || round == 0 {
            round += 1;
            ddl_round(cluster, round)?;
        }
        eprintln!("  {round} rounds of DDL");
        load.finish()?;
        agreement::check(cluster, &ALL)
    });
}

/// Definitions of all kinds, each from another node than the one before.
fn ddl_round(cluster: &TestCluster, round: u32) -> Outcome {
    let statements = [
        format!("CREATE DATABASE IF NOT EXISTS ddl{round}"),
        format!("CREATE TABLE ddl{round}.parent (id INT PRIMARY KEY, name VARCHAR(50))"),
        format!(
            "CREATE TABLE ddl{round}.child (id INT AUTO_INCREMENT PRIMARY KEY, parent INT,
             FOREIGN KEY (parent) REFERENCES ddl{round}.parent (id) ON DELETE CASCADE)"
        ),
        format!("INSERT INTO ddl{round}.parent VALUES (1,'a'),(2,'b'),(3,'c')"),
        format!("INSERT INTO ddl{round}.child (parent) VALUES (1),(1),(2),(3)"),
        format!("ALTER TABLE ddl{round}.parent ADD COLUMN extra INT DEFAULT 7"),
        format!("CREATE INDEX by_name ON ddl{round}.parent (name)"),
        format!("DELETE FROM ddl{round}.parent WHERE id = 1"),
        format!("CREATE TABLE ddl{round}.gone (id INT PRIMARY KEY)"),
        format!("INSERT INTO ddl{round}.gone VALUES (1),(2)"),
        format!("TRUNCATE TABLE ddl{round}.gone"),
        format!("DROP TABLE ddl{round}.gone"),
        format!("CREATE VIEW ddl{round}.names AS SELECT name FROM ddl{round}.parent"),
        format!("CREATE USER 'u{round}'@'127.0.0.1' IDENTIFIED BY 'secret'"),
        format!("GRANT SELECT, INSERT ON ddl{round}.* TO 'u{round}'@'127.0.0.1'"),
        format!(
            "DROP USER IF EXISTS 'u{}'@'127.0.0.1'",
            round.saturating_sub(2)
        ),
        format!("ALTER TABLE sbtest.sbtest1 ADD COLUMN extra{round} INT NOT NULL DEFAULT {round}"),
        format!("ALTER TABLE sbtest.sbtest1 DROP COLUMN extra{round}"),
    ];
    for (statement, node) in statements.iter().zip(ALL.iter().cycle()) {
        // The statement before ran elsewhere: it must have been applied here.
        cluster.execute(
            *node,
            &format!("SET STATEMENT wsrep_sync_wait=15 FOR {statement}"),
        )?;
    }
    Ok(())
}

#[test]
fn concurrent_updates_of_a_row_give_one_of_two_a_deadlock() {
    CLUSTER.scenario("conflicts", |cluster| {
        cluster.execute(
            1,
            "CREATE OR REPLACE TABLE e2e_data.counter (id INT PRIMARY KEY, n INT)",
        )?;
        cluster.execute(1, "INSERT INTO e2e_data.counter VALUES (1, 0)")?;
        let mut one = synced_connection(cluster, 1)?;
        let mut two = synced_connection(cluster, 2)?;
        let rounds = 100;
        for round in 0..rounds {
            let (a, b) = conflict(&mut one, &mut two)?;
            let expected = matches!((a, b), (None, Some(DEADLOCK)) | (Some(DEADLOCK), None));
            ensure(expected, || {
                format!("round {round}: one of two must get 1213, but node1 got {a:?}, node2 {b:?}")
            })?;
        }
        for node in ALL {
            let mut connection = synced_connection(cluster, node)?;
            let n: Option<u32> = connection
                .query_first("SELECT n FROM e2e_data.counter")
                .why("reading the counter")?;
            ensure(n == Some(rounds), || {
                format!("node{node}: counter is {n:?}, not {rounds}")
            })?;
        }
        agreement::check(cluster, &ALL)
    });
}

fn synced_connection(cluster: &TestCluster, node: u8) -> Outcome<Conn> {
    let mut connection = cluster.connect(node)?;
    connection
        .query_drop("SET SESSION wsrep_sync_wait=15")
        .why("wsrep_sync_wait")?;
    Ok(connection)
}

/// Both change the row, then both commit at the same moment; gives the error each got.
fn conflict(one: &mut Conn, two: &mut Conn) -> Outcome<(Option<u16>, Option<u16>)> {
    let updated = Arc::new(Barrier::new(2));
    let other = Arc::clone(&updated);
    std::thread::scope(|scope| {
        let second = scope.spawn(move || increment(two, &other));
        let first = increment(one, &updated)?;
        let second = second
            .join()
            .map_err(|_| Failure("client thread panicked".into()))??;
        Ok((first, second))
    })
}

fn increment(connection: &mut Conn, updated: &Barrier) -> Outcome<Option<u16>> {
    let began = connection
        .query_drop("BEGIN")
        .and_then(|()| connection.query_drop("UPDATE e2e_data.counter SET n = n + 1"));
    updated.wait(); // in any case: the other one waits here, too
    match began.and_then(|()| connection.query_drop("COMMIT")) {
        Ok(()) => Ok(None),
        Err(mysql::Error::MySqlError(error)) => {
            connection.query_drop("ROLLBACK").why("ROLLBACK")?;
            Ok(Some(error.code))
        }
        Err(error) => Err(error).why("client"),
    }
}

#[test]
fn synced_read_never_misses_a_row_written_elsewhere() {
    CLUSTER.scenario("causal reads", |cluster| {
        cluster.execute(
            1,
            "CREATE OR REPLACE TABLE e2e_data.causal (id INT PRIMARY KEY)",
        )?;
        let mut writer = cluster.connect(1)?;
        let mut reader = cluster.connect(2)?;
        reader
            .query_drop("SET SESSION wsrep_sync_wait=1")
            .why("wsrep_sync_wait")?;
        for id in 0..10_000 {
            let insert = format!("INSERT INTO e2e_data.causal VALUES ({id})");
            writer.query_drop(insert).why(format_args!("insert {id}"))?;
            let select = format!("SELECT id FROM e2e_data.causal WHERE id = {id}");
            let found: Option<i32> = reader.query_first(select).why(format_args!("read {id}"))?;
            ensure(found == Some(id), || {
                format!("node2 did not see row {id}, written on node1")
            })?;
        }
        Ok(())
    });
}

#[test]
fn idle_cluster_uses_little_processor_time() {
    CLUSTER.scenario("idle", |cluster| {
        let pids: Vec<i32> = cluster
            .nodes()
            .filter_map(|node| cluster.pid(node))
            .collect();
        let window = Duration::from_secs(20);
        let mut shares = Vec::new();
        // Page flushing and purge after the scenarios before may still run at first.
        for _ in 0..3 {
            shares = measure(&pids, window)?;
            if shares.iter().all(|share| *share < 0.02) {
                break;
            }
        }
        let percent: Vec<String> = shares
            .iter()
            .map(|s| format!("{:.2} %", s * 100.0))
            .collect();
        eprintln!("  idle: {percent:?} of a core on nodes 1 to 3");
        print_memory(cluster)?;
        ensure(shares.iter().all(|share| *share < 0.05), || {
            format!("not idle: {percent:?}")
        })
    });
}

fn measure(pids: &[i32], window: Duration) -> Outcome<Vec<f64>> {
    let used = || {
        pids.iter()
            .map(|pid| usage::cpu_seconds(*pid))
            .collect::<Outcome<Vec<f64>>>()
    };
    let before = used()?;
    wait_for(window, || None::<()>); // the window measured is itself what is waited for
    let after = used()?;
    Ok(after
        .iter()
        .zip(before)
        .map(|(b, a)| (b - a) / window.as_secs_f64())
        .collect())
}

fn print_memory(cluster: &TestCluster) -> Outcome {
    for node in cluster.nodes() {
        if let Some(pid) = cluster.pid(node) {
            let mebibytes = usage::resident_bytes(pid)? / (1024 * 1024);
            eprintln!("  node{node}: {mebibytes} MiB resident");
        }
    }
    Ok(())
}
