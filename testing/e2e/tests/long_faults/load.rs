//! Load against all nodes at once, and what must be true afterwards. One shared cluster.
//!
//! Loads run for `SYNOD_E2E_SECONDS` each (60 by default).

use std::time::{Duration, Instant};

use synod_e2e::sysbench::{self, Load};
use synod_e2e::{Outcome, Shared, TestCluster, agreement, checked_loads, ensure, place, usage};
use synod_lab::workload;
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("load", 21306);

const ALL: [u8; 3] = [1, 2, 3];

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
