//! A server of a group is a replica of a server outside, or has a binlog, without the lines that
//! the manual has for that: the doctor names them, and a crash changes no row twice.

use std::process::Command;

use mysql::prelude::Queryable;
use synod_e2e::doctor::Doctor;
use synod_e2e::programs::printed;
use synod_e2e::stock_server::{PATIENCE, StockServer};
use synod_e2e::{Outcome, TestCluster, Why, ensure, ensure_says, place};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 16906;
const PORT: u16 = 16890;
/// Statements that show when they are executed twice.
const OPTIONS: [&str; 3] = [
    "--server-id=77",
    "--log-bin=primary",
    "--binlog-format=STATEMENT",
];
const UPDATE: &str = "UPDATE shop.counter SET v = v + 1";
/// Statements of the primary.
const TURNS: usize = 3000;
/// Rows of the other test.
const ROWS: usize = 200;
/// The engine flushes hardly before it is closed: a kill takes all that it was not asked to flush.
const NEVER_FLUSHES: &str = "innodb_flush_log_at_timeout = 2000";

fn cluster(name: &str, lines: &[&str]) -> Outcome<TestCluster> {
    let mut cluster = TestCluster::empty(name, BASE_PORT, 1)?;
    let own = cluster.settings_mut().overrides.entry(1).or_default();
    own.extra_lines = lines.iter().map(|line| (*line).to_owned()).collect();
    cluster.up(&|_, _| ()).why("starting the server")?;
    cluster.create_account()?;
    Ok(cluster)
}

/// Killed, and started again.
fn crash(cluster: &mut TestCluster) -> Outcome {
    cluster.kill(1).why("the crash")?;
    cluster.start(1, &|_, _| ()).why("starting it again")?;
    Ok(())
}

/// Problems of the settings, by the doctor.
fn problems(cluster: &TestCluster) -> Outcome<String> {
    let (findings, _) = Doctor::of(cluster, 1)?.findings()?;
    let problems = findings
        .into_iter()
        .filter(|finding| finding.starts_with("problem settings"));
    Ok(problems.collect::<Vec<String>>().join("\n"))
}

/// Number of executions of the statement here.
fn count(cluster: &TestCluster) -> Outcome<usize> {
    let rows = cluster.rows(1, "SELECT v FROM shop.counter")?.concat();
    rows.parse().why("the counter")
}

fn await_count(cluster: &TestCluster, least: usize) -> Outcome {
    let reached = wait_for(PATIENCE, || {
        count(cluster)
            .is_ok_and(|found| found >= least)
            .then_some(())
    });
    ensure(reached.is_some(), || {
        let status = cluster.rows(1, "SHOW SLAVE STATUS");
        let tail = cluster.log_tail(1);
        format!("{:?}, not {least}: {status:?}\n{tail}", count(cluster))
    })
}

#[test]
fn replica_thread_repeats_nothing_that_came_back_after_a_crash() -> Outcome {
    let dir = place::cluster_dir("other-replication-primary")?;
    let primary = StockServer::new(&dir, PORT, &OPTIONS)?;
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.counter (id INT PRIMARY KEY, v BIGINT)",
        "INSERT INTO shop.counter VALUES (1, 0)",
        "CREATE USER r@'127.0.0.1' IDENTIFIED BY 'r'",
        "GRANT REPLICATION SLAVE ON *.* TO r@'127.0.0.1'",
    ])?;
    let mut cluster = cluster(
        "replica",
        &["server_id = 50", "skip_slave_start", NEVER_FLUSHES],
    )?;
    let follow = format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {PORT}, MASTER_USER = 'r', \
         MASTER_PASSWORD = 'r', MASTER_USE_GTID = slave_pos"
    );
    cluster.execute(1, &follow)?;
    cluster.execute(1, "START SLAVE")?;
    let lacks = "this server is a replica, and lacks log_bin";
    ensure_says(&problems(&cluster)?, lacks)?;
    std::thread::scope(|threads| {
        let updating = threads.spawn(|| primary.execute(&[UPDATE; TURNS]));
        await_count(&cluster, TURNS / 10)?;
        // Amid the load: an engine that has nothing to do soon flushes by itself.
        crash(&mut cluster)?;
        updating.join().unwrap_or(Ok(()))
    })?;
    let before = count(&cluster)?;
    cluster.execute(1, "START SLAVE")?;
    cluster.await_line(
        1,
        "Synod refuses what comes from the server with server_id 77",
    )?;
    let after = count(&cluster)?;
    ensure(before == after, || {
        format!("{before} updates, then {after}")
    })?;

    // What the error log says is to be done.
    cluster.execute(1, "STOP SLAVE")?;
    let position = cluster.rows(1, "SELECT @@gtid_slave_pos")?.concat();
    let seq = position.rsplit('-').next().and_then(|seq| seq.parse().ok());
    let seq: u64 = seq.ok_or(&position).why("the position")?;
    let text = cluster.log_text(1);
    let returned = text.split("After @@gtid_slave_pos these are ").nth(1);
    let returned = returned.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    let returned = returned.ok_or(&text).why("how many have come back")?;
    let position = format!("SET GLOBAL gtid_slave_pos = '0-77-{}'", seq + returned);
    cluster.execute(1, &position)?;
    cluster.stop(1).why("stop")?;
    cluster.start(1, &|_, _| ()).why("start")?;
    cluster.execute(1, "START SLAVE")?;
    await_count(&cluster, TURNS)?;
    let all = count(&cluster)?;
    ensure(all == TURNS, || format!("{all} updates of {TURNS}"))?;
    cluster.kill_all().why("ending the server")
}

/// Rows of the table in the server's binlogs.
fn rows_in_binlog(cluster: &TestCluster) -> Outcome<Vec<String>> {
    let data = cluster.files(1).data;
    let files = std::fs::read_dir(&data).why("the data directory")?;
    let mut names: Vec<_> = files.flatten().map(|file| file.path()).collect();
    names.retain(|path| path.display().to_string().contains("/bin.0"));
    names.sort();
    let mut read = Command::new("mariadb-binlog");
    let text = printed(
        read.args(["--verbose", "--base64-output=decode-rows"])
            .args(names),
    )?;
    let rows = text.split("### INSERT INTO `shop`.`counter`").skip(1);
    let first = rows.filter_map(|row| row.split("@1=").nth(1)?.split_whitespace().next());
    Ok(first.map(str::to_owned).collect())
}

#[test]
fn binlog_has_no_row_twice_after_a_crash_if_each_commit_is_flushed() -> Outcome {
    let lines = [
        "log_bin = bin",
        "log_slave_updates",
        "server_id = 50",
        NEVER_FLUSHES,
    ];
    let mut cluster = cluster("binlog", &lines)?;
    cluster.await_line(1, "log_bin is on, and innodb_flush_log_at_trx_commit is 0")?;
    ensure_says(&problems(&cluster)?, "innodb_flush_log_at_trx_commit")?;
    cluster.stop(1).why("stop")?;
    let own = cluster.settings_mut().overrides.entry(1).or_default();
    let flushes = ["innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1"];
    own.extra_lines.extend(flushes.map(str::to_owned));
    cluster.start(1, &|_, _| ()).why("start")?;
    let found = problems(&cluster)?;
    ensure(!found.contains("flush"), || found)?;
    cluster.execute(1, "CREATE DATABASE shop")?;
    cluster.execute(1, "CREATE TABLE shop.counter (id INT PRIMARY KEY)")?;
    let mut client = cluster.connect(1)?;
    for id in 0..ROWS {
        let sql = format!("INSERT INTO shop.counter VALUES ({id})");
        client.query_drop(&sql).why(sql)?;
    }
    crash(&mut cluster)?;
    let mut rows = rows_in_binlog(&cluster)?;
    let all = rows.len();
    rows.sort();
    rows.dedup();
    ensure(rows.len() == all && all == ROWS, || {
        format!("{all} rows, {} of them different", rows.len())
    })?;
    cluster.kill_all().why("ending the server")
}
