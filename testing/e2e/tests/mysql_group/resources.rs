//! Disks that are full, and a transaction of a million rows.

use std::path::Path;
use std::time::Instant;

use synod_e2e::mysql_clients::REFUSED;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, Why, ensure, ensure_says};
use synod_local_cluster::wait_for;

use crate::load::{ROWS, under_load};

const PORT: u16 = 19780;
const WRITER_PORT: u16 = 19880;
const ROWS_PORT: u16 = 19800;
/// A disk with room for the database and little more.
const DISK_BYTES: u64 = 600 << 20;
const MILLION: u64 = 1_000_000;
/// By which a million rows may raise a server's memory, in MiB.
const MEMORY_MAX: u64 = 800;
/// Statements are repeated so often.
const TIMES: u32 = 3;

/// The disk of a secondary is full under load: the others continue, and it is shown as what it is.
/// With room again, it follows by itself.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn secondary_with_a_full_disk_stops_no_other_server_and_follows_once_it_has_room() -> Outcome {
    let (group, disks) = MysqlGroup::on_disks_of("full", PORT, DISK_BYTES)?;
    let (writer, clients) = under_load(&group)?;
    let [full, _] = others(writer);
    let since = Instant::now();
    fill(disks[full].path())?;
    group.await_state(full, "failed")?;
    let says = group.status(full, "problem").unwrap_or_default();
    ensure_says(&says, "disk")?;
    eprintln!(
        "failed {:?} after the disk was full: {says}",
        since.elapsed()
    );
    let shown = || shown_state(&group, writer, full);
    let is_error = wait_for(PATIENCE, || (shown()? == "ERROR").then_some(()));
    ensure(is_error.is_some(), || format!("shown as {:?}", shown()))?;
    ensure_says(&group.synod_says(full, &["status"])?, &says[..40])?;
    clients.await_more(ROWS, PATIENCE)?;
    std::fs::remove_file(disks[full].path().join("filler")).why("making room")?;
    let begun = Instant::now();
    clients.await_more(ROWS, PATIENCE)?;
    let answers = clients.finish();
    group.await_state(full, "replica")?;
    group.await_same_position()?;
    let is_online = wait_for(PATIENCE, || (shown()? == "ONLINE").then_some(()));
    ensure(is_online.is_some(), || format!("shown as {:?}", shown()))?;
    eprintln!(
        "it has all {:?} after it had room; {:?} at most without a commit",
        begun.elapsed(),
        answers.longest_gap_after(since)
    );
    answers.check(&group)
}

/// The disk of the writer is full: its server waits for room, and would for as long as it takes.
/// Another one writes meanwhile, and nothing that was acknowledged is lost.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn another_server_writes_while_the_disk_of_the_writer_is_full() -> Outcome {
    let (group, disks) = MysqlGroup::on_disks_of("full_writer", WRITER_PORT, DISK_BYTES)?;
    let (writer, clients) = under_load(&group)?;
    let since = Instant::now();
    fill(disks[writer].path())?;
    group.await_writer(&others(writer))?;
    clients.await_more(ROWS, PATIENCE)?;
    std::fs::remove_file(disks[writer].path().join("filler")).why("making room")?;
    let answers = clients.finish();
    eprintln!(
        "{:?} at most without a commit",
        answers.longest_gap_after(since)
    );
    group.await_whole()?;
    answers.check(&group)
}

/// Takes all room.
fn fill(dir: &Path) -> Outcome {
    let mut file = std::fs::File::create(dir.join("filler")).why("the file that fills")?;
    // Ends with the error that is wanted.
    let _ = std::io::copy(&mut std::io::repeat(1), &mut file);
    file.sync_all().why("the file that fills")
}

/// State of a server as another one shows it.
fn shown_state(group: &MysqlGroup, at: usize, server: usize) -> Option<String> {
    let sql = format!(
        "SELECT member_state FROM performance_schema.replication_group_members \
         WHERE member_port = {}",
        group.servers[server].port
    );
    group.servers[at].rows(&sql).ok()?.pop()
}

/// A transaction is in memory as a whole at its commit, several times.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn transaction_of_a_million_rows_is_carried_through_in_bounded_memory() -> Outcome {
    let group = MysqlGroup::new("million", ROWS_PORT)?;
    at_writer(
        &group,
        &[
            "CREATE DATABASE e2e",
            "CREATE TABLE e2e.many (id INT PRIMARY KEY, data VARCHAR(300))",
        ],
    )?;
    let before = most_memory(&group)?;
    let begun = Instant::now();
    let insert = format!(
        "INSERT INTO e2e.many WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL \
         SELECT i + 1 FROM n WHERE i < {MILLION}) \
         SELECT i, CONCAT(SHA2(i, 256), SHA2(-i, 224)) FROM n"
    );
    let recursion = "SET SESSION cte_max_recursion_depth = 10000000";
    let writer = at_writer(&group, &[recursion, &insert])?;
    let committed = begun.elapsed();
    let rows = group.same_rows("SELECT COUNT(*) FROM e2e.many")?;
    ensure(rows == [MILLION.to_string()], || format!("{rows:?}"))?;
    let after = most_memory(&group)?;
    eprintln!(
        "a million rows inserted in {committed:?}, on all after {:?}; most memory in MiB: \
         {before:?} before, {after:?} after (the writer is db{})",
        begun.elapsed(),
        writer + 1
    );
    for (before, after) in before.iter().zip(&after) {
        ensure(after - before < MEMORY_MAX, || {
            format!("memory rises from {before} to {after} MiB")
        })?;
    }
    Ok(())
}

/// The most memory that each server has had, in MiB.
pub(crate) fn most_memory(group: &MysqlGroup) -> Outcome<Vec<u64>> {
    let servers = group.servers.iter();
    servers
        .map(|server| Ok(server.most_memory()? >> 20))
        .collect()
}

/// Runs statements at the writer, and repeats them where another server became it meanwhile, as a
/// stalled disk of a busy machine causes; returns the writer.
pub(crate) fn at_writer(group: &MysqlGroup, statements: &[&str]) -> Outcome<usize> {
    let mut times = 0;
    loop {
        times += 1;
        let writer = group.await_whole()?;
        match group.servers[writer].execute(statements) {
            Ok(()) => return Ok(writer),
            Err(error) if times < TIMES && error.0.contains(&REFUSED.to_string()) => {}
            Err(error) => return Err(error),
        }
    }
}
