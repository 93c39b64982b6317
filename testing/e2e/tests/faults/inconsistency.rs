//! Servers whose data differ, and statements that fail everywhere. One shared cluster.
//!
//! A server on which an action ends differently from the outcome decision is inconsistent and
//! leaves.

use std::process::Command;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use synod_e2e::doctor::Doctor;
use synod_e2e::programs::{printed, signal};
use synod_e2e::{
    Failure, Outcome, Shared, TestCluster, Why, agreement, ensure, ensure_says, place,
};
use synod_local_cluster::{ClusterError, wait_for};

static CLUSTER: Shared = Shared::new("inconsistency", 30306);

const ALL: [u8; 3] = [1, 2, 3];
/// Longest wait for a change that takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time for the decision about a statement that fails everywhere. It falls as soon as all
/// members have reported, before any timeout; the shortest is `evs.suspect_timeout` (5 s).
const AT_ONCE: Duration = Duration::from_secs(4);

/// A table of its own for each scenario.
fn table(cluster: &TestCluster, name: &str) -> Outcome<String> {
    let table = format!("e2e_data.{name}");
    cluster.execute(
        1,
        &format!("CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE=InnoDB"),
    )?;
    for node in ALL {
        let there = wait_for(PATIENCE, || {
            let found = cluster.rows(node, &format!("SELECT COUNT(*) FROM {table}"));
            found.ok().filter(|rows| *rows == ["0"])
        });
        ensure(there.is_some(), || format!("{table} on node{node}"))?;
    }
    Ok(table)
}

/// Changes one server's data and no other's.
fn differ(cluster: &TestCluster, node: u8, sql: &str) -> Outcome {
    let mut conn = cluster.connect(node)?;
    conn.query_drop("SET SESSION wsrep_on=OFF")
        .why("wsrep_on")?;
    conn.query_drop(sql)
        .why(format_args!("node{node} alone: {sql}"))
}

fn await_status(cluster: &TestCluster, node: u8, name: &str, value: &str) -> Outcome {
    let sql = format!("SHOW STATUS LIKE '{name}'");
    let expected = format!("{name}\t{value}");
    let reached = wait_for(PATIENCE, || {
        let found = cluster.rows(node, &sql).ok()?;
        (found == [expected.clone()]).then_some(())
    });
    ensure(reached.is_some(), || {
        format!("node{node}: {:?}, not {expected}", cluster.rows(node, &sql))
    })
}

/// The server has left the group and still runs, so that its data can be read. The others keep
/// serving.
fn check_evicted(cluster: &TestCluster, node: u8, table: &str) -> Outcome {
    await_status(cluster, node, "wsrep_local_state_comment", "Inconsistent")?;
    await_status(cluster, node, "wsrep_cluster_status", "Disconnected")?;
    await_status(cluster, node, "wsrep_ready", "OFF")?;
    ensure(cluster.pid(node).is_some(), || {
        format!("node{node} has ended")
    })?;
    let stay = cluster.others(node);
    for other in &stay {
        await_status(cluster, *other, "wsrep_cluster_size", "2")?;
        await_status(cluster, *other, "wsrep_local_state_comment", "Synced")?;
        cluster.execute(*other, &format!("INSERT INTO {table} VALUES (10{other})"))?;
    }
    agreement::check(cluster, &stay)
}

/// The server comes back with the data of the others.
fn bring_back(cluster: &mut TestCluster, node: u8) -> Outcome {
    cluster.stop(node).why("stop")?;
    cluster.start(node, &|_, _| ()).why("start")?;
    cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
    agreement::check(cluster, &ALL)
}

#[test]
fn server_that_differs_leaves_and_comes_back_with_the_others_data() {
    CLUSTER.scenario("one differs", |cluster| {
        for node in [cluster.follower(), cluster.leader()] {
            let table = table(cluster, &format!("differs{node}"))?;
            differ(cluster, node, &format!("INSERT INTO {table} VALUES (1)"))?;
            let by = cluster.others(node)[0];
            cluster.execute(by, &format!("INSERT INTO {table} VALUES (1)"))?;
            check_evicted(cluster, node, &table)?;
            bring_back(cluster, node)?;
        }
        Ok(())
    });
}

/// The engine's position is past the action that was rolled back: only the member's own record says
/// that the database lacks it.
#[test]
fn server_killed_during_the_vote_does_not_come_back_without_the_action() {
    CLUSTER.scenario("killed during the vote", |cluster| {
        let (leader, node) = (cluster.leader(), cluster.follower());
        let others = cluster.others(node);
        let held = others.into_iter().find(|other| *other != leader);
        let held = held.ok_or_else(|| Failure("no third server".to_owned()))?;
        let table = table(cluster, "voted")?;
        differ(cluster, node, &format!("INSERT INTO {table} VALUES (1)"))?;
        let asked = |cluster: &TestCluster| {
            let text = cluster.log_text(leader);
            text.matches("asking the others").count()
        };
        let before = asked(cluster);
        // The vote stays open.
        signal(cluster, held, "-STOP")?;
        let inserted = cluster.execute(leader, &format!("INSERT INTO {table} VALUES (1)"));
        let begun = wait_for(PATIENCE, || (asked(cluster) > before).then_some(()));
        cluster.kill(node).why("kill")?;
        signal(cluster, held, "-CONT")?;
        inserted?;
        ensure(begun.is_some(), || "no vote has begun".to_owned())?;

        let started = cluster.start(node, &|_, _| ());
        let left = matches!(started, Err(ClusterError::Left { .. }));
        ensure(left, || format!("node{node} starts: {started:?}"))?;
        check_evicted(cluster, node, &table)?;
        let (findings, _) = Doctor::of(cluster, node)?.findings()?;
        let words = "problem data out of its group, waits for a person";
        ensure_says(&findings.join("\n"), words)?;
        bring_back(cluster, node)
    });
}

#[test]
fn statement_that_fails_everywhere_evicts_no_server() {
    CLUSTER.scenario("all fail", |cluster| {
        let table = table(cluster, "everywhere")?;
        let create = format!("CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE=InnoDB");
        for node in ALL {
            let mut conn = cluster.connect(node)?;
            let began = Instant::now();
            let refused = conn.query_drop(&create);
            let took = began.elapsed();
            ensure(refused.is_err(), || format!("node{node}: {create}"))?;
            ensure(took < AT_ONCE, || format!("decided after {took:?}"))?;
        }
        for node in ALL {
            await_status(cluster, node, "wsrep_cluster_size", "3")?;
            await_status(cluster, node, "wsrep_local_state_comment", "Synced")?;
            cluster.execute(node, &format!("INSERT INTO {table} VALUES ({node})"))?;
        }
        agreement::check(cluster, &ALL)
    });
}

/// Session settings are in no log: the statement fails for its client, and on no other server.
#[test]
fn statement_that_fails_for_its_client_only_is_executed_everywhere() {
    CLUSTER.scenario("one session differs", |cluster| {
        for node in [cluster.follower(), cluster.leader()] {
            let table = table(cluster, &format!("session{node}"))?;
            let add = format!("ALTER TABLE {table} ADD size ENUM('small', 'large')");
            cluster.execute(node, &add)?;
            let mut conn = cluster.connect(node)?;
            // `alter_algorithm` makes the same difference, and MariaDB 11.8 ignores it.
            conn.query_drop("SET SESSION max_statement_time=0.000001")
                .why("max_statement_time")?;
            let swap = format!("ALTER TABLE {table} MODIFY size ENUM('large', 'small')");
            let refused = conn.query_drop(&swap);
            ensure(refused.is_err(), || format!("node{node}: {swap}"))?;
            conn.query_drop("SET SESSION max_statement_time=0")
                .why("max_statement_time")?;
            conn.query_drop(format!("INSERT INTO {table} VALUES ({node}, 'small')"))
                .why("insert")?;
            for other in ALL {
                let seen = wait_for(PATIENCE, || {
                    let found = cluster.rows(other, &format!("SELECT size FROM {table}"));
                    found.ok().filter(|rows| !rows.is_empty())
                });
                ensure(seen == Some(vec!["small".to_owned()]), || {
                    format!("node{other} reads {seen:?}")
                })?;
                await_status(cluster, other, "wsrep_local_state_comment", "Synced")?;
            }
        }
        agreement::check(cluster, &ALL)
    });
}

/// The decision about the statement is in the log after it, and so comes once more.
#[test]
fn server_that_was_repaired_is_in_its_group_after_a_restart() {
    CLUSTER.scenario("repaired, then restarted", |cluster| {
        let node = cluster.follower();
        let table = table(cluster, "repaired")?;
        let mut conn = cluster.connect(node)?;
        conn.query_drop("SET SESSION max_statement_time=0.000001")
            .why("max_statement_time")?;
        let add = format!("ALTER TABLE {table} ADD more INT, FORCE");
        ensure(conn.query_drop(&add).is_err(), || add.clone())?;
        cluster.stop(node).why("stop")?;
        cluster.start(node, &|_, _| ()).why("start")?;
        await_status(cluster, node, "wsrep_local_state_comment", "Synced")?;
        agreement::check(cluster, &ALL)
    })
}

/// The server makes a statement durable before it moves its position over it: here the statement is
/// there, and the position is before it, as after a kill between the two.
#[test]
fn server_that_executes_a_statement_twice_after_a_kill_comes_back() {
    CLUSTER.scenario("a statement twice", |cluster| {
        let node = cluster.follower();
        let table = table(cluster, "twice")?;
        let add = format!("ALTER TABLE {table} ADD more INT");
        differ(cluster, node, &add)?;
        cluster.kill(node).why("kill")?;
        cluster.execute(cluster.leader(), &add)?;
        cluster.start(node, &|_, _| ()).why("start")?;
        await_status(cluster, node, "wsrep_local_state_comment", "Synced")?;
        cluster.execute(node, &format!("INSERT INTO {table} VALUES (1, 2)"))?;
        agreement::check(cluster, &ALL)
    })
}

/// The server makes such a table durable by itself; its position follows where its rows are
/// applied, and not where the client was.
#[test]
fn server_that_made_a_table_from_rows_comes_back_after_a_kill() {
    CLUSTER.scenario("tables from rows", |cluster| {
        let (node, other) = (cluster.follower(), cluster.leader());
        let table = table(cluster, "source")?;
        cluster.execute(node, &format!("INSERT INTO {table} VALUES (1), (2)"))?;
        for rows in ["", "WHERE id > 9"] {
            let made = format!("e2e_data.made{}", rows.len());
            cluster.execute(
                node,
                &format!("CREATE TABLE {made} SELECT * FROM {table} {rows}"),
            )?;
            for killed in [node, other] {
                cluster.kill(killed).why("kill")?;
                cluster.start(killed, &|_, _| ()).why("start")?;
                await_status(cluster, killed, "wsrep_local_state_comment", "Synced")?;
            }
            cluster.execute(node, &format!("INSERT INTO {made} VALUES (3)"))?;
        }
        agreement::check(cluster, &ALL)
    });
}

/// An applier needs the table for the client's own statement, and what the client does next comes
/// after that.
#[test]
fn client_with_locked_tables_does_not_wait_for_itself() {
    CLUSTER.scenario("locked tables", |cluster| {
        let node = cluster.follower();
        let [locked, other] = [table(cluster, "locked")?, table(cluster, "other")?];
        let mut conn = cluster.connect(node)?;
        conn.query_drop(format!("LOCK TABLES {locked} READ, {other} WRITE"))
            .why("locking")?;
        let insert = format!("INSERT INTO {other} VALUES (1)");
        let began = Instant::now();
        for sql in [&format!("ALTER TABLE {locked} ADD size INT"), &insert] {
            let refused = conn.query_drop(sql);
            ensure(refused.is_err(), || format!("node{node}: {sql}"))?;
        }
        let took = began.elapsed();
        ensure(took < AT_ONCE, || format!("refused after {took:?}"))?;
        conn.query_drop("UNLOCK TABLES").why("unlocking")?;
        conn.query_drop(&insert).why("insert")?;
        for node in ALL {
            await_status(cluster, node, "wsrep_local_state_comment", "Synced")?;
        }
        agreement::check(cluster, &ALL)
    });
}

/// `synod copy` for a node's server, with these arguments.
fn copy_command(cluster: &TestCluster, node: u8, arguments: &[&str]) -> Outcome<String> {
    let mut copy = Command::new(place::program()?);
    copy.arg("copy").args(arguments);
    printed(copy.arg("--dir").arg(cluster.files(node).data))
}

/// A person has repaired marked data, and knows it; then distrusts data that look healthy.
#[test]
fn operator_has_marked_data_used_and_healthy_ones_replaced() {
    CLUSTER.scenario("synod copy", |cluster| {
        const COPIED: &str = "asking for a full copy";
        let node = cluster.follower();
        let table = table(cluster, "ordered")?;
        differ(cluster, node, &format!("INSERT INTO {table} VALUES (1)"))?;
        let by = cluster.others(node)[0];
        cluster.execute(by, &format!("INSERT INTO {table} VALUES (1)"))?;
        check_evicted(cluster, node, &table)?;
        let (findings, _) = Doctor::of(cluster, node)?.findings()?;
        let words = "problem data out of its group, waits for a person";
        ensure_says(&findings.join("\n"), words)?;
        differ(cluster, node, &format!("DELETE FROM {table}"))?;
        cluster.stop(node).why("stop")?;
        let said = copy_command(cluster, node, &[])?;
        ensure_says(&said, "replaces its data by a full copy (SST).\nMarked as")?;
        copy_command(cluster, node, &["--accept", "--yes"])?;
        cluster.start(node, &|_, _| ()).why("with its data")?;
        let text = cluster.log_text(node);
        ensure_says(&text, "the data are used as they are: synod copy --accept")?;
        ensure(!text.contains(COPIED), || {
            "a full copy was taken".to_owned()
        })?;
        agreement::check(cluster, &ALL)?;

        differ(cluster, node, &format!("INSERT INTO {table} VALUES (2)"))?;
        cluster.stop(node).why("stop")?;
        let said = copy_command(cluster, node, &[])?;
        ensure_says(&said, "uses its data.\nNothing is known to be wrong")?;
        copy_command(cluster, node, &["--force"])?;
        let said = copy_command(cluster, node, &[])?;
        ensure_says(&said, "Marked as not to be used: an operator has asked")?;
        cluster.start(node, &|_, _| ()).why("with a copy")?;
        ensure_says(&cluster.log_text(node), COPIED)?;
        let (findings, _) = Doctor::of(cluster, node)?.findings()?;
        let findings = findings.join("\n");
        ensure(!findings.contains("problem data"), || findings.clone())?;
        agreement::check(cluster, &ALL)
    });
}
