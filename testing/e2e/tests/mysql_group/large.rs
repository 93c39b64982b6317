//! Transactions of hundreds of megabytes.

use std::time::Instant;

use mysql::prelude::Queryable;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE};
use synod_e2e::{Outcome, Why, ensure, ensure_says};

use crate::load::under_load;
use crate::resources::{at_writer, most_memory};

const PORT: u16 = 19840;
/// Rows of 40 kB, which an update writes to the binlog twice: 320 MB.
const ROWS: u64 = 4000;
/// Rows inserted at once.
const BATCH: u64 = 400;
/// By which such a transaction may raise the memory of the writer, in MiB.
const WRITER_MAX: u64 = 100;
/// The same, of the others: 128 MiB are in the queue of the server's applier.
const OTHERS_MAX: u64 = 350;
/// Updates of a row of 16 MB that make a transaction of more than 1 GiB.
const UPDATES_TOO_MANY: u32 = 35;
/// Error of a transaction that is too large.
const TOO_LARGE: u16 = 1197;

/// A large transaction is in memory as a whole on no server, and others commit beside it.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn large_transaction_needs_little_memory_and_holds_no_other_up() -> Outcome {
    let group = MysqlGroup::new("large", PORT)?;
    let (_, clients) = under_load(&group)?;
    at_writer(
        &group,
        &["CREATE TABLE e2e.large (id INT PRIMARY KEY, v INT, data LONGBLOB)"],
    )?;
    for begin in (1..=ROWS).step_by(BATCH as usize) {
        let end = begin + BATCH - 1;
        let insert = format!(
            "INSERT INTO e2e.large WITH RECURSIVE n (i) AS (SELECT {begin} UNION ALL \
             SELECT i + 1 FROM n WHERE i < {end}) SELECT i, 0, REPEAT(SHA2(i, 256), 625) FROM n"
        );
        at_writer(&group, &[&insert])?;
    }
    let before = most_memory(&group)?;
    let begun = Instant::now();
    let writer = at_writer(&group, &["UPDATE e2e.large SET v = v + 1"])?;
    let committed = begun.elapsed();
    clients.await_more(1, PATIENCE)?;
    let answers = clients.finish();
    let rows = group.same_rows("SELECT COUNT(*), SUM(v), MIN(LENGTH(data)) FROM e2e.large")?;
    ensure(rows == [format!("{ROWS}\t{ROWS}\t40000")], || {
        format!("{rows:?}")
    })?;
    let after = most_memory(&group)?;
    let gap = answers.longest_gap_after(begun);
    eprintln!(
        "320 MB committed after {committed:?}, on all after {:?}; {gap:?} at most without a commit \
         of others; most memory in MiB: {before:?} before, {after:?} after (the writer is db{})",
        begun.elapsed(),
        writer + 1
    );
    answers.check(&group)?;
    // The server holds commits up while it writes its binlog, also without the plugin.
    ensure(gap < committed / 2, || {
        format!("others have waited for {gap:?}")
    })?;
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        let most = if at == writer { WRITER_MAX } else { OTHERS_MAX };
        ensure(after - before < most, || {
            format!("memory rises from {before} to {after} MiB")
        })?;
    }
    Ok(())
}

/// A transaction that other servers' appliers would not take is refused, in words, and the server
/// continues.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn transaction_beyond_the_limit_is_refused_in_words() -> Outcome {
    let group = MysqlGroup::new("too-large", PORT)?;
    let writer = group.await_whole()?;
    group.servers[writer].execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.large (id INT PRIMARY KEY, v INT, data LONGBLOB)",
        "INSERT INTO e2e.large VALUES (1, 0, REPEAT('x', 16 << 20))",
    ])?;
    let mut client = group.servers[writer].connect()?;
    client.query_drop("START TRANSACTION").why("begin")?;
    for _ in 0..UPDATES_TOO_MANY {
        let update = "UPDATE e2e.large SET v = v + 1";
        client.query_drop(update).why("an update")?;
    }
    let refused = match client.query_drop("COMMIT") {
        Err(mysql::Error::MySqlError(error)) => error,
        other => return ensure(false, || format!("it is not refused: {other:?}")),
    };
    ensure(refused.code == TOO_LARGE, || format!("{refused:?}"))?;
    ensure_says(&refused.message, "split it")?;
    client
        .query_drop("UPDATE e2e.large SET v = 7")
        .why("then")?;
    let rows = group.same_rows("SELECT v FROM e2e.large")?;
    ensure(rows == ["7"], || format!("{rows:?}"))
}
