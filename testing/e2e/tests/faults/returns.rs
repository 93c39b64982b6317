//! Servers that come back: from a stop that was cut short, and after a failure that is over.

use std::time::Duration;

use mysql::prelude::Queryable;
use synod_e2e::acknowledged_writes::Writers;
use synod_e2e::programs::signal;
use synod_e2e::small_disk::SmallDisk;
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 24306;
const ALL: [u8; 3] = [1, 2, 3];
const PATIENCE: Duration = Duration::from_secs(90);
/// Room on a small disk beside the database.
const ROOM_BYTES: u64 = 64 << 20;
/// Rows of a transaction that a full disk has no room for.
const ROWS: usize = 5000;
/// Number of kills after a statement that must not be executed twice.
const KILLS: usize = 16;
/// The server's line when it has shown that it is out of the group. Its engines are open still.
const LEFT: &str = "Server status change disconnecting -> disconnected";

/// Ends a node in order, and kills it as soon as it has left the group. False if it was faster.
fn cut_stop_short(cluster: &mut TestCluster, node: u8) -> Outcome<bool> {
    if cluster.pid(node).is_none() {
        return Ok(false);
    }
    let log = cluster.files(node).error_log;
    signal(cluster, node, "-TERM")?;
    // No pause between two looks: the server needs some milliseconds to close its engines.
    let end = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < end {
        let text = std::fs::read_to_string(&log).why("reading the error log")?;
        if text.contains(LEFT) {
            let killed = cluster.kill(node).why("killing it")?;
            let text = cluster.log_text(node);
            return Ok(killed.is_some() && !text.contains("Shutdown completed"));
        }
    }
    ensure(false, || {
        format!("node {node} does not leave:\n{}", cluster.log_tail(node))
    })?;
    Ok(false)
}

/// The position in `grastate.dat`.
fn saved_seqno(cluster: &TestCluster, node: u8) -> Outcome<i64> {
    let file = cluster.files(node).data.join("grastate.dat");
    let text = std::fs::read_to_string(file).why("reading grastate.dat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("seqno:"));
    let seqno = line.and_then(|value| value.trim().parse().ok());
    seqno.ok_or_else(|| Failure(format!("grastate.dat has no seqno:\n{text}")))
}

/// Data that InnoDB has only in memory when killed is not taken for data in the database.
#[test]
fn stop_that_is_cut_short_costs_neither_data_nor_a_full_copy() -> Outcome {
    let mut cluster = TestCluster::empty("cut-short", BASE_PORT, 3)?;
    let own = cluster.settings_mut().overrides.entry(3).or_default();
    // It flushes when it closes, and hardly before.
    own.extra_lines = vec!["innodb_flush_log_at_timeout = 2000".into()];
    cluster.up(&|_, _| ()).why("starting the cluster")?;
    cluster.create_account()?;
    for round in 0..5 {
        let table = format!("cut_short_{round}");
        let writers = Writers::start(&cluster, &table, &[1, 2], 2)?;
        writers.await_more(300, PATIENCE)?;
        let was_cut = cut_stop_short(&mut cluster, 3)?;
        writers.await_more(100, PATIENCE)?;
        let report = writers.finish();
        ensure(saved_seqno(&cluster, 3)? == -1 || !was_cut, || {
            "grastate.dat says more than is on disk".into()
        })?;
        cluster.settings_mut().recovers = false;
        cluster
            .spawn(3, false)
            .why("starting node 3 without a position")?;
        cluster
            .await_synced(&ALL, &|_, _| ())
            .why("waiting for node 3")?;
        cluster.settings_mut().recovers = true;
        report.check_rows(&cluster, &ALL)?;
        agreement::check(&cluster, &ALL)?;
        let text = cluster.log_text(3);
        ensure(!text.contains("asking for a full copy"), || {
            "node 3 took a full copy".into()
        })?;
        if was_cut {
            cluster.stop(3).why("stopping node 3")?;
            let seqno = saved_seqno(&cluster, 3)?;
            ensure(seqno > 0, || {
                format!("after an orderly stop: seqno {seqno}")
            })?;
            return cluster.kill_all().why("ending the cluster");
        }
        // The next round looks for its own lines.
        std::fs::write(cluster.files(3).error_log, "").why("emptying the error log")?;
    }
    ensure(false, || "node 3 was never killed in time".into())
}

/// A statement that does something else when it is executed twice.
struct Once {
    /// Kind of change.
    kind: &'static str,
    /// Makes what it works on, and the statement itself; `#` stands for the round's number.
    prepare: &'static str,
    statement: &'static str,
    /// Query that shows whether it was executed once.
    look: &'static str,
}

const ONCE: [Once; 4] = [
    Once {
        kind: "tables swapped",
        prepare: "CREATE TABLE e2e_data.a# (id INT PRIMARY KEY) SELECT 1 AS id;
                  CREATE TABLE e2e_data.b# (id INT PRIMARY KEY) SELECT 2 AS id",
        statement: "RENAME TABLE e2e_data.a# TO e2e_data.t#, e2e_data.b# TO e2e_data.a#,
                    e2e_data.t# TO e2e_data.b#",
        look: "SELECT id FROM e2e_data.a#",
    },
    Once {
        kind: "a partition exchanged",
        prepare: "CREATE TABLE e2e_data.p# (id INT PRIMARY KEY)
                    PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10));
                  CREATE TABLE e2e_data.e# (id INT PRIMARY KEY);
                  INSERT INTO e2e_data.p# VALUES (1); INSERT INTO e2e_data.e# VALUES (2)",
        statement: "/* as a tool */ ALTER TABLE e2e_data.p# EXCHANGE PARTITION p
                    WITH TABLE e2e_data.e#",
        look: "SELECT id FROM e2e_data.p#",
    },
    Once {
        kind: "an index without a name",
        prepare: "CREATE TABLE e2e_data.i# (id INT PRIMARY KEY, v INT)",
        statement: "ALTER TABLE e2e_data.i# ADD INDEX (v)",
        look: "SELECT COUNT(*) FROM information_schema.statistics WHERE table_name = 'i#'",
    },
    Once {
        kind: "names of columns swapped",
        prepare: "CREATE TABLE e2e_data.c# (id INT PRIMARY KEY, v INT, w INT) SELECT 1 id, 2 v, 3 w",
        statement: "ALTER TABLE e2e_data.c# RENAME COLUMN v TO w, RENAME COLUMN w TO v",
        look: "SELECT v FROM e2e_data.c#",
    },
];

/// Executes a statement on `origin` and kills node 3 as soon as it has executed it, too: an engine
/// that has nothing to do soon flushes by itself.
fn execute_and_kill_3(cluster: &mut TestCluster, origin: u8, statement: &str) -> Outcome {
    let mut client = cluster.connect(origin)?;
    let mut reader = cluster.connect(3)?;
    let causal = "SET wsrep_sync_wait = 1";
    reader.query_drop(causal).why(causal)?;
    client.query_drop(statement).why(statement)?;
    // Answered once all that was acknowledged before is finished there.
    reader.query_drop("SELECT 1").why("a causal read")?;
    cluster.kill(3).why("killing node 3")?;
    Ok(())
}

/// Once a statement is finished, its position survives a kill as its effect does, although node 3
/// does not flush. A kill amid the statement is another matter: see decision 025.
#[test]
fn statements_are_executed_once_by_a_server_that_was_killed() -> Outcome {
    let mut cluster = TestCluster::empty("executed-once", BASE_PORT, 3)?;
    let own = cluster.settings_mut().overrides.entry(3).or_default();
    own.extra_lines = vec!["innodb_flush_log_at_timeout = 2000".into()];
    cluster.up(&|_, _| ()).why("starting the cluster")?;
    cluster.create_account()?;
    let mut different = Vec::new();
    for (round, once) in ONCE.iter().cycle().take(KILLS).enumerate() {
        let of_round = |text: &str| text.replace('#', &round.to_string());
        for sql in of_round(once.prepare).split(';') {
            cluster.execute(1, sql)?;
        }
        // Its own, or one that it applies.
        let origin = [1, 3][round / ONCE.len() % 2];
        execute_and_kill_3(&mut cluster, origin, &of_round(once.statement))?;
        // With a position from `mariadbd --wsrep-recover`, or without one.
        cluster.settings_mut().recovers = round < KILLS / 2;
        cluster.start(3, &|_, _| ()).why("starting node 3")?;
        let look = format!("SET wsrep_sync_wait = 1; {}", of_round(once.look));
        let (there, here) = (cluster.rows(1, &look)?, cluster.rows(3, &look)?);
        if there != here {
            let kind = once.kind;
            different.push(format!(
                "round {round}, {kind} by node {origin}: {there:?} on node 1, {here:?} on node 3"
            ));
        }
    }
    ensure(different.is_empty(), || different.join("\n"))?;
    agreement::check(&cluster, &ALL)?;
    let text = cluster.log_text(3);
    ensure(!text.contains("asking for a full copy"), || {
        "node 3 took a full copy".into()
    })?;
    cluster.kill_all().why("ending the cluster")
}

/// The line of a server that looks again and again whether its disks can be written.
const WAITS: &str = "comes back by itself once this works again";

/// Node 3 has room again: it comes back in the same process, without a full copy.
fn await_return(cluster: &mut TestCluster, pid: Option<i32>) -> Outcome {
    let freed = std::time::Instant::now();
    cluster
        .await_synced(&ALL, &|_, _| ())
        .why("waiting for node 3")?;
    eprintln!("  back {:.1?} after there was room", freed.elapsed());
    ensure(cluster.pid(3) == pid, || "another process".into())?;
    let text = cluster.log_text(3);
    let begun = text.find(WAITS).unwrap_or_default();
    ensure(!text[begun..].contains("asking for a full copy"), || {
        "node 3 took a full copy".into()
    })
}

/// The disk of a log is full, and then it is not: the server needs no person to come back.
#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn server_whose_log_had_no_room_comes_back_by_itself() -> Outcome {
    let mut cluster = TestCluster::empty("no-room", BASE_PORT, 3)?;
    let dir = cluster.settings().dir.join("small-disk");
    let disk = SmallDisk::mount(dir, 64 << 20)?;
    let own = cluster.settings_mut().overrides.entry(3).or_default();
    own.provider_options = Some(format!(
        "synod.log_dir={};synod.log_segment_size=1M",
        disk.path().display()
    ));
    cluster.up(&|_, _| ()).why("starting the cluster")?;
    cluster.create_account()?;
    let pid = cluster.pid(3);
    cluster.execute(1, "CREATE TABLE e2e_data.t (id SERIAL, v LONGBLOB)")?;
    let insert = "INSERT INTO e2e_data.t (v) VALUES (REPEAT('x', 1000000))";
    disk.fill()?;
    let fills = || {
        cluster
            .log_text(3)
            .contains("this member stops: the log failed")
    };
    for _ in 0..40 {
        if fills() {
            break;
        }
        cluster.execute(1, insert)?;
    }
    let stopped = wait_for(PATIENCE, || fills().then_some(()));
    ensure(stopped.is_some(), || {
        format!("node 3 has room:\n{}", cluster.log_tail(3))
    })?;
    cluster.await_line(3, WAITS)?;
    cluster.execute(2, insert)?;
    disk.clear()?;
    await_return(&mut cluster, pid)?;
    cluster.execute(3, insert)?;
    agreement::check(&cluster, &ALL)?;
    let stopped = cluster.stop(3).why("stopping node 3")?;
    ensure(stopped, || "node 3 had ended by itself".into())?;
    cluster.kill_all().why("ending the cluster")
}

/// The engine of node 3 has flushed all that it has written by now.
fn await_flush(cluster: &TestCluster) -> Outcome {
    let lsn = |which: &str| -> Outcome<u64> {
        let rows = cluster.rows(3, &format!("SHOW STATUS LIKE 'Innodb_lsn_{which}'"))?;
        let value = rows
            .first()
            .and_then(|row| row.split('\t').nth(1)?.parse().ok());
        value.ok_or("no number").why(which)
    };
    let written = lsn("current")?;
    let flushed = wait_for(PATIENCE, || {
        lsn("flushed").ok().filter(|flushed| *flushed >= written)
    });
    ensure(flushed.is_some(), || format!("{written} is not flushed"))
}

/// InnoDB meets the full disk first: the log has its segments already, and so has the engine's own
/// log, in which the position moves over an action that was rolled back for want of room. The
/// server is killed before that log is flushed again, and the table has no key that would refuse
/// rows which it has already.
#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn server_whose_data_had_no_room_comes_back_by_itself_with_all_rows() -> Outcome {
    let mut cluster = TestCluster::empty("no-room-for-data", BASE_PORT, 3)?;
    cluster.settings_mut().provider_options = "synod.log_segment_size=16M".to_owned();
    let own = cluster.settings_mut().overrides.entry(3).or_default();
    own.extra_lines = vec!["innodb_flush_log_at_timeout = 5".into()];
    cluster.up(&|_, _| ()).why("starting the cluster")?;
    cluster.create_account()?;
    cluster.execute(1, "CREATE TABLE e2e_data.f (id INT, v VARCHAR(250))")?;
    cluster.stop(3).why("stopping node 3")?;
    let disk = SmallDisk::in_place_of(&cluster.files(3).data, ROOM_BYTES)?;
    cluster.start(3, &|_, _| ()).why("starting node 3")?;
    let pid = cluster.pid(3);
    disk.fill()?;
    for part in 0..6 {
        let first = part * ROWS;
        let rows = format!("SELECT seq + {first}, REPEAT('x', 200) FROM e2e_data.seq_1_to_{ROWS}");
        cluster.execute(1, &format!("INSERT INTO e2e_data.f {rows}"))?;
    }
    cluster.await_line(3, "This server lacks something that the others have")?;
    cluster.await_line(3, WAITS)?;
    await_flush(&cluster)?;
    disk.clear()?;
    await_return(&mut cluster, pid)?;
    let expected = [(6 * ROWS).to_string()];
    let have_all_rows = |cluster: &TestCluster| {
        for node in ALL {
            let count = "SET wsrep_sync_wait = 1; SELECT COUNT(*) FROM e2e_data.f";
            let rows = cluster.rows(node, count)?;
            ensure(rows == expected, || format!("node{node} has {rows:?} rows"))?;
        }
        agreement::check(cluster, &ALL)
    };
    have_all_rows(&cluster)?;
    cluster.kill(3).why("killing node 3")?;
    cluster.start(3, &|_, _| ()).why("starting node 3 again")?;
    cluster.await_synced(&ALL, &|_, _| ()).why("synced again")?;
    have_all_rows(&cluster)?;
    cluster.kill_all().why("ending the cluster")
}
