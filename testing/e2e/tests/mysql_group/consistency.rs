//! Sessions with `group_replication_consistency`: a read sees what was acknowledged before it, and
//! an acknowledged write is seen by all reads.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, Why, ensure};
use synod_local_cluster::wait_for;

const PORT: u16 = 19740;
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
