//! Sessions with `group_replication_consistency`: a read sees what was acknowledged before it, and
//! an acknowledged write is seen by all reads.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, Why, ensure};
use synod_local_cluster::wait_for;

const PORT: u16 = 19740;
const HOLDS_PORT: u16 = 19940;
/// For so long the new writer cannot apply what it lacks.
const HELD_FOR: Duration = Duration::from_secs(4);
/// Writes, each with a read on the other servers at once.
const TURNS: u64 = 150;
/// Error of a transaction that does not get what it waits for.
const WAITING_FAILED: u16 = 3797;
/// A session that waits 2 s in vain is told so within this.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn session_sees_what_its_consistency_level_says() -> Outcome {
    let group = MysqlGroup::new("consistency", PORT)?;
    let writer = group.await_whole()?;
    group.servers[writer].execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.turns (id INT PRIMARY KEY, n BIGINT)",
        "INSERT INTO e2e.turns VALUES (1, 0)",
    ])?;
    for other in others(writer) {
        let has_it = || group.servers[other].rows("SELECT n FROM e2e.turns").is_ok();
        let came = wait_for(PATIENCE, || has_it().then_some(()));
        ensure(came.is_some(), || format!("db{} has no table", other + 1))?;
    }
    let stale = stale_reads(&group, writer, "EVENTUAL", "EVENTUAL")?;
    ensure(stale > 0, || {
        "no read is stale at the level EVENTUAL: the test shows nothing".to_owned()
    })?;
    for (write, read) in [
        ("EVENTUAL", "BEFORE"),
        ("AFTER", "EVENTUAL"),
        ("AFTER", "BEFORE_ON_PRIMARY_FAILOVER"),
        ("BEFORE_AND_AFTER", "BEFORE_AND_AFTER"),
    ] {
        let stale = stale_reads(&group, writer, write, read)?;
        ensure(stale == 0, || {
            format!("written with {write}, read with {read}: {stale} of {TURNS} reads are stale")
        })?;
    }
    without_majority(&group, writer)
}

/// Counts reads on the other servers that do not show what was acknowledged just before.
fn stale_reads(group: &MysqlGroup, writer: usize, write: &str, read: &str) -> Outcome<u64> {
    let level = |name| format!("SET SESSION group_replication_consistency = '{name}'");
    let mut at_writer = group.servers[writer].connect()?;
    at_writer.query_drop(level(write)).why(write)?;
    let mut readers = Vec::new();
    for other in others(writer) {
        let mut reader = group.servers[other].connect()?;
        reader.query_drop(level(read)).why(read)?;
        readers.push(reader);
    }
    let sql = "SELECT n FROM e2e.turns WHERE id = 1";
    let first: Option<u64> = at_writer.query_first(sql).why(sql)?;
    let first = first.unwrap_or_default();
    let mut stale = 0;
    for turn in first + 1..=first + TURNS {
        let update = format!("UPDATE e2e.turns SET n = {turn} WHERE id = 1");
        at_writer.query_drop(&update).why(update)?;
        for reader in &mut readers {
            let seen: Option<u64> = reader.query_first(sql).why(sql)?;
            stale += u64::from(seen < Some(turn));
        }
    }
    Ok(stale)
}

/// A read that the group cannot answer ends with an error, in its session's time.
fn without_majority(group: &MysqlGroup, writer: usize) -> Outcome {
    let [reader, other] = others(writer);
    let mut session = group.servers[reader].connect()?;
    for sql in [
        "SET SESSION group_replication_consistency = 'BEFORE'",
        "SET SESSION wait_timeout = 2",
    ] {
        session.query_drop(sql).why(sql)?;
    }
    for server in [writer, other] {
        group.servers[server].signal("-STOP")?;
    }
    let begun = Instant::now();
    let read = session.query_drop("SELECT n FROM e2e.turns");
    let took = begun.elapsed();
    for server in [writer, other] {
        group.servers[server].signal("-CONT")?;
    }
    let code = match &read {
        Err(mysql::Error::MySqlError(error)) => error.code,
        _ => 0,
    };
    ensure(code == WAITING_FAILED && took < LIMIT, || {
        format!("without a majority a read of level BEFORE: {read:?} after {took:?}")
    })?;
    session.query_drop("SELECT n FROM e2e.turns").why("later")
}

/// A transaction at a new writer sees all that came before it, though the writer has not applied
/// that when the transaction begins.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn new_writer_holds_transactions_until_it_has_applied_all() -> Outcome {
    let group = MysqlGroup::new("holds", HOLDS_PORT)?;
    let mut writer = group.await_whole()?;
    group.servers[writer].execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.held (id INT PRIMARY KEY)",
    ])?;
    group.await_same_position()?;
    for (id, level) in (1..).zip(["BEFORE_ON_PRIMARY_FAILOVER", "AFTER", "BEFORE_AND_AFTER"]) {
        writer = held(&group, writer, id, level).why(level)?;
    }
    Ok(())
}

/// Has another server become the writer while both others lack a row; returns the new one.
fn held(group: &MysqlGroup, writer: usize, id: u64, level: &str) -> Outcome<usize> {
    let mut locks = Vec::new();
    for other in others(writer) {
        let mut client = group.servers[other].connect()?;
        client
            .query_drop("LOCK TABLES e2e.held READ")
            .why("a lock")?;
        locks.push(client);
    }
    let insert = format!("INSERT INTO e2e.held VALUES ({id})");
    group.servers[writer].execute(&[&insert, "STOP GROUP_REPLICATION"])?;
    let leader = "SELECT member_port FROM performance_schema.replication_group_members \
        WHERE member_role = 'PRIMARY'";
    let next = wait_for(PATIENCE, || {
        let ports = |at: &usize| group.servers[*at].rows(leader).ok();
        let leads = |at: &usize| ports(at) == Some(vec![group.servers[*at].port.to_string()]);
        others(writer).into_iter().find(leads)
    });
    let next = next
        .ok_or("no new writer")
        .why("after the former one has left")?;
    let mut session = group.servers[next].connect()?;
    let set = format!("SET SESSION group_replication_consistency = '{level}'");
    session.query_drop(&set).why(set)?;
    let read =
        std::thread::spawn(move || session.query_first::<u64, _>("SELECT COUNT(*) FROM e2e.held"));
    std::thread::sleep(HELD_FOR);
    let is_held = !read.is_finished();
    drop(locks);
    let seen = read.join().map_err(|_| "a panic").why("the read")?;
    let seen = seen.why("the read")?;
    ensure(is_held && seen == Some(id), || {
        format!("held: {is_held}; it sees {seen:?} rows, not {id}")
    })?;
    group.servers[writer].execute(&["START GROUP_REPLICATION"])?;
    group.await_whole()
}
